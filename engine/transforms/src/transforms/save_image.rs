use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use hearth_image::{Image, TransformError};
use hearth_io::NiftiOptions;
use hearth_io::writers::{PluginWriter, SUFFIXES, WriteOptions, write_image};
use hearth_registry::Fault;
use hearth_registry::component::is_of_a_plugin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Writes each image to `output_dir/NAME/NAME_POSTFIX.EXT`, where NAME is that of the file it was
/// loaded from, or else of the case.
///
/// The image itself is unchanged. Several keys need a separate step each, with different postfixes.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::SaveImage};
/// let folder = tempfile::tempdir()?;
/// let step = SaveImage::new("image", folder.path()).output_postfix("seg");
/// tiny::apply(step, tiny::line([1.0, 2.0]))?;
/// assert!(folder.path().join("tiny/tiny_seg.nii.gz").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveImage {
    keys: Keys,
    /// Folder to which files are written.
    #[serde(default = "here")]
    output_dir: PathBuf,
    #[serde(default = "trans")]
    output_postfix: String,
    #[serde(default = "nii_gz")]
    output_ext: String,
    #[serde(default)]
    output_dtype: Option<hearth_io::nifti::DataType>,
    #[serde(default = "yes")]
    separate_folder: bool,
    #[serde(default)]
    scale: Option<f32>,
    #[serde(default)]
    writer: Option<String>,
    #[serde(default)]
    allow_missing_keys: bool,
    /// The plugin of `writer`, once it was needed.
    #[serde(skip)]
    found: OnceLock<PluginWriter>,
}

fn here() -> PathBuf {
    "./".into()
}

fn trans() -> String {
    "trans".to_owned()
}

fn nii_gz() -> String {
    ".nii.gz".to_owned()
}

fn yes() -> bool {
    true
}

impl SaveImage {
    /// Creates the transform: writes these keys under a folder, as `NAME/NAME_trans.nii.gz`.
    pub fn new(keys: impl Into<Keys>, output_dir: impl Into<PathBuf>) -> Self {
        SaveImage {
            keys: keys.into(),
            output_dir: output_dir.into(),
            output_postfix: trans(),
            output_ext: nii_gz(),
            output_dtype: None,
            separate_folder: true,
            scale: None,
            writer: None,
            allow_missing_keys: false,
            found: OnceLock::new(),
        }
    }

    /// The plugin that writes, if one is named.
    fn plugin(&self) -> Result<Option<&PluginWriter>, Fault> {
        let Some(name) = &self.writer else { return Ok(None) };
        if let Some(found) = self.found.get() {
            return Ok(Some(found));
        }
        if !is_of_a_plugin(name) {
            return Err(Fault::new(format!("{name:?} is not the name of a plugin's writer, as in \"mine.Xyz\"")));
        }
        let found = PluginWriter::find(name)?;
        Ok(Some(self.found.get_or_init(|| found)))
    }

    /// Returns the path of an image.
    pub fn path_of(&self, image: &Image, case: &str) -> PathBuf {
        let file = image.meta.path.as_ref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
        let name = file.as_deref().unwrap_or(case);
        let own = self.found.get().map_or(&[][..], PluginWriter::endings).iter().map(String::as_str);
        let stem =
            own.chain([".nii.gz", ".hdr.gz", ".img.gz", ".mgh.gz", ".seg.nrrd"]).find_map(|s| name.strip_suffix(s));
        let stem = stem.or_else(|| name.rsplit_once('.').map(|(stem, _)| stem)).unwrap_or(name);
        let postfix = if self.output_postfix.is_empty() { String::new() } else { format!("_{}", self.output_postfix) };
        let folder = if self.separate_folder { self.output_dir.join(stem) } else { self.output_dir.clone() };
        folder.join(format!("{stem}{postfix}{}", self.output_ext))
    }
}

setters!(SaveImage {
    /// Postfix that is appended to the name after `_`; nothing if it is empty.
    output_postfix: String,
    /// Format: `.nii.gz`, `.nii`, `.nrrd`, `.mha`, `.mgz`, `.mgh`, `.png`, `.npy`.
    output_ext: String,
    /// Type of the values in NIfTI files; by default f32.
    output_dtype: Option<hearth_io::nifti::DataType>,
    /// Whether each image has a folder.
    separate_folder: bool,
    /// Factor for the values of a PNG.
    scale: Option<f32>,
    /// The plugin that writes the files, such as `mine.Xyz`; `output_ext` is one of its endings.
    writer: Option<String>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for SaveImage {
    fn name(&self) -> &'static str {
        "SaveImage"
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let nifti = self.output_dtype.map_or_else(NiftiOptions::image, |t| NiftiOptions::image().data_type(t));
        let mut options = WriteOptions::default().nifti(nifti);
        options.scale = self.scale;
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let image = sample.image(key).map_err(|e| e.at(key))?;
            let path = self.path_of(image, &sample.case);
            let fail = |e: &dyn std::fmt::Display| TransformError::new(e.to_string()).at(key);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(|e| fail(&format!("{}: {e}", folder.display())))?;
            }
            match self.plugin().map_err(|fault| fail(&fault))? {
                Some(plugin) => {
                    let written = plugin.write(&path, image, &sample.case, &PluginWriter::kept);
                    written.map(drop).map_err(|e| fail(&e))?;
                }
                None => write_image(&path, image, &options).map_err(|e| fail(&e))?,
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        let plugin = self.plugin().map_err(|fault| Fault { path: "writer".to_owned(), ..fault })?;
        let endings: Vec<&str> = match plugin {
            Some(plugin) => plugin.endings().iter().map(String::as_str).collect(),
            None => SUFFIXES.to_vec(),
        };
        let unused = [("output_dtype", self.output_dtype.is_some()), ("scale", self.scale.is_some())];
        if let Some((key, _)) = unused.iter().find(|(_, given)| plugin.is_some() && *given) {
            return Err(Fault::at(*key, format!("`{key}` is not for files that a plugin writes")));
        }
        if !endings.contains(&self.output_ext.as_str()) {
            let known = endings.join(" ");
            return Err(Fault::at(
                "output_ext",
                format!("`{}` is not supported; expected one of {known}", self.output_ext),
            ));
        }
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    SaveImage,
    r#"keys = ["image"]
output_dir = "out"
output_postfix = "smooth""#
);

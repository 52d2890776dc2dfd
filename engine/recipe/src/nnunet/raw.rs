//! A data set in nnU-Net's raw layout, and its fingerprint.

use std::path::{Path, PathBuf};

use hearth_data::Progress;
use hearth_nnunet::planner::{Fingerprint, Fingerprinting};
use hearth_nnunet::{Case, DatasetJson, cases};
use serde_json::Value;

use super::image::{CaseImage, Reader, read, read_labels};
use crate::error::{Context, Outcome, RecipeError};

/// A raw data set, `DatasetXXX_Name`: `dataset.json`, `imagesTr`, `labelsTr`.
pub struct NnunetRaw {
    /// The content of `dataset.json`.
    pub dataset: DatasetJson,
    /// The name of the folder.
    pub name: String,
    /// nnU-Net's class that reads the images.
    pub reader: String,
    /// The training cases and their labels, in order.
    pub cases: Vec<(Case, PathBuf)>,
    how: Reader,
}

impl NnunetRaw {
    /// Opens a data set's folder.
    ///
    /// # Errors
    /// Files that are missing, or images that no reader supports.
    pub fn open(folder: &Path) -> Outcome<Self> {
        let dataset = DatasetJson::read(&folder.join("dataset.json"))?;
        let ending = &dataset.file_ending;
        let reader = dataset.overwrite_image_reader_writer.clone().unwrap_or_else(|| first_reader(ending).to_owned());
        let how = Reader::named(&reader, ending)?;
        let cases = match dataset.raw.get("dataset").and_then(Value::as_object) {
            Some(listed) => listed.iter().map(|(name, files)| of_list(folder, name, files)).collect::<Outcome<_>>()?,
            None => {
                let channels = (how != Reader::Picture).then_some(dataset.channel_names.len());
                let found = cases(&folder.join("imagesTr"), ending, channels)?;
                let label = |case: &Case| folder.join("labelsTr").join(format!("{}{ending}", case.name));
                found.into_iter().map(|case| (label(&case), case)).map(|(label, case)| (case, label)).collect()
            }
        };
        let cases: Vec<(Case, PathBuf)> = cases;
        if let Some((case, label)) = cases.iter().find(|(_, label)| !label.is_file()) {
            return Err(RecipeError::new(format!("case {} has no label: expected {}", case.name, label.display())));
        }
        let wanted = dataset.raw.get("numTraining").and_then(Value::as_u64);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != cases.len() as u64) {
            let what = format!("dataset.json says numTraining is {wanted}, and there are {} cases", cases.len());
            return Err(RecipeError::new(format!("{}: {what}", folder.display())));
        }
        let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(NnunetRaw { dataset, name, reader, cases, how })
    }

    /// The names of the training cases.
    pub fn names(&self) -> Vec<String> {
        self.cases.iter().map(|(case, _)| case.name.clone()).collect()
    }

    /// Reads all cases and computes nnU-Net's fingerprint.
    ///
    /// # Errors
    /// The first case that cannot be read, by name.
    pub fn fingerprint(&self, progress: Progress) -> Outcome<Fingerprint> {
        let mut gathered = Fingerprinting::new(self.cases.len());
        let running = progress.start("fingerprint", self.cases.len() as u64);
        for (case, label) in &self.cases {
            let doing = || format!("case {}", case.name);
            let CaseImage { volume, spacing, grid } = read(self.how, case).while_doing(doing)?;
            let expected = self.dataset.channel_names.len();
            if volume.channels != expected {
                let what = format!("it has {} channels, and dataset.json names {expected}", volume.channels);
                return Err(RecipeError::new(what).context(doing()));
            }
            if let Some(value) = volume.data.iter().find(|value| !value.is_finite()) {
                return Err(RecipeError::new(format!("a voxel is {value}")).context(doing()));
            }
            let labels = read_labels(self.how, label, &grid).while_doing(doing)?;
            gathered.add(&volume, spacing, &labels).while_doing(doing)?;
            running.advance();
        }
        running.finish();
        Ok(gathered.finish())
    }
}

/// The first of nnU-Net's readers for a file extension.
pub(super) fn first_reader(ending: &str) -> &'static str {
    match ending.to_lowercase().as_str() {
        ".png" | ".bmp" => "NaturalImage2DIO",
        ".tif" | ".tiff" => "Tiff3DIO",
        ".nii" => "NibabelIO",
        _ => "SimpleITKIO",
    }
}

/// A case listed in `dataset.json`: paths are absolute, or relative to the folder.
fn of_list(folder: &Path, name: &str, files: &Value) -> Outcome<(Case, PathBuf)> {
    let images: Option<Vec<String>> = serde_json::from_value(files["images"].clone()).ok();
    match (images, files["label"].as_str()) {
        (Some(images), Some(label)) if !images.is_empty() => {
            let files = images.iter().map(|image| folder.join(image)).collect();
            Ok((Case { name: name.to_owned(), files }, folder.join(label)))
        }
        _ => Err(RecipeError::new(format!("dataset.json: dataset.{name} has no `images` and `label`"))),
    }
}

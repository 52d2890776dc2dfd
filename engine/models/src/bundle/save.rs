//! Images as `SaveImage` writes them: names, types, grids.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use hearth_bundle::{Component, Fault, Value, dtype_name};
use hearth_data::nifti::DataType;
use hearth_data::transforms::{Resize, SpatialResample};
use hearth_data::writers::{WriteOptions, write_image};
use hearth_data::{Image, NiftiOptions, OneOrMany, Transform};

use crate::bundle::case::Case;
use crate::bundle::nodes::{fault, table};
use crate::bundle::writing::Writing;
use hearth_recipe::{Context, Outcome, RecipeError};

/// `SaveImage`.
#[derive(Clone)]
pub(crate) struct Save {
    folder: String,
    postfix: String,
    ending: String,
    separate: bool,
    root: Option<String>,
    /// The type in the file; `None` for that of the values.
    dtype: Option<String>,
    scale: Option<u32>,
    resample: bool,
    /// `SpatialResample` or `Resize`, built with the component's mode.
    mode: Option<String>,
    /// Whether the index of the case is appended (a formatter that returns an index).
    numbered: bool,
    /// Whether the values are written unchanged, as a NumPy array.
    array: bool,
    /// The number of images that this step has written.
    count: Cell<usize>,
}

/// Other known options, and those without effect.
const KNOWN: [&str; 22] = [
    "keys",
    "output_dir",
    "output_postfix",
    "output_ext",
    "separate_folder",
    "data_root_dir",
    "output_dtype",
    "dtype",
    "scale",
    "resample",
    "mode",
    "padding_mode",
    "squeeze_end_dims",
    "meta_keys",
    "meta_key_postfix",
    "allow_missing_keys",
    "print_log",
    "writer",
    "output_name_formatter",
    "channel_dim",
    "savepath_in_metadict",
    "folder_layout",
];

impl Save {
    pub fn new(component: &Component, notes: &mut Vec<String>) -> Result<Self, Fault> {
        // This also checks the names of the options.
        table(component, "SaveImage", &KNOWN, false)?;
        if let Some((unknown, _)) = component.args.iter().find(|(key, _)| !KNOWN.contains(&key.as_str())) {
            return Err(fault(component, format!("the option {unknown} is not known")));
        }
        if component.get("folder_layout").is_some() {
            return Err(fault(component, "folder_layout is not supported"));
        }
        let text = |key: &str, default: &str| -> Result<String, Fault> {
            match component.get(key) {
                None => Ok(default.to_owned()),
                Some(value) => {
                    let text = value.as_str().map(str::to_owned);
                    let what = || format!("{key} is {}; expected a text", value.kind());
                    text.ok_or_else(|| fault(component, what()).about(value))
                }
            }
        };
        let ending = text("output_ext", ".nii.gz")?.to_lowercase();
        let ending = if ending.starts_with('.') { ending } else { format!(".{ending}") };
        if ![".nii.gz", ".nii", ".png", ".nrrd", ".mha", ".mgz", ".mgh", ".npy", ".json"].contains(&ending.as_str()) {
            return Err(fault(component, format!("files that end in {ending} cannot be written")));
        }
        let dtype = match component.args.iter().find(|(key, _)| key == "output_dtype").map(|(_, value)| value) {
            None => Some("float32".to_owned()),
            Some(Value::None) => None,
            Some(value) => {
                let name = dtype_name(value);
                let what = || format!("output_dtype is {}", value.kind());
                Some(name.ok_or_else(|| fault(component, what()).about(value))?)
            }
        };
        let dtype = match (ending.as_str(), dtype.as_deref()) {
            (".png", Some(name)) if !["uint8", "uint16"].contains(&name) => Some("uint8".to_owned()),
            _ => dtype,
        };
        let scale = match component.get("scale").map(Value::as_float) {
            None | Some(None) => None,
            Some(Some(255.0)) => Some(255),
            Some(Some(65_535.0)) => Some(65_535),
            Some(Some(other)) => return Err(fault(component, format!("scale is {other}; expected 255 or 65535"))),
        };
        let writer = component.get("writer").map(|writer| match writer {
            Value::Text(name) | Value::Name(name) => name.rsplit('.').next().unwrap_or(name).to_owned(),
            other => other.kind(),
        });
        if let Some(Value::Unknown) = component.get("writer") {
            return Err(fault(component, "writer is unknown").about(&Value::Unknown));
        }
        match writer.as_deref() {
            None | Some("NibabelWriter" | "PILWriter") => {}
            Some("ITKWriter") => notes.push(format!("{}: files are written as NibabelWriter does", component.id)),
            Some(other) => return Err(fault(component, format!("writer {other} is not supported"))),
        }
        let numbered = match component.get("output_name_formatter") {
            None => false,
            Some(Value::Function(function)) if is_index_formatter(&function.text) => true,
            Some(other) => {
                let what = "output_name_formatter: only file names with an index are supported";
                return Err(fault(component, what).about(other));
            }
        };
        let truth = |key: &str| component.get(key).and_then(Value::truth).unwrap_or(true);
        Ok(Save {
            folder: text("output_dir", "./")?,
            postfix: text("output_postfix", "trans")?,
            ending,
            separate: truth("separate_folder"),
            root: Some(text("data_root_dir", "")?).filter(|root| !root.is_empty()),
            dtype,
            scale,
            resample: truth("resample"),
            mode: component.get("mode").and_then(Value::as_str).map(str::to_owned),
            numbered,
            array: false,
            count: Cell::new(0),
        })
    }

    /// `NpySaverd` of the bundle `valve_landmarks`: writes the array of a key, with the name of the
    /// image's file.
    pub fn arrays(component: &Component) -> Result<Self, Fault> {
        let text = |key: &str| component.get(key).and_then(Value::as_str).map(str::to_owned);
        let folder = text("output_dir").ok_or_else(|| fault(component, "has no `output_dir`"))?;
        Ok(Save {
            folder,
            postfix: String::new(),
            ending: ".npy".to_owned(),
            separate: false,
            root: text("data_root_dir").filter(|root| !root.is_empty()),
            dtype: None,
            scale: None,
            resample: false,
            mode: None,
            numbered: false,
            array: true,
            count: Cell::new(0),
        })
    }

    /// Writes the image of a key, or keeps it if the results of a case are captured.
    pub fn write(&self, case: &mut Case, key: &str, writing: &mut Writing) -> Outcome {
        case.numbers_to_image(key);
        let mut image = case.sample.image(key)?.clone();
        image.data = image.data.to_device(&hearth_data::host_device());
        let dtype =
            self.dtype.clone().or_else(|| case.dtypes.get(key).cloned()).unwrap_or_else(|| "float32".to_owned());
        if let Some(captured) = &mut writing.captured {
            let is_picture = self.ending == ".png";
            let image = if is_picture { self.picture(image, &dtype)? } else { stored(self.on_file(image)?, &dtype) };
            captured.push(image);
            return Ok(());
        }
        let file = case.file_of(key);
        let path = self.path(file.as_deref(), image.meta.path.as_deref(), key, writing);
        let inputs: Vec<PathBuf> = case.written.keys().cloned().collect();
        if !is_within(Path::new(&path), Path::new(&self.folder)) {
            let (root, image) = (self.root.as_deref().unwrap_or_default(), file.as_deref().unwrap_or(key));
            return Err(RecipeError::new(format!(
                "data_root_dir {root:?} is not a folder above {image}, so that the result would be written outside \
                 output_dir: {path}; set data_root_dir to a folder above the images, or to \"\""
            )));
        }
        let path = writing.claim(Path::new(&path), &inputs)?;
        if self.array {
            let bytes = super::npy::encode(&image);
            hearth_files::replace(&path, bytes).while_doing(|| format!("cannot write {}", path.display()))?;
            writing.done(path);
            return Ok(());
        }
        if self.ending == ".json" {
            let text = super::scores::json(&image)?;
            hearth_files::replace(&path, text).while_doing(|| format!("cannot write {}", path.display()))?;
            writing.done(path);
            return Ok(());
        }
        let options = if self.ending == ".png" {
            image = self.picture(image, &dtype)?;
            WriteOptions::default()
        } else {
            image = stored(self.on_file(image)?, &dtype);
            WriteOptions::default().nifti(NiftiOptions::image().data_type(data_type(&dtype)?))
        };
        write_image(&path, &image, &options).while_doing(|| format!("cannot write {}", path.display()))?;
        writing.done(path);
        Ok(())
    }

    /// Resamples to the grid of the file, if the config requests it.
    fn on_file(&self, image: Image) -> Outcome<Image> {
        if self.resample { self.back(image) } else { Ok(image) }
    }

    /// The same step for probabilities: values unchanged, with linear interpolation between voxels.
    pub fn of_probabilities(&self) -> Self {
        Save {
            ending: ".nii.gz".to_owned(),
            dtype: Some("float32".to_owned()),
            scale: None,
            mode: Some("bilinear".to_owned()),
            ..self.clone()
        }
    }

    /// Whether it writes images, rather than arrays or numbers.
    pub fn is_of_images(&self) -> bool {
        !self.array && self.ending != ".json"
    }

    /// The path below the base, as in MONAI's `FolderLayout`.
    fn path(&self, written: Option<&str>, file: Option<&Path>, key: &str, writing: &Writing) -> String {
        let number = self.count.replace(self.count.get() + 1);
        let subject = written.map_or_else(|| number.to_string(), str::to_owned);
        let (folder, name) = subject.rsplit_once('/').unwrap_or(("", &subject));
        let stem = |name: &str| match name.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
            _ => name.to_owned(),
        };
        let name = match name.strip_suffix(".gz") {
            Some(inner) => stem(inner),
            None => stem(name),
        };
        let mut parts = vec![self.folder.trim_end_matches('/').to_owned()];
        if let Some(root) = &self.root {
            let root = writing.inputs.join(root);
            let folder = file.and_then(Path::parent).map_or_else(|| writing.inputs.join(folder), Path::to_owned);
            parts.push(relative(&folder, &root));
        }
        if self.separate {
            parts.push(name.clone());
        }
        let postfix = if self.postfix.is_empty() { String::new() } else { format!("_{}", self.postfix) };
        let index = if self.numbered { format!("_{number}") } else { String::new() };
        let key = if self.array { format!("_key-{key}") } else { String::new() };
        parts.push(format!("{name}{postfix}{index}{key}{}", self.ending));
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// Resamples to the grid of the file if the image is on another one: the option `resample`.
    fn back(&self, image: Image) -> Outcome<Image> {
        let (from, to) = (image.affine, image.meta.original_affine);
        let close = from.iter().flatten().zip(to.iter().flatten()).all(|(a, b)| (a - b).abs() <= 1e-3);
        let shape = &image.meta.original_shape;
        if close || shape.len() < image.meta.spatial_dims {
            return Ok(image);
        }
        let n = image.meta.spatial_dims;
        let size: Vec<i64> = shape.iter().take(n).map(|length| *length as i64).collect();
        let step = serde_json::json!({ "keys": ["image"], "mode": self.mode.as_deref().unwrap_or("nearest"), "padding_mode": "border" });
        let step: SpatialResample = serde_json::from_value(step)?;
        let step = step.spatial_size(Some(OneOrMany::Many(size)));
        Ok(step.resample(image, Some(&to), 0)?)
    }

    /// Converts an image to the pixels of a picture file.
    fn picture(&self, image: Image, dtype: &str) -> Outcome<Image> {
        let mut image = image;
        let n = image.meta.spatial_dims;
        let shape: Vec<usize> = image.meta.original_shape.iter().take(n).copied().collect();
        // If a chain has changed the grid without inverting it, MONAI restores the size of the file.
        if self.resample
            && !image.meta.applied.is_empty()
            && n == 2
            && shape.len() == 2
            && image.spatial_shape() != shape
        {
            let values = image.to_vec();
            let low = values.iter().copied().fold(f32::INFINITY, f32::min);
            let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let step = serde_json::json!({
                "keys": ["image"], "spatial_size": shape, "mode": self.mode.as_deref().unwrap_or("nearest"),
            });
            let step: Resize = serde_json::from_value(step)?;
            let sample = hearth_data::Sample::new("picture").with_image("image", image);
            let draw = hearth_data::DrawKey::new(0, 0, 0).draw("picture", 0, 0);
            let mut made = step.apply(sample, &draw)?;
            let made = made.pop().ok_or_else(|| RecipeError::new("a picture was lost"))?;
            image = made.image("image")?.clone();
            image.data = image.data.clamp(low, high);
        }
        if let Some(scale) = self.scale {
            image.data = image.data.clamp(0.0, 1.0).mul_scalar(scale as f32);
        }
        Ok(stored(image, if dtype == "uint16" { "uint16" } else { "uint8" }))
    }
}

/// Casts values to a numeric type: truncated, and wrapped around if they do not fit.
fn stored(mut image: Image, dtype: &str) -> Image {
    let bits = match dtype {
        "uint8" | "int8" | "bool" => 8,
        "uint16" | "int16" => 16,
        "uint32" | "int32" => 32,
        "uint64" | "int64" => 64,
        _ => return image,
    };
    let signed = dtype.starts_with("int");
    let cut = |value: f32| -> f32 {
        // NumPy converts NaN to 0 or to the smallest number.
        let whole = value.trunc() as i64;
        match (bits, signed) {
            (8, false) => f32::from(whole as u8),
            (8, true) => f32::from(whole as i8),
            (16, false) => f32::from(whole as u16),
            (16, true) => f32::from(whole as i16),
            (32, false) => whole as u32 as f32,
            (32, true) => whole as i32 as f32,
            _ => whole as f32,
        }
    };
    let shape = image.data.dims();
    let values: Vec<f32> = image.to_vec().into_iter().map(cut).collect();
    image.data = Image::from_values(values, shape, image.affine, &hearth_data::host_device()).data;
    image
}

fn data_type(dtype: &str) -> Outcome<DataType> {
    Ok(match dtype {
        "uint8" | "bool" => DataType::U8,
        "int8" => DataType::I8,
        "uint16" => DataType::U16,
        "int16" => DataType::I16,
        "uint32" => DataType::U32,
        "int32" => DataType::I32,
        "uint64" => DataType::U64,
        "int64" => DataType::I64,
        "float64" => DataType::F64,
        "float32" | "float16" | "bfloat16" => DataType::F32,
        other => return Err(RecipeError::new(format!("values of type {other} cannot be written"))),
    })
}

/// Whether a formatter is `lambda x, s: dict(idx=s._data_index, subject=x['filename_or_obj'])`.
fn is_index_formatter(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    plain.contains("idx=s._data_index") && plain.contains("subject=x['filename_or_obj']")
}

/// Whether a path is in a folder once its `..` are resolved. Neither needs to exist.
fn is_within(path: &Path, folder: &Path) -> bool {
    let plain = |path: &Path| -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for part in path.components() {
            match part {
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir if parts.last().is_some_and(|last| last != ".." && last != "/") => {
                    drop(parts.pop());
                }
                part => parts.push(part.as_os_str().to_string_lossy().into_owned()),
            }
        }
        parts
    };
    let (path, folder) = (plain(path), plain(folder));
    path.starts_with(&folder) && path.get(folder.len()).is_some_and(|next| next != "..")
}

/// The path relative to a folder, as in `os.path.relpath`; empty if they are equal.
fn relative(path: &Path, from: &Path) -> String {
    let parts = |path: &Path| -> Vec<String> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut parts: Vec<String> = Vec::new();
        for part in absolute.components() {
            match part {
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir => drop(parts.pop()),
                part => parts.push(part.as_os_str().to_string_lossy().into_owned()),
            }
        }
        parts
    };
    let (path, from) = (parts(path), parts(from));
    let shared = path.iter().zip(&from).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - shared);
    up.chain(path[shared..].iter().cloned()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_kept_below_the_root() {
        let of = |path: &str, from: &str| relative(Path::new(path), Path::new(from));
        assert_eq!(of("/data/one/two", "/data"), "one/two");
        assert_eq!(of("/data", "/data/./"), "");
        assert_eq!(of("/other", "/data"), "../other");
    }

    #[test]
    fn results_stay_in_the_output_folder() {
        let is = |path: &str, folder: &str| is_within(Path::new(path), Path::new(folder));
        assert!(is("out/a/b.nii.gz", "./out") && is("/out/../out/a", "/out") && is("../out/a", "../out"));
        assert!(is("a.nii.gz", "./") && is("a.nii.gz", ""));
        assert!(!is("out/../../patients/a", "out") && !is("out/../a", "out") && !is("/outside/a", "/out"));
        assert!(!is("../a", "./"));
    }
}

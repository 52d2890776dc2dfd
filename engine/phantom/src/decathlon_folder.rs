//! Writes a data set in the Decathlon's layout.

use std::path::{Path, PathBuf};

use hearth_datasets::DataError;
use hearth_image::Image;
use hearth_io::nifti::{DataType, NiftiOptions, write_nifti};
use serde_json::{Value, json};

/// A folder with `imagesTr`, `labelsTr` and, once [`Folder::finish`] has run, `dataset.json`.
pub(super) struct Folder {
    dir: PathBuf,
    prefix: &'static str,
    width: usize,
    training: Vec<Value>,
}

/// The descriptive fields of `dataset.json`.
pub(super) struct About<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub dimensions: &'a str,
    pub modalities: &'a [&'a str],
    pub labels: &'a [&'a str],
}

impl Folder {
    /// Creates the folder for this number of cases, named `PREFIX_00` and so on.
    pub fn new(dir: &Path, prefix: &'static str, cases: usize) -> Result<Self, DataError> {
        for folder in ["imagesTr", "labelsTr"] {
            make(&dir.join(folder))?;
        }
        Ok(Self { dir: dir.to_owned(), prefix, width: digits(cases), training: Vec::new() })
    }

    /// Writes the next case.
    pub fn add(&mut self, image: &Image, label: &Image) -> Result<(), DataError> {
        let (number, width) = (self.training.len(), self.width);
        let name = format!("{}_{number:0width$}.nii.gz", self.prefix);
        let write =
            |folder: &str, image: &Image, options| write_nifti(self.dir.join(folder).join(&name), image, options);
        write("imagesTr", image, NiftiOptions::image().data_type(DataType::I16))?;
        write("labelsTr", label, NiftiOptions::label())?;
        self.training.push(json!({ "image": format!("./imagesTr/{name}"), "label": format!("./labelsTr/{name}") }));
        Ok(())
    }

    /// Writes the list of the cases.
    pub fn finish(self, about: &About<'_>) -> Result<(), DataError> {
        let numbered = |names: &[&str]| -> Value {
            names
                .iter()
                .enumerate()
                .map(|(number, name)| (number.to_string(), json!(name)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let list = json!({
            "name": about.name,
            "description": about.description,
            "reference": "Hearth",
            "licence": "CC0-1.0",
            "release": "1.0",
            "tensorImageSize": about.dimensions,
            "modality": numbered(about.modalities),
            "labels": numbered(about.labels),
            "numTraining": self.training.len(),
            "numTest": 0,
            "training": self.training,
            "test": [],
        });
        let path = self.dir.join("dataset.json");
        hearth_files::replace(&path, format!("{list:#}\n")).map_err(|source| DataError::Io { path, source })
    }
}

/// Creates a folder and its parents.
pub(super) fn make(path: &Path) -> Result<(), DataError> {
    std::fs::create_dir_all(path).map_err(|source| DataError::Io { path: path.to_owned(), source })
}

/// The number of digits for this number of cases, at least two.
pub(super) fn digits(cases: usize) -> usize {
    cases.saturating_sub(1).to_string().len().max(2)
}

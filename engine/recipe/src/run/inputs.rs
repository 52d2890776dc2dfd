//! The inputs of `predict`: files, folders of images, cases with several modalities, data sets,
//! lists.

use std::path::{Path, PathBuf};

use hearth_data::layouts::{self, Layout, Target, Wants};
use hearth_data::{Item, Sample, Value};

use super::outputs::is_record;
use crate::error::{Context, Outcome};
use crate::recipe::Recipe;

/// An image to predict, from one file or several.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file, or a folder of slices.
    File(PathBuf),
    /// A case of a data set.
    Case(Box<Item>),
}

impl Input {
    /// What a pipeline starts with.
    pub fn sample(&self) -> Sample {
        match self {
            Input::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Sample::new(name).with("image", Value::Path(path.clone()))
            }
            Input::Case(item) => {
                let mut sample = item.sample();
                sample.values.retain(|key, _| key == "image");
                sample
            }
        }
    }

    /// The files it consists of.
    pub fn files(&self) -> Box<dyn Iterator<Item = &PathBuf> + '_> {
        match self {
            Input::File(path) => Box::new(std::iter::once(path)),
            Input::Case(item) => {
                let parts = item.parts.get("image").into_iter().flat_map(|parts| &parts.files);
                Box::new(item.files.get("image").into_iter().chain(parts))
            }
        }
    }

    /// Its name in messages and tables.
    pub fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Case(item) => item.case.clone(),
        }
    }

    /// The name of its results.
    pub fn stem(&self) -> String {
        match self {
            Input::File(path) => stem(path),
            Input::Case(item) => item.case.replace(['/', '\\'], "_"),
        }
    }
}

/// What a path means: the cases of a data set, a table or a list; the images of a folder; a folder
/// of slices; a file.
///
/// # Errors
/// A data set that is damaged, or lacks a modality that the recipe takes; a folder that cannot be
/// read.
pub fn inputs(given: &Path, recipe: &Recipe) -> Outcome<Vec<Input>> {
    if let Some(layout) = layout_of(given, recipe) {
        let wants = Wants { images: recipe.data.images.clone(), target: Target::Nothing };
        let cases = layout.read(given, &wants).while_doing(|| given.display().to_string())?.all();
        return Ok(cases.into_iter().map(|item| Input::Case(Box::new(item))).collect());
    }
    Ok(images_of(given)?.into_iter().map(Input::File).collect())
}

/// The layout of a data set, for a path that holds more than images.
fn layout_of(given: &Path, recipe: &Recipe) -> Option<Box<dyn Layout>> {
    if let Some(named) = &recipe.data.layout
        && named.fits(given)
        && named.name() != "Dicom"
    {
        return named.build().ok();
    }
    layouts::recognize_list(given)
}

/// Extensions of files that hold a whole image.
const IMAGES: &[&str] = &["nii.gz", "nii", "hdr", "npy", "npz", "tif", "tiff", "png", "jpg", "jpeg", "bmp"];

/// The images that a command-line argument names: those of a folder, unless its files are the
/// slices of one.
fn images_of(given: &Path) -> Outcome<Vec<PathBuf>> {
    if !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let listed = std::fs::read_dir(given).while_doing(|| format!("cannot read the folder {}", given.display()))?;
    let ends = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        !name.starts_with('.') && IMAGES.iter().any(|end| name.ends_with(&format!(".{end}")))
    };
    let mut images: Vec<PathBuf> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_file() && ends(path) && !is_record(path))
        .collect();
    images.sort();
    // A folder of other files is one image: a series of DICOM slices.
    if images.is_empty() { Ok(vec![given.to_owned()]) } else { Ok(images) }
}

/// The name of an image without its extension; for a folder, the folder's name.
fn stem(image: &Path) -> String {
    let named = if image.is_dir() { image.canonicalize().ok() } else { None };
    let name = named.as_deref().unwrap_or(image).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let end = ["gz", "img", "dcm"].iter().chain(IMAGES).filter(|end| name.to_lowercase().ends_with(&format!(".{end}")));
    let end = end.map(|end| end.len() + 1).max().filter(|_| !image.is_dir()).unwrap_or(0);
    match &name[..name.len() - end] {
        "" => "image".to_owned(),
        stem => stem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_names_of_their_images() {
        for (name, expected) in [
            ("a/t1.nii.gz", "t1"),
            ("a/T1.NII.GZ", "T1"),
            ("b/scan.hdr", "scan"),
            ("slice.dcm", "slice"),
            ("no-end", "no-end"),
            ("a.b.nii", "a.b"),
            (".nii.gz", "image"),
        ] {
            assert_eq!(stem(Path::new(name)), expected, "{name}");
        }
        assert!(!stem(Path::new(".")).is_empty() && stem(Path::new(".")) != ".");
    }
}

//! The inputs of `predict`: files, folders of images, cases with several modalities, data sets,
//! lists.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hearth_data::layouts::{self, Layout, Target, Wants};
use hearth_data::{Item, Sample, Value};

use super::cases::wants;
use super::outputs::{is_record, written_by};
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
                let name = match path.file_name() {
                    Some(name) => name.to_string_lossy().into_owned(),
                    None => path.display().to_string(),
                };
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

    /// What its results are called, before the end that says what they are.
    pub fn stem(&self) -> OsString {
        match self {
            Input::File(path) => stem(path),
            Input::Case(item) => match item.case.replace(['/', '\\'], "_") {
                // A name of dots would be a hidden file, or a folder above.
                name if name.trim_start_matches('.').is_empty() => UNNAMED.into(),
                name => name.into(),
            },
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

/// The cases of a data set whose truth is known, with what is learned of them: none of plain
/// images, or where the data set lacks it.
pub fn labelled(given: &Path, recipe: &Recipe) -> Vec<Item> {
    let Some(layout) = layout_of(given, recipe) else { return Vec::new() };
    let read = layout.read(given, &wants(recipe)).map(|list| list.labelled).unwrap_or_default();
    let task = recipe.learns();
    read.into_iter().filter_map(|item| task.prepare(item, &recipe.labels).ok()).collect()
}

/// The layout of a data set, of whatever is more than images.
fn layout_of(given: &Path, recipe: &Recipe) -> Option<Box<dyn Layout>> {
    if let Some(named) = &recipe.data.layout
        && named.fits(given)
        && named.name() != "Dicom"
    {
        return named.build().ok();
    }
    layouts::recognize_list(given)
}

/// What the results of an image without a name are called.
const UNNAMED: &str = "image";

/// Ends of files that hold an image by themselves.
const IMAGES: &[&str] = &["nii.gz", "nii", "hdr", "npy", "npz", "tif", "tiff", "png", "jpg", "jpeg", "bmp"];

/// The images that a command-line argument names: those of a folder, without the results of
/// `predict` among them, unless its files are the slices of one.
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
    // Results that an earlier call wrote beside its images are no images, unless there is nothing
    // else.
    let (results, others): (Vec<_>, Vec<_>) =
        images.into_iter().partition(|path| ["predict", "ensemble"].iter().any(|command| written_by(path, command)));
    let images = if others.is_empty() { results } else { others };
    // A folder of other files is one image: a series of DICOM slices.
    if images.is_empty() { Ok(vec![given.to_owned()]) } else { Ok(images) }
}

/// The name of an image without its end; that of a folder as it is called where it lies. Bytes that
/// are no UTF-8 stay: two images that differ in them have two results.
fn stem(image: &Path) -> OsString {
    let real = if image.is_dir() { image.canonicalize().ok() } else { None };
    let name = real.as_deref().unwrap_or(image).file_name().unwrap_or_default();
    let lower = name.to_string_lossy().to_lowercase();
    let ends = ["gz", "img", "dcm"].iter().chain(IMAGES).filter(|end| lower.ends_with(&format!(".{end}")));
    let end = ends.max_by_key(|end| end.len()).filter(|_| !image.is_dir());
    if name.is_empty() || end.is_some_and(|end| lower.len() == end.len() + 1) {
        return UNNAMED.into();
    }
    let mut stem = PathBuf::from(name);
    for _ in 0..end.map_or(0, |end| end.split('.').count()) {
        stem.set_extension("");
    }
    stem.into_os_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_text_stay() {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"pat\xff.nii.gz");
        assert_eq!(stem(Path::new(name)).as_bytes(), b"pat\xff");
    }

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
        let here = std::env::current_dir().expect("a folder");
        for same in [".", "./", "src/.."] {
            assert_eq!(stem(Path::new(same)), here.file_name().expect("a name"), "{same}");
        }
        assert_eq!(stem(Path::new("..")), here.parent().and_then(Path::file_name).expect("a name"));
        assert_eq!(stem(Path::new("/")), UNNAMED);
    }
}

//! The inputs of `predict`: files, folders of images, cases with several modalities, data sets,
//! lists, series of DICOM.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hearth_data::dicom::{Series, scan};
use hearth_data::layouts::{self, Layout, Target, Wants};
use hearth_data::transforms::LoadImage;
use hearth_data::{Item, Sample, Value};

use super::cases::wants;
use super::outputs::{is_record, written_by};
use super::plan::named;
use super::series::{FoundSeries, series_below};
use crate::error::{Context, Outcome, RecipeError};
use crate::recipe::{Node, Recipe};

/// An image to predict, from one file or several.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file, or a folder of slices.
    File(PathBuf),
    /// A case of a data set.
    Case(Box<Item>),
    /// A series of DICOM.
    Series(Box<FoundSeries>),
}

impl Input {
    /// What a pipeline starts with.
    pub fn sample(&self) -> Sample {
        match self {
            Input::File(path) => of_path(path),
            Input::Series(found) => {
                let series = Value::Text(found.series.uid().to_owned());
                of_path(&found.folder).with(LoadImage::series_key("image"), series)
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
            Input::Series(found) => Box::new(std::iter::once(&found.folder)),
            Input::Case(item) => {
                let parts = item.parts.get("image").into_iter().flat_map(|parts| &parts.files);
                Box::new(item.files.get("image").into_iter().chain(parts))
            }
        }
    }

    /// The files themselves: those of a series or a folder of slices one by one.
    pub fn all_files(&self) -> Vec<PathBuf> {
        if let Input::Series(found) = self {
            return found.series.files().iter().map(|file| file.to_path_buf()).collect();
        }
        let within = |path: &PathBuf| -> Vec<PathBuf> {
            if !path.is_dir() {
                return vec![path.clone()];
            }
            let listed = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
            listed.filter(|path| path.is_file()).collect()
        };
        self.files().flat_map(within).collect()
    }

    /// Its name in messages and tables.
    pub fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Case(item) => item.case.clone(),
            Input::Series(found) => found.folder.display().to_string(),
        }
    }

    /// The series that it is.
    ///
    /// # Errors
    /// Where it is not one series of DICOM.
    pub fn dicom(&self) -> Outcome<Series> {
        if let Input::Series(found) = self {
            return Ok(found.series.clone());
        }
        let refused = |what: String| RecipeError::new(format!("{}: {what}", self.name()));
        let files: Vec<&PathBuf> = self.files().collect();
        let [path] = files[..] else {
            return Err(refused(format!("it consists of {} files, not of one series of DICOM", files.len())));
        };
        let mut found = scan(path).map_err(|error| refused(error.to_string()))?;
        match found.series.len() {
            1 => Ok(found.series.remove(0)),
            0 => Err(refused("it is not a series of DICOM".to_owned())),
            several => Err(refused(format!("it is {several} series of DICOM; give one of them by --series"))),
        }
    }

    /// Where its results go, relative to the folder of all results.
    pub fn parent(&self) -> &Path {
        match self {
            Input::Series(found) => &found.parent,
            Input::File(_) | Input::Case(_) => Path::new(""),
        }
    }

    /// What its results are called, before the end that says what they are.
    pub fn stem(&self) -> OsString {
        match self {
            Input::File(path) => stem(path),
            Input::Series(found) => found.stem.clone(),
            Input::Case(item) => match item.case.replace(['/', '\\'], "_") {
                // A name of dots would be a hidden file, or a folder above.
                name if name.trim_start_matches('.').is_empty() => UNNAMED.into(),
                name => name.into(),
            },
        }
    }
}

/// The sample of a file or folder.
fn of_path(path: &Path) -> Sample {
    let name = match path.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    };
    Sample::new(name).with("image", Value::Path(path.to_owned()))
}

/// The series that a recipe reads of a folder with several.
fn series_of(recipe: &Recipe) -> Option<&str> {
    let reads = |step: &&Node| step.text("name").is_some_and(|name| named(&["LoadImage"], name));
    recipe.transforms.iter().filter(reads).find_map(|step| step.text("series"))
}

/// What a path means: the cases of a data set, a table or a list; the images of a folder; the
/// series of a folder of DICOM, or of a tree of them; a file. `series` selects one series of each
/// study, in place of the recipe's.
///
/// # Errors
/// A data set that is damaged, or lacks a modality that the recipe takes; a folder that cannot be
/// read; a study without the series that is wanted.
pub fn inputs(given: &Path, recipe: &Recipe, series: Option<&str>) -> Outcome<Vec<Input>> {
    if let Some(layout) = layout_of(given, recipe) {
        let wants = Wants { images: recipe.data.images.clone(), target: Target::Nothing };
        let cases = layout.read(given, &wants).while_doing(|| given.display().to_string())?.all();
        return Ok(cases.into_iter().map(|item| Input::Case(Box::new(item))).collect());
    }
    let images = images_of(given)?;
    if images.len() == 1 && images[0] == given && given.is_dir() {
        let found = series_below(given, series.or(series_of(recipe)), &recipe.data.modalities)?;
        if !found.is_empty() {
            return Ok(found.into_iter().map(|found| Input::Series(Box::new(found))).collect());
        }
    }
    if let Some(series) = series {
        let what = format!("--series {series}: it is not a folder of DICOM");
        return Err(RecipeError::new(format!("{}: {what}", given.display())));
    }
    Ok(images.into_iter().map(Input::File).collect())
}

/// The cases of a data set whose truth is known, with what is learned of them: none of plain
/// images, or where the data set lacks it.
pub fn labelled(given: &Path, recipe: &Recipe) -> Vec<Item> {
    let layout = layout_of(given, recipe).or_else(|| {
        // A tree of series: structures and segmentations lie in it. Not a folder of other images.
        let of_recipe = recipe.data.layout.as_ref().filter(|layout| layout.name() == "Dicom");
        let dicom = of_recipe.and_then(|layout| layout.build().ok());
        let is_tree = given.is_dir() && images_of(given).is_ok_and(|images| images == [given]);
        is_tree.then(|| dicom.unwrap_or_else(|| Box::new(layouts::Dicom::default())))
    });
    let Some(layout) = layout else { return Vec::new() };
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
const IMAGES: &[&str] =
    &["nii.gz", "nii", "hdr", "nrrd", "nhdr", "mha", "mhd", "npy", "npz", "tif", "tiff", "png", "jpg", "jpeg", "bmp"];

/// The images that a command-line argument names: those of a folder, without the results of
/// `predict` among them, unless its files are the slices of one.
///
/// # Errors
/// A folder that cannot be read.
pub fn images_of(given: &Path) -> Outcome<Vec<PathBuf>> {
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
    images.sort_unstable();
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
pub(super) fn stem(image: &Path) -> OsString {
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

//! [`Case`]: an image to predict, and its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hearth_data::dicom::{Series, scan};
use hearth_data::transforms::LoadImage;
use hearth_data::{Image, Item, ReadOptions, Sample, Value, read_image_with};
use hearth_recipe::{Outcome, RecipeError};

use crate::cases::series::FoundSeries;
use crate::slides::find::{slide_files, slide_stem};

/// An image to predict, from one file or several.
#[derive(Clone, Debug)]
pub enum Case {
    /// A file, or a folder of slices.
    File(PathBuf),
    /// A file in a tree of folders, and the folder for its results.
    Below(PathBuf, PathBuf),
    /// A case of a data set.
    Item(Box<Item>),
    /// A series of DICOM.
    Series(Box<FoundSeries>),
    /// A whole slide: a file, or a folder of DICOM.
    Slide(PathBuf),
    /// A file that was asked for and cannot be predicted, and why.
    Refused(PathBuf, String),
}

impl Case {
    /// The input of a pipeline.
    pub fn sample(&self) -> Sample {
        match self {
            Case::File(path) | Case::Below(path, _) | Case::Slide(path) | Case::Refused(path, _) => of_path(path),
            Case::Series(found) => {
                let series = Value::Text(found.series.name());
                of_path(&found.folder).with(LoadImage::series_key("image"), series)
            }
            Case::Item(item) => {
                let mut sample = item.sample();
                sample.values.retain(|key, _| key == "image");
                sample
            }
        }
    }

    /// Why it cannot be predicted, if that is known before it is read.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Case::Refused(_, why) => Some(why),
            Case::File(_) | Case::Below(..) | Case::Slide(_) | Case::Item(_) | Case::Series(_) => None,
        }
    }

    /// The files it consists of.
    pub fn files(&self) -> Box<dyn Iterator<Item = &PathBuf> + '_> {
        match self {
            Case::File(path) | Case::Below(path, _) | Case::Slide(path) | Case::Refused(path, _) => {
                Box::new(std::iter::once(path))
            }
            Case::Series(found) => Box::new(std::iter::once(&found.folder)),
            Case::Item(item) => {
                let parts = item.parts.get("image").into_iter().flat_map(|parts| &parts.files);
                Box::new(item.files.get("image").into_iter().chain(parts))
            }
        }
    }

    /// The single files: those of a series, a slide or a folder of slices one by one.
    pub fn all_files(&self) -> Vec<PathBuf> {
        if let Case::Slide(path) = self {
            return slide_files(path).unwrap_or_else(|_| vec![path.clone()]);
        }
        if let Case::Series(found) = self {
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

    /// The name in messages and tables.
    pub fn name(&self) -> String {
        match self {
            Case::File(path) | Case::Below(path, _) | Case::Slide(path) | Case::Refused(path, _) => {
                path.display().to_string()
            }
            Case::Item(item) => item.case.clone(),
            Case::Series(found) => {
                let number = found.number.as_ref().map_or_else(String::new, |number| format!(" (series {number})"));
                let key = found.series.key().map_or_else(String::new, |key| format!("#{key}"));
                format!("{}{number}{key}", found.folder.display())
            }
        }
    }

    /// The DICOM series of the case.
    ///
    /// # Errors
    /// A case that is not a single DICOM series.
    pub fn dicom(&self) -> Outcome<Series> {
        if let Case::Series(found) = self {
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
            several => {
                Err(refused(format!("it is {several} series of DICOM; give one of them by --series:{}", found.list())))
            }
        }
    }

    /// The image as in its file; of several files the first one.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read_image(&self) -> Outcome<Image> {
        let first = self.files().next().ok_or_else(|| RecipeError::new(format!("{} has no file", self.name())))?;
        Ok(read_image_with(first, &self.reading())?)
    }

    /// The options for reading its files: a series by its UID, and the key of its volume, with its accepted
    /// faults.
    pub fn reading(&self) -> ReadOptions {
        match self {
            Case::Series(found) => {
                let mut reading = ReadOptions::default().series(found.series.name());
                reading.accept.clone_from(&found.accept);
                reading
            }
            Case::File(_) | Case::Below(..) | Case::Slide(_) | Case::Item(_) | Case::Refused(..) => {
                ReadOptions::default()
            }
        }
    }

    /// The folder for its results, relative to the folder of all results.
    pub fn parent(&self) -> &Path {
        match self {
            Case::Series(found) => &found.parent,
            Case::Below(_, parent) => parent,
            Case::File(_) | Case::Slide(_) | Case::Item(_) | Case::Refused(..) => Path::new(""),
        }
    }

    /// The name of its results, without their endings.
    pub fn stem(&self) -> OsString {
        match self {
            Case::File(path) | Case::Below(path, _) | Case::Refused(path, _) => stem(path),
            Case::Slide(path) => slide_stem(path),
            Case::Series(found) => found.stem.clone(),
            Case::Item(item) => match item.case.replace(['/', '\\'], "_") {
                // A name of dots would be a hidden file, or a parent folder.
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

/// The name of the results of an image without a name.
const UNNAMED: &str = "image";

/// Extensions of files that contain a whole image.
pub(crate) const IMAGES: &[&str] = &[
    "nii.gz", "nii", "hdr", "hdr.gz", "mgz", "mgh", "mgh.gz", "nrrd", "nhdr", "mha", "mhd", "npy", "npz", "tif",
    "tiff", "png", "jpg", "jpeg", "bmp",
];

/// The name of an image without its extension; for a folder its real name on disk. Bytes that are
/// not UTF-8 are kept, so that two images that differ only in them get different results.
pub(crate) fn stem(image: &Path) -> OsString {
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

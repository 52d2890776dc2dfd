//! [`VolumeFormat`]: the formats of written volumes, for `--format`.

use std::path::Path;

use hearth_data::nifti::read_header;
use hearth_data::{Image, NiftiOptions, WriteOptions, write_image};
use hearth_recipe::{Outcome, RecipeError};

use crate::cases::Case;
use crate::model::{Card, Kind};
use crate::writers::Holds;

/// A format of written volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeFormat {
    /// NIfTI, compressed.
    NiftiPacked,
    /// NIfTI.
    Nifti,
    /// NRRD, compressed.
    Nrrd,
    /// MetaImage in one file, compressed.
    MetaImage,
    /// FreeSurfer's MGH, compressed.
    Mgz,
    /// FreeSurfer's MGH.
    Mgh,
    /// PNG, for label maps of pictures.
    Png,
    /// The format of each case's own image.
    AsInput,
}

/// A row of the table of formats.
struct Row {
    format: VolumeFormat,
    /// The word of `--format`.
    word: &'static str,
    /// A description for the help.
    what: &'static str,
    /// The ending of files; empty for [`VolumeFormat::AsInput`].
    ending: &'static str,
    /// The endings of images that come in this format.
    inputs: &'static [&'static str],
}

const ROWS: [Row; 8] = [
    Row {
        format: VolumeFormat::NiftiPacked,
        word: "nii.gz",
        what: "NIfTI, compressed",
        ending: ".nii.gz",
        inputs: &[".nii.gz"],
    },
    Row { format: VolumeFormat::Nifti, word: "nii", what: "NIfTI", ending: ".nii", inputs: &[".nii"] },
    Row {
        format: VolumeFormat::Nrrd,
        word: "nrrd",
        what: "NRRD of 3D Slicer",
        ending: ".nrrd",
        inputs: &[".nrrd", ".nhdr"],
    },
    Row {
        format: VolumeFormat::MetaImage,
        word: "mha",
        what: "MetaImage of ITK, in one file",
        ending: ".mha",
        inputs: &[".mha", ".mhd"],
    },
    Row {
        format: VolumeFormat::Mgz,
        word: "mgz",
        what: "MGH of FreeSurfer, compressed",
        ending: ".mgz",
        inputs: &[".mgz", ".mgh.gz"],
    },
    Row { format: VolumeFormat::Mgh, word: "mgh", what: "MGH of FreeSurfer", ending: ".mgh", inputs: &[".mgh"] },
    Row {
        format: VolumeFormat::Png,
        word: "png",
        what: "PNG, for label maps of pictures",
        ending: ".png",
        inputs: &[".png"],
    },
    Row {
        format: VolumeFormat::AsInput,
        word: "as-input",
        what: "the format of each image that is predicted",
        ending: "",
        inputs: &[],
    },
];

impl VolumeFormat {
    /// The words of `--format` with their descriptions.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        ROWS.iter().map(|row| (row.word, row.what))
    }

    /// The format of a word.
    ///
    /// # Errors
    /// Another word.
    pub fn of_word(word: &str) -> Outcome<Self> {
        let row = ROWS.iter().find(|row| row.word == word);
        row.map(|row| row.format).ok_or_else(|| {
            let words: Vec<&str> = ROWS.iter().map(|row| row.word).collect();
            RecipeError::new(format!("{word:?} is no format; expected one of {}", words.join(", ")))
        })
    }

    fn row(self) -> &'static Row {
        // Each format has a row; the test of words tries all.
        ROWS.iter().find(|row| row.format == self).unwrap_or(&ROWS[0])
    }

    /// The ending of its files; `None` for [`VolumeFormat::AsInput`].
    pub fn ending(self) -> Option<&'static str> {
        Some(self.row().ending).filter(|ending| !ending.is_empty())
    }

    /// Rejects a format that cannot hold the result of a model.
    ///
    /// # Errors
    /// PNG for images, whose values are not whole numbers.
    pub(crate) fn suits(self, card: &Card) -> Outcome {
        if self == VolumeFormat::Png && card.kind == Kind::Image {
            let what = "png stores whole numbers, and this model predicts images with fractions";
            return Err(RecipeError::new(format!("--format: {what}: give another format, such as nii.gz")));
        }
        Ok(())
    }

    /// The ending of the volumes of a case.
    ///
    /// # Errors
    /// [`VolumeFormat::AsInput`] with an image in a format that is read and not written, or that cannot hold
    /// the result.
    pub(crate) fn ending_for(self, case: &Case, card: &Card) -> Outcome<&'static str> {
        if self != VolumeFormat::AsInput {
            return Ok(self.row().ending);
        }
        let found = case.files().next().filter(|path| !path.is_dir()).and_then(|path| of_name(path));
        let Some(row) = found else {
            let words: Vec<&str> = ROWS.iter().filter(|row| !row.ending.is_empty()).map(|row| row.word).collect();
            let what = "as-input writes results in the format of the image, and this one's is not written";
            let advice = match case {
                Case::Series(_) => "--dicom-seg, --rtstruct and --dicom-sr write DICOM next to a volume",
                _ => "as-input needs an image in one of them",
            };
            return Err(RecipeError::new(format!(
                "{}: --format {what}: give one of {} ({advice})",
                case.name(),
                words.join(", ")
            )));
        };
        row.format.suits(card).map_err(|error| error.context(case.name()))?;
        Ok(row.ending)
    }
}

/// Rejects a PNG of a volume before it is predicted. A file that cannot be read is left to the reader.
///
/// # Errors
/// A case of several slices whose result would be a PNG.
pub(crate) fn check_slices(ending: Option<&str>, case: &Case) -> Outcome {
    if ending != Some(VolumeFormat::Png.row().ending) {
        return Ok(());
    }
    match slices(case) {
        Some(count) if count > 1 => {
            let what = format!("png holds one slice, and this image has {count}: give another format, such as nii.gz");
            Err(RecipeError::new(format!("{}: --format {what}", case.name())))
        }
        _ => Ok(()),
    }
}

/// The number of slices of a case; from the header where that is enough.
fn slices(case: &Case) -> Option<usize> {
    if let Case::Series(found) = case {
        let [.., slices] = found.series.shape();
        return Some(slices);
    }
    let path = case.files().next()?;
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    if PICTURES.iter().any(|end| name.ends_with(end)) {
        return Some(1);
    }
    if name.ends_with(".nii") || name.ends_with(".nii.gz") {
        return read_header(path).ok().map(|header| header.dim.get(2).copied().unwrap_or(1));
    }
    case.read_image().ok().map(|image| image.shape()[2])
}

/// The endings of images that have one slice.
const PICTURES: [&str; 4] = [".png", ".jpg", ".jpeg", ".bmp"];

/// The format of an image with this name.
fn of_name(path: &Path) -> Option<&'static Row> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    ROWS.iter().find(|row| row.inputs.iter().any(|end| name.ends_with(end)))
}

/// An ending of a writer's file, in another format; endings of other files stay.
pub(crate) fn in_format(end: String, holds: Holds, format: Option<&str>) -> String {
    let Some(format) = format else { return end };
    match holds {
        Holds::Other => return end,
        // Values from 0 to 1 are lost in a PNG.
        Holds::Numbers if format == ".png" => return end,
        Holds::Numbers | Holds::Result => {}
    }
    let known = ROWS.iter().map(|row| row.ending).filter(|known| !known.is_empty() && end.ends_with(known));
    match known.max_by_key(|known| known.len()) {
        Some(known) => format!("{}{format}", end.strip_suffix(known).unwrap_or_default()),
        None => end,
    }
}

/// Writes a volume in the format of its name.
///
/// # Errors
/// A format that cannot hold the volume, or an error of the file system.
pub(crate) fn write_volume(path: &Path, image: &Image, options: NiftiOptions) -> Outcome {
    Ok(write_image(path, image, &WriteOptions::default().nifti(options))?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hearth_data::writers::SUFFIXES;

    use super::*;

    #[test]
    fn each_format_has_its_word() {
        for row in &ROWS {
            assert_eq!(VolumeFormat::of_word(row.word).expect("a format"), row.format);
            assert_eq!(row.format.row().word, row.word);
            assert!(row.ending.is_empty() || SUFFIXES.contains(&row.ending), "{} is written", row.word);
        }
        let error = VolumeFormat::of_word("minc").expect_err("refused").line();
        assert!(error.contains("\"minc\"") && error.contains("nrrd, mha, mgz"), "{error}");
    }

    #[test]
    fn an_image_comes_back_in_its_own_format() {
        for (name, ending) in [
            ("a.nii.gz", ".nii.gz"),
            ("A.NII", ".nii"),
            ("a.nhdr", ".nrrd"),
            ("a.nrrd", ".nrrd"),
            ("a.mhd", ".mha"),
            ("a.mgh.gz", ".mgz"),
            ("a.mgh", ".mgh"),
            ("a.png", ".png"),
        ] {
            assert_eq!(of_name(Path::new(name)).map(|row| row.ending), Some(ending), "{name}");
        }
        for name in ["a.hdr", "a.jpg", "a.tif", "a.npy", "a.gz", "a.dcm"] {
            assert!(of_name(&PathBuf::from(name)).is_none(), "{name}");
        }
    }

    #[test]
    fn only_volumes_change_their_endings() {
        for (end, holds, expected) in [
            ("_seg.nii.gz", Holds::Result, "_seg.nrrd"),
            (".nii.gz", Holds::Result, ".nrrd"),
            (".png", Holds::Result, ".nrrd"),
            ("_std.nii.gz", Holds::Numbers, "_std.nrrd"),
            (".npz", Holds::Numbers, ".npz"),
            (".pkl", Holds::Numbers, ".pkl"),
            ("_picture.png", Holds::Other, "_picture.png"),
        ] {
            assert_eq!(in_format(end.to_owned(), holds, Some(".nrrd")), expected);
            assert_eq!(in_format(end.to_owned(), holds, None), end);
        }
        assert_eq!(in_format("_prob.nii.gz".to_owned(), Holds::Numbers, Some(".png")), "_prob.nii.gz");
        assert_eq!(in_format("_seg.nii.gz".to_owned(), Holds::Result, Some(".png")), "_seg.png");
    }
}

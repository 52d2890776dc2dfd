//! What a server asks of a model: the trait [`Model`].

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// A model that can be asked again and again.
pub trait Model: Send + Sync {
    /// What it is.
    fn card(&self) -> &Card;

    /// Predicts one image, and writes the result to [`Request::out`].
    ///
    /// # Errors
    /// Where the image cannot be read or does not suit the model, which is the client's fault
    /// ([`Refusal::Input`]); or where something failed here ([`Refusal::Failed`]).
    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal>;
}

/// What clients see of a model.
#[derive(Clone, Debug)]
pub struct Card {
    /// Its name in addresses: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
    /// What it returns.
    pub kind: Kind,
    /// The dimensions of its images.
    pub dimension: u8,
    /// Names of labels, or of numbers, with their values in a label map. Without the background.
    pub labels: Vec<(String, u32)>,
    /// How many images of one patient it takes, in which order: T1, T2, ...
    pub channels: Vec<String>,
    /// What its weights are known by.
    pub checksum: Option<String>,
}

/// What a model returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A label map, or regions.
    Segmentation,
    /// Numbers of the whole image.
    Classification,
    /// Another image.
    Image,
}

impl Kind {
    /// MONAI Label's word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Segmentation => "segmentation",
            Kind::Classification => "classification",
            Kind::Image => "others",
        }
    }
}

/// How a result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// NIfTI, compressed.
    #[default]
    Nifti,
    /// NRRD, compressed.
    Nrrd,
    /// A segmentation of 3D Slicer: NRRD with a name and a colour for each label.
    SegNrrd,
    /// A DICOM segmentation that refers to the series that was given.
    DicomSeg,
    /// No file: volumes of labels, or numbers.
    Json,
}

impl Format {
    /// Words of `?format=`, with the ends of files that MONAI Label's `result_extension` has.
    const WORDS: [(&'static str, Format); 11] = [
        ("nifti", Format::Nifti),
        ("nii.gz", Format::Nifti),
        (".nii.gz", Format::Nifti),
        ("nrrd", Format::Nrrd),
        (".nrrd", Format::Nrrd),
        ("seg.nrrd", Format::SegNrrd),
        (".seg.nrrd", Format::SegNrrd),
        ("seg", Format::DicomSeg),
        ("dicom_seg", Format::DicomSeg),
        (".dcm", Format::DicomSeg),
        ("json", Format::Json),
    ];

    /// The format of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, format)| *format)
    }

    /// The end of a file.
    pub fn end(self) -> &'static str {
        match self {
            Format::Nifti => ".nii.gz",
            Format::Nrrd => ".nrrd",
            Format::SegNrrd => ".seg.nrrd",
            Format::DicomSeg => ".dcm",
            Format::Json => ".json",
        }
    }
}

/// One image to predict.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// A file, or a folder: of one image's files, or of a DICOM study.
    pub input: &'a Path,
    /// Which series of a study.
    pub series: Option<&'a str>,
    /// What the result is.
    pub format: Format,
    /// Further parameters of the client.
    pub parameters: &'a Map<String, Value>,
    /// An empty folder for results, which is removed once they are sent.
    pub out: &'a Path,
}

/// A prediction.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The result, in [`Request::out`].
    pub file: Option<PathBuf>,
    /// What is known of it: volumes, scores.
    pub facts: Map<String, Value>,
}

/// Why there is no prediction.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// The image, or a parameter, cannot be used.
    #[error("{0}")]
    Input(String),
    /// Something failed that the client cannot mend.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_formats_are_those_of_both_interfaces() {
        for (word, format) in [("nrrd", Format::Nrrd), (".nrrd", Format::Nrrd), (".nii.gz", Format::Nifti)] {
            assert_eq!(Format::of_word(word), Some(format));
        }
        assert_eq!(Format::of_word("png"), None);
    }
}

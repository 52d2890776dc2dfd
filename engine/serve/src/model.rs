//! The interface of a model for the server: the trait [`Model`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};

/// A model that predicts repeatedly.
pub trait Model: Send + Sync {
    /// The description of the model.
    fn card(&self) -> &Card;

    /// The parameters of requests that it reads in [`Request::parameters`]; others are refused.
    fn parameters(&self) -> &[&str] {
        &[]
    }

    /// Predicts one image, and writes the result to [`Request::out`].
    ///
    /// # Errors
    /// An image that cannot be read or does not suit the model, which is the client's error
    /// ([`Refusal::Input`]); or a failure of the server ([`Refusal::Failed`]).
    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal>;
}

/// The description of a model for clients.
#[derive(Clone, Debug)]
pub struct Card {
    /// Its name in URLs: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// The purpose of the model, in one line.
    pub description: String,
    /// The kind of its results.
    pub kind: Kind,
    /// The number of dimensions of its images.
    pub dimension: u8,
    /// The names of labels, or of numbers, with their values in a label map, without the background.
    pub labels: Vec<(String, u32)>,
    /// The images of one patient that it needs, in their order: T1, T2, ...
    pub channels: Vec<String>,
    /// The checksum of its weights.
    pub checksum: Option<String>,
}

/// The kind of a model's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A label map, or regions.
    Segmentation,
    /// Numbers for the whole image.
    Classification,
    /// Another image.
    Image,
}

impl Kind {
    /// MONAI Label's word for the kind.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Segmentation => "segmentation",
            Kind::Classification => "classification",
            Kind::Image => "others",
        }
    }
}

/// The format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// NIfTI, compressed.
    #[default]
    Nifti,
    /// NIfTI, not compressed.
    PlainNifti,
    /// NRRD, compressed.
    Nrrd,
    /// MetaImage in one file, compressed.
    MetaImage,
    /// FreeSurfer's MGH, compressed.
    Mgz,
    /// A segmentation of 3D Slicer: NRRD with a name and a colour for each label.
    SegNrrd,
    /// A DICOM segmentation that refers to the given series.
    DicomSeg,
    /// No file, only volumes of labels, or numbers.
    Json,
}

impl Format {
    /// The words of `?format=`, and the file extensions of MONAI Label's `result_extension`.
    const WORDS: [(&'static str, Format); 17] = [
        ("nifti", Format::Nifti),
        ("nii.gz", Format::Nifti),
        (".nii.gz", Format::Nifti),
        ("nii", Format::PlainNifti),
        (".nii", Format::PlainNifti),
        ("nrrd", Format::Nrrd),
        (".nrrd", Format::Nrrd),
        ("mha", Format::MetaImage),
        (".mha", Format::MetaImage),
        ("mgz", Format::Mgz),
        (".mgz", Format::Mgz),
        ("seg.nrrd", Format::SegNrrd),
        (".seg.nrrd", Format::SegNrrd),
        ("seg", Format::DicomSeg),
        ("dicom_seg", Format::DicomSeg),
        (".dcm", Format::DicomSeg),
        ("json", Format::Json),
    ];

    /// The format for a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, format)| *format)
    }

    /// The file extension.
    pub fn end(self) -> &'static str {
        match self {
            Format::Nifti => ".nii.gz",
            Format::PlainNifti => ".nii",
            Format::Nrrd => ".nrrd",
            Format::MetaImage => ".mha",
            Format::Mgz => ".mgz",
            Format::SegNrrd => ".seg.nrrd",
            Format::DicomSeg => ".dcm",
            Format::Json => ".json",
        }
    }
}

/// One image to predict.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// A file, or a folder with one image's files or a DICOM study.
    pub input: &'a Path,
    /// The series of a study.
    pub series: Option<&'a str>,
    /// The format of the result.
    pub format: Format,
    /// The parameters from the client, among them those of [`Model::parameters`].
    pub parameters: &'a Map<String, Value>,
    /// An empty folder for results, which is removed after they are sent.
    pub out: &'a Path,
    /// Becomes true when the client left: the result is no longer wanted, and a model that computes in
    /// steps ends before the next one.
    pub stop: &'a Arc<AtomicBool>,
}

/// A prediction.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The result, in [`Request::out`].
    pub file: Option<PathBuf>,
    /// Facts about the result: volumes, scores.
    pub facts: Map<String, Value>,
}

/// An error of a prediction.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// The image, or a parameter, cannot be used.
    #[error("{0}")]
    Input(String),
    /// A failure that the client cannot fix.
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

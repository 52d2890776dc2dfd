//! Checks whether data is suitable for training: a single image file ([`inspect()`]), or a whole
//! data set, including checks across its files ([`verify()`]).
//!
//! Every result is a [`Finding`]: severity, kind, location, and advice. [`inspect()`] takes any
//! [`Image`](hearth_image::Image) from any reader.
//!
//! ```no_run
//! use hearth_datasets::quality::{self, Severity, VerifyOptions};
//! let report = quality::verify("Task04_Hippocampus".as_ref(), &VerifyOptions::default())?;
//! for finding in report.findings.iter().filter(|f| f.severity >= Severity::Warning) {
//!     println!("{finding}");
//! }
//! # Ok::<(), hearth_datasets::DataError>(())
//! ```

mod across_cases;
mod case;
mod geometry;
mod inspect;
mod listing;
mod values;
mod verify;

use std::fmt;
use std::path::{Path, PathBuf};

pub use case::LabelReport;
pub use inspect::{
    Inspected, Inspection, inspect, inspect_file, inspect_file_with, inspect_folder, inspect_folder_with,
};
pub use listing::cases_below;
pub use values::{LabelCount, LabelValues, ValueSummary};
pub use verify::{CaseReport, Verification, VerifyOptions, verify};

use serde::{Serialize, Serializer};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information.
    Note,
    /// Unusual; the user should check it.
    Warning,
    /// Training would fail or learn the wrong thing.
    Error,
}

impl Severity {
    /// The name of the severity.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A case that a recipe cannot use.
    Refused,
    /// A file that the data set names is missing.
    MissingFile,
    /// A file cannot be read.
    Unreadable,
    /// A file that belongs to no case.
    Unlisted,
    /// Structure sets or segmentations that cannot be matched with their images.
    Unpaired,
    /// An affine that is not finite or can't be inverted.
    BadAffine,
    /// A voxel size that is 0, negative, NaN or implausible.
    BadSpacing,
    /// A header value that cannot be used.
    BadHeader,
    /// Axes that are not at right angles.
    Sheared,
    /// Axes that are oblique to the body's axes.
    Oblique,
    /// A left-handed grid.
    Mirrored,
    /// The file does not state the position of the image.
    NoAffine,
    /// The header's two affines, or its affine and voxel sizes, contradict each other.
    AffineConflict,
    /// Lengths that are not in millimetres.
    Units,
    /// NaN or infinite values.
    NotFinite,
    /// Every voxel has the same value.
    Constant,
    /// Image and label have different shapes.
    ShapeMismatch,
    /// Image and label lie on different grids.
    GridMismatch,
    /// A label without any foreground.
    EmptyLabel,
    /// Label values that the data set does not name.
    UnexpectedLabel,
    /// Label values that are not whole numbers from 0.
    BadLabelValue,
    /// A label that this case lacks though most cases have it, or that no case has.
    MissingLabel,
    /// A label with more or smaller pieces than usual.
    Pieces,
    /// Two files with the same content.
    Duplicate,
    /// A number of channels that differs from the data set's or from that of other cases.
    Channels,
    /// A size far from that of the other cases.
    UnusualShape,
    /// A voxel size far from that of the other cases.
    UnusualSpacing,
    /// An orientation that differs from that of the other cases.
    MixedOrientation,
}

impl Kind {
    /// The description of the kind.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Refused => "not usable",
            Kind::MissingFile => "missing file",
            Kind::Unreadable => "unreadable file",
            Kind::Unlisted => "unlisted file",
            Kind::Unpaired => "unpaired annotation",
            Kind::BadAffine => "bad affine",
            Kind::BadSpacing => "bad voxel size",
            Kind::BadHeader => "bad header",
            Kind::Sheared => "sheared grid",
            Kind::Oblique => "oblique grid",
            Kind::Mirrored => "left-handed grid",
            Kind::NoAffine => "no affine",
            Kind::AffineConflict => "affines in conflict",
            Kind::Units => "units",
            Kind::NotFinite => "values not finite",
            Kind::Constant => "constant image",
            Kind::ShapeMismatch => "shapes differ",
            Kind::GridMismatch => "grids differ",
            Kind::EmptyLabel => "empty label",
            Kind::UnexpectedLabel => "unexpected label",
            Kind::BadLabelValue => "bad label value",
            Kind::MissingLabel => "missing label",
            Kind::Pieces => "label in pieces",
            Kind::Duplicate => "duplicate",
            Kind::Channels => "channels",
            Kind::UnusualShape => "unusual shape",
            Kind::UnusualSpacing => "unusual voxel size",
            Kind::MixedOrientation => "mixed orientation",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind.
    pub kind: Kind,
    /// Case concerned, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// File concerned, if any.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub file: Option<PathBuf>,
    /// The finding, in words.
    pub what: String,
    /// The advice to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// Creates a finding without a place or advice.
    pub fn new(severity: Severity, kind: Kind, what: impl Into<String>) -> Self {
        Finding { severity, kind, case: None, file: None, what: what.into(), advice: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds the file concerned.
    #[must_use]
    pub fn file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// Adds the case concerned.
    #[must_use]
    pub fn case(mut self, case: &str) -> Self {
        self.case = Some(case.to_owned());
        self
    }
}

/// A path that is not UTF-8 is shown with replacement characters.
fn as_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}

fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.display().to_string().serialize(serializer)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity.word())?;
        if let Some(case) = &self.case {
            write!(f, "case {case}: ")?;
        }
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        f.write_str(&self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

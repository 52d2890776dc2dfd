//! What is odd about a series, and how bad that is.

use std::fmt;
use std::path::{Path, PathBuf};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Note,
    /// The volume is right, but something about it may surprise.
    Warning,
    /// The volume would be wrong: it is not read unless the finding is accepted
    /// ([`crate::ReadOptions::accept`]).
    Error,
}

/// What is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A gap between slices is half as large again as the usual one, or half as large: slices are
    /// missing. An error; accepted, the slices are stacked with their mean distance.
    MissingSlices,
    /// Gaps between slices differ by more than 1 %. A warning.
    UnevenGaps,
    /// The slices are shifted against each other along their own plane: the affine is sheared, and
    /// true. A warning.
    GantryTilt,
    /// The first voxels of the slices don't lie on a line. A warning.
    CrookedStack,
    /// Several slices at one place. The same slice twice is a warning, and one is taken; different
    /// slices are an error; accepted, the first by instance number is taken.
    DuplicateSlices,
    /// All places have the same number of slices (time points, echoes): each becomes a series of
    /// its own. A note.
    Repeated,
    /// Slices of one series that can't be stacked (size, orientation, spacing, colours): each kind
    /// became a series. A warning.
    Split,
    /// Slices without ImagePositionPatient or ImageOrientationPatient. One file is a warning;
    /// several are an error; accepted, they are stacked by SliceLocation, else by InstanceNumber.
    MissingPosition,
    /// No PixelSpacing, or no distance between slices: 1 mm is taken. A warning.
    MissingSpacing,
    /// No SeriesInstanceUID: files of one folder are taken as one series. A warning.
    MissingSeries,
    /// Smallest values are meant to be shown white. A note that says whether values were inverted.
    Monochrome1,
    /// The pixels were compressed with loss. A note.
    Lossy,
    /// Units or kinds of rescaling differ between slices. A warning.
    MixedUnits,
    /// A padding value marks pixels outside the scanned area. A note.
    Padding,
    /// Contours or frames lie outside the grid, or between its slices. A warning.
    OutsideGrid,
    /// A region that was asked for is not in the file: it is empty. A warning.
    MissingRegion,
    /// Regions overlap where one label per voxel was asked for. A warning that says which won.
    Overlap,
}

impl FindingKind {
    /// Those that can be errors, and so can be accepted.
    pub const ACCEPTABLE: [FindingKind; 3] =
        [FindingKind::MissingSlices, FindingKind::DuplicateSlices, FindingKind::MissingPosition];

    /// One that can be accepted, by its name.
    pub fn acceptable(name: &str) -> Option<FindingKind> {
        FindingKind::ACCEPTABLE.into_iter().find(|kind| kind.to_string() == name)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Something odd about a series: what, how bad, in which files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// How bad.
    pub severity: Severity,
    /// For people: one line, naming files.
    pub text: String,
    /// The files it is about; empty where it is about all.
    pub files: Vec<PathBuf>,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, severity: Severity, text: impl Into<String>) -> Self {
        Finding { kind, severity, text: text.into(), files: Vec::new() }
    }

    pub(crate) fn files(mut self, files: Vec<PathBuf>) -> Self {
        self.files = files;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.text)
    }
}

/// The names of some files, for a line of text: the first three and how many more.
pub(crate) fn names<'a>(files: impl IntoIterator<Item = &'a Path>) -> String {
    let all: Vec<String> = files
        .into_iter()
        .map(|p| p.file_name().map_or_else(|| p.display().to_string(), |n| n.to_string_lossy().into_owned()))
        .collect();
    match all.len() {
        0..=4 => all.join(", "),
        n => format!("{} and {} more", all[..3].join(", "), n - 3),
    }
}

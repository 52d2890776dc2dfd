//! Anomalies of a series and their severity.

use std::fmt;
use std::path::{Path, PathBuf};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information.
    Note,
    /// The volume is correct, but may have an unexpected property.
    Warning,
    /// The volume would be wrong: it is not read unless the finding is accepted
    /// ([`crate::ReadOptions::accept`]).
    Error,
}

/// The kind of anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A gap between slices is at least 1.5 times the usual one, or at most half of it, or two slices lie
    /// more than three times as far apart as their header states: slices are missing. An error; if accepted,
    /// the slices are stacked at their mean distance.
    MissingSlices,
    /// More than two slices lie more than three times as far apart as their header states: the larger one
    /// of SpacingBetweenSlices and SliceThickness. A warning.
    SparseSlices,
    /// Gaps between slices differ by more than 1 %. A warning; an error if a slice would lie more than
    /// half the mean distance off its place; if accepted, the slices are stacked at their mean distance.
    UnevenGaps,
    /// The slices are shifted against each other along their own plane: the affine is sheared, and
    /// correct. A warning.
    GantryTilt,
    /// The first voxels of the slices do not lie on a line. A warning.
    CrookedStack,
    /// Several slices at one position. The same slice twice is a warning, and one is used;
    /// different slices are an error; if accepted, the first by instance number is used.
    DuplicateSlices,
    /// Different slices share a SOPInstanceUID. A warning; nothing can be written that refers to them.
    SharedInstance,
    /// All positions have the same number of slices (time points, echoes): each set becomes a
    /// separate series. A note.
    Repeated,
    /// Slices of one series that cannot be stacked (size, orientation, spacing, colours): each kind
    /// became a series. A warning.
    Split,
    /// Slices without ImagePositionPatient or ImageOrientationPatient. One file is a warning;
    /// several are an error; if accepted, they are stacked by SliceLocation, else by
    /// InstanceNumber.
    MissingPosition,
    /// No PixelSpacing, or no distance between slices: 1 mm is assumed. A warning.
    MissingSpacing,
    /// No SeriesInstanceUID: files of one folder are treated as one series. A warning.
    MissingSeries,
    /// The smallest values are displayed white. A note that states whether values were inverted.
    Monochrome1,
    /// The pixels were compressed lossily. A note.
    Lossy,
    /// A picture of a screen, or of several views: values are for display. A warning; several without a
    /// position are an error ([`FindingKind::MissingPosition`]).
    SecondaryCapture,
    /// Slices of a modality that measures one value per voxel are in colour: a fused or annotated copy. A
    /// warning.
    Colours,
    /// Units or kinds of rescaling differ between slices. A warning.
    MixedUnits,
    /// A padding value marks pixels outside the scanned area. A note.
    Padding,
    /// Files of other series in the folder cannot be used. A warning.
    OtherSeries,
    /// Contours or frames lie outside the grid, or between its slices. A warning.
    OutsideGrid,
    /// A contour is in its slice more than once; it counts once. A warning.
    RepeatedContours,
    /// Contours of a slice cross each other; they are united. A warning.
    CrossingContours,
    /// Contours of a region are lines or points, which have no area. A warning.
    OpenContours,
    /// A requested region is not in the file: it is empty. A warning.
    MissingRegion,
    /// A requested name fits several regions, which are combined into one. A note.
    JoinedRegions,
    /// Regions overlap, but one label per voxel was requested. A warning that names the region that
    /// was used.
    Overlap,
}

impl FindingKind {
    /// The kinds that can be errors, and so can be accepted.
    pub const ACCEPTABLE: [FindingKind; 4] = [
        FindingKind::MissingSlices,
        FindingKind::UnevenGaps,
        FindingKind::DuplicateSlices,
        FindingKind::MissingPosition,
    ];

    /// The acceptable kind with this name.
    pub fn acceptable(name: &str) -> Option<FindingKind> {
        FindingKind::ACCEPTABLE.into_iter().find(|kind| kind.to_string() == name)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An anomaly of a series: kind, severity, files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// The severity.
    pub severity: Severity,
    /// A message for users: one line, naming files.
    pub text: String,
    /// The files concerned; empty if all are.
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

/// The names of some files for a message: the first three and the number of the rest.
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

//! [`OutputOptions`]: which files are asked for besides each result.

use std::collections::BTreeMap;

use hearth_data::dicom::write::{Coding, SegmentationType};
use hearth_data::writers::RegionFile;

/// What labels are, by name.
pub type Codes = BTreeMap<String, Coding>;

/// Formats of surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurfaceFormat {
    /// Binary STL.
    Stl,
    /// Wavefront OBJ.
    Obj,
}

impl SurfaceFormat {
    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            SurfaceFormat::Stl => "stl",
            SurfaceFormat::Obj => "obj",
        }
    }
}

/// Which files are written besides each result.
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// `--probabilities`: a probability of each label or region.
    pub probabilities: bool,
    /// `--uncertainty`: how much augmented predictions differ.
    pub uncertainty: bool,
    /// `--dicom-seg`, and how it stores its voxels.
    pub dicom_seg: Option<SegmentationType>,
    /// `--rtstruct`: contours.
    pub rtstruct: bool,
    /// `--dicom-sr`: volumes and diameters.
    pub dicom_sr: bool,
    /// `--surfaces`: a mesh of each label.
    pub surfaces: Option<SurfaceFormat>,
    /// `--picture`: outlines, scores or images.
    pub picture: bool,
    /// `--statistics`: volume and mean intensity of each label.
    pub statistics: bool,
    /// `--stats-include-incomplete`: labels near the image's border are measured, too.
    pub include_incomplete: bool,
    /// `--codes`: what labels are, where their names do not say it.
    pub codes: Codes,
}

impl OutputOptions {
    /// The DICOM files that are asked for.
    pub fn dicom_files(&self) -> Vec<RegionFile> {
        let seg = self.dicom_seg.map(RegionFile::Segmentation);
        let set = self.rtstruct.then_some(RegionFile::StructureSet);
        let report = self.dicom_sr.then_some(RegionFile::Report(self.dicom_seg));
        [seg, set, report].into_iter().flatten().collect()
    }

    /// Whether a file needs the probabilities of a prediction.
    pub fn needs_probabilities(&self) -> bool {
        self.probabilities || self.dicom_seg == Some(SegmentationType::Fractional)
    }
}

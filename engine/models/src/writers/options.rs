//! [`OutputOptions`]: the files that are requested in addition to each result.

use std::collections::BTreeMap;

use hearth_data::dicom::write::{Coding, SegmentationType};
use hearth_data::writers::{PluginWriter, RegionFile};

use crate::saliency::Saliency;
use crate::writers::VolumeFormat;

/// The codes of labels, by name.
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
    /// The file extension.
    pub fn ending(self) -> &'static str {
        match self {
            SurfaceFormat::Stl => "stl",
            SurfaceFormat::Obj => "obj",
        }
    }
}

/// The files that are written in addition to each result, and the format of volumes.
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// `--format`: the format of the volumes, if it is not that of the model's family.
    pub format: Option<VolumeFormat>,
    /// `--probabilities`: a probability for each label or region.
    pub probabilities: bool,
    /// `--uncertainty`: the difference between augmented predictions.
    pub uncertainty: bool,
    /// `--dicom-seg`, with the type of its voxels.
    pub dicom_seg: Option<SegmentationType>,
    /// `--rtstruct`: contours.
    pub rtstruct: bool,
    /// `--dicom-sr`: volumes and diameters.
    pub dicom_sr: bool,
    /// `--seg-nrrd`: a segmentation of 3D Slicer.
    pub seg_nrrd: bool,
    /// `--writer`: the result, by a writer of a plugin.
    pub writer: Option<PluginWriter>,
    /// `--surfaces`: a mesh of each label.
    pub surfaces: Option<SurfaceFormat>,
    /// `--picture`: outlines, scores or images.
    pub picture: bool,
    /// `--saliency`: what a classifier's answer depends on.
    pub saliency: Option<Saliency>,
    /// `--statistics`: volume and mean intensity of each label.
    pub statistics: bool,
    /// `--stats-include-incomplete`: includes labels near the image's border.
    pub include_incomplete: bool,
    /// `--codes`: the codes of labels whose names do not imply them.
    pub codes: Codes,
}

impl OutputOptions {
    /// The requested DICOM files.
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

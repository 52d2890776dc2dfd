//! A prediction as DICOM that refers to the series it was made of.

use hearth_data::dicom::{Authorship, Grid, Region, RegionVolume, Series, write};

use super::Segmented;
use crate::error::{Outcome, RecipeError};
use crate::recipe::Output;

/// A kind of DICOM file with regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DicomFile {
    /// SEG: voxels.
    Segmentation,
    /// RTSTRUCT: contours.
    StructureSet,
}

impl DicomFile {
    /// What follows the name of an image in that of the file.
    pub fn end(self) -> &'static str {
        match self {
            DicomFile::Segmentation => "_seg.dcm",
            DicomFile::StructureSet => "_rtstruct.dcm",
        }
    }
}

impl Segmented {
    /// The predicted regions by the recipe's `labels`; the background is none of them.
    ///
    /// # Errors
    /// Where numbers or an image were predicted.
    pub fn regions(&self, labels: &[String]) -> Outcome<RegionVolume> {
        let grid = Grid::new(self.image.shape(), self.image.affine);
        let name = |(value, name): (usize, &String)| Region::new(value as u32, name);
        let values = self.image.to_vec();
        match self.output {
            Output::Labels => {
                let regions = labels.iter().enumerate().skip(1).map(name).collect();
                Ok(RegionVolume::of_labels(values, regions, grid))
            }
            Output::Regions => {
                let regions = labels.iter().enumerate().map(|(i, label)| name((i + 1, label))).collect();
                Ok(RegionVolume::of_channels(values, regions, grid))
            }
            Output::Scores | Output::Image => Err(RecipeError::new(NO_REGIONS)),
        }
    }

    /// Names of regions of which no voxel was found.
    ///
    /// # Errors
    /// Where no regions were predicted.
    pub fn missing(&self, labels: &[String]) -> Outcome<Vec<String>> {
        let empty = self.regions(labels)?.empty();
        Ok(empty.into_iter().map(|region| region.name).collect())
    }

    /// The bytes of a file that refers to the series that was predicted. A region without a voxel
    /// is written as an empty one.
    ///
    /// # Errors
    /// Where no regions were predicted, or they cannot be written ([`mod@write`]).
    pub fn to_dicom(&self, file: DicomFile, series: &Series, labels: &[String], by: &Authorship) -> Outcome<Vec<u8>> {
        let regions = self.regions(labels)?;
        let by = by.clone().keep_empty(true);
        let bytes = match file {
            DicomFile::Segmentation => write::segmentation(&regions, series, &by),
            DicomFile::StructureSet => write::structure_set(&regions, series, &by),
        };
        Ok(bytes?)
    }
}

/// Why there is no file of regions.
pub const NO_REGIONS: &str = "--dicom-seg and --rtstruct write regions; this run predicts numbers or images";

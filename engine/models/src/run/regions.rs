//! A prediction as DICOM that refers to the series it was made of, and as surfaces.

use std::collections::BTreeMap;

use hearth_data::dicom::write::{self, Coding, SegmentationType};
use hearth_data::dicom::{Authorship, Grid, Region, RegionVolume, Series};
use hearth_data::writers::{RegionFile, Segment, SurfaceOptions, coding_of, surface_bytes};

use crate::run::segment::Segmented;
use hearth_recipe::recipe::Output;
use hearth_recipe::{Outcome, RecipeError};

/// What follows the name of an image in that of a DICOM file of its regions.
pub fn dicom_end(file: RegionFile) -> &'static str {
    match file {
        RegionFile::Segmentation(_) => "_seg.dcm",
        RegionFile::StructureSet => "_rtstruct.dcm",
        RegionFile::Report(_) => "_sr.dcm",
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

    /// The regions with their codes.
    fn coded(&self, labels: &[String], codes: &BTreeMap<String, Coding>) -> Outcome<RegionVolume> {
        let mut volume = self.regions(labels)?;
        volume.regions.iter_mut().for_each(|region| region.coding = coding_of(codes, &region.name));
        Ok(volume)
    }

    /// The probabilities of the regions, a channel for each.
    fn fractions(&self, labels: &[String], codes: &BTreeMap<String, Coding>) -> Outcome<RegionVolume> {
        let regions = self.coded(labels, codes)?.regions;
        let Some(map) = &self.probabilities else {
            return Err(RecipeError::new("a fractional segmentation holds probabilities, which were not asked for"));
        };
        let size: usize = map.shape().iter().product();
        let mut values = map.to_vec();
        // Labels have one of the background before them.
        values.drain(..values.len().saturating_sub(regions.len() * size));
        // Resampling may leave the range by rounding.
        values.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
        Ok(RegionVolume::of_channels(values, regions, Grid::new(map.shape(), map.affine)))
    }

    /// The bytes of a file that refers to the series that was predicted. A region without a voxel
    /// is written as an empty one. `codes` say what labels are, where their names do not. A report
    /// refers to the segmentation of the same labels, codes and authorship.
    ///
    /// # Errors
    /// Where no regions were predicted, probabilities are needed and were not [wanted](crate::run::segment::Wanted),
    /// or regions cannot be written ([`mod@write`]).
    pub fn to_dicom(
        &self,
        file: RegionFile,
        series: &Series,
        labels: &[String],
        codes: &BTreeMap<String, Coding>,
        by: &Authorship,
    ) -> Outcome<Vec<u8>> {
        let by = by.clone().keep_empty(true);
        let fractional = SegmentationType::Fractional;
        Ok(match file {
            RegionFile::Segmentation(kind) if kind == fractional => {
                file.bytes(&self.fractions(labels, codes)?, series, &by)?
            }
            RegionFile::Report(Some(kind)) if kind == fractional => {
                let reference = write::reference(kind, &self.fractions(labels, codes)?, series, &by);
                write::report(&self.coded(labels, codes)?, series, &by, Some(&reference))?
            }
            file => file.bytes(&self.coded(labels, codes)?, series, &by)?,
        })
    }

    /// The surface of each region that has a voxel, as the bytes of a file of this ending (`stl`,
    /// `obj`), with the region's place among the labels' names.
    ///
    /// # Errors
    /// Where no regions were predicted, or a surface cannot be made.
    pub fn surfaces(&self, labels: &[String], end: &str, options: &SurfaceOptions) -> Outcome<Vec<(usize, Vec<u8>)>> {
        let volume = self.regions(labels)?;
        let missing = volume.empty();
        let size: usize = volume.grid.shape().iter().product();
        let mut files = Vec::new();
        for (place, region) in volume.regions.iter().enumerate().filter(|(_, region)| !missing.contains(region)) {
            let segment = Segment::new(region.label, &region.name);
            let values = match self.output {
                Output::Regions => {
                    let channel = volume.values[place * size..][..size].iter();
                    channel.map(|value| if *value >= 0.5 { region.label as f32 } else { 0.0 }).collect()
                }
                _ => volume.values.clone(),
            };
            let bytes = surface_bytes(&values, volume.grid.shape(), volume.grid.affine(), &segment, end, options);
            files.push((place, bytes.map_err(|error| RecipeError::new(error.to_string()))?.0));
        }
        Ok(files)
    }
}

/// Why there is no file of regions.
pub const NO_REGIONS: &str =
    "--dicom-seg, --dicom-sr, --rtstruct and --surfaces write regions; this run predicts numbers or images";

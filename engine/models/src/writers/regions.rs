//! Predicted labels as regions: DICOM files that refer to the predicted series, surfaces, volumes.

use std::collections::BTreeMap;
use std::path::Path;

use hearth_data::dicom::write::{self, Coding, SegmentationType};
use hearth_data::dicom::{Authorship, Grid, Region, RegionVolume, Series};
use hearth_data::writers::{RegionFile, Segment, SurfaceOptions, coding_of, surface_bytes};
use hearth_data::{Affine, Image, WriteOptions, write_image};
use hearth_pictures::colours::of_class;
use hearth_recipe::{Outcome, RecipeError};
use serde_json::{Value, json};

use crate::model::{Card, ClassLabel, Kind, PredictedMap};

/// The labels or regions of a prediction with their names and codes.
pub struct Regions<'a> {
    map: &'a dyn PredictedMap,
    kind: Kind,
    labels: &'a [ClassLabel],
    /// The codes of labels for which the model has none.
    codes: &'a BTreeMap<String, Coding>,
    image: Image,
}

impl<'a> Regions<'a> {
    /// The regions of a prediction by a model of this card. `codes` take precedence over the card's.
    ///
    /// # Errors
    /// A prediction without labels, or one that the device failed to compute.
    pub fn new(map: &'a dyn PredictedMap, card: &'a Card, codes: &'a BTreeMap<String, Coding>) -> Outcome<Self> {
        if !card.kind.is_map() {
            return Err(RecipeError::new(format!(
                "regions are those of labels; this model predicts {}",
                card.kind.words()
            )));
        }
        Ok(Self { map, kind: card.kind, labels: &card.labels, codes, image: map.image()? })
    }

    fn regions(&self) -> Vec<Region> {
        let region = |label: &ClassLabel| {
            let mut region = Region::new(label.value, &label.name);
            region.color = label.color.or_else(|| Some(of_class(label.value as usize)));
            region.coding = coding_of(self.codes, &label.name).or_else(|| label.coding.clone());
            region
        };
        self.labels.iter().map(region).collect()
    }

    fn volume(&self) -> RegionVolume {
        let grid = Grid::new(self.image.shape(), self.image.affine);
        match self.kind {
            Kind::Regions => RegionVolume::of_channels(self.image.to_vec(), self.regions(), grid),
            _ => RegionVolume::of_labels(self.image.to_vec(), self.regions(), grid),
        }
    }

    /// The probabilities of the regions, one channel for each.
    fn fractions(&self) -> Outcome<RegionVolume> {
        let Some(map) = self.map.probabilities()? else {
            return Err(RecipeError::new("a fractional segmentation holds probabilities, which were not asked for"));
        };
        let regions = self.regions();
        let size: usize = map.shape().iter().product();
        let mut values = map.to_vec();
        // For labels, the first channel is the background.
        values.drain(..values.len().saturating_sub(regions.len() * size));
        // Resampling may exceed the range by rounding.
        values.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
        Ok(RegionVolume::of_channels(values, regions, Grid::new(map.shape(), map.affine)))
    }

    /// The bytes of a file that refers to the predicted series. A region without a voxel is written
    /// as an empty one. A report refers to the segmentation with the same labels, codes and
    /// authorship.
    ///
    /// # Errors
    /// Needed probabilities that were not requested, or regions that cannot be written ([`mod@write`]).
    pub fn to_dicom(&self, file: RegionFile, series: &Series, by: &Authorship) -> Outcome<Vec<u8>> {
        let by = by.clone().keep_empty(true);
        let fractional = SegmentationType::Fractional;
        Ok(match file {
            RegionFile::Segmentation(kind) if kind == fractional => file.bytes(&self.fractions()?, series, &by)?,
            RegionFile::Report(Some(kind)) if kind == fractional => {
                let reference = write::reference(kind, &self.fractions()?, series, &by);
                write::report(&self.volume(), series, &by, Some(&reference))?
            }
            file => file.bytes(&self.volume(), series, &by)?,
        })
    }

    /// Writes a segmentation of 3D Slicer (`.seg.nrrd`), with names and colours, on the grid of the image.
    /// Regions that overlap are in layers.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_segmentation(&self, path: &Path) -> Outcome {
        let segment = |region: Region| {
            let mut segment = Segment::new(region.label, region.name);
            segment.colour = region.color.unwrap_or(segment.colour);
            segment
        };
        let mut options = WriteOptions::label();
        options.segments = self.regions().into_iter().map(segment).collect();
        write_image(path, &self.image, &options).map_err(|error| RecipeError::new(error.to_string()))
    }

    /// The names of regions without a voxel.
    pub fn missing(&self) -> Vec<String> {
        self.volume().empty().into_iter().map(|region| region.name).collect()
    }

    /// The surface of each region that has a voxel, as the bytes of a file with this extension
    /// (`stl`, `obj`), with the region's index among the labels.
    ///
    /// # Errors
    /// A surface that cannot be made.
    pub fn surfaces(&self, end: &str, options: &SurfaceOptions) -> Outcome<Vec<(usize, Vec<u8>)>> {
        let volume = self.volume();
        let missing = volume.empty();
        let size: usize = volume.grid.shape().iter().product();
        let mut files = Vec::new();
        for (place, region) in volume.regions.iter().enumerate().filter(|(_, region)| !missing.contains(region)) {
            let segment = Segment::new(region.label, &region.name);
            let values = match self.kind {
                Kind::Regions => {
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

    /// The number of voxels and the volume in mm³ of each label, in the card's order.
    pub fn volumes(&self) -> Vec<(&'a ClassLabel, usize, f64)> {
        let of_voxel = determinant(&self.image.affine).abs();
        let measured = self.measured(None);
        self.labels.iter().zip(measured).map(|(label, (count, _))| (label, count, count as f64 * of_voxel)).collect()
    }

    /// The volume in mm³ of each label by name, and its mean intensity in an image on the same grid.
    ///
    /// # Errors
    /// An image of another size.
    pub fn statistics(&self, image: &Image) -> Outcome<Value> {
        let (own, other) = (self.image.shape(), image.shape());
        if own != other {
            let what = format!("the image has {other:?} voxels as it is read, the prediction {own:?}");
            return Err(RecipeError::new(what));
        }
        let of_voxel = determinant(&self.image.affine).abs();
        let measured = self.measured(Some(&image.to_vec()));
        let each = self.labels.iter().zip(measured).map(|(label, (count, sum))| {
            let mean = if count == 0 { 0.0 } else { sum / count as f64 };
            (label.name.clone(), json!({ "volume": count as f64 * of_voxel, "intensity": mean }))
        });
        Ok(Value::Object(each.collect()))
    }

    /// The number of voxels of each label, and the sum of an image over them.
    fn measured(&self, image: Option<&[f32]>) -> Vec<(usize, f64)> {
        let values = self.image.to_vec();
        let at = |voxel: usize| image.map_or(0.0, |image| f64::from(image[voxel]));
        if self.kind == Kind::Regions {
            let size = self.image.shape().iter().product::<usize>();
            let of_channel = |channel: &[f32]| {
                let within = channel.iter().enumerate().filter(|(_, value)| **value > 0.5);
                within.fold((0, 0.0), |(count, sum), (voxel, _)| (count + 1, sum + at(voxel)))
            };
            return values.chunks(size.max(1)).map(of_channel).take(self.labels.len()).collect();
        }
        let most = self.labels.iter().map(|label| label.value as usize).max().unwrap_or(0);
        let mut found = vec![(0, 0.0); most + 1];
        for (voxel, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            if let Some((count, sum)) = found.get_mut(*value as usize) {
                *count += 1;
                *sum += at(voxel);
            }
        }
        self.labels.iter().map(|label| found[label.value as usize]).collect()
    }
}

/// The volume of a voxel in mm³, with a sign.
pub(crate) fn determinant([a, b, c, _]: &Affine) -> f64 {
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])
}

/// The ending that is appended to the name of an image for a DICOM file of its regions.
pub fn dicom_ending(file: RegionFile) -> &'static str {
    match file {
        RegionFile::Segmentation(_) => "_seg.dcm",
        RegionFile::StructureSet => "_rtstruct.dcm",
        RegionFile::Report(_) => "_sr.dcm",
    }
}

//! Images and their annotations, as in collections of The Cancer Imaging Archive.

use std::collections::HashSet;

use crate::error::DicomError;
use crate::options::ReadOptions;
use crate::regions::{RegionVolume, Regions};
use crate::scan::{Annotation, Scan};
use crate::series::Series;
use crate::stack::Slice;
use crate::volume::Volume;

/// A series of images, and a structure set or segmentation drawn on it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pair {
    /// The images.
    pub image: Series,
    /// The annotation drawn on them.
    pub annotation: Annotation,
}

/// All pairs of a folder.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Pairs {
    /// The pairs, sorted by the annotation's patient, series number and file.
    pub pairs: Vec<Pair>,
    /// Annotations whose images are missing, with the reason.
    pub unpaired: Vec<(Annotation, String)>,
}

impl Scan {
    /// Pairs each RTSTRUCT and SEG with its images: by the SeriesInstanceUID that it refers to,
    /// else by the frame of reference if only one series has it. Of several volumes of the same
    /// series the one with the most slices that it refers to is used, else the largest.
    pub fn pairs(&self) -> Pairs {
        let mut annotations = self.annotations.clone();
        let key = |a: &Annotation| (a.patient.clone(), a.series_number, a.path.clone());
        annotations.sort_by_cached_key(key);
        let mut out = Pairs::default();
        for annotation in annotations {
            match self.image_of(&annotation) {
                Ok(image) => out.pairs.push(Pair { image: image.clone(), annotation }),
                Err(why) => out.unpaired.push((annotation, why)),
            }
        }
        out
    }

    /// The images that an RTSTRUCT or SEG was drawn on, as [`Scan::pairs`] finds them.
    ///
    /// # Errors
    /// The reason why there are none.
    pub fn image_of(&self, annotation: &Annotation) -> Result<&Series, String> {
        let named = |s: &&Series| annotation.referenced_series.iter().any(|uid| uid == s.uid());
        let instances: HashSet<&str> = annotation.referenced_instances.iter().map(String::as_str).collect();
        let drawn = |series: &&Series| {
            let refers = |slice: &&Slice| instances.contains(slice.sop_instance());
            (series.slices().iter().filter(refers).count(), series.slices().len())
        };
        let mut volumes: Vec<&Series> = self.series.iter().filter(named).collect();
        if volumes.len() > 1 {
            // Stable: of equal ones the first.
            volumes.sort_by_cached_key(|series| std::cmp::Reverse(drawn(series)));
        }
        if let [series, ..] = volumes[..] {
            return Ok(series);
        }
        let frame = annotation.frame_of_reference.as_deref();
        let near: Vec<&Series> =
            self.series.iter().filter(|s| frame.is_some() && s.frame_of_reference() == frame).collect();
        let drawn_on = match annotation.referenced_series.as_slice() {
            [] => "does not state which series it was drawn on".to_owned(),
            named => format!("drawn on series {}, which is missing", named.join(", ")),
        };
        match near.as_slice() {
            [series] => Ok(series),
            [] => Err(format!("{drawn_on}; nor is another one in the same frame of reference")),
            several => Err(format!("{drawn_on}; {} series have its frame of reference", several.len())),
        }
    }
}

impl Pair {
    /// Reads image and regions, one channel per region ([`Regions::channels`]).
    ///
    /// Regions lie on the grid of the image. A segmentation with other voxels stays on its own
    /// grid, and a finding reports it: resample it to the image.
    ///
    /// # Errors
    /// As [`Series::read_with`] and [`Regions::channels`].
    pub fn read_channels(&self, names: &[&str], options: &ReadOptions) -> Result<(Volume, RegionVolume), DicomError> {
        self.read(names, true, options)
    }

    /// Reads image and regions, with the regions as a label map ([`Regions::labels`]) on the grid that
    /// [`Pair::read_channels`] describes.
    ///
    /// # Errors
    /// As [`Series::read_with`] and [`Regions::labels`].
    pub fn read_labels(&self, names: &[&str], options: &ReadOptions) -> Result<(Volume, RegionVolume), DicomError> {
        self.read(names, false, options)
    }

    fn read(
        &self,
        names: &[&str],
        as_channels: bool,
        options: &ReadOptions,
    ) -> Result<(Volume, RegionVolume), DicomError> {
        let image = self.image.read_with(options)?;
        let regions = Regions::open(&self.annotation.path, options)?;
        let drawn = regions.on_images(names, as_channels, image.grid(), options)?;
        Ok((image, drawn))
    }
}

//! The steps from an image to its labels: reading, preparing, computing.

use std::path::Path;

use hearth_nnunet::total::{Mode, clean, remove_small, resampled, restored, truncated};
use hearth_nnunet::{Axes3, Case, Volume};

use super::TotalSegmentator;
use super::measure::{Measured, TotalLabels};
use hearth_recipe::nnunet::{CaseImage, Grid, Reader, read};
use hearth_recipe::{Outcome, RecipeError};

/// A prepared image.
pub struct TotalPrepared {
    image: CaseImage,
    ready: Ready,
}

/// The input of the first network.
enum Ready {
    /// The image without resampling.
    Whole,
    /// The image at the task's voxel size.
    Resampled(Volume),
    /// The input of the rough model, which finds the part of the image that is then resampled.
    Rough(Box<Ready>),
}

/// Labels of an image, or of a part of it.
struct Labelled {
    labels: Volume<u16>,
    /// Measurements from before labels were mapped back, if requested at that time.
    measured: Option<Measured>,
}

impl TotalSegmentator {
    /// Predicts the labels of an image, a NIfTI file.
    ///
    /// # Errors
    /// Images that cannot be read or predicted.
    pub fn predict(&self, path: &Path) -> Outcome<TotalLabels> {
        self.compute(self.prepare(self.read(path)?)?)
    }

    /// Reads an image, a NIfTI file, in the closest canonical axes.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn read(&self, path: &Path) -> Outcome<CaseImage> {
        let case = Case { name: path.display().to_string(), files: vec![path.to_owned()] };
        read(Reader::SimpleItk { reorient: true }, &case)
    }

    /// Resamples an image for the first network, which can run on any thread.
    ///
    /// # Errors
    /// Voxels without a size, or a size beyond the limits.
    pub fn prepare(&self, image: CaseImage) -> Outcome<TotalPrepared> {
        let ready = self.ready(&image.volume, image.spacing)?;
        Ok(TotalPrepared { image, ready })
    }

    /// Computes the labels of a prepared image.
    ///
    /// # Errors
    /// Images that do not fit the models, or values that a device failed to compute.
    pub fn compute(&self, prepared: TotalPrepared) -> Outcome<TotalLabels> {
        let TotalPrepared { image: CaseImage { volume, spacing, grid }, ready } = prepared;
        let Labelled { labels, measured } = self.labelled(&volume, spacing, &grid, ready)?;
        let measured = measured.unwrap_or_else(|| Measured::of(&self.names, &labels, &volume, spacing));
        Ok(TotalLabels { labels, grid, measured })
    }

    fn ready(&self, image: &Volume, spacing: Axes3<f64>) -> Outcome<Ready> {
        match &self.crop {
            Some(crop) => Ok(Ready::Rough(Box::new(crop.rough.ready(image, spacing)?))),
            None => self.resampled(image, spacing),
        }
    }

    /// Resamples the image to the task's voxel size. As in TotalSegmentator, an image that already
    /// has it stays unchanged.
    fn resampled(&self, image: &Volume, spacing: Axes3<f64>) -> Outcome<Ready> {
        match self.voxels {
            Some(voxels) if spacing.map(|size| f64::from(size as f32)) != voxels => {
                Ok(Ready::Resampled(resampled(image, spacing, voxels)?))
            }
            _ => Ok(Ready::Whole),
        }
    }

    fn labelled(&self, image: &Volume, spacing: Axes3<f64>, grid: &Grid, ready: Ready) -> Outcome<Labelled> {
        let (crop, ready) = match (&self.crop, ready) {
            (Some(crop), Ready::Rough(ready)) => (crop, *ready),
            (_, ready) => return self.labelled_whole(image, spacing, grid, ready),
        };
        let rough = crop.rough.labelled(image, spacing, grid, ready)?.labels;
        let Some(region) = crop.region(&rough, spacing) else {
            return Ok(Labelled { labels: Volume::zeros(1, image.shape), measured: None });
        };
        drop(rough);
        let part = truncated(region.of(image));
        let ready = self.resampled(&part, spacing)?;
        let found = self.labelled_whole(&part, spacing, grid, ready)?;
        Ok(Labelled { labels: region.undo(&found.labels), measured: found.measured })
    }

    fn labelled_whole(&self, image: &Volume, spacing: Axes3<f64>, grid: &Grid, ready: Ready) -> Outcome<Labelled> {
        let (input, voxels) = match (&ready, self.voxels) {
            (Ready::Resampled(input), Some(voxels)) => (input, voxels),
            _ => (image, spacing),
        };
        let mut labels = self.merged(input, voxels, grid)?;
        if let Some((task, _)) = self.task {
            clean(task.cleaning, &mut labels, voxels)?;
        }
        if let Some(size) = self.small {
            remove_small(&mut labels, None, size, voxels)?;
        }
        // The labels of fast models are measured before they are mapped back.
        let fast = self.task.is_some_and(|(_, mode)| mode == Mode::Fast);
        let measured = fast.then(|| Measured::of(&self.names, &labels, input, voxels));
        if labels.shape != image.shape {
            labels = restored(&labels, image.shape);
        }
        labels.data.iter_mut().filter(|label| !self.names.contains_key(label)).for_each(|label| *label = 0);
        Ok(Labelled { labels, measured })
    }

    /// The merged labels of all models; a later model takes precedence.
    fn merged(&self, input: &Volume, voxels: Axes3<f64>, grid: &Grid) -> Outcome<Volume<u16>> {
        check_room(input)?;
        let mut merged = Volume::<u16>::zeros(1, input.shape);
        for part in &self.parts {
            let found = part.predictor.labels_of(input.clone(), voxels, grid.clone())?;
            for (label, out) in found.data.iter().zip(&mut merged.data) {
                match part.labels.get(usize::from(*label)) {
                    Some(0) | None => {}
                    Some(number) => *out = *number,
                }
            }
        }
        Ok(merged)
    }
}

/// Checks the memory for merging labels: a copy of the image for each model in turn, its labels, and those of
/// all.
fn check_room(input: &Volume) -> Outcome {
    let bytes = (input.voxels() * (size_of::<f32>() + 2 * size_of::<u16>())) as u64;
    hearth_machine::check_free(bytes).map_err(|what| {
        let of = format!("merging the labels of {:?} voxels (z, y, x) {what}", input.shape);
        RecipeError::new(format!("{of}: crop the image, or take models of larger voxels (--variant fast of a task)"))
    })
}

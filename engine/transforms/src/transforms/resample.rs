use std::collections::BTreeSet;

use hearth_image::spatial::{ComputeType, GridMode, GridPadding, GridSampling, resample_at};
use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Samples at the positions in the channels of the image `grid_key`, one channel per axis (further
/// ones are ignored).
///
/// Positions are in voxels from the centre of the image; without `norm_coords` they range from -1
/// to 1 over it, and for spline orders they are voxels from its start. The affine is unchanged, and
/// the sampling cannot be inverted.
///
/// MONAI has only the array form; the parameter for the grid's key is specific to this crate.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::Resample};
/// // Places along the first axis about the centre, then those along the others.
/// let grid = tiny::image([3, 3, 1, 1], [1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
/// let sample = Sample::new("case").with_image("image", tiny::line([1.0, 2.0, 3.0]));
/// let sample = sample.with_image("grid", grid);
/// let made = tiny::run(Resample::new("image", "grid"), sample)?;
/// assert!(tiny::is_near(made[0].image("image")?, [3.0, 2.0, 1.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resample {
    keys: Keys,
    /// Key of the grid: an image of coordinates in voxels about the centre, homogeneous.
    grid_key: String,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default = "yes")]
    norm_coords: bool,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default)]
    dtype: Option<OneOrMany<ComputeType>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn yes() -> bool {
    true
}

impl Resample {
    /// Creates the transform: samples these keys at the positions in `grid_key`.
    pub fn new(keys: impl Into<Keys>, grid_key: &str) -> Self {
        Resample {
            keys: keys.into(),
            grid_key: grid_key.to_owned(),
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            norm_coords: true,
            align_corners: OneOrMany::default(),
            dtype: None,
            allow_missing_keys: false,
        }
    }

    /// Samples one image at a grid, `[axes, X', Y', Z']`; `place` is the index of its key.
    ///
    /// # Errors
    /// If the grid has too few axes.
    pub fn sample(
        &self,
        image: hearth_image::Image,
        grid: burn::tensor::Tensor<4>,
        place: usize,
    ) -> Result<hearth_image::Image, TransformError> {
        let align_corners = self.align_corners.at(place).unwrap_or_default();
        let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, align_corners);
        resample_at(image, grid, self.norm_coords, sampling)
    }
}

setters!(Resample {
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Whether positions are voxels from the centre.
    norm_coords: bool,
    /// Whether the ends of an axis are the centres of its first and last voxel, one or per key.
    align_corners: OneOrMany<bool>,
    /// Type in which MONAI computes; accepted without effect: coordinates are f64, values f32.
    dtype: Option<OneOrMany<ComputeType>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for Resample {
    fn name(&self) -> &'static str {
        "Resample"
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let grid = sample.image(&self.grid_key).map_err(|e| e.at(&self.grid_key))?.data.clone();
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.sample(image, grid.clone(), place))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("grid_key", &self.grid_key, known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        self.keys.check_list("align_corners", &self.align_corners)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;
    use hearth_image::{Image, affine};

    #[test]
    fn a_grid_of_the_centre_reads_the_centre() {
        let device = hearth_image::host_device();
        let image = Image::from_values((0..27).map(|v| v as f32).collect(), [1, 3, 3, 3], affine::IDENTITY, &device);
        let grid = Image::from_values(vec![0.0; 4 * 2], [4, 2, 1, 1], affine::IDENTITY, &device);
        let sample = Sample::new("case").with_image("image", image).with_image("grid", grid);
        let draw = DrawKey::new(0, 0, 0).draw("case", 0, 0);
        let done = Resample::new(["image"], "grid").apply(sample, &draw).expect("a sample").remove(0);
        assert_eq!(done.image("image").expect("an image").to_vec(), [13.0, 13.0]);
    }

    #[test]
    fn a_grid_with_too_few_axes_is_refused() {
        let device = hearth_image::host_device();
        let image = Image::from_values(vec![0.0; 27], [1, 3, 3, 3], affine::IDENTITY, &device);
        let grid = burn::tensor::Tensor::zeros([2, 4, 4, 4], &device);
        let error = Resample::new(["image"], "grid").sample(image, grid, 0).expect_err("two axes for three");
        assert!(error.to_string().contains("3"), "{error}");
    }
}

transform_entry!(
    Resample,
    r#"keys = ["image"]
grid_key = "grid""#
);

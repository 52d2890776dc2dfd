use std::collections::BTreeSet;

use hearth_image::spatial::{ResizeMode, check_grid};
use hearth_image::{Image, TransformError};
use hearth_kernels::interpolate;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Sample};

/// Resizes by a factor drawn from `zoom_range` and back, with probability `prob`: simulates a
/// scanner of lower resolution (nnU-Net's augmentation). The image keeps its grid, so there is
/// nothing to invert.
///
/// The probability is drawn first, then one factor for all keys (MONAI draws one for each key).
/// `align_corners` applies to linear and cubic modes.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandSimulateLowResolution};
/// let stripes = tiny::image([1, 4, 4, 4], [0.0_f32, 1.0].repeat(32));
/// let step = RandSimulateLowResolution::new("image").prob(1.0).zoom_range([0.5, 0.5]);
/// let coarse = tiny::apply(step, stripes.clone())?;
/// assert!(coarse.shape() == [4, 4, 4] && coarse.to_vec() != stripes.to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandSimulateLowResolution {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "nearest")]
    downsample_mode: ResizeMode,
    #[serde(default = "trilinear")]
    upsample_mode: ResizeMode,
    #[serde(default = "half_to_one")]
    zoom_range: [f64; 2],
    #[serde(default)]
    align_corners: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn nearest() -> ResizeMode {
    ResizeMode::Nearest
}

fn trilinear() -> ResizeMode {
    ResizeMode::Trilinear
}

fn half_to_one() -> [f64; 2] {
    [0.5, 1.0]
}

impl RandSimulateLowResolution {
    /// Creates the transform: factors of 0.5 to 1, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandSimulateLowResolution {
            keys: keys.into(),
            prob: tenth(),
            downsample_mode: nearest(),
            upsample_mode: trilinear(),
            zoom_range: half_to_one(),
            align_corners: false,
            allow_missing_keys: false,
        }
    }

    /// Resizes one image by this factor and back.
    ///
    /// # Errors
    /// If the intermediate size would be too large.
    pub fn simulate(&self, mut image: Image, zoom: f64) -> Result<Image, TransformError> {
        let shape = image.shape();
        let mut size = shape;
        for length in size.iter_mut().take(image.meta.spatial_dims) {
            *length = ((*length as f64 * zoom).round_ties_even() as usize).max(1);
        }
        check_grid(image.channels(), size)?;
        let small = interpolate(image.data, size, self.downsample_mode.kernel(), self.align_corners);
        image.data = interpolate(small, shape, self.upsample_mode.kernel(), self.align_corners);
        Ok(image)
    }
}

setters!(RandSimulateLowResolution {
    /// Probability that the transform is applied.
    prob: f64,
    /// Interpolation for reducing.
    downsample_mode: ResizeMode,
    /// Interpolation for enlarging.
    upsample_mode: ResizeMode,
    /// Smallest and largest factor.
    zoom_range: [f64; 2],
    /// Whether to align the centres of the corner voxels.
    align_corners: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandSimulateLowResolution {
    fn name(&self) -> &'static str {
        "RandSimulateLowResolution"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if draw.happens(self.prob) {
            let zoom = draw.between(self.zoom_range[0], self.zoom_range[1]);
            for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
                sample.update(key, |image| self.simulate(image, zoom))?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        let [low, high] = self.zoom_range;
        if !(low > 0.0 && low <= high && high.is_finite()) {
            return Err(Fault::at("zoom_range", format!("{low}..{high} is not a range of positive numbers")));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandSimulateLowResolution,
    r#"keys = ["image"]
prob = 0.5
zoom_range = [0.5, 1.0]"#
);

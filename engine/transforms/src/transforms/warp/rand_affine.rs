use std::collections::BTreeSet;

use hearth_image::spatial::{AffineParameters, GridMode, GridPadding, GridSampling, Warp, warp};
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine::reflection;
use super::affine_ranges::{AffineRanges, Spans};
use crate::params::{Keys, check_probability, resolve_size};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Effect, Sample};

/// Rotates, shears, shifts and scales about the centre by draws from the ranges, with
/// probability `prob`, in the same way for all keys.
///
/// A range is one number for the first parameter only, or a list with an entry per parameter of
/// [`Affine`](super::Affine): a number a means -a..a, a pair means its ends. 1 is added to the
/// draws from `scale_range`. The probability is drawn first, then angles, shears, shifts and
/// factors. If the transform is not applied and `spatial_size` differs from the image's size, the
/// image is cropped or padded about its centre.
///
/// `cache_grid` is accepted without effect: no grid is made.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandAffine};
/// let step = RandAffine::new("image").prob(1.0).translate_range([[1.0, 1.0]]);
/// let values = tiny::apply(step, tiny::line([1.0, 2.0, 3.0]))?.to_vec();
/// assert!((values[0] - 2.0).abs() < 1e-4 && (values[1] - 3.0).abs() < 1e-4);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandAffine {
    keys: Keys,
    #[serde(default)]
    spatial_size: OneOrMany<i64>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    rotate_range: Spans,
    #[serde(default)]
    shear_range: Spans,
    #[serde(default)]
    translate_range: Spans,
    #[serde(default)]
    scale_range: Spans,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default = "reflection")]
    padding_mode: OneOrMany<GridPadding>,
    /// MONAI's option to keep the sampling grid; it has no effect.
    #[serde(default)]
    cache_grid: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandAffine {
    /// Creates the transform: no change until ranges are set, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandAffine {
            keys: keys.into(),
            spatial_size: OneOrMany::default(),
            prob: tenth(),
            rotate_range: Spans::default(),
            shear_range: Spans::default(),
            translate_range: Spans::default(),
            scale_range: Spans::default(),
            mode: OneOrMany::default(),
            padding_mode: reflection(),
            cache_grid: false,
            allow_missing_keys: false,
        }
    }

    /// Transforms one image by a draw; `place` is the index of its key.
    ///
    /// # Errors
    /// If the size is too large.
    pub fn transform(&self, image: Image, drawn: &AffineParameters, place: usize) -> Result<Image, TransformError> {
        let (shape, n) = (image.shape(), image.meta.spatial_dims);
        let size = resolve_size(&self.spatial_size, shape, n)?;
        let how = Warp::about_centre(&drawn.matrix(n)?, shape, size, n, false, false)?;
        warp(image, &how, GridSampling::of_key(place, &self.mode, &self.padding_mode, false))
    }

    fn ranges(&self) -> AffineRanges<'_> {
        AffineRanges {
            rotate_range: &self.rotate_range,
            shear_range: &self.shear_range,
            translate_range: &self.translate_range,
            scale_range: &self.scale_range,
        }
    }
}

setters!(RandAffine {
    /// Size of the result in voxels; an entry that is not positive keeps that axis.
    spatial_size: OneOrMany<i64>,
    /// Probability that the transform is applied.
    prob: f64,
    /// Ranges of the angles, in radians.
    rotate_range: Spans,
    /// Ranges of the factors of shear.
    shear_range: Spans,
    /// Ranges of the shift, in voxels.
    translate_range: Spans,
    /// Ranges of the values added to the factors 1.
    scale_range: Spans,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandAffine {
    fn name(&self) -> &'static str {
        "RandAffine"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::sizing("spatial_size", self.spatial_size.as_slice())
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let happens = draw.happens(self.prob);
        let drawn = if happens { self.ranges().draw(draw) } else { AffineParameters::default() };
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| {
                let size = resolve_size(&self.spatial_size, image.shape(), image.meta.spatial_dims)?;
                if happens || size != image.shape() { self.transform(image, &drawn, place) } else { Ok(image) }
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        check_probability(self.prob)?;
        self.ranges().check()
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandAffine,
    r#"keys = ["image", "label"]
prob = 0.5
rotate_range = [0.0, 0.0, 0.3]
scale_range = 0.1
mode = ["bilinear", "nearest"]"#
);

use std::collections::BTreeSet;

use hearth_image::spatial::{GridMode, GridPadding, GridSampling, RotateOrder};
use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine_ranges::Span;
use super::rotate::{rotate, yes};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Effect, Sample};

/// Rotates about the centre by angles drawn from `range_x`, `range_y` and `range_z` (radians; a
/// number a means -a..a), with probability `prob`, in the same way for all keys. A 2-D image uses
/// the first angle only. The probability is drawn first, then three angles.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandRotate};
/// let step = RandRotate::new("image").range_z([0.5, 0.5]).prob(1.0);
/// let values = tiny::apply(step, tiny::ramp([1, 3, 3, 1]))?.to_vec();
/// // The centre stays, what is around it turns.
/// assert!((values[4] - 4.0).abs() < 1e-4 && (values[0] - 0.0).abs() > 0.1);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandRotate {
    keys: Keys,
    #[serde(default)]
    range_x: Span,
    #[serde(default)]
    range_y: Span,
    #[serde(default)]
    range_z: Span,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "yes")]
    keep_size: bool,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandRotate {
    /// Creates the transform: angles of 0 until ranges are set, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandRotate {
            keys: keys.into(),
            range_x: Span::default(),
            range_y: Span::default(),
            range_z: Span::default(),
            prob: tenth(),
            keep_size: true,
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            align_corners: OneOrMany::default(),
            allow_missing_keys: false,
        }
    }

    /// The angles, or `None` if the transform is not applied.
    fn draw(&self, draw: &Draw) -> Option<[f64; 3]> {
        draw.happens(self.prob).then(|| [self.range_x, self.range_y, self.range_z].map(|range| range.draw(draw)))
    }
}

setters!(RandRotate {
    /// Range of the first angle, in radians.
    range_x: Span,
    /// Range of the second angle, in radians.
    range_y: Span,
    /// Range of the third angle, in radians.
    range_z: Span,
    /// Probability that the transform is applied.
    prob: f64,
    /// Whether to keep the size instead of enlarging it to the whole image.
    keep_size: bool,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Whether the ends of an axis are the centres of its first and last voxel, one or per key.
    align_corners: OneOrMany<bool>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandRotate {
    fn name(&self) -> &'static str {
        "RandRotate"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::keeping(self.keep_size)
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if let Some(angles) = self.draw(draw) {
            for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
                let align_corners = self.align_corners.at(place).unwrap_or_default();
                let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, align_corners);
                sample.update(key, |image| {
                    let angles = if image.meta.spatial_dims == 3 { &angles[..] } else { &angles[..1] };
                    rotate(image, angles, &RotateOrder::default(), self.keep_size, sampling)
                })?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        self.keys.check_list("align_corners", &self.align_corners)?;
        for (name, range) in [("range_x", self.range_x), ("range_y", self.range_y), ("range_z", self.range_z)] {
            range.check(name)?;
        }
        check_probability(self.prob)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandRotate,
    r#"keys = ["image", "label"]
range_z = 0.3
prob = 0.5
mode = ["bilinear", "nearest"]"#
);

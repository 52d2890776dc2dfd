use std::collections::BTreeSet;

use hearth_image::spatial::{PadMode, ResizeMode};
use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rotate::yes;
use super::zoom::{Zooming, check_factors, edge};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Effect, Sample};

/// Zooms by a factor drawn from `min_zoom` to `max_zoom`, with probability `prob`, in the same way
/// for all keys. See [`Zoom`](super::Zoom).
///
/// With one number each, all axes share a factor. With two numbers for a 3-D image, the first
/// applies to all axes except the last. Otherwise there is one per axis. The probability is drawn
/// first, then the factors.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandZoom};
/// let step = RandZoom::new("image").prob(1.0).keep_size(false);
/// let step = step.min_zoom([2.0, 1.0, 1.0]).max_zoom([2.0, 1.0, 1.0]);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0]))?.to_vec(), [1.0, 1.0, 2.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandZoom {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "least")]
    min_zoom: OneOrMany<f64>,
    #[serde(default = "most")]
    max_zoom: OneOrMany<f64>,
    #[serde(default)]
    mode: OneOrMany<ResizeMode>,
    #[serde(default = "edge")]
    padding_mode: OneOrMany<PadMode>,
    #[serde(default)]
    align_corners: OneOrMany<bool>,
    #[serde(default = "yes")]
    keep_size: bool,
    #[serde(default, alias = "constant_values")]
    value: f32,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn least() -> OneOrMany<f64> {
    OneOrMany::One(0.9)
}

fn most() -> OneOrMany<f64> {
    OneOrMany::One(1.1)
}

impl RandZoom {
    /// Creates the transform: from 0.9 to 1.1 by area, keeping the size, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandZoom {
            keys: keys.into(),
            prob: tenth(),
            min_zoom: least(),
            max_zoom: most(),
            mode: OneOrMany::default(),
            padding_mode: edge(),
            align_corners: OneOrMany::default(),
            keep_size: true,
            value: 0.0,
            allow_missing_keys: false,
        }
    }

    /// The factors, or `None` if the transform is not applied.
    fn draw(&self, draw: &Draw) -> Option<Vec<f64>> {
        let ranges = || self.min_zoom.as_slice().iter().zip(self.max_zoom.as_slice());
        draw.happens(self.prob).then(|| ranges().map(|(low, high)| draw.between(*low, *high)).collect())
    }
}

/// The draw as one factor for each of `n` axes.
fn per_axis(drawn: &[f64], n: usize) -> Result<Vec<f64>, TransformError> {
    match *drawn {
        [one] => Ok(vec![one; n]),
        [plane, last] if n == 3 => Ok(vec![plane, plane, last]),
        _ if drawn.len() == n => Ok(drawn.to_vec()),
        _ => Err(TransformError::new(format!("{} ranges of zoom for an image of {n} axes", drawn.len()))
            .expected(format!("1 or {n}"))),
    }
}

setters!(RandZoom {
    /// Probability that the transform is applied.
    prob: f64,
    /// Smallest factors.
    min_zoom: OneOrMany<f64>,
    /// Largest factors.
    max_zoom: OneOrMany<f64>,
    /// Interpolation, one or per key.
    mode: OneOrMany<ResizeMode>,
    /// How the border of a smaller image is filled, one or per key.
    padding_mode: OneOrMany<PadMode>,
    /// Whether to align the centres of the corner voxels; for linear and cubic modes, one or per
    /// key.
    align_corners: OneOrMany<bool>,
    /// Whether to crop or pad to the original size.
    keep_size: bool,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandZoom {
    fn name(&self) -> &'static str {
        "RandZoom"
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
        if let Some(drawn) = self.draw(draw) {
            for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
                let way = Zooming {
                    mode: self.mode.at(place).unwrap_or_default(),
                    padding_mode: self.padding_mode.at(place).unwrap_or_default(),
                    align_corners: self.align_corners.at(place).unwrap_or_default(),
                    keep_size: self.keep_size,
                    value: self.value,
                };
                sample.update(key, |image| {
                    let factors = per_axis(&drawn, image.meta.spatial_dims)?;
                    way.zoom(image, &factors)
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
        check_probability(self.prob)?;
        check_factors("min_zoom", &self.min_zoom)?;
        check_factors("max_zoom", &self.max_zoom)?;
        let (low, high) = (self.min_zoom.as_slice(), self.max_zoom.as_slice());
        if low.len() != high.len() || low.iter().zip(high).any(|(l, h)| l > h) {
            return Err(Fault::at("min_zoom", "must have as many entries as max_zoom, none above its"));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandZoom,
    r#"keys = ["image", "label"]
prob = 0.5
min_zoom = 0.9
max_zoom = 1.1
mode = ["area", "nearest"]"#
);

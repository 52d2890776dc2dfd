use std::collections::BTreeSet;

use hearth_image::spatial::{GridMode, GridPadding, GridSampling};
use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affine_ranges::Span;
use super::grid_distortion::{check_cells, distort};
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::transforms::rand_flip::tenth;
use crate::{Draw, Effect, Sample};

/// Stretches and squeezes the cells of a grid by factors of 1 plus a number drawn from
/// `distort_limit` (a number a means -a..a), with probability `prob`, in the same way for all keys.
/// See [`GridDistortion`](super::GridDistortion). The probability is drawn first, then the factors,
/// axis by axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandGridDistortion};
/// let image = tiny::ramp([1, 8, 8, 8]);
/// let step = RandGridDistortion::new("image").prob(1.0).distort_limit(0.3);
/// assert_ne!(tiny::apply(step, image.clone())?.to_vec(), image.to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandGridDistortion {
    keys: Keys,
    #[serde(default = "five")]
    num_cells: OneOrMany<usize>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "three_hundredths")]
    distort_limit: Span,
    #[serde(default)]
    mode: OneOrMany<GridMode>,
    #[serde(default)]
    padding_mode: OneOrMany<GridPadding>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn five() -> OneOrMany<usize> {
    OneOrMany::One(5)
}

fn three_hundredths() -> Span {
    Span::Between([-0.03, 0.03])
}

impl RandGridDistortion {
    /// Creates the transform: five cells along each axis, changed by up to 0.03, with probability
    /// 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandGridDistortion {
            keys: keys.into(),
            num_cells: five(),
            prob: tenth(),
            distort_limit: three_hundredths(),
            mode: OneOrMany::default(),
            padding_mode: OneOrMany::default(),
            allow_missing_keys: false,
        }
    }

    /// The factors of three axes (a 2-D image uses two), or `None` if the transform is not applied.
    fn draw(&self, draw: &Draw) -> Option<Vec<Vec<f64>>> {
        draw.happens(self.prob).then(|| {
            (0..3)
                .map(|axis| {
                    let cells = self.num_cells.at(axis).unwrap_or(0);
                    (0..=cells).map(|_| 1.0 + self.distort_limit.draw(draw)).collect()
                })
                .collect()
        })
    }
}

setters!(RandGridDistortion {
    /// Cells along each axis.
    num_cells: OneOrMany<usize>,
    /// Probability that the transform is applied.
    prob: f64,
    /// The range of the values added to the factors 1.
    distort_limit: Span,
    /// Interpolation, one or per key.
    mode: OneOrMany<GridMode>,
    /// How the outside is filled, one or per key.
    padding_mode: OneOrMany<GridPadding>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandGridDistortion {
    fn name(&self) -> &'static str {
        "RandGridDistortion"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Moves
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if let Some(steps) = self.draw(draw) {
            for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
                let sampling = GridSampling::of_key(place, &self.mode, &self.padding_mode, false);
                sample.update(key, |image| {
                    let n = image.meta.spatial_dims;
                    distort(image, &self.num_cells, &steps[..n], sampling)
                })?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.keys.check_list("mode", &self.mode)?;
        self.keys.check_list("padding_mode", &self.padding_mode)?;
        check_cells(&self.num_cells)?;
        self.distort_limit.check("distort_limit")?;
        check_probability(self.prob)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    RandGridDistortion,
    r#"keys = ["image"]
num_cells = 3
prob = 0.5
distort_limit = 0.03"#
);

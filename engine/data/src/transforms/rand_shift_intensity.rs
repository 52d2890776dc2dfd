use std::collections::BTreeSet;

use hearth_kernels::host;
use serde::{Deserialize, Serialize};

use super::rand_flip::tenth;
use crate::params::{Keys, OneOrMany, check_probability};
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Image, Sample, TransformError};

/// Adds a number drawn uniformly from `offsets`, with probability `prob`.
///
/// A single number `offsets` means -offsets..offsets. With `channel_wise` each channel draws its own. All keys share the draws.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandShiftIntensity {
    keys: Keys,
    offsets: OneOrMany<f64>,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandShiftIntensity {
    /// With probability 0.1.
    pub fn new(keys: impl Into<Keys>, offsets: impl Into<OneOrMany<f64>>) -> Self {
        RandShiftIntensity {
            keys: keys.into(),
            offsets: offsets.into(),
            prob: tenth(),
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    fn range(&self) -> (f64, f64) {
        match self.offsets.as_slice() {
            [one] => (-one.abs(), one.abs()),
            [a, b, ..] => (a.min(*b), a.max(*b)),
            [] => (0.0, 0.0),
        }
    }
}

/// `x + d`, one number per channel.
fn change(mut image: Image, drawn: &[f32]) -> Image {
    let dims = image.data.dims();
    let size = dims[1] * dims[2] * dims[3];
    let changed = host::change(image.data, |values| {
        for (channel, d) in values.chunks_exact_mut(size.max(1)).zip(drawn) {
            channel.iter_mut().for_each(|v| *v += d);
        }
    });
    image.data = changed.unwrap_or_else(|data| {
        let device = data.device();
        let n = drawn.len();
        let d = burn::tensor::Tensor::<1>::from_data(burn::tensor::TensorData::new(drawn.to_vec(), [n]), &device);
        let d = d.reshape([n, 1, 1, 1]);
        data + d
    });
    image
}

setters!(RandShiftIntensity {
    /// How often.
    prob: f64,
    /// Each channel draws its own number.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandShiftIntensity {
    fn name(&self) -> &'static str {
        "RandShiftIntensity"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if !draw.happens(self.prob) {
            return Ok(vec![sample]);
        }
        let (low, high) = self.range();
        let mut drawn = vec![draw.between(low, high) as f32];
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| {
                let channels = image.channels();
                while self.channel_wise && drawn.len() < channels {
                    drawn.push(draw.between(low, high) as f32);
                }
                let each: Vec<f32> =
                    (0..channels).map(|c| if self.channel_wise { drawn[c] } else { drawn[0] }).collect();
                Ok(change(image, &each))
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        match self.offsets.as_slice() {
            [_] | [_, _] if self.offsets.as_slice().iter().all(|v| v.is_finite()) => Ok(()),
            _ => Err(CheckError::new("offsets", "must be one number or a pair")),
        }
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

use std::collections::BTreeSet;

use burn::tensor::{Tensor, TensorData};
use hearth_kernels::host;
use serde::{Deserialize, Serialize};

use super::rand_flip::tenth;
use crate::params::{Keys, check_probability};
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Sample, TransformError};

/// Adds normal noise of mean `mean` with probability `prob`; its deviation is drawn uniformly from 0..`std`, or is `std` itself where
/// `sample_std` is false. All keys of one shape get the same noise.
///
/// The noise is made by the CPU, so that a batch is the same on every device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandGaussianNoise {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    mean: f64,
    #[serde(default = "tenth")]
    std: f64,
    #[serde(default = "yes")]
    sample_std: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn yes() -> bool {
    true
}

impl RandGaussianNoise {
    /// Deviation up to 0.1, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandGaussianNoise {
            keys: keys.into(),
            prob: tenth(),
            mean: 0.0,
            std: tenth(),
            sample_std: true,
            allow_missing_keys: false,
        }
    }
}

setters!(RandGaussianNoise {
    /// How often.
    prob: f64,
    /// Mean of the noise.
    mean: f64,
    /// Deviation of the noise, or the largest one.
    std: f64,
    /// Draw the deviation.
    sample_std: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandGaussianNoise {
    fn name(&self) -> &'static str {
        "RandGaussianNoise"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        if !draw.happens(self.prob) {
            return Ok(vec![sample]);
        }
        let std = if self.sample_std { draw.between(0.0, self.std) } else { self.std };
        let (mean, std) = (self.mean as f32, std as f32);
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |mut image| {
                let changed = host::change(image.data, |values| draw.add_normal(values, mean, std));
                image.data = changed.unwrap_or_else(|data| {
                    let dims = data.dims();
                    let mut noise = vec![0.0; dims.iter().product()];
                    draw.add_normal(&mut noise, mean, std);
                    let noise = Tensor::from_data(TensorData::new(noise, dims), &data.device());
                    data + noise
                });
                Ok(image)
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)?;
        check_probability(self.prob)?;
        if !(self.std >= 0.0 && self.std.is_finite() && self.mean.is_finite()) {
            return Err(CheckError::new("std", "must be a finite number, not negative"));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

use std::collections::BTreeSet;

use hearth_kernels::host;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::params::{Keys, OneOrMany};
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Image, Sample, TransformError};

/// `(x - subtrahend) / divisor`; left out, they are the mean and the (population) standard deviation.
///
/// `nonzero`: statistics over, and change of, voxels other than 0 only; an image without such voxels stays. `channel_wise`: each
/// channel by itself. A deviation of 0 counts as 1. Statistics are summed in f64.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalizeIntensity {
    keys: Keys,
    #[serde(default)]
    subtrahend: Option<OneOrMany<f64>>,
    #[serde(default)]
    divisor: Option<OneOrMany<f64>>,
    #[serde(default)]
    nonzero: bool,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl NormalizeIntensity {
    /// By mean and deviation of the whole image.
    pub fn new(keys: impl Into<Keys>) -> Self {
        NormalizeIntensity {
            keys: keys.into(),
            subtrahend: None,
            divisor: None,
            nonzero: false,
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    /// Normalizes one image.
    ///
    /// # Errors
    /// Where `subtrahend` or `divisor` is a list of another length than there are channels.
    pub fn normalize(&self, mut image: Image) -> Result<Image, TransformError> {
        let channels = image.channels();
        for (name, given) in [("subtrahend", &self.subtrahend), ("divisor", &self.divisor)] {
            let Some(OneOrMany::Many(values)) = given else { continue };
            let expected = if self.channel_wise { channels } else { 1 };
            if values.len() != expected {
                return Err(TransformError::new(format!("`{name}` has {} entries", values.len()))
                    .expected(format!("{expected}, for {channels} channels")));
            }
        }
        let dims = image.data.dims();
        let groups = if self.channel_wise { channels } else { 1 };
        let size = dims.iter().product::<usize>().checked_div(groups).unwrap_or(0);
        if size == 0 {
            return Ok(image);
        }
        let given = |values: &Option<OneOrMany<f64>>, group: usize| values.as_ref().and_then(|v| v.at(group));
        let change = |group: usize, values: &mut [f32]| {
            let (subtrahend, divisor) = (given(&self.subtrahend, group), given(&self.divisor, group));
            let Some((mean, deviation)) = statistics(values, self.nonzero, subtrahend, divisor) else { return };
            let (mean, scale) = (mean as f32, deviation as f32);
            values.par_chunks_mut(1 << 16).for_each(|values| {
                if self.nonzero {
                    values.iter_mut().filter(|v| **v != 0.0).for_each(|v| *v = (*v - mean) / scale);
                } else {
                    values.iter_mut().for_each(|v| *v = (*v - mean) / scale);
                }
            });
        };
        let changed = host::change(image.data, |values| {
            values.chunks_exact_mut(size).enumerate().for_each(|(group, values)| change(group, values));
        });
        image.data = match changed {
            Ok(data) => data,
            Err(data) => self.on_device(data, groups, size, &given),
        };
        Ok(image)
    }

    /// The same by tensor operations, without reading anything back.
    fn on_device(
        &self,
        data: burn::tensor::Tensor<4>,
        groups: usize,
        size: usize,
        given: Given<'_>,
    ) -> burn::tensor::Tensor<4> {
        use burn::tensor::Tensor;
        let dims = data.dims();
        let device = data.device();
        let x: Tensor<2> = data.reshape([groups, size]);
        let mask: Tensor<2> =
            if self.nonzero { x.clone().not_equal_elem(0.0).float() } else { Tensor::ones([groups, size], &device) };
        let count = mask.clone().sum_dim(1).clamp_min(1.0);
        let fixed = |values: &Option<OneOrMany<f64>>| {
            values.as_ref().map(|_| {
                let values: Vec<f32> = (0..groups).map(|g| given(values, g).unwrap_or(0.0) as f32).collect();
                Tensor::<2>::from_data(burn::tensor::TensorData::new(values, [groups, 1]), &device)
            })
        };
        let own_mean = (x.clone() * mask.clone()).sum_dim(1) / count.clone();
        let centred = x.clone() - own_mean.clone();
        let own_deviation = ((centred.clone() * centred * mask.clone()).sum_dim(1) / count).sqrt();
        let mean = fixed(&self.subtrahend).unwrap_or(own_mean);
        let deviation = fixed(&self.divisor).unwrap_or(own_deviation);
        let zero = deviation.clone().equal_elem(0.0);
        let deviation = deviation.mask_fill(zero, 1.0);
        let done = (x.clone() - mean) / deviation;
        let done = if self.nonzero { x.clone().mask_where(mask.greater_elem(0.5), done) } else { done };
        done.reshape(dims)
    }
}

/// Looks up the number given for a group of channels.
type Given<'a> = &'a dyn Fn(&Option<OneOrMany<f64>>, usize) -> Option<f64>;

/// Mean and deviation, where not given; `None` where no voxel counts. Two passes, in f64.
fn statistics(values: &[f32], nonzero: bool, mean: Option<f64>, deviation: Option<f64>) -> Option<(f64, f64)> {
    let counts = |v: &f32| !nonzero || *v != 0.0;
    let sum_of = |f: &(dyn Fn(f64) -> f64 + Sync)| {
        // Chunks are summed in a fixed order, so that the number of threads does not change the result.
        let parts: Vec<(f64, usize)> = values
            .par_chunks(1 << 14)
            .map(|values| values.iter().filter(|v| counts(v)).fold((0.0, 0), |(s, n), v| (s + f(f64::from(*v)), n + 1)))
            .collect();
        parts.into_iter().fold((0.0, 0), |(s, n), (t, m)| (s + t, n + m))
    };
    let (sum, count) = if nonzero || mean.is_none() || deviation.is_none() { sum_of(&|v| v) } else { (0.0, 1) };
    if count == 0 {
        return None;
    }
    let own = sum / count as f64;
    let deviation = deviation.unwrap_or_else(|| (sum_of(&|v| (v - own) * (v - own)).0 / count as f64).sqrt());
    // PyTorch computes the deviation in f32: one that is 0 there counts as 0.
    let deviation = if deviation as f32 == 0.0 { 1.0 } else { deviation };
    Some((mean.unwrap_or(own), deviation))
}

setters!(NormalizeIntensity {
    /// What to subtract, instead of the mean.
    subtrahend: Option<OneOrMany<f64>>,
    /// What to divide by, instead of the deviation.
    divisor: Option<OneOrMany<f64>>,
    /// Leave zeros out and alone.
    nonzero: bool,
    /// Each channel by itself.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for NormalizeIntensity {
    fn name(&self) -> &'static str {
        "NormalizeIntensity"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.normalize(image))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::IDENTITY;

    /// What runs on a GPU gives what the loop on the CPU gives.
    #[test]
    fn tensor_operations_agree_with_the_loop() {
        let values: Vec<f32> = (0..2 * 60).map(|i| ((i * 31 % 17) as f32 - 5.0).max(0.0)).collect();
        let image = Image::from_values(values, [2, 5, 4, 3], IDENTITY, &crate::host_device());
        for (nonzero, channel_wise, given) in [
            (false, false, None),
            (true, false, None),
            (true, true, None),
            (false, true, Some(OneOrMany::from([2.0, 3.0]))),
        ] {
            let mut transform = NormalizeIntensity::new("image").nonzero(nonzero).channel_wise(channel_wise);
            transform.subtrahend = given;
            let expected = transform.normalize(image.clone()).expect("sound").to_vec();
            let groups = if channel_wise { 2 } else { 1 };
            let read = |values: &Option<OneOrMany<f64>>, group: usize| values.as_ref().and_then(|v| v.at(group));
            let data = transform.on_device(image.data.clone(), groups, 120 / groups, &read);
            let got = Image::new(data, IDENTITY).to_vec();
            for (a, b) in got.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-5, "{a} for {b}, nonzero {nonzero}, channel_wise {channel_wise}");
            }
        }
    }
}

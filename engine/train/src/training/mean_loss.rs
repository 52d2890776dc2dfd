//! The mean of the losses of an epoch: [`MeanLoss`].

use burn::tensor::Tensor;
use hearth_engine::{BoxError, HostError};
use serde::{Deserialize, Serialize};

use super::step::read_back;
use crate::checkpoint::{Checkpoint, CheckpointError, Files};

/// The file in a checkpoint, where the epoch is not over.
const FILE: &str = "mean_loss.json";

/// The sum of the losses of an epoch so far. It never waits for the device: a loss that a handler
/// has read anyway is added here, any other on the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeanLoss {
    read: f64,
    on_device: Option<Tensor<1>>,
    iterations: u64,
}

#[derive(Serialize, Deserialize)]
struct SumJson {
    /// As text: a JSON number cannot be NaN.
    sum: String,
    iterations: u64,
}

impl MeanLoss {
    /// Adds the loss of an iteration, `[1]`, and its value where it was read back.
    pub fn add(&mut self, value: Option<f64>, tensor: Option<&Tensor<1>>) {
        match (value, tensor) {
            (Some(value), _) => self.read += value,
            (None, Some(tensor)) => {
                self.on_device = Some(match self.on_device.take() {
                    Some(sum) => sum + tensor.clone(),
                    None => tensor.clone(),
                });
            }
            (None, None) => return,
        }
        self.iterations += 1;
    }

    /// The mean so far, read back.
    pub fn value(&self) -> Result<f64, HostError> {
        if self.iterations == 0 {
            return Err(HostError::new("there is no mean loss before the first iteration of an epoch is complete"));
        }
        Ok(self.sum()? / self.iterations as f64)
    }

    fn sum(&self) -> Result<f64, HostError> {
        let on_device = self.on_device.clone().map(|sum| read_back(sum, "the mean loss")).transpose()?;
        Ok(self.read + on_device.unwrap_or(0.0))
    }

    /// Adds the sum of an unfinished epoch to a checkpoint.
    pub fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
        if self.iterations > 0 {
            let json = SumJson { sum: self.sum()?.to_string(), iterations: self.iterations };
            files.insert(FILE.into(), serde_json::to_vec_pretty(&json)?);
        }
        Ok(())
    }

    /// Reads the sum from a checkpoint.
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Result<Self, CheckpointError> {
        if !checkpoint.has(FILE) {
            return Ok(Self::default());
        }
        let mismatch = |why: String| CheckpointError::Mismatch { path: checkpoint.path.clone(), part: FILE, why };
        let SumJson { sum, iterations } = serde_json::from_slice(&checkpoint.file(FILE)?)
            .map_err(|error| mismatch(format!("it does not parse: {error}")))?;
        let read = sum.parse().map_err(|_| mismatch(format!("the loss `{sum}` is not a number")))?;
        Ok(Self { read, on_device: None, iterations })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn losses_that_were_read_and_others_have_one_mean() {
        let device = Device::flex();
        let on_device = |value: f32| Tensor::<1>::from_floats([value], &device);
        let mut mean = MeanLoss::default();
        assert!(mean.value().is_err());
        mean.add(Some(1.0), Some(&on_device(9.0)));
        mean.add(None, Some(&on_device(2.0)));
        mean.add(None, Some(&on_device(4.0)));
        mean.add(Some(5.0), None);
        mean.add(None, None);
        assert_eq!(mean.value().ok(), Some(3.0));
    }
}

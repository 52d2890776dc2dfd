//! Contrastive loss (`monai.losses.ContrastiveLoss`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite};
use super::{Loss, LossError};

/// Contrastive loss (Chen et al., <https://arxiv.org/abs/2002.05709>) of vectors `[b, n, 1, 1, 1]`
/// and those of other views of the same items: each vector should be closer to its counterpart than
/// to any other vector of the batch.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{ContrastiveLoss, Loss};
/// let alike = Tensor::ones([4, 8, 1, 1, 1], &Device::default());
/// let loss = ContrastiveLoss::default().forward(alike.clone(), alike)?;
/// assert!((loss.into_scalar::<f32>() - 7.0_f32.ln()).abs() < 1e-5);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct ContrastiveLoss {
    /// Temperature, by which similarities are divided.
    pub temperature: f64,
    /// Whether values are checked in every call. By default only on the CPU, because on other
    /// devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for ContrastiveLoss {
    fn default() -> Self {
        ContrastiveLoss { temperature: 0.5, check_labels: None }
    }
}

const NAME: &str = "ContrastiveLoss";

impl Loss for ContrastiveLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        if self.temperature.is_finite() && self.temperature > 0.0 {
            return Ok(());
        }
        let reason = format!("temperature is {}: expected a number above 0", self.temperature);
        Err(LossError::Option { key: "temperature", loss: NAME, reason })
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let shape = input.dims();
        if shape != target.dims() || shape[2..] != [1; 3] {
            let expected = "expected vectors: the same shape, and axes of space of length 1".to_owned();
            return Err(LossError::Shape { loss: NAME, input: shape, target: target.dims(), expected });
        }
        if checks::wanted(self.check_labels, &input) {
            check_finite(NAME, "prediction", &input)?;
            check_finite(NAME, "target", &target)?;
        }
        let [b, n, ..] = shape;
        let all: Tensor<2> = Tensor::cat(vec![input, target], 0).cast(DType::F32).reshape([2 * b, n]);
        // PyTorch applies the lower bound to the norm.
        let norm = (all.clone() * all.clone()).sum_dim(1).clamp_min(1e-16).sqrt();
        let unit = all / norm;
        let similar = unit.clone().matmul(unit.clone().transpose()) / self.temperature;
        let device = similar.device();
        let own = Tensor::<2>::eye(2 * b, &device);
        let others = (similar.exp() * (-own + 1.0)).sum_dim(1).log();
        let counterparts = Tensor::cat(vec![unit.clone().narrow(0, b, b), unit.clone().narrow(0, 0, b)], 0);
        let near = (unit * counterparts).sum_dim(1) / self.temperature;
        Ok((others - near).mean())
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => ContrastiveLoss,
    paper: "Chen et al. 2020, arXiv:2002.05709",
    example: "temperature = 0.5"
);

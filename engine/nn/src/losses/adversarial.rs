//! Adversarial loss of patch discriminators (`monai.losses.PatchAdversarialLoss`).

use burn::tensor::{DType, Tensor, activation};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite};
use super::{LossError, Reduction};

/// The targets of real and fake patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdversarialCriterion {
    /// Binary cross-entropy with 1 and 0.
    Bce,
    /// The hinge loss, with limits 1 and -1 (Lim and Ye, <https://arxiv.org/abs/1705.02894>).
    Hinge,
    /// Least squares to 1 and 0 after a leaky ReLU (Mao et al.,
    /// <https://arxiv.org/abs/1611.04076>).
    #[default]
    LeastSquares,
}

/// Adversarial loss of a discriminator's outputs for patches, `[b, c, x, y, z]`, at one scale or
/// several.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::PatchAdversarialLoss;
/// let logits = Tensor::zeros([1, 1, 4, 4, 4], &Device::default());
/// let loss = PatchAdversarialLoss::default().forward(&[logits], true, true)?;
/// assert_eq!(loss.into_scalar::<f32>(), 1.0);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct PatchAdversarialLoss {
    /// Reduction of the patches, and then of the scales; the hinge loss always averages its
    /// patches.
    pub reduction: Reduction,
    /// The targets of real and fake patches.
    pub criterion: AdversarialCriterion,
    /// Whether least squares use the discriminator's raw output, without activation.
    pub no_activation_leastsq: bool,
    /// Whether values are checked in every call. By default only on the CPU, because on other
    /// devices the check waits for the device.
    pub check_labels: Option<bool>,
}

const NAME: &str = "PatchAdversarialLoss";

impl PatchAdversarialLoss {
    /// Returns the loss over all scales, `[1]`; without a reduction, the concatenated values of all
    /// scales.
    ///
    /// A generator (`for_discriminator` false) always uses the target of real patches.
    ///
    /// # Errors
    /// If an option is invalid, or `scales` is empty.
    pub fn forward(
        &self,
        scales: &[Tensor<5>],
        target_is_real: bool,
        for_discriminator: bool,
    ) -> Result<Tensor<1>, LossError> {
        let each = self.each(scales, target_is_real, for_discriminator)?;
        if each.is_empty() {
            return Err(LossError::Option {
                key: "",
                loss: NAME,
                reason: "the discriminator has no output".to_owned(),
            });
        }
        Ok(self.reduction.apply(Tensor::cat(each, 0)))
    }

    /// Returns the loss of each scale, with the arguments of [`forward`](Self::forward).
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn each(
        &self,
        scales: &[Tensor<5>],
        target_is_real: bool,
        for_discriminator: bool,
    ) -> Result<Vec<Tensor<1>>, LossError> {
        let real = target_is_real || !for_discriminator;
        scales.iter().map(|x| self.one(x, real)).collect()
    }

    fn one(&self, x: &Tensor<5>, real: bool) -> Result<Tensor<1>, LossError> {
        if checks::wanted(self.check_labels, x) {
            check_finite(NAME, "prediction", x)?;
        }
        let x = x.clone().cast(DType::F32);
        Ok(match self.criterion {
            AdversarialCriterion::Bce => {
                // -log s(x), or -log (1 - s(x)) = -log s(-x).
                self.reduction.apply(-activation::log_sigmoid(if real { x } else { -x }))
            }
            AdversarialCriterion::Hinge => {
                let d = activation::tanh(x);
                let d = if real { d } else { -d };
                -(d - 1.0).clamp_max(0.0).mean()
            }
            AdversarialCriterion::LeastSquares => {
                let d = if self.no_activation_leastsq { x } else { activation::leaky_relu(x, 0.05) };
                let off = if real { d - 1.0 } else { d };
                self.reduction.apply(off.clone() * off)
            }
        })
    }
}

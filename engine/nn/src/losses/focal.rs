//! Focal loss (`monai.losses.FocalLoss`).

use burn::tensor::{Tensor, activation};
use derive_setters::Setters;
use hearth_kernels::sigmoid_sums::{Focal, SigmoidSums};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::checks::check_power;
use super::inputs::{Inputs, Prepared, check_weight, per_class};
use super::{ClassWeight, Loss, LossError, Reduction};
use crate::softmax::log_softmax;

/// Focal loss (Lin et al., <https://arxiv.org/abs/1708.02002>): cross-entropy that down-weights
/// well-predicted values.
/// Logits `[b, c, x, y, z]`; target of the same shape, or `[b, 1, x, y, z]` with `to_onehot_y`.
/// Each channel is a separate binary problem (sigmoid) unless `use_softmax`. The loss is the mean
/// over space, summed over items and classes, as in MONAI.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{FocalLoss, Loss};
/// let x = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let loss = FocalLoss::default().forward(x.clone(), x.ones_like())?;
/// assert!((loss.into_scalar::<f32>() - 0.25 * 2.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct FocalLoss {
    /// Whether channel 0, the background, is included.
    pub include_background: bool,
    /// Whether the target holds class indices in one channel.
    pub to_onehot_y: bool,
    /// How strongly well-predicted values are down-weighted.
    pub gamma: f64,
    /// Balance of positive (`alpha`) and negative voxels (`1 - alpha`). With a softmax: balance of
    /// the other classes and class 0; ignored without the background. A list gives the weights of
    /// the positive voxels of each class.
    pub alpha: Option<ClassWeight>,
    /// Weight of all classes, or one weight per included class.
    pub weight: Option<ClassWeight>,
    /// How values are reduced.
    pub reduction: Reduction,
    /// Whether a softmax over the channels is used instead of a sigmoid of each.
    pub use_softmax: bool,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for FocalLoss {
    fn default() -> Self {
        FocalLoss {
            include_background: true,
            to_onehot_y: false,
            gamma: 2.0,
            alpha: None,
            weight: None,
            reduction: Reduction::Mean,
            use_softmax: false,
            ignore_index: None,
            check_labels: None,
        }
    }
}

const NAME: &str = "FocalLoss";

impl FocalLoss {
    /// The loss of each voxel and class, `[b, c, x, y, z]`, 0 for ignored voxels; and the mask of
    /// voxels that are not ignored.
    fn values(&self, input: Tensor<5>, target: Tensor<5>) -> Result<(Tensor<5>, Option<Tensor<5>>), LossError> {
        self.check()?;
        let Prepared { input, target, mask } = self.inputs().prepare(input, target)?;
        let mut loss = if self.use_softmax { self.of_softmax(input, target)? } else { self.of_sigmoid(input, target)? };
        if let Some(mask) = &mask {
            loss = loss * mask.clone();
        }
        Ok((self.weighted(loss)?, mask))
    }

    fn inputs(&self) -> Inputs {
        Inputs {
            loss: NAME,
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            activation: Activation::Identity,
            ignore_index: self.ignore_index,
            check_labels: self.check_labels,
        }
    }

    /// Multiplies the loss by the weights of the classes, `[b, c, ...]`.
    fn weighted(&self, loss: Tensor<5>) -> Result<Tensor<5>, LossError> {
        let Some(weight) = &self.weight else { return Ok(loss) };
        if loss.dims()[1] == 1 && matches!(weight, ClassWeight::Each(_)) {
            let reason = "weight is a list, and one class counts: give one number".to_owned();
            return Err(LossError::Option { key: "weight", loss: NAME, reason });
        }
        let weight = weight.per_channel(NAME, &loss)?;
        Ok(loss * weight)
    }

    /// The options of a kernel that sums over space; `None` if the options need more than sums.
    pub(super) fn term(&self) -> Option<Focal> {
        let plain = Focal { gamma: self.gamma as f32, ..Focal::default() };
        if self.use_softmax || self.ignore_index.is_some() || self.reduction == Reduction::None {
            return None;
        }
        match &self.alpha {
            None => Some(plain),
            Some(ClassWeight::All(alpha)) => {
                Some(Focal { present: *alpha as f32, absent: (1.0 - alpha) as f32, ..plain })
            }
            Some(ClassWeight::Each(_)) => None,
        }
    }

    /// The loss from sums with [`term`](Self::term), over `positions` positions.
    pub(super) fn of_sums(&self, sums: &SigmoidSums, positions: usize) -> Result<Tensor<1>, LossError> {
        let loss = self.weighted(per_class(self.inputs().that_count(&sums.focal)))?;
        Ok(self.reduction.apply(loss) / positions as f64)
    }

    pub(super) fn unreduced(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<5>, LossError> {
        self.values(input, target).map(|(loss, _)| loss)
    }

    fn of_sigmoid(&self, x: Tensor<5>, t: Tensor<5>) -> Result<Tensor<5>, LossError> {
        let entropy = x.clone() - x.clone() * t.clone() - activation::log_sigmoid(x.clone());
        // The logarithm of the distance from the target.
        let off = activation::log_sigmoid(-x * (t.clone() * 2.0 - 1.0));
        let loss = (off * self.gamma).exp() * entropy;
        Ok(match &self.alpha {
            None => loss,
            Some(ClassWeight::All(alpha)) => (t.clone() * *alpha + (-t + 1.0) * (1.0 - alpha)) * loss,
            Some(each) => {
                let factor = each.per_channel(NAME, &t)?.expand(t.dims());
                loss * t.ones_like().mask_where(t.equal_elem(1.0), factor)
            }
        })
    }

    fn of_softmax(&self, x: Tensor<5>, t: Tensor<5>) -> Result<Tensor<5>, LossError> {
        let log = log_softmax(x);
        // In floating point the derivative of a power of 0 is not always 0: 0 times infinity is
        // NaN.
        let loss = if self.gamma == 0.0 {
            -(log * t)
        } else {
            -((-log.clone().exp() + 1.0).powf_scalar(self.gamma) * log * t)
        };
        let classes = loss.dims()[1];
        let factors = match &self.alpha {
            None => return Ok(loss),
            Some(ClassWeight::All(_)) if !self.include_background => return Ok(loss),
            Some(ClassWeight::All(alpha)) => {
                ClassWeight::Each((0..classes).map(|class| if class == 0 { 1.0 - alpha } else { *alpha }).collect())
            }
            Some(each) => each.clone(),
        };
        let factors = factors.per_channel(NAME, &loss)?;
        Ok(loss * factors)
    }
}

impl Loss for FocalLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_power(NAME, "gamma", self.gamma, 0.0)?;
        if let Some(ClassWeight::All(alpha)) = self.alpha
            && !(0.0..=1.0).contains(&alpha)
        {
            let reason = format!("alpha is {alpha}: expected a share in [0, 1], as the other voxels have 1 - alpha");
            return Err(LossError::Option { key: "alpha", loss: NAME, reason });
        }
        check_weight(NAME, "alpha", self.alpha.as_ref().filter(|alpha| matches!(alpha, ClassWeight::Each(_))))?;
        check_weight(NAME, "weight", self.weight.as_ref())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let [_, _, x, y, z] = input.dims();
        let sums = self.term().and_then(|term| self.inputs().sigmoid_sums(&input, &target, false, Some(term)));
        if let Some(sums) = sums {
            return self.of_sums(&sums, x * y * z);
        }
        let (loss, mask) = self.values(input, target)?;
        let voxels = |x: Tensor<5>| x.sum_dim(4).sum_dim(3).sum_dim(2);
        let smallest = f64::from(f32::EPSILON);
        Ok(match (self.reduction, mask) {
            (Reduction::Mean, Some(mask)) => loss.sum() / mask.sum().clamp_min(smallest),
            (Reduction::Sum, Some(mask)) => (voxels(loss) / voxels(mask).clamp_min(smallest)).sum(),
            (Reduction::Sum, None) => loss.sum() / (x * y * z) as f64,
            (reduction, _) => reduction.apply(loss),
        })
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => FocalLoss,
    paper: "Lin et al. 2017, arXiv:1708.02002",
    example: "gamma = 2.0"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_that_cannot_be_computed_are_refused() {
        let loss = FocalLoss::default;
        assert!(loss().check().is_ok() && loss().gamma(0.0).check().is_ok());
        for gamma in [-0.1, f64::NAN, f64::INFINITY, 1e300] {
            let error = loss().gamma(gamma).check().expect_err("refused").to_string();
            assert!(error.contains("gamma"), "{error}");
        }
    }
}

//! Tversky loss (`monai.losses.TverskyLoss`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::{Activation, OtherActivation};
use super::inputs::{Form, Inputs, Overlap, check_factors};
use super::{Loss, LossError, Reduction};

/// Tversky loss (Sadegh et al., <https://arxiv.org/abs/1706.05721>): Dice with separate weights for
/// false positives and false negatives.
///
/// Prediction `[b, c, x, y, z]`; target of the same shape, or `[b, 1, x, y, z]` with `to_onehot_y`.
/// The loss of an item and class is `1 - (tp + smooth_nr) / (tp + alpha fp + beta fn + smooth_dr)`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{Loss, TverskyLoss};
/// let x = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let loss = TverskyLoss { alpha: 0.3, beta: 0.7, sigmoid: true, ..TverskyLoss::default() };
/// let loss = loss.forward(x.clone(), x.ones_like())?;
/// assert!((loss.into_scalar::<f32>() - (1.0 - 0.5 / (0.5 + 0.35))).abs() < 1e-5);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct TverskyLoss {
    /// Whether channel 0, the background, is included.
    pub include_background: bool,
    /// Whether the target holds class indices in one channel.
    pub to_onehot_y: bool,
    /// Applies a sigmoid to the prediction.
    pub sigmoid: bool,
    /// Applies a softmax over channels to the prediction; ignored with one channel.
    pub softmax: bool,
    /// Applies another activation to the prediction.
    pub other_act: Option<OtherActivation>,
    /// Weight of false positives.
    pub alpha: f64,
    /// Weight of false negatives.
    pub beta: f64,
    /// How items and classes are reduced.
    pub reduction: Reduction,
    /// Constant added to the numerator.
    pub smooth_nr: f64,
    /// Constant added to the denominator.
    pub smooth_dr: f64,
    /// Whether sums include the batch before the division.
    pub batch: bool,
    /// Whether the form for soft labels is used.
    pub soft_label: bool,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for TverskyLoss {
    fn default() -> Self {
        TverskyLoss {
            include_background: true,
            to_onehot_y: false,
            sigmoid: false,
            softmax: false,
            other_act: None,
            alpha: 0.5,
            beta: 0.5,
            reduction: Reduction::Mean,
            smooth_nr: 1e-5,
            smooth_dr: 1e-5,
            batch: false,
            soft_label: false,
            ignore_index: None,
            check_labels: None,
        }
    }
}

const NAME: &str = "TverskyLoss";

impl TverskyLoss {
    fn inputs(&self) -> Result<Inputs, LossError> {
        Ok(Inputs {
            loss: NAME,
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            activation: Activation::choose(NAME, self.sigmoid, self.softmax, self.other_act)?,
            ignore_index: self.ignore_index,
            check_labels: self.check_labels,
        })
    }
}

impl Loss for TverskyLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        self.inputs()?;
        check_factors(NAME, &[("smooth_nr", self.smooth_nr), ("smooth_dr", self.smooth_dr)])?;
        check_factors(NAME, &[("alpha", self.alpha), ("beta", self.beta)])
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let form = Form { squared: false, batch: self.batch, soft_label: self.soft_label };
        let Overlap { tp, fp, fn_, .. } = self.inputs()?.overlap(input, target, form)?;
        let union = tp.clone() + fp * self.alpha + fn_ * self.beta;
        Ok(self.reduction.apply(-((tp + self.smooth_nr) / (union + self.smooth_dr)) + 1.0))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => TverskyLoss,
    paper: "Salehi et al. 2017, arXiv:1706.05721",
    example: r#"sigmoid = true
alpha = 0.3
beta = 0.7"#
);

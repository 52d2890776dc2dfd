//! Generalized Dice loss (`monai.losses.GeneralizedDiceLoss`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::{Activation, OtherActivation};
use super::inputs::{Form, Inputs, Overlap, check_factors, per_class};
use super::{Loss, LossError, Reduction};
use crate::class_size::SizeWeight;

/// Generalized Dice loss (Sudre et al., <https://arxiv.org/abs/1707.03237>): one Dice score over
/// all classes, each weighted by its size.
///
/// Prediction `[b, c, x, y, z]`; target of the same shape, or `[b, 1, x, y, z]` with `to_onehot_y`.
/// A missing class has the weight of the smallest present one.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{GeneralizedDiceLoss, Loss};
/// let x = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let loss = GeneralizedDiceLoss { sigmoid: true, ..GeneralizedDiceLoss::default() };
/// let loss = loss.forward(x.clone(), x.ones_like())?;
/// assert!((loss.into_scalar::<f32>() - (1.0 - 2.0 * 0.5 / 1.5)).abs() < 1e-3);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct GeneralizedDiceLoss {
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
    /// How a class is weighted by its size.
    pub w_type: SizeWeight,
    /// How items are reduced.
    pub reduction: Reduction,
    /// Constant added to the numerator.
    pub smooth_nr: f64,
    /// Constant added to the denominator.
    pub smooth_dr: f64,
    /// Whether sums include the batch before the division.
    pub batch: bool,
    /// Whether the form for soft labels is used.
    pub soft_label: bool,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for GeneralizedDiceLoss {
    fn default() -> Self {
        GeneralizedDiceLoss {
            include_background: true,
            to_onehot_y: false,
            sigmoid: false,
            softmax: false,
            other_act: None,
            w_type: SizeWeight::Square,
            reduction: Reduction::Mean,
            smooth_nr: 1e-5,
            smooth_dr: 1e-5,
            batch: false,
            soft_label: false,
            check_labels: None,
        }
    }
}

const NAME: &str = "GeneralizedDiceLoss";

impl GeneralizedDiceLoss {
    fn inputs(&self) -> Result<Inputs, LossError> {
        Ok(Inputs {
            loss: NAME,
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            activation: Activation::choose(NAME, self.sigmoid, self.softmax, self.other_act)?,
            ignore_index: None,
            check_labels: self.check_labels,
        })
    }

    /// The loss of each item, or of the batch with `batch`: `[b, 1, 1, 1, 1]`.
    pub(super) fn unreduced(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<5>, LossError> {
        let form = Form { squared: false, batch: self.batch, soft_label: self.soft_label };
        let Overlap { tp, fp, fn_, present } = self.inputs()?.overlap(input, target, form)?;
        let weight = self.w_type.of(present);
        let union = tp.clone() * 2.0 + fp + fn_;
        let numerator = (tp * weight.clone()).sum_dim(1) * 2.0 + self.smooth_nr;
        let denominator = (union * weight).sum_dim(1) + self.smooth_dr;
        Ok(per_class(-(numerator / denominator) + 1.0))
    }
}

impl Loss for GeneralizedDiceLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_factors(NAME, &[("smooth_nr", self.smooth_nr), ("smooth_dr", self.smooth_dr)])?;
        self.inputs().map(drop)
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        Ok(self.reduction.apply(self.unreduced(input, target)?))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => GeneralizedDiceLoss,
    paper: "Sudre et al. 2017, arXiv:1707.03237",
    example: "sigmoid = true"
);

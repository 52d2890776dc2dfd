//! Generalized Dice plus focal loss (`monai.losses.GeneralizedDiceFocalLoss`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::OtherActivation;
use super::inputs::{check_factors, weighted_sum};
use super::{ClassWeight, FocalLoss, GeneralizedDiceLoss, Loss, LossError, Reduction};
use crate::class_size::SizeWeight;

/// `lambda_gdl` times [`GeneralizedDiceLoss`] plus `lambda_focal` times [`FocalLoss`].
///
/// The focal part always applies a sigmoid to the logits, independent of the other part's
/// activation, as in MONAI.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{GeneralizedDiceFocalLoss, Loss};
/// let x = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let loss = GeneralizedDiceFocalLoss { sigmoid: true, lambda_gdl: 0.0, ..GeneralizedDiceFocalLoss::default() };
/// let loss = loss.forward(x.clone(), x.ones_like())?;
/// assert!((loss.into_scalar::<f32>() - 0.25 * 2.0_f32.ln()).abs() < 1e-5);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct GeneralizedDiceFocalLoss {
    /// Whether channel 0, the background, is included.
    pub include_background: bool,
    /// Whether the target holds class indices in one channel.
    pub to_onehot_y: bool,
    /// Applies a sigmoid for the Dice part.
    pub sigmoid: bool,
    /// Applies a softmax for the Dice part.
    pub softmax: bool,
    /// Applies another activation for the Dice part.
    pub other_act: Option<OtherActivation>,
    /// How a class is weighted by its size.
    pub w_type: SizeWeight,
    /// How values are reduced.
    pub reduction: Reduction,
    /// Constant added to the Dice numerator.
    pub smooth_nr: f64,
    /// Constant added to the Dice denominator.
    pub smooth_dr: f64,
    /// Whether sums of the Dice part include the batch before the division.
    pub batch: bool,
    /// How strongly the focal part down-weights well-predicted values.
    pub gamma: f64,
    /// Weight per included class, for the focal part.
    pub weight: Option<ClassWeight>,
    /// Factor of the Dice part.
    pub lambda_gdl: f64,
    /// Factor of the focal part.
    pub lambda_focal: f64,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for GeneralizedDiceFocalLoss {
    fn default() -> Self {
        let dice = GeneralizedDiceLoss::default();
        GeneralizedDiceFocalLoss {
            include_background: dice.include_background,
            to_onehot_y: dice.to_onehot_y,
            sigmoid: dice.sigmoid,
            softmax: dice.softmax,
            other_act: dice.other_act,
            w_type: dice.w_type,
            reduction: dice.reduction,
            smooth_nr: dice.smooth_nr,
            smooth_dr: dice.smooth_dr,
            batch: dice.batch,
            gamma: FocalLoss::default().gamma,
            weight: None,
            lambda_gdl: 1.0,
            lambda_focal: 1.0,
            check_labels: None,
        }
    }
}

const NAME: &str = "GeneralizedDiceFocalLoss";

impl GeneralizedDiceFocalLoss {
    fn dice(&self) -> GeneralizedDiceLoss {
        GeneralizedDiceLoss {
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            sigmoid: self.sigmoid,
            softmax: self.softmax,
            other_act: self.other_act,
            w_type: self.w_type,
            reduction: self.reduction,
            smooth_nr: self.smooth_nr,
            smooth_dr: self.smooth_dr,
            batch: self.batch,
            soft_label: false,
            check_labels: self.check_labels,
        }
    }

    fn focal(&self) -> FocalLoss {
        FocalLoss {
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            gamma: self.gamma,
            weight: self.weight.clone(),
            reduction: self.reduction,
            // The Dice part has already checked the inputs.
            check_labels: Some(false),
            ..FocalLoss::default()
        }
    }
}

impl Loss for GeneralizedDiceFocalLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_factors(NAME, &[("lambda_gdl", self.lambda_gdl), ("lambda_focal", self.lambda_focal)])?;
        self.focal().check()?;
        self.dice().check()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let (dice, focal) = (self.dice(), self.focal());
        if self.reduction != Reduction::None {
            let dice = dice.forward(input.clone(), target.clone())?;
            return Ok(dice * self.lambda_gdl + focal.forward(input, target)? * self.lambda_focal);
        }
        let dice = dice.unreduced(input.clone(), target.clone())?;
        Ok(weighted_sum([(dice, self.lambda_gdl), (focal.unreduced(input, target)?, self.lambda_focal)]))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => GeneralizedDiceFocalLoss,
    paper: "Sudre et al. 2017, arXiv:1707.03237",
    example: "sigmoid = true"
);

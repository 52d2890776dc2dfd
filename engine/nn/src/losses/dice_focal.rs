//! Dice plus focal loss (`monai.losses.DiceFocalLoss`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::OtherActivation;
use super::inputs::{check_factors, weighted_sum};
use super::{ClassWeight, DiceLoss, FocalLoss, Loss, LossError, Reduction};

/// `lambda_dice` times [`DiceLoss`] plus `lambda_focal` times [`FocalLoss`] (Zhu et al.,
/// <https://arxiv.org/abs/1808.05238>).
///
/// The focal part always applies a sigmoid to the logits, independent of the Dice part's
/// activation, as in MONAI.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{DiceFocalLoss, Loss};
/// let x = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let loss = DiceFocalLoss { sigmoid: true, ..DiceFocalLoss::default() }.forward(x.clone(), x.ones_like())?;
/// assert!((loss.into_scalar::<f32>() - (1.0 / 3.0 + 0.25 * 2.0_f32.ln())).abs() < 1e-5);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct DiceFocalLoss {
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
    /// Whether prediction and target are squared in the Dice denominator.
    pub squared_pred: bool,
    /// Uses the Jaccard index instead of Dice.
    pub jaccard: bool,
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
    /// Weight per included class, for both parts.
    pub weight: Option<ClassWeight>,
    /// Factor of the Dice part.
    pub lambda_dice: f64,
    /// Factor of the focal part.
    pub lambda_focal: f64,
    /// Balance of positive and negative voxels in the focal part.
    pub alpha: Option<ClassWeight>,
    /// Voxels with this label are ignored. For a target with one channel per class, the index of
    /// the channel to ignore, which may be one more than the prediction has.
    pub ignore_index: Option<i64>,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for DiceFocalLoss {
    fn default() -> Self {
        let dice = DiceLoss::default();
        DiceFocalLoss {
            include_background: dice.include_background,
            to_onehot_y: dice.to_onehot_y,
            sigmoid: dice.sigmoid,
            softmax: dice.softmax,
            other_act: dice.other_act,
            squared_pred: dice.squared_pred,
            jaccard: dice.jaccard,
            reduction: dice.reduction,
            smooth_nr: dice.smooth_nr,
            smooth_dr: dice.smooth_dr,
            batch: dice.batch,
            gamma: FocalLoss::default().gamma,
            weight: None,
            lambda_dice: 1.0,
            lambda_focal: 1.0,
            alpha: None,
            ignore_index: None,
            check_labels: None,
        }
    }
}

const NAME: &str = "DiceFocalLoss";

impl DiceFocalLoss {
    fn dice(&self) -> DiceLoss {
        DiceLoss {
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            sigmoid: self.sigmoid,
            softmax: self.softmax,
            other_act: self.other_act,
            squared_pred: self.squared_pred,
            jaccard: self.jaccard,
            reduction: self.reduction,
            smooth_nr: self.smooth_nr,
            smooth_dr: self.smooth_dr,
            batch: self.batch,
            weight: self.weight.clone(),
            soft_label: false,
            ignore_index: self.ignore_index,
            check_labels: self.check_labels,
        }
    }

    fn focal(&self) -> FocalLoss {
        FocalLoss {
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            gamma: self.gamma,
            alpha: self.alpha.clone(),
            weight: self.weight.clone(),
            reduction: self.reduction,
            ignore_index: self.ignore_index,
            // The Dice part has already checked the inputs.
            check_labels: Some(false),
            ..FocalLoss::default()
        }
    }

    /// The loss in the common case: both parts of a sigmoid from the same sums; `None` otherwise.
    fn of_one_pass(&self, input: &Tensor<5>, target: &Tensor<5>) -> Result<Option<Tensor<1>>, LossError> {
        let (dice, focal) = (self.dice(), self.focal());
        let Some(term) = focal.term().filter(|_| self.sigmoid) else { return Ok(None) };
        let Some(sums) = dice.inputs()?.sigmoid_sums(input, target, self.squared_pred, Some(term)) else {
            return Ok(None);
        };
        let [_, _, x, y, z] = input.dims();
        let dice = self.reduction.apply(dice.of_sums(&sums.both, &sums.prediction, &sums.target)?);
        Ok(Some(dice * self.lambda_dice + focal.of_sums(&sums, x * y * z)? * self.lambda_focal))
    }
}

impl Loss for DiceFocalLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_factors(NAME, &[("lambda_dice", self.lambda_dice), ("lambda_focal", self.lambda_focal)])?;
        self.focal().check()?;
        self.dice().check()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let (dice, focal) = (self.dice(), self.focal());
        if let Some(loss) = self.of_one_pass(&input, &target)? {
            return Ok(loss);
        }
        if self.reduction != Reduction::None {
            let dice = dice.forward(input.clone(), target.clone())?;
            return Ok(dice * self.lambda_dice + focal.forward(input, target)? * self.lambda_focal);
        }
        let dice = dice.unreduced(input.clone(), target.clone())?;
        Ok(weighted_sum([(dice, self.lambda_dice), (focal.unreduced(input, target)?, self.lambda_focal)]))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => DiceFocalLoss,
    paper: "Zhu et al. 2019, arXiv:1808.05238",
    example: r#"sigmoid = true
squared_pred = true
batch = true"#
);

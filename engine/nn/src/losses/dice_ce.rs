//! Dice plus cross-entropy (`monai.losses.DiceCELoss`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use hearth_kernels::cast;
use hearth_kernels::softmax_sums::softmax_sums;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::OtherActivation;
use super::checks::{self, check_finite, check_labels};
use super::inputs::check_factors;
use super::labels::one_hot;
use super::{BceWithLogitsLoss, ClassWeight, CrossEntropyLoss, DiceLoss, Loss, LossError, Reduction};
use crate::softmax::log_softmax;

/// `lambda_dice` times Dice plus `lambda_ce` times cross-entropy (Isensee et al.,
/// <https://arxiv.org/abs/1809.10486>).
///
/// With one channel, the second part is binary cross-entropy, with `weight` as the weight of
/// positive voxels. The background is excluded from the Dice part only. If `ignore_index` excludes
/// all voxels of a batch, the cross-entropy is 0.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{DiceCELoss, Loss};
/// # let device = Device::default();
/// let loss = DiceCELoss { to_onehot_y: true, softmax: true, ..DiceCELoss::default() };
/// let label = Tensor::cat(
///     vec![Tensor::zeros([1, 1, 2, 1, 1], &device), Tensor::ones([1, 1, 2, 1, 1], &device)],
///     3,
/// );
/// // Sure of the right class at every voxel.
/// let sure = Tensor::cat(vec![label.clone() * -20.0, label.clone() * 20.0 - 10.0], 1);
/// assert!(loss.forward(sure, label)?.into_scalar::<f32>() < 0.01);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct DiceCELoss {
    /// Whether channel 0, the background, is included in the Dice part.
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
    /// Reduction: mean or sum.
    pub reduction: Reduction,
    /// Constant added to the Dice numerator.
    pub smooth_nr: f64,
    /// Constant added to the Dice denominator.
    pub smooth_dr: f64,
    /// Whether sums of the Dice part include the batch before the division.
    pub batch: bool,
    /// Weight per class, including the background, for both parts.
    #[setters(into)]
    pub weight: Option<Vec<f64>>,
    /// Factor of the Dice part.
    pub lambda_dice: f64,
    /// Factor of the cross-entropy part.
    pub lambda_ce: f64,
    /// Share of the label's weight that cross-entropy distributes over all classes.
    pub label_smoothing: f64,
    /// Voxels with this label are ignored; class indices only.
    pub ignore_index: Option<i64>,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for DiceCELoss {
    fn default() -> Self {
        let dice = DiceLoss::default();
        DiceCELoss {
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
            weight: None,
            lambda_dice: 1.0,
            lambda_ce: 1.0,
            label_smoothing: 0.0,
            ignore_index: None,
            check_labels: None,
        }
    }
}

const NAME: &str = "DiceCELoss";

impl DiceCELoss {
    fn dice(&self) -> DiceLoss {
        let weight = self.weight.as_ref().map(|weight| {
            let first = usize::from(!self.include_background).min(weight.len());
            ClassWeight::Each(weight[first..].to_vec())
        });
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
            weight,
            soft_label: false,
            ignore_index: self.ignore_index,
            check_labels: self.check_labels,
        }
    }

    /// The loss in the common case: both parts share the one-hot labels and the softmax.
    fn with_indices(&self, logits: Tensor<5>, labels: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let (input, target) = (logits.dims(), labels.dims());
        if input[0] != target[0] || input[2..] != target[2..] {
            let expected = "batch and spatial axes must be equal".to_owned();
            return Err(LossError::Shape { loss: NAME, input, target, expected });
        }
        if self.softmax && self.label_smoothing == 0.0 && self.ignore_index.is_none() {
            let look = checks::wanted(self.check_labels, &logits);
            let [logits, labels] = [&logits, &labels].map(|tensor| cast(tensor.clone(), DType::F32));
            let sums = softmax_sums(logits, labels.clone(), self.squared_pred, look);
            // If a check fails, the slow path reports the problem.
            if let Some(sums) = sums.filter(|sums| !sums.odd) {
                let dice = self.reduction.apply(self.dice().of_sums(&sums.both, &sums.prediction, &sums.target)?);
                let entropy = self.cross_entropy().of_sums(&sums, labels.shape().num_elements())?;
                return Ok(dice * self.lambda_dice + entropy * self.lambda_ce);
            }
        }
        if checks::wanted(self.check_labels, &logits) {
            check_finite(NAME, "prediction", &logits)?;
            check_labels(&labels, input[1], self.ignore_index)?;
        }
        let hot = one_hot(labels.clone(), input[1]);
        let logits = cast(logits, DType::F32);
        let log = log_softmax(logits.clone());
        let dice = DiceLoss { to_onehot_y: false, softmax: false, check_labels: Some(false), ..self.dice() };
        let dice_input = if self.softmax { log.clone().exp() } else { logits };
        let dice = dice.forward(dice_input, hot.clone())?;
        // The mean over no voxel is NaN.
        let least = self.ignore_index.map(|_| f64::from(f32::MIN_POSITIVE));
        let entropy = self.cross_entropy().of_logarithms(log, labels, hot, least)?;
        Ok(dice * self.lambda_dice + entropy * self.lambda_ce)
    }

    fn cross_entropy(&self) -> CrossEntropyLoss {
        CrossEntropyLoss {
            weight: self.weight.clone(),
            reduction: self.reduction,
            label_smoothing: self.label_smoothing,
            ignore_index: self.ignore_index.unwrap_or(CrossEntropyLoss::default().ignore_index),
            // The Dice part has already checked the inputs.
            check_labels: Some(false),
        }
    }
}

impl Loss for DiceCELoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        if self.reduction == Reduction::None {
            let reason = "reduction none is not supported: the parts differ in shape; use mean or sum".to_owned();
            return Err(LossError::Option { key: "reduction", loss: NAME, reason });
        }
        check_factors(NAME, &[("lambda_dice", self.lambda_dice), ("lambda_ce", self.lambda_ce)])?;
        self.cross_entropy().check()?;
        self.dice().check()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let (channels, target_channels) = (input.dims()[1], target.dims()[1]);
        if target_channels != 1 && target_channels != channels {
            let expected = format!("expected 1 or {channels} channels");
            return Err(LossError::Shape { loss: NAME, input: input.dims(), target: target.dims(), expected });
        }
        if channels > 1 && target_channels == 1 && self.to_onehot_y {
            return self.with_indices(input, target);
        }
        if self.ignore_index.is_some() {
            let reason = "it needs to_onehot_y, several classes, and a target of class indices".to_owned();
            return Err(LossError::Option { key: "ignore_index", loss: NAME, reason });
        }
        let dice = self.dice().forward(input.clone(), target.clone())?;
        let entropy = if channels == 1 {
            let pos_weight = match self.weight.as_deref() {
                None => None,
                Some([weight]) => Some(ClassWeight::All(*weight)),
                Some(weights) => {
                    let reason = format!("weight has {} numbers; a prediction of one channel takes one", weights.len());
                    return Err(LossError::Option { key: "weight", loss: NAME, reason });
                }
            };
            let check_labels = Some(false);
            let reduction = self.reduction;
            BceWithLogitsLoss { weight: None, pos_weight, reduction, check_labels }.forward(input, target)?
        } else {
            self.cross_entropy().forward(input, target)?
        };
        Ok(dice * self.lambda_dice + entropy * self.lambda_ce)
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => DiceCELoss,
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"to_onehot_y = true
softmax = true
lambda_ce = 0.5"#
);

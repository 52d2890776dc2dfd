//! Dice loss (`monai.losses.DiceLoss`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::{Activation, OtherActivation};
use super::inputs::{Form, Inputs, Overlap, check_factors, check_weight, per_class};
use super::{ClassWeight, Loss, LossError, Reduction};

/// Average Dice loss (Milletari et al., <https://arxiv.org/abs/1606.04797>; soft labels and the
/// Jaccard form: Wang et al., <https://arxiv.org/abs/2302.05666>,
/// <https://arxiv.org/abs/2303.16296>).
///
/// Prediction `[b, c, x, y, z]`; target of the same shape, or `[b, 1, x, y, z]` with `to_onehot_y`.
/// The loss of an item and class is `1 - (2 tp + smooth_nr) / (2 (tp + fp + fn) + smooth_dr)`, with
/// `fp` and `fn` halved unless `jaccard`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{DiceLoss, Loss};
/// let logits = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let labels = Tensor::ones([1, 1, 4, 4, 4], &Device::default());
/// let loss = DiceLoss { softmax: true, to_onehot_y: true, ..DiceLoss::default() }.forward(logits, labels)?;
/// assert!((loss.into_scalar::<f32>() - 2.0 / 3.0).abs() < 1e-5);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct DiceLoss {
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
    /// Whether prediction and target are squared in the denominator.
    pub squared_pred: bool,
    /// Uses the Jaccard index instead of Dice.
    pub jaccard: bool,
    /// How items and classes are reduced.
    pub reduction: Reduction,
    /// Constant added to the numerator.
    pub smooth_nr: f64,
    /// Constant added to the denominator.
    pub smooth_dr: f64,
    /// Whether sums include the batch before the division.
    pub batch: bool,
    /// Weight per class, without the background if that is excluded; ignored with one class.
    pub weight: Option<ClassWeight>,
    /// Whether the form for soft labels is used.
    pub soft_label: bool,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for DiceLoss {
    fn default() -> Self {
        DiceLoss {
            include_background: true,
            to_onehot_y: false,
            sigmoid: false,
            softmax: false,
            other_act: None,
            squared_pred: false,
            jaccard: false,
            reduction: Reduction::Mean,
            smooth_nr: 1e-5,
            smooth_dr: 1e-5,
            batch: false,
            weight: None,
            soft_label: false,
            ignore_index: None,
            check_labels: None,
        }
    }
}

const NAME: &str = "DiceLoss";

impl DiceLoss {
    pub(super) fn inputs(&self) -> Result<Inputs, LossError> {
        Ok(Inputs {
            loss: NAME,
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            activation: Activation::choose(NAME, self.sigmoid, self.softmax, self.other_act)?,
            ignore_index: self.ignore_index,
            check_labels: self.check_labels,
        })
    }

    /// The weighted loss of each item and class: `[b, c]`, or `[1, c]` with `batch`. `c` excludes
    /// the background if the loss does.
    ///
    /// # Errors
    /// If an option is invalid, shapes do not fit, or checked values are invalid.
    pub fn values(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<2>, LossError> {
        self.check()?;
        let soft_label = self.soft_label && !self.squared_pred;
        let form = Form { squared: self.squared_pred, batch: self.batch, soft_label };
        self.of_overlap(self.inputs()?.overlap(input, target, form)?)
    }

    /// [`values`](Self::values) from sums over space, `[b, c]` each, including the background.
    pub(super) fn of_sums(
        &self,
        both: &Tensor<2>,
        prediction: &Tensor<2>,
        target: &Tensor<2>,
    ) -> Result<Tensor<2>, LossError> {
        self.of_overlap(self.inputs()?.overlap_of_sums(both, prediction, target, self.batch))
    }

    /// `1 - (2 tp + nr) / (2 (tp + fp + fn) + dr)`, weighted.
    fn of_overlap(&self, Overlap { tp, fp, fn_, .. }: Overlap) -> Result<Tensor<2>, LossError> {
        let others = fp + fn_;
        let others = if self.jaccard { others * 2.0 } else { others };
        let doubled = tp * 2.0;
        self.weighted(-((doubled.clone() + self.smooth_nr) / (doubled + others + self.smooth_dr)) + 1.0)
    }

    fn weighted(&self, f: Tensor<2>) -> Result<Tensor<2>, LossError> {
        let classes = f.dims()[1];
        Ok(match self.class_weights(classes)? {
            Some(weights) => {
                let weights = Tensor::<1>::from_floats(weights.as_slice(), &f.device()).reshape([1, classes]);
                f * weights
            }
            None => f,
        })
    }

    /// [`values`](Self::values) with axes of space of length 1.
    pub(super) fn unreduced(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<5>, LossError> {
        Ok(per_class(self.values(input, target)?))
    }

    fn class_weights(&self, classes: usize) -> Result<Option<Vec<f32>>, LossError> {
        match &self.weight {
            _ if classes == 1 => Ok(None),
            None => Ok(None),
            Some(ClassWeight::All(weight)) => Ok(Some(vec![*weight as f32; classes])),
            Some(ClassWeight::Each(weights)) if weights.len() == classes => {
                Ok(Some(weights.iter().map(|weight| *weight as f32).collect()))
            }
            Some(ClassWeight::Each(weights)) => Err(LossError::Option {
                key: "weight",
                loss: NAME,
                reason: format!(
                    "weight has {} numbers for {classes} classes; without include_background it must omit class 0",
                    weights.len()
                ),
            }),
        }
    }
}

impl Loss for DiceLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        self.inputs()?;
        check_factors(NAME, &[("smooth_nr", self.smooth_nr), ("smooth_dr", self.smooth_dr)])?;
        check_weight(NAME, "weight", self.weight.as_ref())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        Ok(self.reduction.apply(self.values(input, target)?))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => DiceLoss,
    paper: "Milletari et al. 2016, arXiv:1606.04797",
    example: r#"to_onehot_y = true
softmax = true
include_background = false"#
);

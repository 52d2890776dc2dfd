//! Dice loss (`monai.losses.DiceLoss`).

use burn::tensor::{DType, Tensor, activation};
use serde::{Deserialize, Serialize};

use super::labels::{check_labels, one_hot};
use super::{ClassWeight, Loss, LossError, Reduction};
use crate::softmax::softmax;

/// An activation besides sigmoid and softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherActivation {
    /// Hyperbolic tangent.
    Tanh,
    /// Positive part.
    Relu,
    /// Logarithm of the sigmoid.
    LogSigmoid,
    /// Exponential.
    Exp,
}

impl OtherActivation {
    /// Applies it to every value.
    pub fn apply(self, x: Tensor<5>) -> Tensor<5> {
        match self {
            OtherActivation::Tanh => activation::tanh(x),
            OtherActivation::Relu => activation::relu(x),
            OtherActivation::LogSigmoid => activation::log_sigmoid(x),
            OtherActivation::Exp => x.exp(),
        }
    }
}

/// Average Dice loss (Milletari et al., <https://arxiv.org/abs/1606.04797>; soft labels and the Jaccard form: Wang et
/// al., <https://arxiv.org/abs/2302.05666>, <https://arxiv.org/abs/2303.16296>).
///
/// Prediction `[b, c, x, y, z]`; target of the same shape, or `[b, 1, x, y, z]` with `to_onehot_y`. Per item and class
/// `1 - (2 tp + smooth_nr) / (2 (tp + fp + fn) + smooth_dr)`, with `fp` and `fn` halved unless `jaccard`.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiceLoss {
    /// Whether channel 0 counts.
    pub include_background: bool,
    /// Whether the target holds class indices in one channel.
    pub to_onehot_y: bool,
    /// Applies a sigmoid to the prediction.
    pub sigmoid: bool,
    /// Applies a softmax over channels to the prediction; passed over with one channel.
    pub softmax: bool,
    /// Applies another activation to the prediction.
    pub other_act: Option<OtherActivation>,
    /// Squares prediction and target in the denominator.
    pub squared_pred: bool,
    /// Jaccard index instead of Dice.
    pub jaccard: bool,
    /// How items and classes are put together.
    pub reduction: Reduction,
    /// Added to the numerator.
    pub smooth_nr: f64,
    /// Added to the denominator.
    pub smooth_dr: f64,
    /// Sums over the batch before dividing.
    pub batch: bool,
    /// Weight per class, without the background if that is left out; passed over with one class.
    pub weight: Option<ClassWeight>,
    /// The form that is right for soft labels.
    pub soft_label: bool,
    /// Voxels of this label do not count.
    pub ignore_index: Option<i64>,
    /// Checks class indices in every call; reads them back from the device.
    pub check_labels: bool,
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
            check_labels: false,
        }
    }
}

const NAME: &str = "DiceLoss";

/// `[b, c, x, y, z]` to `[b, c]`, or `[1, c]` with the batch summed too.
fn sums(x: Tensor<5>, batch: bool) -> Tensor<2> {
    let [b, c, dx, dy, dz] = x.dims();
    let per_item: Tensor<2> = x.reshape([b, c, dx * dy * dz]).sum_dim(2).reshape([b, c]);
    if batch { per_item.sum_dim(0) } else { per_item }
}

impl DiceLoss {
    /// Whether the options make sense together.
    pub fn check(&self) -> Result<(), LossError> {
        let activations = [self.sigmoid, self.softmax, self.other_act.is_some()];
        if activations.into_iter().filter(|given| *given).count() > 1 {
            let reason = "more than one of sigmoid, softmax and other_act is given; choose one".to_owned();
            return Err(LossError::Option { loss: NAME, reason });
        }
        let negative = match &self.weight {
            Some(ClassWeight::All(weight)) => *weight < 0.0,
            Some(ClassWeight::Each(weights)) => weights.iter().any(|weight| *weight < 0.0),
            None => false,
        };
        if negative {
            let reason = format!("weight is {:?}: expected numbers of at least 0", self.weight);
            return Err(LossError::Option { loss: NAME, reason });
        }
        Ok(())
    }

    /// The loss per item and class, weighted: `[b, c]`, or `[1, c]` with `batch`. `c` leaves out the background if the
    /// loss does.
    pub fn values(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<2>, LossError> {
        self.check()?;
        let shapes = (input.dims(), target.dims());
        let misfit = |expected: String| LossError::Shape { loss: NAME, input: shapes.0, target: shapes.1, expected };
        let channels = shapes.0[1];
        let input = self.activate(input.cast(DType::F32), channels);
        let original = target.cast(DType::F32);
        let mut target = original.clone();
        if self.to_onehot_y && channels > 1 {
            if shapes.1[1] != 1 {
                return Err(misfit("to_onehot_y needs a target with one channel".to_owned()));
            }
            if self.check_labels {
                check_labels(&target, channels, self.ignore_index)?;
            }
            if let Some(ignored) = self.ignore_index.filter(|index| *index < 0 || *index >= channels as i64) {
                let mask = target.clone().equal_elem(ignored as f32);
                target = target.mask_fill(mask, 0.0);
            }
            target = one_hot(target, channels);
        }
        let (mut input, mut target) = (input, target);
        if !self.include_background && channels > 1 {
            if target.dims()[1] < 2 {
                return Err(misfit("leaving out the background needs a target with a channel per class".to_owned()));
            }
            let keep = |x: Tensor<5>| {
                let classes = x.dims()[1];
                x.narrow(1, 1, classes - 1)
            };
            (input, target) = (keep(input), keep(target));
        }
        if input.dims() != target.dims() {
            return Err(misfit("expected the same shape, or to_onehot_y and a target with one channel".to_owned()));
        }
        if let Some(mask) = self.ignore_index.map(|index| ignore_mask(&original, index)) {
            let shape = input.dims();
            let mask = mask.expand(shape);
            (input, target) = (input * mask.clone(), target * mask);
        }
        let classes = input.dims()[1];
        let f = self.fractions(input, target);
        Ok(match self.class_weights(classes)? {
            Some(weights) => {
                let weights = Tensor::<1>::from_floats(weights.as_slice(), &f.device()).reshape([1, classes]);
                f * weights
            }
            None => f,
        })
    }

    fn activate(&self, input: Tensor<5>, channels: usize) -> Tensor<5> {
        if self.sigmoid {
            activation::sigmoid(input)
        } else if self.softmax && channels > 1 {
            softmax(input)
        } else if let Some(other) = self.other_act {
            other.apply(input)
        } else {
            input
        }
    }

    /// `1 - (2 tp + nr) / (2 (tp + fp + fn) + dr)`
    fn fractions(&self, input: Tensor<5>, target: Tensor<5>) -> Tensor<2> {
        let sum = |x: Tensor<5>| sums(x, self.batch);
        let (tp, predicted, present) = if self.squared_pred {
            // (P + T - D) / 2 with squares is the sum of products.
            let tp = sum(input.clone() * target.clone());
            (tp, sum(input.clone() * input), sum(target.clone() * target))
        } else if self.soft_label {
            let difference = sum((input.clone() - target.clone()).abs());
            let (predicted, present) = (sum(input.abs()), sum(target.abs()));
            ((predicted.clone() + present.clone() - difference) * 0.5, predicted, present)
        } else {
            (sum(input.clone() * target.clone()), sum(input), sum(target))
        };
        let union = if self.jaccard { (predicted + present - tp.clone()) * 2.0 } else { predicted + present };
        -((tp * 2.0 + self.smooth_nr) / (union + self.smooth_dr)) + 1.0
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
                loss: NAME,
                reason: format!(
                    "weight has {} numbers for {classes} classes; without include_background it must leave out class 0",
                    weights.len()
                ),
            }),
        }
    }
}

/// 1 where a voxel counts, `[b, 1, x, y, z]`: of class indices those other than `index`; of a target with a channel per
/// class those outside channel `index`, or, if there is no such channel, those of any class.
fn ignore_mask(target: &Tensor<5>, index: i64) -> Tensor<5> {
    let classes = target.dims()[1];
    if classes == 1 {
        target.clone().not_equal_elem(index as f32).float().cast(DType::F32)
    } else if (0..classes as i64).contains(&index) {
        -target.clone().narrow(1, index as usize, 1) + 1.0
    } else {
        target.clone().sum_dim(1).greater_elem(0.0).float().cast(DType::F32)
    }
}

impl Loss for DiceLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        Ok(self.reduction.apply(self.values(input, target)?))
    }
}

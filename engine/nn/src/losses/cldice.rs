//! Centreline Dice (`monai.losses.SoftclDiceLoss`, `monai.losses.SoftDiceclDiceLoss`).

use burn::tensor::{Tensor, activation};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::{Activation, OtherActivation};
use super::inputs::{Inputs, Prepared, check_factors};
use super::{DiceLoss, Loss, LossError, Reduction};

/// Centreline Dice (Shit et al., <https://arxiv.org/abs/2003.07311>), for vessels and other thin
/// structures: measures how much of the soft skeletons of prediction and target lies within the
/// other.
///
/// Prediction `[b, c, x, y, z]`; target of the same shape, or `[b, 1, x, y, z]` with `to_onehot_y`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{Loss, SoftClDiceLoss};
/// let x = Tensor::zeros([1, 1, 8, 8, 8], &Device::default()).slice_fill([0..1, 0..1, 0..8, 4..5, 4..5], 1.0);
/// let loss = SoftClDiceLoss::default().forward(x.clone(), x)?;
/// assert!(loss.into_scalar::<f32>().abs() < 1e-4);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct SoftClDiceLoss {
    /// Number of thinning steps of the mask: at least the largest radius in voxels.
    pub iter_: usize,
    /// Constant added to the numerators.
    pub smooth_nr: f64,
    /// Constant added to the denominators.
    pub smooth_dr: f64,
    /// Constant added to the denominator of the harmonic mean.
    pub smooth: f64,
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
    /// How items are reduced.
    pub reduction: Reduction,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for SoftClDiceLoss {
    fn default() -> Self {
        SoftClDiceLoss {
            iter_: 3,
            smooth_nr: 1.0,
            smooth_dr: 1.0,
            smooth: 1e-4,
            include_background: true,
            to_onehot_y: false,
            sigmoid: false,
            softmax: false,
            other_act: None,
            reduction: Reduction::Mean,
            check_labels: None,
        }
    }
}

const NAME: &str = "SoftclDiceLoss";

impl SoftClDiceLoss {
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

    /// The loss of each item, over all classes: `[b, 1, 1, 1, 1]`.
    fn unreduced(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<5>, LossError> {
        self.check()?;
        let Prepared { input, target, .. } = self.inputs()?.prepare(input, target)?;
        let (of_input, of_target) = (skeleton(input.clone(), self.iter_), skeleton(target.clone(), self.iter_));
        let total = |x: Tensor<5>| x.sum_dim(4).sum_dim(3).sum_dim(2).sum_dim(1);
        let within = |skeleton: Tensor<5>, mask: Tensor<5>| {
            (total(skeleton.clone() * mask) + self.smooth_nr) / (total(skeleton) + self.smooth_dr)
        };
        let (precision, sensitivity) = (within(of_input, target), within(of_target, input));
        let mean = (precision.clone() * sensitivity.clone()) / (precision + sensitivity + self.smooth);
        Ok(-(mean * 2.0) + 1.0)
    }
}

impl Loss for SoftClDiceLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_factors(NAME, &[("smooth_nr", self.smooth_nr), ("smooth_dr", self.smooth_dr)])?;
        if !(self.smooth.is_finite() && self.smooth > 0.0) {
            let reason = format!("smooth is {}: expected a number above 0", self.smooth);
            return Err(LossError::Option { key: "smooth", loss: NAME, reason });
        }
        self.inputs().map(drop)
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        Ok(self.reduction.apply(self.unreduced(input, target)?))
    }
}

/// The maximum of each voxel and its two neighbours on an axis. The gradient goes to the first of
/// equal values, as in PyTorch's pooling.
fn widest(x: Tensor<5>, axis: usize) -> Tensor<5> {
    let length = x.dims()[axis];
    if length == 1 {
        return x;
    }
    let mut edge = x.dims();
    edge[axis] = 1;
    let nothing = Tensor::full(edge, f32::NEG_INFINITY, &x.device());
    let before = Tensor::cat(vec![nothing.clone(), x.clone().narrow(axis, 0, length - 1)], axis);
    let after = Tensor::cat(vec![x.clone().narrow(axis, 1, length - 1), nothing], axis);
    let larger = |a: Tensor<5>, b: Tensor<5>| a.clone().mask_where(b.clone().greater(a), b);
    larger(larger(before, x), after)
}

/// The minimum of two values. Equal values each get half of the gradient, as in PyTorch.
fn smaller(a: Tensor<5>, b: Tensor<5>) -> Tensor<5> {
    let equal = a.clone().equal(b.clone());
    let less = b.clone().lower(a.clone());
    let half = (a.clone() + b.clone()) * 0.5;
    a.mask_where(less, b).mask_where(equal, half)
}

/// The minimum of each voxel and its neighbours on the axes; an axis of length 1 is ignored.
fn eroded(x: Tensor<5>) -> Tensor<5> {
    let axes = (2..5).filter(|axis| x.dims()[*axis] > 1);
    let thin = axes.map(|axis| -widest(-x.clone(), axis)).reduce(smaller);
    thin.unwrap_or(x)
}

/// The maximum of each voxel and all its neighbours.
fn dilated(x: Tensor<5>) -> Tensor<5> {
    widest(widest(widest(x, 4), 3), 2)
}

fn skeleton(x: Tensor<5>, iterations: usize) -> Tensor<5> {
    let ridge = |x: &Tensor<5>| activation::relu(x.clone() - dilated(eroded(x.clone())));
    let mut x = x;
    let mut skeleton = ridge(&x);
    for _ in 0..iterations {
        x = eroded(x);
        let new = ridge(&x);
        skeleton = skeleton.clone() + activation::relu(new.clone() - skeleton * new);
    }
    skeleton
}

/// `1 - alpha` times [`DiceLoss`] plus `alpha` times [`SoftClDiceLoss`].
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{Loss, SoftDiceClDiceLoss};
/// let x = Tensor::zeros([1, 1, 8, 8, 8], &Device::default()).slice_fill([0..1, 0..1, 0..8, 4..5, 4..5], 1.0);
/// let loss = SoftDiceClDiceLoss::default().forward(x.clone(), x)?;
/// assert!(loss.into_scalar::<f32>().abs() < 1e-4);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct SoftDiceClDiceLoss {
    /// Number of thinning steps of the mask.
    pub iter_: usize,
    /// Weight of the centreline part, in [0, 1].
    pub alpha: f64,
    /// Constant added to the numerators.
    pub smooth_nr: f64,
    /// Constant added to the denominators.
    pub smooth_dr: f64,
    /// Constant added to the denominator of the harmonic mean.
    pub smooth: f64,
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
    /// How items are reduced.
    pub reduction: Reduction,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for SoftDiceClDiceLoss {
    fn default() -> Self {
        let line = SoftClDiceLoss::default();
        SoftDiceClDiceLoss {
            iter_: line.iter_,
            alpha: 0.5,
            smooth_nr: line.smooth_nr,
            smooth_dr: line.smooth_dr,
            smooth: line.smooth,
            include_background: line.include_background,
            to_onehot_y: line.to_onehot_y,
            sigmoid: line.sigmoid,
            softmax: line.softmax,
            other_act: line.other_act,
            reduction: line.reduction,
            check_labels: line.check_labels,
        }
    }
}

impl SoftDiceClDiceLoss {
    fn line(&self) -> SoftClDiceLoss {
        SoftClDiceLoss {
            iter_: self.iter_,
            smooth_nr: self.smooth_nr,
            smooth_dr: self.smooth_dr,
            smooth: self.smooth,
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            sigmoid: self.sigmoid,
            softmax: self.softmax,
            other_act: self.other_act,
            reduction: self.reduction,
            // The Dice part has already checked the inputs.
            check_labels: Some(false),
        }
    }

    fn dice(&self) -> DiceLoss {
        DiceLoss {
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            sigmoid: self.sigmoid,
            softmax: self.softmax,
            other_act: self.other_act,
            reduction: self.reduction,
            smooth_nr: self.smooth_nr,
            smooth_dr: self.smooth_dr,
            check_labels: self.check_labels,
            ..DiceLoss::default()
        }
    }
}

impl Loss for SoftDiceClDiceLoss {
    fn name(&self) -> &'static str {
        "SoftDiceclDiceLoss"
    }

    fn check(&self) -> Result<(), LossError> {
        if !(0.0..=1.0).contains(&self.alpha) {
            let reason = format!("alpha is {}: expected a share in [0, 1]", self.alpha);
            return Err(LossError::Option { key: "alpha", loss: self.name(), reason });
        }
        self.line().check()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let dice = self.dice().unreduced(input.clone(), target.clone())?;
        let line = self.line().unreduced(input, target)?;
        Ok(match self.reduction {
            Reduction::None => self.reduction.apply(dice * (1.0 - self.alpha) + line * self.alpha),
            other => other.apply(dice) * (1.0 - self.alpha) + other.apply(line) * self.alpha,
        })
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => SoftClDiceLoss,
    name: "SoftclDiceLoss",
    paper: "Shit et al. 2021, arXiv:2003.07311",
    example: "iter_ = 3"
);

hearth_registry::entry!(
    dyn crate::losses::Loss => SoftDiceClDiceLoss,
    name: "SoftDiceclDiceLoss",
    paper: "Shit et al. 2021, arXiv:2003.07311",
    example: r#"iter_ = 3
alpha = 0.5"#
);

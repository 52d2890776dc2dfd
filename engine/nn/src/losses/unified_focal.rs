//! Asymmetric unified focal loss (`monai.losses.AsymmetricUnifiedFocalLoss`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite, check_labels, check_power};
use super::labels::one_hot;
use super::{Loss, LossError, Reduction};
use crate::ignored::counted;

/// Asymmetric unified focal loss (Yeung et al., <https://arxiv.org/abs/2102.04525>) of background
/// and foreground: the sum of focal cross-entropy and a focal Tversky index, both with a higher
/// penalty on missed foreground.
///
/// Probabilities `[b, 2, x, y, z]`, or `[b, 1, x, y, z]` for the foreground only; target of the
/// same shape, or with class indices and `to_onehot_y`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{AsymmetricUnifiedFocalLoss, Loss};
/// let x = Tensor::ones([1, 1, 4, 4, 4], &Device::default()).slice_fill([0..1, 0..1, 0..2, 0..4, 0..4], 0.0);
/// let loss = AsymmetricUnifiedFocalLoss::default().forward(x.clone(), x)?;
/// assert!(loss.into_scalar::<f32>().abs() < 1e-2);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct AsymmetricUnifiedFocalLoss {
    /// Whether the target holds class indices in one channel.
    pub to_onehot_y: bool,
    /// Number of classes of a target with class indices.
    pub num_classes: usize,
    /// Weight of the cross-entropy part.
    pub weight: f64,
    /// How strongly well-predicted values are down-weighted.
    pub gamma: f64,
    /// Weight of missed foreground; false alarms have the remaining weight.
    pub delta: f64,
    /// Has no effect: the loss is a single number.
    pub reduction: Reduction,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for AsymmetricUnifiedFocalLoss {
    fn default() -> Self {
        AsymmetricUnifiedFocalLoss {
            to_onehot_y: false,
            num_classes: 2,
            weight: 0.5,
            gamma: 0.5,
            delta: 0.7,
            reduction: Reduction::Mean,
            ignore_index: None,
            check_labels: None,
        }
    }
}

const NAME: &str = "AsymmetricUnifiedFocalLoss";
const EPSILON: f64 = 1e-7;

/// The largest number of classes of a target; each is a channel.
const MOST_CLASSES: usize = 1 << 16;

/// The largest magnitude of a negative exponent.
const MOST_BELOW: f64 = 1e6;

impl AsymmetricUnifiedFocalLoss {
    /// Two channels of the prediction, clamped away from 0 and 1, and two of the target.
    fn pair(&self, input: Tensor<5>, target: Tensor<5>) -> Result<[Tensor<5>; 2], LossError> {
        let (shape, got) = (input.dims(), target.dims());
        let misfit = |expected: String| LossError::Shape { loss: NAME, input: shape, target: got, expected };
        if shape[0] != got[0] || shape[2..] != got[2..] {
            return Err(misfit("batch and spatial axes must be equal".to_owned()));
        }
        let checked = checks::wanted(self.check_labels, &input);
        if checked {
            check_finite(NAME, "prediction", &input)?;
            check_finite(NAME, "target", &target)?;
        }
        let (mut x, mut t) = (input.cast(DType::F32), target.cast(DType::F32));
        let mask = self.ignore_index.map(|index| counted(&t, index));
        let both = |x: Tensor<5>| Tensor::cat(vec![-x.clone() + 1.0, x], 1);
        if self.to_onehot_y && shape[1] != 1 {
            if got[1] != 1 {
                return Err(misfit("to_onehot_y needs a target with one channel".to_owned()));
            }
            if checked {
                check_labels(&t, self.num_classes, self.ignore_index)?;
            }
            if let Some(ignored) = self.ignore_index.filter(|i| !(0..self.num_classes as i64).contains(i)) {
                let unknown = t.clone().equal_elem(ignored as f32);
                t = t.mask_fill(unknown, 0.0);
            }
            t = one_hot(t, self.num_classes);
        } else if shape[1] == 1 && got[1] == 1 {
            t = both(t);
        }
        if shape[1] == 1 {
            x = both(x);
        }
        if x.dims() != t.dims() || x.dims()[1] < 2 {
            return Err(misfit("expected the same shape, or to_onehot_y and class indices".to_owned()));
        }
        if let Some(mask) = mask {
            let mask = mask.expand(x.dims());
            (x, t) = (x * mask.clone(), t * mask);
        }
        Ok([x.clamp(EPSILON, 1.0 - EPSILON), t])
    }
}

impl Loss for AsymmetricUnifiedFocalLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_power(NAME, "gamma", self.gamma, -MOST_BELOW)?;
        for (key, share) in [("weight", self.weight), ("delta", self.delta)] {
            if !(0.0..=1.0).contains(&share) {
                let reason = format!("{key} is {share}: expected a share in [0, 1]");
                return Err(LossError::Option { key, loss: NAME, reason });
            }
        }
        match self.num_classes {
            2..=MOST_CLASSES => Ok(()),
            count => {
                let reason = format!("num_classes is {count}: expected 2 to {MOST_CLASSES}");
                Err(LossError::Option { key: "num_classes", loss: NAME, reason })
            }
        }
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let [x, t] = self.pair(input, target)?;
        let channel = |x: &Tensor<5>, c: usize| x.clone().narrow(1, c, 1);
        let entropy = |c: usize| -(channel(&t, c) * channel(&x, c).log());
        let background = (-channel(&x, 0) + 1.0).powf_scalar(self.gamma) * entropy(0) * (1.0 - self.delta);
        let entropy = (background + entropy(1) * self.delta).mean() * 0.5;

        // One minus the Tversky index of each item.
        let miss = |c: usize| {
            let sum = |x: Tensor<5>| x.sum_dim(4).sum_dim(3).sum_dim(2);
            let (x, t) = (channel(&x, c), channel(&t, c));
            let tp = sum(t.clone() * x.clone());
            let missed = sum(t.clone() * (-x.clone() + 1.0));
            let false_alarms = sum((-t + 1.0) * x);
            let union = tp.clone() + missed * self.delta + false_alarms * (1.0 - self.delta);
            -((tp + EPSILON) / (union + EPSILON)) + 1.0
        };
        let tversky = (miss(0) + miss(1).powf_scalar(1.0 - self.gamma)).mean() * 0.5;
        Ok(entropy * self.weight + tversky * (1.0 - self.weight))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => AsymmetricUnifiedFocalLoss,
    paper: "Yeung et al. 2022, arXiv:2102.04525",
    example: r#"to_onehot_y = true
num_classes = 2"#
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_classes_that_cannot_be_computed_are_refused() {
        let loss = AsymmetricUnifiedFocalLoss::default;
        assert!(loss().check().is_ok());
        for gamma in [f64::NAN, f64::INFINITY, 1e300, 2e9, -1e300] {
            let error = loss().gamma(gamma).check().expect_err("refused").to_string();
            assert!(error.contains("gamma"), "{error}");
        }
        for count in [0, 1, usize::MAX] {
            let error = loss().num_classes(count).check().expect_err("refused").to_string();
            assert!(error.contains("expected 2 to 65536"), "{error}");
        }
    }
}

//! Softmax cross-entropy (`torch.nn.CrossEntropyLoss`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use hearth_kernels::softmax_sums::SoftmaxSums;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite, check_labels};
use super::inputs::check_weights;
use super::labels::one_hot;
use super::{Loss, LossError, Reduction};
use crate::softmax::log_softmax;

/// Cross-entropy of logits `[b, c, x, y, z]` with class indices `[b, 1, x, y, z]`, or with class
/// probabilities of the logits' shape.
///
/// With indices, the mean is weighted by the class weights of the labels; with probabilities, it is
/// over voxels, as in PyTorch.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{CrossEntropyLoss, Loss};
/// // Two classes that are as likely, whatever the label.
/// let logits = Tensor::zeros([1, 2, 2, 2, 2], &Device::default());
/// let label = Tensor::ones([1, 1, 2, 2, 2], &Device::default());
/// let loss = CrossEntropyLoss::default().forward(logits, label)?;
/// assert!((loss.into_scalar::<f32>() - 2.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct CrossEntropyLoss {
    /// Weight per class.
    #[setters(into)]
    pub weight: Option<Vec<f64>>,
    /// Voxels with this label are ignored; class indices only.
    pub ignore_index: i64,
    /// How voxels are reduced.
    pub reduction: Reduction,
    /// Share of the label's weight that is distributed over all classes.
    pub label_smoothing: f64,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for CrossEntropyLoss {
    fn default() -> Self {
        CrossEntropyLoss {
            weight: None,
            ignore_index: -100,
            reduction: Reduction::Mean,
            label_smoothing: 0.0,
            check_labels: None,
        }
    }
}

const NAME: &str = "CrossEntropyLoss";

impl CrossEntropyLoss {
    /// The weights `[1, c, 1, 1, 1]`, or `None` if all weights are 1.
    fn weights(&self, logits: &Tensor<5>) -> Result<Option<Tensor<5>>, LossError> {
        let classes = logits.dims()[1];
        match &self.weight {
            None => Ok(None),
            Some(weights) if weights.len() == classes => {
                let weights: Vec<f32> = weights.iter().map(|weight| *weight as f32).collect();
                let weights = Tensor::<1>::from_floats(weights.as_slice(), &logits.device());
                Ok(Some(weights.reshape([1, classes, 1, 1, 1])))
            }
            Some(weights) => Err(LossError::Option {
                key: "weight",
                loss: NAME,
                reason: format!("weight has {} numbers for {classes} classes", weights.len()),
            }),
        }
    }

    /// Returns the loss `[1]` for class indices `[b, 1, x, y, z]` as targets.
    ///
    /// # Errors
    /// If an option is invalid, shapes do not fit, or checked values are not finite or not a class.
    pub fn with_indices(&self, logits: Tensor<5>, labels: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        self.fits(&logits, &labels, 1)?;
        let classes = logits.dims()[1];
        if checks::wanted(self.check_labels, &logits) {
            check_finite(NAME, "prediction", &logits)?;
            check_labels(&labels, classes, Some(self.ignore_index))?;
        }
        let hot = one_hot(labels.clone(), classes);
        self.of_logarithms(log_softmax(logits.cast(DType::F32)), labels, hot, None)
    }

    /// The loss from sums over space, without ignored labels or smoothing.
    pub(super) fn of_sums(&self, sums: &SoftmaxSums, positions: usize) -> Result<Tensor<1>, LossError> {
        let [batch, classes] = sums.entropy.dims();
        // The same computation as for logits with a single position.
        let like = sums.entropy.clone().without_autodiff().reshape([batch, classes, 1, 1, 1]);
        let weights = self.weights(&like)?.map(|weights| weights.reshape([1, classes]));
        let weighted = |values: &Tensor<2>| match &weights {
            Some(weights) => values.clone() * weights.clone(),
            None => values.clone(),
        };
        let loss = weighted(&sums.entropy).sum();
        Ok(match self.reduction {
            Reduction::Mean if weights.is_some() => loss / weighted(&sums.target).sum(),
            Reduction::Mean => loss / positions as f64,
            _ => loss,
        })
    }

    /// The loss from the logarithms of the probabilities, the labels, and the labels' one-hot form.
    /// A mean divides by at least `least`.
    pub(super) fn of_logarithms(
        &self,
        log: Tensor<5>,
        labels: Tensor<5>,
        hot: Tensor<5>,
        least: Option<f64>,
    ) -> Result<Tensor<1>, LossError> {
        let shape = log.dims();
        let classes = shape[1];
        let counts = labels.cast(DType::F32).trunc().not_equal_elem(self.ignore_index as f32).float().cast(DType::F32);
        // An ignored label that is a class index is also removed from the one-hot form.
        let hot =
            if (0..classes as i64).contains(&self.ignore_index) { hot * counts.clone().expand(shape) } else { hot };
        let weights = self.weights(&log)?;
        let weighted = |x: Tensor<5>| match &weights {
            Some(weights) => x * weights.clone(),
            None => x,
        };
        let hot = weighted(hot);
        let plain = -(log.clone() * hot.clone()).sum_dim(1);
        let loss = if self.label_smoothing > 0.0 {
            let smooth = -weighted(log).sum_dim(1) * counts.clone();
            plain * (1.0 - self.label_smoothing) + smooth * (self.label_smoothing / classes as f64)
        } else {
            plain
        };
        let over = |number: Tensor<1>| match least {
            Some(least) => number.clamp_min(least),
            None => number,
        };
        Ok(match self.reduction {
            // With and without smoothing, PyTorch divides by the weights of the labels that are not
            // ignored.
            Reduction::Mean if weights.is_some() => loss.sum() / over(hot.sum()),
            Reduction::Mean => loss.sum() / over(counts.sum()),
            other => other.apply(loss),
        })
    }

    /// Returns the loss `[1]` for class probabilities of the logits' shape, `[b, classes, x, y, z]`, as
    /// targets. `ignore_index` has no effect.
    ///
    /// # Errors
    /// If an option is invalid, shapes differ, or checked values are not finite.
    pub fn with_probabilities(&self, logits: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let classes = logits.dims()[1];
        self.fits(&logits, &target, classes)?;
        if checks::wanted(self.check_labels, &logits) {
            check_finite(NAME, "prediction", &logits)?;
            check_finite(NAME, "target", &target)?;
        }
        let weights = self.weights(&logits)?;
        let log = log_softmax(logits.cast(DType::F32));
        let target = target.cast(DType::F32);
        let target = if self.label_smoothing > 0.0 {
            target * (1.0 - self.label_smoothing) + self.label_smoothing / classes as f64
        } else {
            target
        };
        let target = match weights {
            Some(weights) => target * weights,
            None => target,
        };
        Ok(self.reduction.apply(-(log * target).sum_dim(1)))
    }

    fn fits(&self, logits: &Tensor<5>, target: &Tensor<5>, channels: usize) -> Result<(), LossError> {
        let (input, got) = (logits.dims(), target.dims());
        let mut wanted = input;
        wanted[1] = channels;
        if got == wanted {
            return Ok(());
        }
        Err(LossError::Shape { loss: NAME, input, target: got, expected: format!("expected {wanted:?}") })
    }
}

impl Loss for CrossEntropyLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        // At 1 every class has the same share, whatever the label.
        if !(0.0..1.0).contains(&self.label_smoothing) {
            let reason = format!("label_smoothing is {}: expected at least 0 and less than 1", self.label_smoothing);
            return Err(LossError::Option { key: "label_smoothing", loss: NAME, reason });
        }
        check_weights(NAME, "weight", self.weight.as_deref().unwrap_or_default())
    }

    /// A target of one channel holds class indices, unless the prediction also has one channel.
    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        if target.dims()[1] == 1 && input.dims()[1] != 1 {
            self.with_indices(input, target)
        } else {
            self.with_probabilities(input, target)
        }
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => CrossEntropyLoss,
    example: "label_smoothing = 0.1"
);

//! Binary cross-entropy on logits (`torch.nn.BCEWithLogitsLoss`).

use burn::tensor::{DType, Tensor, activation};
use derive_setters::Setters;
use hearth_kernels::cast;
use hearth_kernels::sigmoid_sums::{Focal, sigmoid_sums};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite};
use super::inputs::{check_weight, per_class};
use super::{ClassWeight, Loss, LossError, Reduction};

/// Binary cross-entropy of logits with a target of the same shape.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{BceWithLogitsLoss, ClassWeight, Loss};
/// let x = Tensor::zeros([1, 1, 4, 4, 4], &Device::default());
/// let loss = BceWithLogitsLoss { pos_weight: Some(ClassWeight::All(3.0)), ..Default::default() };
/// let loss = loss.forward(x.clone(), x.ones_like())?;
/// assert!((loss.into_scalar::<f32>() - 3.0 * 2.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct BceWithLogitsLoss {
    /// Factor of every value: one number, or one per channel.
    pub weight: Option<ClassWeight>,
    /// Factor of the positive term: one number, or one per channel.
    pub pos_weight: Option<ClassWeight>,
    /// How elements are reduced.
    pub reduction: Reduction,
    /// Whether values are checked in every call. By default only on the CPU, because on other
    /// devices the check waits for the device.
    pub check_labels: Option<bool>,
}

const NAME: &str = "BCEWithLogitsLoss";

impl BceWithLogitsLoss {
    /// The loss from sums over space, without tensors of the logits' size; `None` if not possible.
    fn of_sums(&self, input: &Tensor<5>, target: &Tensor<5>) -> Result<Option<Tensor<1>>, LossError> {
        let pos_weight = match self.pos_weight.as_ref().map(for_all) {
            None => 1.0,
            Some(ClassWeight::All(weight)) => weight as f32,
            Some(ClassWeight::Each(_)) => return Ok(None),
        };
        if self.reduction == Reduction::None {
            return Ok(None);
        }
        let look = checks::wanted(self.check_labels, input);
        let [x, t] = [input, target].map(|x| cast(x.clone(), DType::F32));
        let sums = sigmoid_sums(x, t, false, Some(Focal { pos_weight, ..Focal::default() }), look);
        // If a check fails, the slow path reports the problem.
        let Some(sums) = sums.filter(|sums| !sums.odd) else { return Ok(None) };
        let loss = per_class(sums.focal);
        let loss = match &self.weight {
            Some(weight) => {
                let weight = for_all(weight).per_channel(NAME, &loss)?;
                loss * weight
            }
            None => loss,
        };
        let [_, _, nx, ny, nz] = input.dims();
        let positions = if self.reduction == Reduction::Mean { nx * ny * nz } else { 1 };
        Ok(Some(self.reduction.apply(loss) / positions as f64))
    }
}

/// A weight list of one number applies to all channels, as PyTorch broadcasts it.
fn for_all(weight: &ClassWeight) -> ClassWeight {
    match weight {
        ClassWeight::Each(each) if each.len() == 1 => ClassWeight::All(each[0]),
        other => other.clone(),
    }
}

impl Loss for BceWithLogitsLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_weight(NAME, "weight", self.weight.as_ref())?;
        check_weight(NAME, "pos_weight", self.pos_weight.as_ref())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let (shape, got) = (input.dims(), target.dims());
        if shape != got {
            let expected = "expected the same shape".to_owned();
            return Err(LossError::Shape { loss: NAME, input: shape, target: got, expected });
        }
        if let Some(loss) = self.of_sums(&input, &target)? {
            return Ok(loss);
        }
        if checks::wanted(self.check_labels, &input) {
            check_finite(NAME, "prediction", &input)?;
            check_finite(NAME, "target", &target)?;
        }
        let (x, t) = (cast(input, DType::F32), cast(target, DType::F32));
        // -(w t log s(x) + (1 - t) log s(-x)), with log s(-x) = log s(x) - x.
        let log = activation::log_sigmoid(x.clone());
        let log = match &self.pos_weight {
            Some(weight) => log * (t.clone() * (for_all(weight).per_channel(NAME, &t)? - 1.0) + 1.0),
            None => log,
        };
        let loss = (-t + 1.0) * x - log;
        let loss = match &self.weight {
            Some(weight) => {
                let weight = for_all(weight).per_channel(NAME, &loss)?;
                loss * weight
            }
            None => loss,
        };
        Ok(self.reduction.apply(loss))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => BceWithLogitsLoss,
    name: "BCEWithLogitsLoss",
    example: "pos_weight = 2.0"
);

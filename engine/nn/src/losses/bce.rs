//! Binary cross-entropy on logits (`torch.nn.BCEWithLogitsLoss`).

use burn::tensor::{DType, Tensor, activation};
use serde::{Deserialize, Serialize};

use super::{Loss, LossError, Reduction};

/// Binary cross-entropy of logits and a target of the same shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BceWithLogitsLoss {
    /// Multiplies the part of the target that is 1; one number.
    pub pos_weight: Option<f64>,
    /// How elements are put together.
    pub reduction: Reduction,
}

const NAME: &str = "BCEWithLogitsLoss";

impl Loss for BceWithLogitsLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let (shape, got) = (input.dims(), target.dims());
        if shape != got {
            let expected = "expected the same shape".to_owned();
            return Err(LossError::Shape { loss: NAME, input: shape, target: got, expected });
        }
        let (x, t) = (input.cast(DType::F32), target.cast(DType::F32));
        // -(w t log s(x) + (1 - t) log s(-x)), with log s(-x) = log s(x) - x.
        let log = activation::log_sigmoid(x.clone());
        let factor = match self.pos_weight {
            Some(weight) => t.clone() * (weight - 1.0) + 1.0,
            None => Tensor::ones_like(&t),
        };
        Ok(self.reduction.apply((-t + 1.0) * x - log * factor))
    }
}

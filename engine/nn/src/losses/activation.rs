//! The activation that a loss applies to a prediction.

use burn::tensor::{Tensor, activation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LossError;
use crate::softmax::softmax;

/// An activation other than sigmoid and softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Applies the activation to every value of `[b, c, x, y, z]`.
    pub fn apply(self, x: Tensor<5>) -> Tensor<5> {
        match self {
            OtherActivation::Tanh => activation::tanh(x),
            OtherActivation::Relu => activation::relu(x),
            OtherActivation::LogSigmoid => activation::log_sigmoid(x),
            OtherActivation::Exp => x.exp(),
        }
    }
}

/// The activation that results from the options `sigmoid`, `softmax` and `other_act`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    Identity,
    Sigmoid,
    Softmax,
    Other(OtherActivation),
}

impl Activation {
    pub(super) fn choose(
        loss: &'static str,
        sigmoid: bool,
        softmax: bool,
        other: Option<OtherActivation>,
    ) -> Result<Self, LossError> {
        match (sigmoid, softmax, other) {
            (false, false, None) => Ok(Activation::Identity),
            (true, false, None) => Ok(Activation::Sigmoid),
            (false, true, None) => Ok(Activation::Softmax),
            (false, false, Some(other)) => Ok(Activation::Other(other)),
            _ => {
                let reason = "more than one of sigmoid, softmax and other_act is given; choose one".to_owned();
                Err(LossError::Option { key: "", loss, reason })
            }
        }
    }

    /// Applies the activation. Softmax is ignored with one channel.
    pub(super) fn apply(self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Activation::Sigmoid => activation::sigmoid(x),
            Activation::Softmax if x.dims()[1] > 1 => softmax(x),
            Activation::Other(other) => other.apply(x),
            Activation::Identity | Activation::Softmax => x,
        }
    }
}

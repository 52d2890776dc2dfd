//! Sigmoid, softmax or another activation (`monai.transforms.Activations`).

use burn::tensor::{DType, Tensor, activation};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PostError;
use crate::losses::OtherActivation;
use crate::softmax::softmax;

/// Applies an activation, in f32.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::post::Activations;
/// let scores = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let shares = Activations::default().softmax(true).apply(scores)?;
/// assert_eq!(shares.max().into_scalar::<f32>(), 0.5);
/// # Ok::<(), hearth_nn::post::PostError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct Activations {
    /// Whether to apply a sigmoid to every value.
    pub sigmoid: bool,
    /// Whether to apply a softmax over `dim`.
    pub softmax: bool,
    /// The axis of an item for the softmax; 0 for its channels.
    pub dim: i64,
    /// Another activation.
    pub other: Option<OtherActivation>,
}

impl Activations {
    /// Checks that the options do not contradict each other.
    ///
    /// # Errors
    /// If both `sigmoid` and `softmax` are set.
    pub fn check(&self) -> Result<(), PostError> {
        if self.sigmoid && self.softmax {
            let reason = "sigmoid and softmax cannot both be true".to_owned();
            return Err(PostError::Option { transform: "Activations", reason });
        }
        Ok(())
    }

    /// Applies the activation; the shape, `[b, c, x, y, z]`, is unchanged.
    ///
    /// # Errors
    /// As [`check`](Self::check), and if there is no axis `dim`.
    pub fn apply(&self, x: Tensor<5>) -> Result<Tensor<5>, PostError> {
        self.check()?;
        let mut x = x.cast(DType::F32);
        if self.sigmoid {
            x = activation::sigmoid(x);
        }
        if self.softmax {
            let axis = super::axis("Activations", self.dim, x.dims())?;
            x = softmax(x.swap_dims(1, axis)).swap_dims(1, axis);
        }
        Ok(match self.other {
            Some(other) => other.apply(x),
            None => x,
        })
    }
}

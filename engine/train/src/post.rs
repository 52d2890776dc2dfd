//! What happens to predictions and labels before metrics see them: [`Post`].

use std::fmt;

use burn::tensor::Tensor;
use hearth_engine::BoxError;
use hearth_nn::post::{Activations, AsDiscrete};
use serde::{Deserialize, Serialize};

/// A post-processing step, on a batch `[B, C, X, Y, Z]`. In a recipe: `{ name = "AsDiscrete", argmax = true, to_onehot = 2 }`.
///
/// MONAI decollates a batch into items first; since every step treats items alike, the batch as a whole gives the same.
#[derive(Serialize, Deserialize)]
#[serde(tag = "name")]
pub enum Post {
    /// Sigmoid, softmax or another activation.
    Activations(Activations),
    /// Argmax, one-hot, threshold, rounding.
    AsDiscrete(AsDiscrete),
    /// A function of your own.
    #[serde(skip)]
    Custom(Box<dyn Fn(Tensor<5>) -> Result<Tensor<5>, BoxError> + Send>),
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Post::Activations(step) => step.fmt(f),
            Post::AsDiscrete(step) => step.fmt(f),
            Post::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl Post {
    /// The prediction's usual steps for exclusive classes: the class of the largest logit, one channel for each class.
    pub fn argmax(classes: usize) -> Vec<Post> {
        vec![Post::AsDiscrete(AsDiscrete { argmax: true, to_onehot: Some(classes), ..AsDiscrete::default() })]
    }

    /// The label's usual step: one channel for each class.
    pub fn onehot(classes: usize) -> Vec<Post> {
        vec![Post::AsDiscrete(AsDiscrete { to_onehot: Some(classes), ..AsDiscrete::default() })]
    }

    /// The prediction's usual steps for one logit: sigmoid, then 1 where it is at least 0.5.
    pub fn sigmoid_threshold() -> Vec<Post> {
        vec![
            Post::Activations(Activations { sigmoid: true, ..Activations::default() }),
            Post::AsDiscrete(AsDiscrete { threshold: Some(0.5), ..AsDiscrete::default() }),
        ]
    }

    pub(crate) fn apply(&self, x: Tensor<5>) -> Result<Tensor<5>, BoxError> {
        match self {
            Post::Activations(step) => Ok(step.apply(x)?),
            Post::AsDiscrete(step) => Ok(step.apply(x)?),
            Post::Custom(step) => step(x),
        }
    }
}

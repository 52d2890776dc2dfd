//! How a network is led over an input: [`Inferer`].

use burn::tensor::{DType, Tensor};
use hearth_engine::BoxError;
use hearth_nn::inferers::SlidingWindowInferer;
use hearth_nn::networks::Network;
use serde::{Deserialize, Serialize};

/// How a network is led over an input. In a recipe: `{ name = "SlidingWindowInferer", roi_size = [96, 96, 96] }`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name")]
pub enum Inferer {
    /// One call with the whole input (MONAI's `SimpleInferer`).
    #[default]
    #[serde(rename = "SimpleInferer")]
    Simple,
    /// Window by window.
    #[serde(rename = "SlidingWindowInferer")]
    SlidingWindow(SlidingWindowInferer),
}

impl Inferer {
    /// The network's output for `x`, `[B, C, X, Y, Z]`, in f32.
    ///
    /// # Errors
    /// When the network or the window does not fit the input.
    pub fn infer<N: Network>(&self, x: Tensor<5>, network: &N) -> Result<Tensor<5>, BoxError> {
        let forward = |x: Tensor<5>| network.forward(x).cast(DType::F32);
        match self {
            Inferer::Simple => {
                network.check_input(x.dims())?;
                Ok(forward(x))
            }
            Inferer::SlidingWindow(inferer) => Ok(inferer.infer(x, &forward)?),
        }
    }
}

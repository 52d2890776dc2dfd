//! Two linear layers (`monai.networks.blocks.MLPBlock`).

use burn::module::Module;
use burn::tensor::Tensor;

use crate::layers::{ConfigError, Dropout, DropoutClock, Linear, Scope, gelu};

/// Two linear layers: linear, GELU, dropout, linear, dropout.
#[derive(Module, Debug)]
pub struct Mlp {
    /// The linear layer to the hidden features.
    pub linear1: Linear,
    /// The linear layer from the hidden features.
    pub linear2: Linear,
    drop1: Dropout,
    drop2: Dropout,
}

impl Mlp {
    /// Builds the layers with `features` inputs and outputs and `hidden` hidden features.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        [features, hidden]: [usize; 2],
        dropout: f64,
        clock: &DropoutClock,
    ) -> Result<Self, ConfigError> {
        Ok(Mlp {
            linear1: Linear::new(&scope.enter("linear1"), [features, hidden], true),
            linear2: Linear::new(&scope.enter("linear2"), [hidden, features], true),
            drop1: Dropout::new(scope.enter("drop1").path(), dropout, clock)?,
            drop2: Dropout::new(scope.enter("drop2").path(), dropout, clock)?,
        })
    }

    /// Applies the layers to the last axis of `[..., features]`; the shape is unchanged.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let hidden = self.drop1.forward(gelu(self.linear1.forward(x)));
        self.drop2.forward(self.linear2.forward(hidden))
    }
}

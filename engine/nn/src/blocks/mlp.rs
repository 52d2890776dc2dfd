//! Two linear layers (`monai.networks.blocks.MLPBlock`).

use burn::module::Module;
use burn::tensor::Tensor;

use crate::layers::{ConfigError, Dropout, DropoutClock, Linear, Scope, gelu};

/// Linear, GELU, dropout, linear, dropout.
#[derive(Module, Debug)]
pub struct Mlp {
    /// To the hidden features.
    pub linear1: Linear,
    /// And back.
    pub linear2: Linear,
    drop1: Dropout,
    drop2: Dropout,
}

impl Mlp {
    /// `features` in and out, `hidden` between.
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

    /// Same shape out as in; features are the last axis.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let hidden = self.drop1.forward(gelu(self.linear1.forward(x)));
        self.drop2.forward(self.linear2.forward(hidden))
    }
}

//! Stochastic depth.

use burn::module::{Flag, Module, Param};
use burn::tensor::{Tensor, TensorData};

use super::{ConfigError, DropoutClock};

/// Stochastic depth: in training, skips the residual block whose main path it is in, by item (Huang
/// et al., <https://arxiv.org/abs/1603.09382>). An item of the batch is 0 with probability `p`,
/// otherwise scaled by `1 / (1 - p)`.
#[derive(Module, Debug)]
pub struct DropPath {
    /// Whether the layer is in training mode; `freeze` clears it.
    pub training: Param<Flag>,
    #[module(skip)]
    p: f64,
    #[module(skip)]
    layer: String,
    #[module(skip)]
    clock: DropoutClock,
}

impl DropPath {
    /// Builds the layer. `layer` is its path, which keys its draws.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(layer: &str, p: f64, clock: &DropoutClock) -> Result<Self, ConfigError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(ConfigError::value("drop_path", p, "a probability is in [0, 1]"));
        }
        Ok(DropPath { training: Param::from_bool(true), p, layer: layer.to_owned(), clock: clock.clone() })
    }

    /// Applies the layer to `[b, ...]`; the shape is unchanged. The identity outside training.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if self.p == 0.0 || !x.is_autodiff() || !self.training.val().is_enabled() {
            return x;
        }
        let key = self.clock.key().with_text(&self.layer);
        let items = x.dims()[0];
        let keep = if self.p < 1.0 { (1.0 / (1.0 - self.p)) as f32 } else { 0.0 };
        let mask: Vec<f32> = (0..items as u64).map(|i| if key.uniform(i) < self.p { 0.0 } else { keep }).collect();
        let mut shape = [1; D];
        shape[0] = items;
        let mask = Tensor::<D>::from_data(TensorData::new(mask, shape), &x.device().inner()).cast(x.dtype());
        x * mask
    }
}

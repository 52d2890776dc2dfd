//! What every network can do: [`Network`].

use burn::module::Module;
use burn::tensor::Tensor;

/// An input a network cannot take.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{network} cannot take an input of shape {shape:?} [batch, channel, x, y, z]: {reason}")]
pub struct ShapeError {
    /// The network.
    pub network: &'static str,
    /// The input's shape.
    pub shape: [usize; 5],
    /// What is wrong and what to do.
    pub reason: String,
}

/// A network from `[b, in, x, y, z]` to `[b, out, x', y', z']`.
pub trait Network: Module + Sync + 'static {
    /// MONAI's name.
    fn name(&self) -> &'static str;

    /// 2 or 3. A 2-D network takes `z = 1`, and its exported kernels have no third axis.
    fn spatial_dims(&self) -> usize;

    /// Channels in and out.
    fn channels(&self) -> [usize; 2];

    /// The output; the main one if there are several.
    fn forward(&self, x: Tensor<5>) -> Tensor<5>;

    /// All outputs, in MONAI's order; with deep supervision the main one is the first, unless the network says otherwise.
    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        vec![self.forward(x)]
    }

    /// Which of all outputs is the main one, that of [`forward`](Self::forward).
    fn main_output(&self) -> usize {
        0
    }

    /// All outputs, and in training the loss `[1]` that some networks add to that of their outputs.
    fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>) {
        (self.forward_all(x), None)
    }

    /// Says why an input of this shape would not do.
    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError>;

    /// The state-dict key of the parameter at this path of module fields; `None` leaves it out.
    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.to_owned())
    }

    /// Further keys under which the state dict holds the parameter at this path: MONAI registers some modules twice.
    fn torch_aliases(&self, _path: &str) -> Vec<String> {
        Vec::new()
    }

    /// Keys the draws of this step (dropout). The trainer calls it before each step, so that a resumed run draws what
    /// an uninterrupted one would.
    fn set_draw(&self, _seed: u64, _step: u64) {}
}

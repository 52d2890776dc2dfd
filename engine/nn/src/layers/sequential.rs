//! Sequences of layers.

use burn::module::Module;
use burn::tensor::Tensor;

use super::{Act, Conv, ConvTranspose, Convolution, Dropout, Linear, Norm, Pool, ResidualUnit, UpSample};
use crate::named::Named;

/// A layer that maps one batch to one batch.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few dozen of them, and modules cannot be boxed")]
pub enum Layer {
    /// An activation.
    Act(Act),
    /// A convolution.
    Conv(Conv),
    /// A transposed convolution.
    ConvTranspose(ConvTranspose),
    /// A convolution and the layers after it.
    Convolution(Convolution),
    /// A dropout layer.
    Dropout(Dropout),
    /// A linear layer over all axes but the batch.
    Linear(Linear),
    /// A normalization layer.
    Norm(Norm),
    /// A pooling layer.
    Pool(Pool),
    /// Convolutions with a shortcut.
    ResidualUnit(ResidualUnit),
    /// A sequence of layers.
    Sequence(Named<Layer>),
    /// An upsampling layer.
    UpSample(UpSample),
}

impl Layer {
    /// Maps `[b, c, x, y, z]` to `[b, c', x', y', z']`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Layer::Act(layer) => layer.forward(x),
            Layer::Conv(layer) => layer.forward(x),
            Layer::ConvTranspose(layer) => layer.forward(x),
            Layer::Convolution(layer) => layer.forward(x),
            Layer::Dropout(layer) => layer.forward(x),
            Layer::Linear(layer) => layer.forward_flat(x),
            Layer::Norm(layer) => layer.forward(x),
            Layer::Pool(layer) => layer.forward(x),
            Layer::ResidualUnit(layer) => layer.forward(x),
            Layer::Sequence(layers) => layers.forward(x),
            Layer::UpSample(layer) => layer.forward(x),
        }
    }
}

/// A sequence of layers (`torch.nn.Sequential`).
pub type Sequential = Named<Layer>;

impl Sequential {
    /// Runs the layers in order: `[b, c, x, y, z]` to what the last one returns.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let mut x = x;
        let mut layers = self.iter().peekable();
        while let Some(layer) = layers.next() {
            x = match layer {
                Layer::Norm(norm) => match layers.next_if(|next| matches!(next, Layer::Act(_))) {
                    Some(Layer::Act(act)) => norm.forward_with(x, act),
                    _ => norm.forward(x),
                },
                layer => layer.forward(x),
            };
        }
        x
    }
}

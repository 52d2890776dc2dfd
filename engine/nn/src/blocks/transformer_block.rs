//! Attention and a perceptron, each with a shortcut (`monai.networks.blocks.TransformerBlock`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::cast;

use super::{Mlp, SelfAttention};
use crate::layers::{ConfigError, DropoutClock, LayerNorm, Scope};

/// Options of a [`TransformerBlock`].
#[derive(Clone, Debug)]
pub struct TransformerOptions {
    /// Number of features of a token.
    pub hidden_size: usize,
    /// Number of hidden features of the perceptron; 0 for `hidden_size`.
    pub mlp_dim: usize,
    /// Number of heads, a divisor of `hidden_size`.
    pub num_heads: usize,
    /// Dropout probability.
    pub dropout_rate: f64,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// The clock that keys the dropout draws.
    pub clock: DropoutClock,
}

/// A block of the vision transformer (Dosovitskiy et al., <https://arxiv.org/abs/2010.11929>).
#[derive(Module, Debug)]
pub struct TransformerBlock {
    /// The perceptron.
    pub mlp: Mlp,
    /// The norm before the attention.
    pub norm1: LayerNorm,
    /// The attention.
    pub attn: SelfAttention,
    /// The norm before the perceptron.
    pub norm2: LayerNorm,
    /// The norm of the optional cross attention in MONAI's block. It is in MONAI's state dict even
    /// without cross attention; it is not used.
    pub norm_cross_attn: LayerNorm,
}

impl TransformerBlock {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &TransformerOptions) -> Result<Self, ConfigError> {
        let TransformerOptions { hidden_size, mlp_dim, num_heads, dropout_rate, qkv_bias, ref clock } = *options;
        if num_heads == 0 || !hidden_size.is_multiple_of(num_heads) {
            let expected = format!("hidden_size, {hidden_size}, must be divisible by it");
            return Err(ConfigError::value("num_heads", num_heads, expected));
        }
        let hidden = if mlp_dim == 0 { hidden_size } else { mlp_dim };
        let attn = scope.enter("attn");
        Ok(TransformerBlock {
            mlp: Mlp::new(&scope.enter("mlp"), [hidden_size, hidden], dropout_rate, clock)?,
            norm1: LayerNorm::new(&scope.enter("norm1"), hidden_size),
            attn: SelfAttention::new(&attn, [hidden_size, num_heads], dropout_rate, qkv_bias, clock)?,
            norm2: LayerNorm::new(&scope.enter("norm2"), hidden_size),
            norm_cross_attn: LayerNorm::new(&scope.enter("norm_cross_attn"), hidden_size),
        })
    }

    /// Maps `[b, tokens, hidden]` to the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let x = add(x.clone(), self.attn.forward(self.norm1.forward(x)));
        add(x.clone(), self.mlp.forward(self.norm2.forward(x)))
    }
}

/// Adds the shortcut, converted to the type of the main path.
fn add(shortcut: Tensor<3>, main: Tensor<3>) -> Tensor<3> {
    let dtype = main.dtype();
    cast(shortcut, dtype) + main
}

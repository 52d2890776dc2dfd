//! Attention and a perceptron, each with a shortcut (`monai.networks.blocks.TransformerBlock`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::cast;

use super::{Mlp, SelfAttention};
use crate::layers::{ConfigError, DropoutClock, LayerNorm, Scope};

/// How to build a [`TransformerBlock`].
#[derive(Clone, Debug)]
pub struct TransformerOptions {
    /// Features of a token.
    pub hidden_size: usize,
    /// Hidden features of the perceptron; 0 for `hidden_size`.
    pub mlp_dim: usize,
    /// Heads, a divisor of `hidden_size`.
    pub num_heads: usize,
    /// Dropout probability.
    pub dropout_rate: f64,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// The key of the dropout draws.
    pub clock: DropoutClock,
}

/// A block of the vision transformer (Dosovitskiy et al., <https://arxiv.org/abs/2010.11929>).
#[derive(Module, Debug)]
pub struct TransformerBlock {
    /// The perceptron.
    pub mlp: Mlp,
    /// Before the attention.
    pub norm1: LayerNorm,
    /// The attention.
    pub attn: SelfAttention,
    /// Before the perceptron.
    pub norm2: LayerNorm,
    /// Of the cross attention that MONAI's block may have: present in its state dict even without
    /// one, and not used.
    pub norm_cross_attn: LayerNorm,
}

impl TransformerBlock {
    /// Builds the block.
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

    /// `[b, tokens, hidden]` in and out.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let x = add(x.clone(), self.attn.forward(self.norm1.forward(x)));
        add(x.clone(), self.mlp.forward(self.norm2.forward(x)))
    }
}

/// The shortcut is converted to the type of the main path.
fn add(shortcut: Tensor<3>, main: Tensor<3>) -> Tensor<3> {
    let dtype = main.dtype();
    cast(shortcut, dtype) + main
}

//! Self-attention over all voxels of an image (`monai.networks.blocks.SpatialAttentionBlock`).

use burn::module::Module;
use burn::tensor::Tensor;

use super::self_attention::{fused, join_heads, product, softmax, split_heads};
use crate::layers::{ConfigError, Dropout, DropoutClock, GroupNorm, Linear, Scope, residual_sum};

/// Options of a [`SpatialAttentionBlock`].
#[derive(Clone, Copy, Debug)]
pub struct SpatialAttentionOptions {
    /// Number of input and output channels.
    pub channels: usize,
    /// Channels per head; `None` for one head.
    pub head_channels: Option<usize>,
    /// Number of groups of the norm.
    pub groups: usize,
    /// The norm's epsilon.
    pub eps: f64,
    /// Whether a linear layer follows the attention.
    pub include_fc: bool,
    /// Whether queries, keys and values come from one linear layer.
    pub use_combined_linear: bool,
}

/// The projections of queries, keys and values, from one linear layer or three, and their
/// attention.
#[derive(Module, Debug)]
struct Attention {
    qkv: Option<Linear>,
    to_q: Option<Linear>,
    to_k: Option<Linear>,
    to_v: Option<Linear>,
    out_proj: Option<Linear>,
    drop_weights: Dropout,
    #[module(skip)]
    heads: usize,
}

impl Attention {
    fn new(scope: &Scope, options: &SpatialAttentionOptions, heads: usize) -> Result<Self, ConfigError> {
        let channels = options.channels;
        let linear = |wanted: bool, name: &str, output| {
            wanted.then(|| Linear::new(&scope.enter(name), [channels, output], true))
        };
        let apart = !options.use_combined_linear;
        Ok(Attention {
            qkv: linear(options.use_combined_linear, "qkv", 3 * channels),
            to_q: linear(apart, "to_q", channels),
            to_k: linear(apart, "to_k", channels),
            to_v: linear(apart, "to_v", channels),
            out_proj: linear(options.include_fc, "out_proj", channels),
            drop_weights: Dropout::new(scope.enter("drop_weights").path(), 0.0, &DropoutClock::default())?,
            heads,
        })
    }

    /// Maps `[b, tokens, channels]` to the same shape.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let qkv = match &self.qkv {
            Some(qkv) => qkv.forward(x),
            None => {
                let parts = [&self.to_q, &self.to_k, &self.to_v];
                Tensor::cat(parts.into_iter().flatten().map(|linear| linear.forward(x.clone())).collect(), 2)
            }
        };
        let scale = (qkv.dims()[2] as f64 / (3 * self.heads) as f64).powf(-0.5);
        let attended = fused(qkv, self.heads, scale, None, None, &self.drop_weights).unwrap_or_else(|qkv| {
            let [q, k, v] = split_heads(qkv, self.heads);
            join_heads(product(softmax(product(q, k.transpose()) * scale), v))
        });
        match &self.out_proj {
            Some(linear) => linear.forward(attended),
            None => attended,
        }
    }
}

/// A group norm and self-attention in which each voxel is a token (Vaswani et al.,
/// <https://arxiv.org/abs/1706.03762>). The result is added to the input.
#[derive(Module, Debug)]
pub struct SpatialAttentionBlock {
    norm: GroupNorm,
    attn: Attention,
}

impl SpatialAttentionBlock {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &SpatialAttentionOptions) -> Result<Self, ConfigError> {
        let SpatialAttentionOptions { channels, head_channels, groups, eps, .. } = *options;
        let heads = match head_channels {
            None => 1,
            Some(of_one) if of_one > 0 && channels.is_multiple_of(of_one) => channels / of_one,
            Some(of_one) => {
                let expected = format!("the {channels} channels of `{}` must be divisible by it", scope.path());
                return Err(ConfigError::value("num_head_channels", of_one, expected));
            }
        };
        Ok(SpatialAttentionBlock {
            norm: GroupNorm::new(&scope.enter("norm"), groups, channels, eps, true)?,
            attn: Attention::new(&scope.enter("attn"), options, heads)?,
        })
    }

    /// Applies the block to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [b, c, dx, dy, dz] = x.dims();
        let tokens = self.norm.forward(x.clone()).reshape([b, c, dx * dy * dz]).swap_dims(1, 2);
        let attended = self.attn.forward(tokens).swap_dims(1, 2).reshape([b, c, dx, dy, dz]);
        residual_sum(attended, x)
    }
}

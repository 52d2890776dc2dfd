//! The blocks that networks are built from, with MONAI's names, defaults and state-dict keys.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use hearth_nn::blocks::{ChannelSELayer, ChannelSEOptions};
//! use hearth_nn::layers::Scope;
//!
//! let scope = Scope::new(&Device::default(), 0);
//! let block = ChannelSELayer::new(&scope.enter("se"), &ChannelSEOptions::residual(6, 2))?;
//! assert_eq!(block.forward(Tensor::ones([2, 6, 5, 5, 1], &Device::default())).dims(), [2, 6, 5, 5, 1]);
//! # Ok::<(), hearth_nn::ConfigError>(())
//! ```

mod mb_conv_block;
mod mlp;
mod patch_embed;
mod patch_embedding;
mod patch_merging;
mod position_embedding;
mod se_block;
mod self_attention;
mod spatial_attention;
mod squeeze_and_excitation;
mod swin_transformer_block;
mod transformer_block;
mod unet_block;
mod unetr_block;
mod window;
mod window_attention;

pub use mb_conv_block::{MBConvBlock, MBConvOptions};
pub(crate) use mb_conv_block::{SamePadding, mb_conv_name, normed_convolution};
pub use mlp::Mlp;
pub use patch_embed::PatchEmbed;
pub use patch_embedding::{PatchEmbeddingBlock, PatchEmbeddingOptions, PositionEmbedding, Projection};
pub use patch_merging::{Merging, PatchMerging};
pub(crate) use se_block::EXPANSION;
pub use se_block::{SEBlock, SEBlockKind, SEBlockOptions};
pub use self_attention::SelfAttention;
pub(crate) use self_attention::{fused, product, softmax, split_heads};
pub use spatial_attention::{SpatialAttentionBlock, SpatialAttentionOptions};
pub use squeeze_and_excitation::{ChannelSELayer, ChannelSEOptions};
pub use swin_transformer_block::{SwinTransformerBlock, SwinTransformerOptions};
pub use transformer_block::{TransformerBlock, TransformerOptions};
pub use unet_block::{UnetBlock, UnetOutBlock};
pub use unetr_block::{UnetrBasicBlock, UnetrOptions, UnetrPrUpBlock, UnetrUpBlock};
pub(crate) use window::shifted_regions;
pub use window_attention::{WindowAttention, WindowAttentionOptions};

//! Networks, one file each, with MONAI's names, options and keys of the state dict.
//!
//! A network is built from its configuration (`UNetConfig` for [`UNet`]) by `init(device, seed)`, or by
//! name as in a recipe ([`NetworkConfig`]). All are a [`Network`]: `[b, in, x, y, z]` to
//! `[b, out, x', y', z']`, with `z = 1` for two axes.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use hearth_nn::networks::{Network, UNetConfig};
//!
//! let net = UNetConfig::new(2, 1, 3, &[4, 8], &[2]).init(&Device::default(), 0)?;
//! net.check_input([1, 1, 32, 32, 1])?;
//! let scores = net.forward(Tensor::zeros([1, 1, 32, 32, 1], &Device::default()));
//! assert_eq!(scores.dims(), [1, 3, 32, 32, 1]);
//! let error = net.check_input([1, 1, 31, 32, 1]).unwrap_err();
//! assert!(error.to_string().ends_with("pad or crop to [32, 32, 1]"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Must come before the networks, which use its macro.
#[macro_use]
mod spec;

mod ahnet;
mod ahnet_blocks;
mod any;
mod attentionunet;
mod autoencoder;
mod autoencoderkl;
mod autoencoderkl_blocks;
mod basic_unet;
mod basic_unetplusplus;
mod check;
mod classifier;
mod critic;
mod defaults;
mod densenet;
mod diffusion_blocks;
mod diffusion_model_unet;
mod dints;
mod dints_cell;
mod dints_space;
mod discriminator;
mod dynunet;
mod efficientnet;
mod facts;
mod flexible_unet;
mod generator;
mod highresnet;
mod inception;
mod nest_transformer;
mod netadapter;
mod network;
mod nnunet_blocks;
mod patchgan_discriminator;
mod plain_conv_unet;
mod point_regressor;
mod reg_resnet;
mod regressor;
mod residual_encoder_unet;
mod resnet;
mod resnet_block;
mod resnet_features;
mod segresnet;
mod segresnet_ds;
mod segresnet_vae;
mod senet;
mod stem;
mod swin_stage;
mod swin_transformer;
mod swin_unetr;
mod torchvision_fc;
mod unest;
mod unet;
mod unetr;
mod varautoencoder;
mod vit;
mod vnet;

pub use ahnet::{AHNet, AHNetConfig, AHNetUpsample};
pub use any::AnyNetwork;
pub use attentionunet::{AttentionUnet, AttentionUnetConfig};
pub use autoencoder::{AutoEncoder, AutoEncoderConfig};
pub use autoencoderkl::{AutoencoderKL, AutoencoderKLConfig, PerLevel};
pub use basic_unet::{BasicUNet, BasicUNetConfig};
pub use basic_unetplusplus::{BasicUNetPlusPlus, BasicUNetPlusPlusConfig};
pub use check::check_divisible;
pub use classifier::{Classifier, ClassifierConfig};
pub use critic::{Critic, CriticConfig};
pub use densenet::{DenseNet, DenseNetConfig};
pub use diffusion_model_unet::{DiffusionModelUNet, DiffusionModelUNetConfig};
pub use dints::{DiNTS, DiNTSConfig};
pub use dints_space::{ArchCode, DintsSpace, TopologyInstanceConfig};
pub use discriminator::DiscriminatorConfig;
pub use dynunet::{DynUNet, DynUNetConfig};
pub use efficientnet::{EfficientNetBN, EfficientNetBNConfig};
pub use flexible_unet::{FlexibleUNet, FlexibleUNetConfig, InterpMode, PreConv};
pub use generator::{Generator, GeneratorConfig};
pub use highresnet::{ChannelMatching, HighResLayer, HighResNet, HighResNetConfig};
pub use netadapter::{NetAdapter, NetAdapterConfig};
pub use network::{Network, ShapeError};
pub use patchgan_discriminator::{
    MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig, PatchDiscriminator, PatchDiscriminatorConfig,
};
pub use plain_conv_unet::{PlainConvUNet, PlainConvUNetConfig};
pub use point_regressor::{PointRegressor, PointRegressorConfig};
pub use reg_resnet::{RegResNet, RegResNetConfig, WarpMode, WarpPadding};
pub use regressor::{Regressor, RegressorConfig};
pub use residual_encoder_unet::{ResidualEncoderUNet, ResidualEncoderUNetConfig};
pub use resnet::{ResNet, ResNetConfig};
pub use resnet_block::{ResNetBlock, ResNetBlockKind, ShortcutType};
pub use resnet_features::{ResNetFeatures, ResNetFeaturesConfig};
pub use segresnet::{SegResNet, SegResNetConfig};
pub use segresnet_ds::{SegResNetDS, SegResNetDSConfig};
pub use segresnet_vae::{SegResNetVAE, SegResNetVAEConfig};
pub use senet::{
    SENET154, SENet, SENetConfig, SENetPreset, SERESNET50, SERESNET101, SERESNET152, SERESNEXT50, SERESNEXT101,
};
pub use spec::{NetworkConfig, NetworkSpec};
pub use swin_transformer::{SwinTransformer, SwinTransformerConfig};
pub use swin_unetr::{SwinUNETR, SwinUNETRConfig};
pub use torchvision_fc::TorchVisionFCModelConfig;
pub use unest::{UNesT, UNesTConfig};
pub use unet::{UNet, UNetConfig};
pub use unetr::{UNETR, UNETRConfig};
pub use varautoencoder::{VaeOutput, VarAutoEncoder, VarAutoEncoderConfig};
pub use vit::{ViT, ViTConfig};
pub use vnet::{VNet, VNetConfig};

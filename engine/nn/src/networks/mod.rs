//! Networks, one file each.

// Its macro must precede the networks that use it.
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
mod regressor;
mod residual_encoder_unet;
mod resnet;
mod resnet_block;
mod resnet_features;
mod segresnet;
mod segresnet_ds;
mod segresnet_vae;
mod senet;
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

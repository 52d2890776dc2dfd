//! Networks, one file each.

mod check;
mod densenet;
mod netadapter;
mod network;
mod resnet;
mod resnet_block;
mod senet;
mod swin_stage;
mod swin_transformer;
mod swin_unetr;
mod torchvision_fc;
mod unet;
mod unetr;
mod vit;

pub use densenet::{DenseNet, DenseNetConfig};
pub use netadapter::{NetAdapter, NetAdapterConfig};
pub use network::{AnyNetwork, Network, NetworkConfig, ShapeError};
pub use resnet::{ResNet, ResNetConfig};
pub use resnet_block::{ResNetBlock, ResNetBlockKind, ShortcutType};
pub use senet::{
    SENET154, SENet, SENetConfig, SENetPreset, SERESNET50, SERESNET101, SERESNET152, SERESNEXT50, SERESNEXT101,
};
pub use swin_transformer::{SwinTransformer, SwinTransformerConfig};
pub use swin_unetr::{SwinUNETR, SwinUNETRConfig};
pub use torchvision_fc::TorchVisionFCModelConfig;
pub use unet::{UNet, UNetConfig};
pub use unetr::{UNETR, UNETRConfig};
pub use vit::{ViT, ViTConfig};

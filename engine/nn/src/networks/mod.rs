//! Networks, one file each.

mod ahnet;
mod attentionunet;
mod autoencoder;
mod basic_unet;
mod basic_unetplusplus;
mod classifier;
mod critic;
mod defaults;
mod discriminator;
mod dynunet;
mod facts;
mod generator;
mod highresnet;
mod network;
mod patchgan_discriminator;
mod regressor;
mod segresnet;
mod segresnet_ds;
mod segresnet_vae;
mod unet;
mod varautoencoder;
mod vnet;

pub use ahnet::{AHNet, AHNetConfig, AHNetUpsample};
pub use attentionunet::{AttentionUnet, AttentionUnetConfig};
pub use autoencoder::{AutoEncoder, AutoEncoderConfig};
pub use basic_unet::{BasicUNet, BasicUNetConfig};
pub use basic_unetplusplus::{BasicUNetPlusPlus, BasicUNetPlusPlusConfig};
pub use classifier::{Classifier, ClassifierConfig};
pub use critic::{Critic, CriticConfig};
pub use discriminator::DiscriminatorConfig;
pub use dynunet::{DynUNet, DynUNetConfig};
pub use generator::{Generator, GeneratorConfig};
pub use highresnet::{ChannelMatching, HighResLayer, HighResNet, HighResNetConfig};
pub use network::{AnyNetwork, Network, NetworkConfig, ShapeError};
pub use patchgan_discriminator::{
    MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig, PatchDiscriminator, PatchDiscriminatorConfig,
};
pub use regressor::{Regressor, RegressorConfig};
pub use segresnet::{SegResNet, SegResNetConfig};
pub use segresnet_ds::{SegResNetDS, SegResNetDSConfig};
pub use segresnet_vae::{SegResNetVAE, SegResNetVAEConfig};
pub use unet::{UNet, UNetConfig};
pub use varautoencoder::{VaeOutput, VarAutoEncoder, VarAutoEncoderConfig};
pub use vnet::{VNet, VNetConfig};

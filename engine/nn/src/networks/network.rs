//! What every network can do, and the networks a recipe can name.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::{
    AHNet, AHNetConfig, AttentionUnet, AttentionUnetConfig, AutoEncoder, AutoEncoderConfig, BasicUNet, BasicUNetConfig,
    BasicUNetPlusPlus, BasicUNetPlusPlusConfig, Classifier, ClassifierConfig, Critic, CriticConfig, DenseNet,
    DenseNetConfig, DiscriminatorConfig, DynUNet, DynUNetConfig, Generator, GeneratorConfig, HighResNet,
    HighResNetConfig, MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig, NetAdapter, NetAdapterConfig,
    PatchDiscriminator, PatchDiscriminatorConfig, Regressor, RegressorConfig, ResNet, ResNetConfig, ResNetFeatures,
    ResNetFeaturesConfig, SENET154, SENet, SENetConfig, SERESNET50, SERESNET101, SERESNET152, SERESNEXT50,
    SERESNEXT101, SegResNet, SegResNetConfig, SegResNetDS, SegResNetDSConfig, SegResNetVAE, SegResNetVAEConfig,
    SwinTransformer, SwinTransformerConfig, SwinUNETR, SwinUNETRConfig, TorchVisionFCModelConfig, UNETR, UNETRConfig,
    UNet, UNetConfig, VNet, VNetConfig, VarAutoEncoder, VarAutoEncoderConfig, ViT, ViTConfig,
};
use crate::layers::ConfigError;

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

/// Makes [`NetworkConfig`] from lines `Variant(Config) => Network, input channels, how it is built;`, and
/// [`AnyNetwork`] from the types of networks.
macro_rules! networks {
    (
        configs { $( $(#[$doc:meta])* $variant:ident($config:ty) => $network:ident, $channels:expr, $init:expr; )* }
        types { $( $type:ident, )* }
    ) => {
        /// A network by name, as a recipe gives it: `name = "UNet"` and the network's own parameters.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "name")]
        // A program has a few of them.
        #[allow(clippy::large_enum_variant)]
        pub enum NetworkConfig {
            $( $(#[$doc])* $variant($config), )*
        }

        impl NetworkConfig {
            /// How many names there are.
            #[cfg(test)]
            pub(super) const COUNT: usize = [$( stringify!($variant), )*].len();

            /// Builds the network with weights drawn from `seed`.
            pub fn init(&self, device: &Device, seed: u64) -> Result<AnyNetwork, ConfigError> {
                match self {
                    $( NetworkConfig::$variant(config) => {
                        let init: fn(&$config, &Device, u64) -> Result<$network, ConfigError> = $init;
                        init(config, device, seed).map(AnyNetwork::$network)
                    } )*
                }
            }

            /// Whether it gives further outputs in training that want a loss of their own
            /// ([`DeepSupervisionLoss`](crate::losses::DeepSupervisionLoss)).
            pub fn has_deep_supervision(&self) -> bool {
                match self {
                    NetworkConfig::BasicUNetPlusPlus(config) => config.deep_supervision,
                    NetworkConfig::DynUNet(config) => config.deep_supervision,
                    NetworkConfig::SegResNetDS(config) => config.dsdepth > 1,
                    _ => false,
                }
            }

            /// Channels of the image it takes.
            pub fn in_channels(&self) -> usize {
                match self {
                    $( NetworkConfig::$variant(config) => {
                        let channels: fn(&$config) -> usize = $channels;
                        channels(config)
                    } )*
                }
            }
        }

        /// Any network a [`NetworkConfig`] can ask for.
        #[derive(Module, Debug)]
        // A program has one of them, and modules cannot be boxed.
        #[allow(clippy::large_enum_variant)]
        pub enum AnyNetwork {
            $(
                #[doc = concat!("[`", stringify!($type), "`]")]
                $type($type),
            )*
        }

        impl Network for AnyNetwork {
            fn name(&self) -> &'static str {
                match self { $( AnyNetwork::$type(net) => net.name(), )* }
            }

            fn spatial_dims(&self) -> usize {
                match self { $( AnyNetwork::$type(net) => net.spatial_dims(), )* }
            }

            fn channels(&self) -> [usize; 2] {
                match self { $( AnyNetwork::$type(net) => net.channels(), )* }
            }

            fn forward(&self, x: Tensor<5>) -> Tensor<5> {
                match self { $( AnyNetwork::$type(net) => net.forward(x), )* }
            }

            fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
                match self { $( AnyNetwork::$type(net) => net.forward_all(x), )* }
            }

            fn main_output(&self) -> usize {
                match self { $( AnyNetwork::$type(net) => net.main_output(), )* }
            }

            fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>) {
                match self { $( AnyNetwork::$type(net) => net.forward_with_loss(x), )* }
            }

            fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
                match self { $( AnyNetwork::$type(net) => net.check_input(shape), )* }
            }

            fn torch_name(&self, path: &str) -> Option<String> {
                match self { $( AnyNetwork::$type(net) => net.torch_name(path), )* }
            }

            fn torch_aliases(&self, path: &str) -> Vec<String> {
                match self { $( AnyNetwork::$type(net) => net.torch_aliases(path), )* }
            }

            fn set_draw(&self, seed: u64, step: u64) {
                match self { $( AnyNetwork::$type(net) => net.set_draw(seed, step), )* }
            }
        }
    };
}

networks! {
    configs {
        /// The anisotropic hybrid network.
        #[serde(alias = "AHnet", alias = "Ahnet")]
        AHNet(AHNetConfig) => AHNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The U-Net with attention gates.
        AttentionUnet(AttentionUnetConfig) => AttentionUnet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The convolutional autoencoder.
        AutoEncoder(AutoEncoderConfig) => AutoEncoder, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The U-Net with max pooling.
        #[serde(alias = "BasicUnet", alias = "Basicunet", alias = "basicunet")]
        BasicUNet(BasicUNetConfig) => BasicUNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The nested U-Net.
        #[serde(alias = "BasicUnetPlusPlus", alias = "BasicunetPlusPlus", alias = "basicunetplusplus")]
        BasicUNetPlusPlus(BasicUNetPlusPlusConfig) => BasicUNetPlusPlus, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// From images to classes.
        Classifier(ClassifierConfig) => Classifier, |c| first(&c.in_shape), |c, d, s| c.init(d, s);
        /// The critic of a Wasserstein GAN.
        Critic(CriticConfig) => Critic, |c| first(&c.in_shape), |c, d, s| c.init(d, s);
        /// The densely connected network, its blocks given.
        #[serde(alias = "Densenet")]
        DenseNet(DenseNetConfig) => DenseNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// With blocks of 6, 12, 24 and 16 layers.
        #[serde(alias = "Densenet121", alias = "densenet121")]
        DenseNet121(DenseNetConfig) => DenseNet, |c| c.in_channels, |c, d, s| c.with_blocks(&[6, 12, 24, 16]).init(d, s);
        /// With blocks of 6, 12, 32 and 32 layers.
        #[serde(alias = "Densenet169", alias = "densenet169")]
        DenseNet169(DenseNetConfig) => DenseNet, |c| c.in_channels, |c, d, s| c.with_blocks(&[6, 12, 32, 32]).init(d, s);
        /// With blocks of 6, 12, 48 and 32 layers.
        #[serde(alias = "Densenet201", alias = "densenet201")]
        DenseNet201(DenseNetConfig) => DenseNet, |c| c.in_channels, |c, d, s| c.with_blocks(&[6, 12, 48, 32]).init(d, s);
        /// With blocks of 6, 12, 64 and 48 layers.
        #[serde(alias = "Densenet264", alias = "densenet264")]
        DenseNet264(DenseNetConfig) => DenseNet, |c| c.in_channels, |c, d, s| c.with_blocks(&[6, 12, 64, 48]).init(d, s);
        /// Real or generated.
        Discriminator(DiscriminatorConfig) => Classifier, |c| first(&c.in_shape), |c, d, s| c.init(d, s);
        /// The U-Net of nnU-Net.
        #[serde(alias = "DynUnet", alias = "Dynunet")]
        DynUNet(DynUNetConfig) => DynUNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// From latent numbers to images.
        Generator(GeneratorConfig) => Generator, |c| first(&c.latent_shape), |c, d, s| c.init(d, s);
        /// The high-resolution network.
        HighResNet(HighResNetConfig) => HighResNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// Discriminators of patches of several sizes.
        MultiScalePatchDiscriminator(MultiScalePatchDiscriminatorConfig) => MultiScalePatchDiscriminator, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// A ResNet with another last layer.
        NetAdapter(NetAdapterConfig) => NetAdapter, |c| c.model.n_input_channels, |c, d, s| c.init(d, s);
        /// A discriminator of patches.
        PatchDiscriminator(PatchDiscriminatorConfig) => PatchDiscriminator, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// From images to a few numbers.
        Regressor(RegressorConfig) => Regressor, |c| first(&c.in_shape), |c, d, s| c.init(d, s);
        /// The residual network, its blocks given.
        ResNet(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.init(d, s);
        /// The maps of a ResNet's stages.
        ResNetFeatures(ResNetFeaturesConfig) => ResNetFeatures, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// Of depth 10.
        #[serde(rename = "resnet10", alias = "ResNet10")]
        ResNet10(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.of_depth(10)?.init(d, s);
        /// Of depth 18.
        #[serde(rename = "resnet18", alias = "ResNet18")]
        ResNet18(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.of_depth(18)?.init(d, s);
        /// Of depth 34.
        #[serde(rename = "resnet34", alias = "ResNet34")]
        ResNet34(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.of_depth(34)?.init(d, s);
        /// Of depth 50.
        #[serde(rename = "resnet50", alias = "ResNet50")]
        ResNet50(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.of_depth(50)?.init(d, s);
        /// Of depth 101.
        #[serde(rename = "resnet101", alias = "ResNet101")]
        ResNet101(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.of_depth(101)?.init(d, s);
        /// Of depth 152.
        #[serde(rename = "resnet152", alias = "ResNet152")]
        ResNet152(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.of_depth(152)?.init(d, s);
        /// Of depth 200.
        #[serde(rename = "resnet200", alias = "ResNet200")]
        ResNet200(ResNetConfig) => ResNet, |c| c.n_input_channels, |c, d, s| c.of_depth(200)?.init(d, s);
        /// Squeeze and excitation, its blocks given.
        #[serde(alias = "SEnet", alias = "Senet")]
        SENet(SENetConfig) => SENet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The largest of the paper.
        #[serde(alias = "SEnet154", alias = "Senet154", alias = "senet154")]
        SENet154(SENetConfig) => SENet, |c| c.in_channels, |c, d, s| c.preset(&SENET154)?.init(d, s);
        /// ResNet50 with squeeze and excitation.
        #[serde(alias = "SEresnet50", alias = "Seresnet50", alias = "seresnet50")]
        SEResNet50(SENetConfig) => SENet, |c| c.in_channels, |c, d, s| c.preset(&SERESNET50)?.init(d, s);
        /// ResNet101 with squeeze and excitation.
        #[serde(alias = "SEresnet101", alias = "Seresnet101", alias = "seresnet101")]
        SEResNet101(SENetConfig) => SENet, |c| c.in_channels, |c, d, s| c.preset(&SERESNET101)?.init(d, s);
        /// ResNet152 with squeeze and excitation.
        #[serde(alias = "SEresnet152", alias = "Seresnet152", alias = "seresnet152")]
        SEResNet152(SENetConfig) => SENet, |c| c.in_channels, |c, d, s| c.preset(&SERESNET152)?.init(d, s);
        /// ResNeXt50 with squeeze and excitation.
        #[serde(alias = "SEResNeXt50", alias = "SEresnext50", alias = "Seresnext50", alias = "seresnext50")]
        SEResNext50(SENetConfig) => SENet, |c| c.in_channels, |c, d, s| c.preset(&SERESNEXT50)?.init(d, s);
        /// ResNeXt101 with squeeze and excitation.
        #[serde(alias = "SEResNeXt101", alias = "SEresnext101", alias = "Seresnext101", alias = "seresnext101")]
        SEResNext101(SENetConfig) => SENet, |c| c.in_channels, |c, d, s| c.preset(&SERESNEXT101)?.init(d, s);
        /// The residual encoder and decoder.
        SegResNet(SegResNetConfig) => SegResNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// SegResNet with deep supervision.
        SegResNetDS(SegResNetDSConfig) => SegResNetDS, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// SegResNetDS with a second decoder.
        SegResNetDS2(SegResNetDSConfig) => SegResNetDS, |c| c.in_channels, |c, d, s| c.init_with_second_decoder(d, s);
        /// SegResNet with a variational autoencoder.
        SegResNetVAE(SegResNetVAEConfig) => SegResNetVAE, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// Attention within shifted windows.
        SwinTransformer(SwinTransformerConfig) => SwinTransformer, |c| c.in_chans, |c, d, s| c.init(d, s);
        /// The Swin transformer with a convolutional decoder.
        #[serde(alias = "SwinUnetr")]
        SwinUNETR(SwinUNETRConfig) => SwinUNETR, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// A ResNet of torchvision with another last layer.
        TorchVisionFCModel(TorchVisionFCModelConfig) => NetAdapter, |_| 3, |c, d, s| c.init(d, s);
        /// The vision transformer with a convolutional decoder.
        #[serde(alias = "Unetr")]
        UNETR(UNETRConfig) => UNETR, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The residual U-Net.
        #[serde(alias = "Unet", alias = "unet")]
        UNet(UNetConfig) => UNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The V-Net.
        VNet(VNetConfig) => VNet, |c| c.in_channels, |c, d, s| c.init(d, s);
        /// The variational autoencoder.
        VarAutoEncoder(VarAutoEncoderConfig) => VarAutoEncoder, |c| first(&c.in_shape), |c, d, s| c.init(d, s);
        /// The vision transformer.
        ViT(ViTConfig) => ViT, |c| c.in_channels, |c, d, s| c.init(d, s);
    }
    types {
        AHNet,
        AttentionUnet,
        AutoEncoder,
        BasicUNet,
        BasicUNetPlusPlus,
        Classifier,
        Critic,
        DenseNet,
        DynUNet,
        Generator,
        HighResNet,
        MultiScalePatchDiscriminator,
        NetAdapter,
        PatchDiscriminator,
        Regressor,
        ResNet,
        ResNetFeatures,
        SENet,
        SegResNet,
        SegResNetDS,
        SegResNetVAE,
        SwinTransformer,
        SwinUNETR,
        UNETR,
        UNet,
        VNet,
        VarAutoEncoder,
        ViT,
    }
}

/// The channels of a shape that starts with them.
fn first(shape: &[usize]) -> usize {
    shape.first().copied().unwrap_or(0)
}

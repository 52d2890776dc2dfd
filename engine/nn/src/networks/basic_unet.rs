//! The U-Net with max pooling of `monai.networks.nets.BasicUNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::InterpolateMode;
use hearth_kernels::conv3d::{Channels, ConvShape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{affine_instance, leaky_relu, nda, one, three_dims, two, yes};
use super::facts::{Facts, by_facts};
use crate::layers::{
    AdnOptions, ConfigError, Conv, Convolution, ConvolutionOptions, DropoutSpec, LayerSpec, Scope, UpSample,
    UpSampleOptions, UpsampleMode, in_space, max_pool,
};
use crate::named::Named;
use crate::trace::joined;

/// Options of [`BasicUNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct BasicUNetConfig {
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    #[serde(default = "two")]
    pub out_channels: usize,
    /// Six numbers of channels: those of the five levels, top first, and of the last upsampling.
    #[serde(default = "features")]
    #[setters(into)]
    pub features: Vec<usize>,
    /// Activation; `""` for none.
    #[serde(default = "leaky")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// Norm; `""` for none.
    #[serde(default = "affine_instance")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Dropout probability.
    #[serde(default)]
    #[setters(into)]
    pub dropout: DropoutSpec,
    /// Upsampling of a level to the size of the next.
    #[serde(default = "deconv")]
    pub upsample: UpsampleMode,
}

pub(super) fn features() -> Vec<usize> {
    vec![32, 32, 64, 128, 256, 32]
}

pub(super) fn leaky() -> Option<LayerSpec> {
    leaky_relu(0.1)
}

pub(super) fn deconv() -> UpsampleMode {
    UpsampleMode::Deconv
}

impl Default for BasicUNetConfig {
    fn default() -> Self {
        BasicUNetConfig {
            spatial_dims: 3,
            in_channels: 1,
            out_channels: 2,
            features: features(),
            act: leaky(),
            norm: affine_instance(),
            bias: true,
            dropout: DropoutSpec::default(),
            upsample: deconv(),
        }
    }
}

impl BasicUNetConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<BasicUNet, ConfigError> {
        let channels = [self.in_channels, self.out_channels];
        // At least one voxel must remain after four halvings.
        let facts = Facts::new("BasicUNet", self.spatial_dims, channels)?.at_least(16);
        let [f0, f1, f2, f3, f4, f5] = six(&self.features)?;
        let blocks = Blocks {
            spatial_dims: self.spatial_dims,
            adn: AdnOptions {
                ordering: nda(),
                act: self.act.clone(),
                norm: self.norm.clone(),
                dropout: Some(self.dropout.clone()),
                clock: facts.clock.clone(),
            },
            bias: self.bias,
            upsample: self.upsample,
            interpolation: InterpolateMode::Linear,
            align_corners: true,
        };
        let root = Scope::new(device, seed);
        let scope = |name: &str| root.enter(name);
        Ok(BasicUNet {
            conv_0: blocks.two_conv(&scope("conv_0"), [self.in_channels, f0])?,
            down_1: blocks.down(&scope("down_1"), [f0, f1])?,
            down_2: blocks.down(&scope("down_2"), [f1, f2])?,
            down_3: blocks.down(&scope("down_3"), [f2, f3])?,
            down_4: blocks.down(&scope("down_4"), [f3, f4])?,
            upcat_4: blocks.up_cat(&scope("upcat_4"), f4, f3, f3, true)?,
            upcat_3: blocks.up_cat(&scope("upcat_3"), f3, f2, f2, true)?,
            upcat_2: blocks.up_cat(&scope("upcat_2"), f2, f1, f1, true)?,
            upcat_1: blocks.up_cat(&scope("upcat_1"), f1, f0, f5, false)?,
            final_conv: Conv::new(&scope("final_conv"), [f5, self.out_channels], [1; 3], ConvShape::default(), true),
            facts,
        })
    }
}

/// Checks and returns the numbers of channels.
pub(super) fn six(features: &[usize]) -> Result<[usize; 6], ConfigError> {
    match <[usize; 6]>::try_from(features) {
        Ok(six) if six.iter().all(|n| *n > 0) => Ok(six),
        _ => Err(ConfigError::value("features", features, "expected six numbers, each at least 1")),
    }
}

/// The shared options of all blocks of a network.
pub(super) struct Blocks {
    pub spatial_dims: usize,
    pub adn: AdnOptions,
    pub bias: bool,
    pub upsample: UpsampleMode,
    pub interpolation: InterpolateMode,
    pub align_corners: bool,
}

/// Two convolutions in a row.
pub(super) type TwoConv = Named<Convolution>;

/// Max pooling by 2 and two convolutions.
#[derive(Module, Debug)]
pub(super) struct Down {
    convs: TwoConv,
    #[module(skip)]
    kernel: [usize; 3],
}

/// Upsampling, concatenation with the encoder's features, and two convolutions.
#[derive(Module, Debug)]
pub(super) struct UpCat {
    upsample: UpSample,
    convs: TwoConv,
}

impl Blocks {
    pub fn two_conv(&self, scope: &Scope, channels: [usize; 2]) -> Result<TwoConv, ConfigError> {
        let [input, output] = channels;
        let conv = |name: &str, input: usize| {
            let kernel = in_space(self.spatial_dims, 3);
            let (bias, adn) = (self.bias, Some(self.adn.clone()));
            let options = ConvolutionOptions { bias, adn, ..ConvolutionOptions::new([input, output], kernel) };
            Ok::<_, ConfigError>((name.to_owned(), Convolution::new(&scope.enter(name), &options)?))
        };
        Ok(Named::new(vec![conv("conv_0", input)?, conv("conv_1", output)?]))
    }

    pub fn down(&self, scope: &Scope, channels: [usize; 2]) -> Result<Down, ConfigError> {
        let convs = self.two_conv(&scope.enter("convs"), channels)?;
        Ok(Down { convs, kernel: in_space(self.spatial_dims, 2) })
    }

    /// Builds an upsampling block. `halves`: whether upsampling halves the number of channels.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn up_cat(
        &self,
        scope: &Scope,
        input: usize,
        encoder: usize,
        output: usize,
        halves: bool,
    ) -> Result<UpCat, ConfigError> {
        let up = if halves { input / 2 } else { input };
        let options = UpSampleOptions {
            interpolation: self.interpolation,
            align_corners: self.align_corners,
            ..UpSampleOptions::new(self.spatial_dims, [input, up], self.upsample)
        };
        Ok(UpCat {
            upsample: UpSample::new(&scope.enter("upsample"), &options)?,
            convs: self.two_conv(&scope.enter("convs"), [encoder + up, output])?,
        })
    }
}

pub(super) fn two_conv(convs: &TwoConv, x: Tensor<5>) -> Tensor<5> {
    two_conv_of(convs, Channels::One(x))
}

/// Runs two convolutions on channels that may be split over two tensors.
fn two_conv_of(convs: &TwoConv, x: Channels) -> Tensor<5> {
    joined(convs.iter().fold(x, |x, conv| Channels::One(conv.forward_of(x, None))))
}

impl Down {
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        two_conv(&self.convs, max_pool(x, self.kernel, self.kernel, [0; 3]))
    }
}

impl UpCat {
    /// Upsamples `below`, which has half the size of `encoder`, and combines them.
    pub fn forward(&self, below: Tensor<5>, encoder: Tensor<5>) -> Tensor<5> {
        let up = self.upsample.forward(below);
        let target = encoder.dims();
        // Pooling drops the last voxel of an axis of odd length; its neighbour is repeated instead.
        let up = (2..5).fold(up, |up, axis| match up.dims()[axis] {
            n if n == target[axis] => up,
            n => Tensor::cat(vec![up.clone(), up.narrow(axis, n - 1, 1)], axis),
        });
        two_conv_of(&self.convs, Channels::Two(encoder, up))
    }

    /// Runs [`forward`](Self::forward), or only upsampling and convolutions if there are no encoder
    /// features.
    pub fn forward_to(&self, below: Tensor<5>, encoder: Option<Tensor<5>>) -> Tensor<5> {
        match encoder {
            Some(encoder) => self.forward(below, encoder),
            None => two_conv(&self.convs, self.upsample.forward(below)),
        }
    }
}

/// A U-Net with max pooling (Falk et al., <https://doi.org/10.1038/s41592-018-0261-2>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis at least 16.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{BasicUNetConfig, Network};
/// let config = BasicUNetConfig { spatial_dims: 2, features: vec![4; 6], ..BasicUNetConfig::default() };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 17, 16, 1], &Device::default())).dims(), [1, 2, 17, 16, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct BasicUNet {
    conv_0: TwoConv,
    down_1: Down,
    down_2: Down,
    down_3: Down,
    down_4: Down,
    upcat_4: UpCat,
    upcat_3: UpCat,
    upcat_2: UpCat,
    upcat_1: UpCat,
    final_conv: Conv,
    #[module(skip)]
    facts: Facts,
}

impl Network for BasicUNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let x0 = two_conv(&self.conv_0, x);
        let x1 = self.down_1.forward(x0.clone());
        let x2 = self.down_2.forward(x1.clone());
        let x3 = self.down_3.forward(x2.clone());
        let x4 = self.down_4.forward(x3.clone());
        let u4 = self.upcat_4.forward(x4, x3);
        let u3 = self.upcat_3.forward(u4, x2);
        let u2 = self.upcat_2.forward(u3, x1);
        self.final_conv.forward(self.upcat_1.forward(u2, x0))
    }
}

network_entry!(BasicUNetConfig {
    name: "BasicUNet",
    aliases: &[],
    about: "Segmentation: plain U-Net with maximum pooling.",
    paper: "Falk et al. 2019, doi:10.1038/s41592-018-0261-2",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

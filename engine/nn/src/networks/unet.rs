//! The U-Net with residual units of `monai.networks.nets.UNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::Channels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{instance, nda, prelu, three, yes};
use super::{Network, ShapeError};
use crate::layers::{
    AdnOptions, Axes, ConfigError, Convolution, ConvolutionOptions, DropoutClock, DropoutSpec, LayerSpec, ResidualUnit,
    Scope,
};
use crate::named::Named;
use crate::trace::joined;

/// Options of [`UNet`]: MONAI's parameters and defaults.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::networks::{Network, UNetConfig};
/// let config = UNetConfig::new(3, 1, 2, &[4, 8, 16], &[2, 2]).num_res_units(2).dropout(0.1);
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!((net.name(), net.channels()), ("UNet", [1, 2]));
/// assert!(UNetConfig::new(3, 1, 2, &[4], &[]).init(&Device::default(), 0).is_err()); // one level
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct UNetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// Number of channels of each level, top first; at least two.
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Strides between levels, one less than `channels`; further ones are ignored.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel of the convolutions, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub kernel_size: Axes,
    /// Kernel of the transposed convolutions, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub up_kernel_size: Axes,
    /// Number of convolutions per residual unit; 0 for plain convolutions.
    #[serde(default)]
    pub num_res_units: usize,
    /// Activation; `""` or null for none.
    #[serde(default = "prelu")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// Norm; `""` or null for none.
    #[serde(default = "instance")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Dropout probability.
    #[serde(default)]
    #[setters(into)]
    pub dropout: DropoutSpec,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Order of activation, dropout and norm.
    #[serde(default = "nda")]
    #[setters(into)]
    pub adn_ordering: String,
}

impl UNetConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(
        spatial_dims: usize,
        in_channels: usize,
        out_channels: usize,
        channels: &[usize],
        strides: &[usize],
    ) -> Self {
        UNetConfig {
            spatial_dims,
            in_channels,
            out_channels,
            channels: channels.to_vec(),
            strides: strides.iter().copied().map(Axes::All).collect(),
            kernel_size: three(),
            up_kernel_size: three(),
            num_res_units: 0,
            act: prelu(),
            norm: instance(),
            dropout: DropoutSpec::default(),
            bias: true,
            adn_ordering: nda(),
        }
    }

    /// Builds the network. The weights have PyTorch's default distributions and depend on `seed`
    /// only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<UNet, ConfigError> {
        let builder = Builder::new(self)?;
        let scope = Scope::new(device, seed);
        let model = builder.level(&scope.enter("model"), [self.in_channels, self.out_channels], 0)?;
        let mut divisor = [1_usize; 3];
        for stride in &builder.strides {
            divisor.iter_mut().zip(stride).for_each(|(d, s)| *d = d.saturating_mul(*s));
        }
        Ok(UNet {
            model,
            spatial_dims: self.spatial_dims,
            channels: [self.in_channels, self.out_channels],
            divisor,
            clock: builder.adn.clock,
        })
    }
}

/// An entry of the tree of blocks.
#[derive(Module, Debug)]
enum Block {
    Convolution(Convolution),
    Residual(ResidualUnit),
    /// A sequence of blocks.
    Sequence(Named<Block>),
    /// The input and output of the inner blocks, concatenated along the channels.
    Skip(Named<Block>),
}

impl Block {
    /// The two inputs of a concatenation stay separate until a layer needs them as one tensor.
    fn forward(&self, x: Channels) -> Channels {
        match self {
            Block::Convolution(block) => Channels::One(block.forward_of(x, None)),
            Block::Residual(block) => Channels::One(block.forward(joined(x))),
            Block::Sequence(blocks) => blocks.iter().fold(x, |x, block| block.forward(x)),
            Block::Skip(blocks) => {
                let x = joined(x);
                let below = blocks.iter().fold(Channels::One(x.clone()), |x, block| block.forward(x));
                Channels::Two(x, joined(below))
            }
        }
    }
}

/// A U-Net (Ronneberger et al., <https://arxiv.org/abs/1505.04597>) with residual units (Kerfoot et
/// al., <https://doi.org/10.1007/978-3-030-12029-0_40>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis must be divisible by the product of its
/// strides.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, UNetConfig};
/// let config = UNetConfig { num_res_units: 2, ..UNetConfig::new(3, 1, 2, &[4, 8, 16], &[2, 2]) };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 8, 8, 8], &Device::default())).dims(), [1, 2, 8, 8, 8]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct UNet {
    model: Block,
    #[module(skip)]
    spatial_dims: usize,
    #[module(skip)]
    channels: [usize; 2],
    #[module(skip)]
    divisor: [usize; 3],
    #[module(skip)]
    clock: DropoutClock,
}

impl Network for UNet {
    fn spatial_dims(&self) -> usize {
        self.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.clock.next_pass();
        joined(self.model.forward(Channels::One(x)))
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let fail = |reason: String| Err(ShapeError { network: "UNet", shape, reason });
        if shape[1] != self.channels[0] {
            return fail(format!("it was built with in_channels = {}", self.channels[0]));
        }
        if self.spatial_dims == 2 && shape[4] != 1 {
            return fail("it is 2-D, so the last axis must be 1".to_owned());
        }
        let axes = &shape[2..];
        if axes.iter().zip(self.divisor).any(|(n, d)| *n == 0 || n % d != 0) {
            let fits: Vec<usize> = axes.iter().zip(self.divisor).map(|(n, d)| n.next_multiple_of(d).max(d)).collect();
            return fail(format!(
                "x, y, z must be divisible by {:?}, the product of the strides; pad or crop to {fits:?}",
                self.divisor
            ));
        }
        Ok(())
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.clock.set(seed, step);
    }
}

/// The checked options resolved to 3-D.
struct Builder<'a> {
    config: &'a UNetConfig,
    strides: Vec<[usize; 3]>,
    kernel: [usize; 3],
    up_kernel: [usize; 3],
    adn: AdnOptions,
}

impl<'a> Builder<'a> {
    fn new(config: &'a UNetConfig) -> Result<Self, ConfigError> {
        let UNetConfig { spatial_dims, channels, strides, .. } = config;
        if ![2, 3].contains(spatial_dims) {
            return Err(ConfigError::value("spatial_dims", spatial_dims, "expected 2 or 3"));
        }
        if channels.len() < 2 {
            return Err(ConfigError::value("channels", channels, "expected at least two levels"));
        }
        if strides.len() < channels.len() - 1 {
            let expected = format!("expected {}, one less than channels", channels.len() - 1);
            return Err(ConfigError::value("strides", strides, expected));
        }
        if strides.len() >= channels.len() {
            tracing::warn!("UNet: only the first {} of {} strides are used", channels.len() - 1, strides.len());
        }
        let counts = channels.iter().chain([&config.in_channels, &config.out_channels]);
        if counts.into_iter().any(|n| *n == 0) {
            return Err(ConfigError::value("channels", channels, "every number of channels must be at least 1"));
        }
        let dims = *spatial_dims;
        let strides =
            strides[..channels.len() - 1].iter().map(|s| s.positive("strides", dims)).collect::<Result<_, _>>()?;
        Ok(Builder {
            strides,
            kernel: config.kernel_size.positive("kernel_size", dims)?,
            up_kernel: config.up_kernel_size.positive("up_kernel_size", dims)?,
            adn: AdnOptions {
                ordering: config.adn_ordering.clone(),
                act: config.act.clone(),
                norm: config.norm.clone(),
                dropout: Some(config.dropout.clone()),
                clock: DropoutClock::default(),
            },
            config,
        })
    }

    /// Builds a level: down, all lower levels with a skip connection, up.
    fn level(&self, scope: &Scope, channels: [usize; 2], level: usize) -> Result<Block, ConfigError> {
        let [input, output] = channels;
        let own = self.config.channels[level];
        let stride = self.strides[level];
        let below = self.config.channels[level + 1];
        let inner = scope.enter("1").enter("submodule");
        let bottom = level + 2 == self.config.channels.len();
        let (submodule, from_below) = if bottom {
            (self.down(&inner, [own, below], [1; 3])?, below)
        } else {
            (self.level(&inner, [own, own], level + 1)?, own)
        };
        let down = self.down(&scope.enter("0"), [input, own], stride)?;
        let up = self.up(&scope.enter("2"), [own + from_below, output], stride, level == 0)?;
        let skip = Block::Skip(Named::new(vec![("submodule".to_owned(), submodule)]));
        Ok(sequence([down, skip, up]))
    }

    fn options(&self, channels: [usize; 2], kernel: [usize; 3], stride: [usize; 3]) -> ConvolutionOptions {
        let (bias, adn) = (self.config.bias, Some(self.adn.clone()));
        ConvolutionOptions { stride, bias, adn, ..ConvolutionOptions::new(channels, kernel) }
    }

    fn down(&self, scope: &Scope, channels: [usize; 2], stride: [usize; 3]) -> Result<Block, ConfigError> {
        let options = self.options(channels, self.kernel, stride);
        match self.config.num_res_units {
            0 => Ok(Block::Convolution(Convolution::new(scope, &options)?)),
            units => Ok(Block::Residual(ResidualUnit::new(scope, &options, units, false)?)),
        }
    }

    fn up(&self, scope: &Scope, channels: [usize; 2], stride: [usize; 3], top: bool) -> Result<Block, ConfigError> {
        let residual = self.config.num_res_units > 0;
        let mut options = self.options(channels, self.up_kernel, stride);
        options.transposed = true;
        if top && !residual {
            options.adn = None;
        }
        if !residual {
            return Ok(Block::Convolution(Convolution::new(scope, &options)?));
        }
        let conv = Convolution::new(&scope.enter("0"), &options)?;
        let options = self.options([channels[1]; 2], self.kernel, [1; 3]);
        let unit = ResidualUnit::new(&scope.enter("1"), &options, 1, top)?;
        Ok(sequence([Block::Convolution(conv), Block::Residual(unit)]))
    }
}

/// Builds a sequence of blocks named "0", "1", ...
fn sequence<const N: usize>(blocks: [Block; N]) -> Block {
    Block::Sequence(Named::new(blocks.into_iter().enumerate().map(|(i, block)| (i.to_string(), block)).collect()))
}

network_entry!(UNetConfig {
    name: "UNet",
    aliases: &[],
    about: "Segmentation: U-Net of residual units.",
    paper: "Kerfoot et al. 2019, doi:10.1007/978-3-030-12029-0_40",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
channels = [16, 32, 64, 128, 256]
strides = [2, 2, 2, 2]
num_res_units = 2
norm = "batch""#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

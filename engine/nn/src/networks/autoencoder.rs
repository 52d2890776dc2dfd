//! The convolutional autoencoder of `monai.networks.nets.AutoEncoder`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{instance, nda, prelu, three, two, yes};
use super::facts::{Facts, by_facts};
use crate::layers::{
    AdnOptions, Axes, ConfigError, Convolution, ConvolutionOptions, DropoutClock, DropoutSpec, Layer, LayerSpec,
    ResidualUnit, Scope, Sequential,
};
use crate::named::Named;

/// Options of [`AutoEncoder`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct AutoEncoderConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output.
    pub out_channels: usize,
    /// Number of channels of each encoding layer, top first.
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Stride of each encoding layer.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel of the convolutions.
    #[serde(default = "three")]
    #[setters(into)]
    pub kernel_size: Axes,
    /// Kernel of the transposed convolutions.
    #[serde(default = "three")]
    #[setters(into)]
    pub up_kernel_size: Axes,
    /// Number of convolutions per residual unit of the encoder; 0 for plain convolutions. Residual
    /// units of the decoder have one convolution.
    #[serde(default)]
    pub num_res_units: usize,
    /// Number of channels of each layer between encoder and decoder.
    #[serde(default)]
    #[setters(into)]
    pub inter_channels: Option<Vec<usize>>,
    /// Dilations of the layers between encoder and decoder; null for 1.
    #[serde(default)]
    #[setters(into)]
    pub inter_dilations: Option<Vec<Axes>>,
    /// Number of convolutions per residual unit between encoder and decoder; 0 for plain
    /// convolutions.
    #[serde(default = "two")]
    pub num_inter_units: usize,
    /// Activation; `""` or null for none.
    #[serde(default = "prelu")]
    #[setters(into)]
    pub act: Option<LayerSpec>,
    /// Norm; `""` or null for none.
    #[serde(default = "instance")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Dropout probability; null for none.
    #[serde(default)]
    #[setters(into)]
    pub dropout: Option<DropoutSpec>,
    /// Whether convolutions have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Number of zeros around the input of every convolution; null keeps the size at stride 1.
    #[serde(default)]
    #[setters(into)]
    pub padding: Option<Axes>,
}

impl AutoEncoderConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(
        spatial_dims: usize,
        in_channels: usize,
        out_channels: usize,
        channels: &[usize],
        strides: &[usize],
    ) -> Self {
        AutoEncoderConfig {
            spatial_dims,
            in_channels,
            out_channels,
            channels: channels.to_vec(),
            strides: strides.iter().copied().map(Axes::All).collect(),
            kernel_size: three(),
            up_kernel_size: three(),
            num_res_units: 0,
            inter_channels: None,
            inter_dilations: None,
            num_inter_units: two(),
            act: prelu(),
            norm: instance(),
            dropout: None,
            bias: true,
            padding: None,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AutoEncoder, ConfigError> {
        let facts = Facts::new("AutoEncoder", self.spatial_dims, [self.in_channels, self.out_channels])?;
        let parts = Parts::new(&Scope::new(device, seed), self, &facts.clock)?;
        Ok(AutoEncoder { encode: parts.encode, intermediate: parts.intermediate, decode: parts.decode, facts })
    }
}

/// An autoencoder: an encoder and a decoder, with the layers of `inter_channels` between them.
///
/// `[b, in, x, y, z]` to `[b, out, x', y', z']`; axes that are divisible by the product of their
/// strides keep their size.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{AutoEncoderConfig, Network};
/// let net = AutoEncoderConfig::new(2, 1, 1, &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 16, 16, 1], &Device::default())).dims(), [1, 1, 16, 16, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct AutoEncoder {
    encode: Sequential,
    intermediate: Sequential,
    decode: Sequential,
    #[module(skip)]
    facts: Facts,
}

impl Network for AutoEncoder {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        self.decode.forward(self.intermediate.forward(self.encode.forward(x)))
    }
}

/// The three parts of an autoencoder, shared with the variational autoencoder.
pub(super) struct Parts {
    pub encode: Sequential,
    pub intermediate: Sequential,
    pub decode: Sequential,
    /// Number of channels of the encoded features.
    pub encoded: usize,
    /// Kernel and strides of the encoder.
    pub kernel: [usize; 3],
    pub strides: Vec<[usize; 3]>,
}

impl Parts {
    pub fn new(scope: &Scope, config: &AutoEncoderConfig, clock: &DropoutClock) -> Result<Self, ConfigError> {
        let AutoEncoderConfig { spatial_dims, channels, strides, .. } = config;
        if channels.is_empty() || channels.contains(&0) {
            return Err(ConfigError::value("channels", channels, "expected one layer or more, each of at least 1"));
        }
        if channels.len() != strides.len() {
            return Err(ConfigError::value("strides", strides, format!("expected {}, as channels", channels.len())));
        }
        let dims = *spatial_dims;
        let strides = strides.iter().map(|s| s.positive("strides", dims)).collect::<Result<Vec<_>, _>>()?;
        let builder = Builder {
            config,
            kernel: config.kernel_size.positive("kernel_size", dims)?,
            up_kernel: config.up_kernel_size.positive("up_kernel_size", dims)?,
            padding: config.padding.as_ref().map(|padding| padding.resolve("padding", dims, 0)).transpose()?,
            clock,
        };
        let mut width = config.in_channels;
        let mut encode = Vec::new();
        for (i, (output, stride)) in channels.iter().zip(&strides).enumerate() {
            let name = format!("encode_{i}");
            let options = ConvolutionOptions { stride: *stride, ..builder.options([width, *output], builder.kernel) };
            let layer = unit(&scope.enter("encode").enter(&name), &options, config.num_res_units)?;
            encode.push((name, layer));
            width = *output;
        }
        let mut intermediate = Vec::new();
        for (i, (output, dilation)) in builder.between()?.into_iter().enumerate() {
            let name = format!("inter_{i}");
            let options = ConvolutionOptions { dilation, ..builder.options([width, output], builder.kernel) };
            let layer = unit(&scope.enter("intermediate").enter(&name), &options, config.num_inter_units)?;
            intermediate.push((name, layer));
            width = output;
        }
        let encoded = width;
        let mut decode = Vec::new();
        let outputs = channels.iter().rev().skip(1).chain([&config.out_channels]);
        for (i, (output, stride)) in outputs.zip(strides.iter().rev()).enumerate() {
            let name = format!("decode_{i}");
            let last = i + 1 == strides.len();
            let layer = builder.up(&scope.enter("decode").enter(&name), [width, *output], *stride, last)?;
            decode.push((name, layer));
            width = *output;
        }
        Ok(Parts {
            encode: Named::new(encode),
            intermediate: Named::new(intermediate),
            decode: Named::new(decode),
            encoded,
            kernel: builder.kernel,
            strides,
        })
    }
}

/// A residual unit of `count` convolutions, or a plain convolution for 0.
fn unit(scope: &Scope, options: &ConvolutionOptions, count: usize) -> Result<Layer, ConfigError> {
    Ok(match count {
        0 => Layer::Convolution(Convolution::new(scope, options)?),
        count => Layer::ResidualUnit(ResidualUnit::new(scope, options, count, false)?),
    })
}

struct Builder<'a> {
    config: &'a AutoEncoderConfig,
    kernel: [usize; 3],
    up_kernel: [usize; 3],
    padding: Option<[usize; 3]>,
    clock: &'a DropoutClock,
}

impl Builder<'_> {
    fn options(&self, channels: [usize; 2], kernel: [usize; 3]) -> ConvolutionOptions {
        let adn = AdnOptions {
            ordering: nda(),
            act: self.config.act.clone(),
            norm: self.config.norm.clone(),
            dropout: self.config.dropout.clone(),
            clock: self.clock.clone(),
        };
        let base = ConvolutionOptions::new(channels, kernel);
        ConvolutionOptions { padding: self.padding, bias: self.config.bias, adn: Some(adn), ..base }
    }

    /// Channels and dilation of each layer between encoder and decoder.
    fn between(&self) -> Result<Vec<(usize, [usize; 3])>, ConfigError> {
        let channels = self.config.inter_channels.clone().unwrap_or_default();
        if channels.contains(&0) {
            return Err(ConfigError::value("inter_channels", channels, "expected at least 1 each"));
        }
        let ones = || vec![Axes::All(1); channels.len()];
        let dilations = self.config.inter_dilations.clone().filter(|list| !list.is_empty()).unwrap_or_else(ones);
        if dilations.len() != channels.len() {
            let expected = format!("expected {}, as inter_channels", channels.len());
            return Err(ConfigError::value("inter_dilations", dilations, expected));
        }
        let dims = self.config.spatial_dims;
        let dilations = dilations.iter().map(|dilation| dilation.positive("inter_dilations", dims));
        channels.into_iter().zip(dilations).map(|(channels, dilation)| Ok((channels, dilation?))).collect()
    }

    fn up(&self, scope: &Scope, channels: [usize; 2], stride: [usize; 3], last: bool) -> Result<Layer, ConfigError> {
        let residual = self.config.num_res_units > 0;
        let mut options = self.options(channels, self.up_kernel);
        (options.stride, options.transposed) = (stride, true);
        if last && !residual {
            options.adn = None;
        }
        let conv = Convolution::new(&scope.enter("conv"), &options)?;
        let mut layers = vec![("conv".to_owned(), Layer::Convolution(conv))];
        if residual {
            let options = self.options([channels[1]; 2], self.kernel);
            let unit = ResidualUnit::new(&scope.enter("resunit"), &options, 1, last)?;
            layers.push(("resunit".to_owned(), Layer::ResidualUnit(unit)));
        }
        Ok(Layer::Sequence(Named::new(layers)))
    }
}

network_entry!(AutoEncoderConfig {
    name: "AutoEncoder",
    aliases: &[],
    about: "Reconstruction and denoising of images.",
    paper: "",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 1
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

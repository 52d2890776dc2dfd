//! Generation of images from latent vectors: `monai.networks.nets.Generator`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{instance, nda, prelu, three, two, yes};
use super::facts::Facts;
use super::{Network, ShapeError};
use crate::layers::{
    AdnOptions, Axes, ConfigError, Convolution, ConvolutionOptions, DropoutSpec, Layer, LayerSpec, Linear,
    ResidualUnit, Scope, Sequential,
};
use crate::named::Named;

/// Options of [`Generator`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct GeneratorConfig {
    /// Shape of the latent vector without the batch, up to four axes.
    #[setters(into)]
    pub latent_shape: Vec<usize>,
    /// Channels and size of the first features; two sizes for 2-D, three for 3-D.
    #[setters(into)]
    pub start_shape: Vec<usize>,
    /// Number of channels of each layer; the last is that of the image.
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Factor by which each layer increases the size.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel of the convolutions, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub kernel_size: Axes,
    /// Number of convolutions per residual unit; 0 for plain transposed convolutions.
    #[serde(default = "two")]
    pub num_res_units: usize,
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
}

impl GeneratorConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(latent_shape: &[usize], start_shape: &[usize], channels: &[usize], strides: &[usize]) -> Self {
        GeneratorConfig {
            latent_shape: latent_shape.to_vec(),
            start_shape: start_shape.to_vec(),
            channels: channels.to_vec(),
            strides: strides.iter().copied().map(Axes::All).collect(),
            kernel_size: three(),
            num_res_units: two(),
            act: prelu(),
            norm: instance(),
            dropout: None,
            bias: true,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<Generator, ConfigError> {
        let GeneratorConfig { latent_shape, start_shape, channels, strides, .. } = self;
        if latent_shape.is_empty() || latent_shape.len() > 4 || latent_shape.contains(&0) {
            return Err(ConfigError::value("latent_shape", latent_shape, "expected one to four numbers of at least 1"));
        }
        let dims = start_shape.len().saturating_sub(1);
        if ![2, 3].contains(&dims) || start_shape.contains(&0) {
            return Err(ConfigError::value("start_shape", start_shape, "expected the channels and two or three sizes"));
        }
        let Some(&outputs) = channels.last().filter(|_| !channels.contains(&0)) else {
            return Err(ConfigError::value("channels", channels, "expected one layer or more, each of at least 1"));
        };
        if strides.len() != channels.len() {
            return Err(ConfigError::value("strides", strides, format!("expected {}, as channels", channels.len())));
        }
        let facts = Facts::new("Generator", dims, [latent_shape[0], outputs])?;
        let adn = AdnOptions {
            ordering: nda(),
            act: self.act.clone(),
            norm: self.norm.clone(),
            dropout: self.dropout.clone(),
            clock: facts.clock.clone(),
        };
        let scope = Scope::new(device, seed);
        let kernel = self.kernel_size.positive("kernel_size", dims)?;
        let mut width = start_shape[0];
        let mut layers = Vec::with_capacity(channels.len());
        for (i, (output, stride)) in channels.iter().zip(strides).enumerate() {
            let name = format!("layer_{i}");
            let scope = scope.enter("conv").enter(&name);
            let last = i + 1 == channels.len();
            let residual = self.num_res_units > 0;
            let base = ConvolutionOptions { bias: self.bias, ..ConvolutionOptions::new([width, *output], kernel) };
            let up = ConvolutionOptions {
                stride: stride.positive("strides", dims)?,
                transposed: true,
                adn: (!last && !residual).then(|| adn.clone()),
                ..base.clone()
            };
            let layer = if residual {
                let up = Convolution::new(&scope.enter("0"), &up)?;
                let options = ConvolutionOptions { channels: [*output; 2], adn: Some(adn.clone()), ..base };
                let unit = ResidualUnit::new(&scope.enter("1"), &options, self.num_res_units, last)?;
                Layer::Sequence(Named::numbered([Layer::Convolution(up), Layer::ResidualUnit(unit)]))
            } else {
                Layer::Convolution(Convolution::new(&scope, &up)?)
            };
            layers.push((name, layer));
            width = *output;
        }
        let features = [latent_shape.iter().product(), start_shape.iter().product()];
        let (mut latent, mut start) = ([1; 4], [1; 4]);
        latent[..latent_shape.len()].copy_from_slice(latent_shape);
        start[..start_shape.len()].copy_from_slice(start_shape);
        Ok(Generator {
            linear: Linear::new(&scope.enter("linear"), features, true),
            conv: Named::new(layers),
            latent,
            start,
            facts,
        })
    }
}

/// A generator: a linear layer to the first features, and transposed convolutions that upsample
/// them to an image.
///
/// `[b, latent_shape...]`, padded with axes of length 1 at the end, to `[b, out, x, y, z]` with `x`
/// the first size of `start_shape` times all strides.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{GeneratorConfig, Network};
/// let net = GeneratorConfig::new(&[8], &[4, 5, 5], &[4, 1], &[2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 8, 1, 1, 1], &Device::default())).dims(), [3, 1, 20, 20, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Generator {
    linear: Linear,
    conv: Sequential,
    #[module(skip)]
    latent: [usize; 4],
    #[module(skip)]
    start: [usize; 4],
    #[module(skip)]
    facts: Facts,
}

impl Network for Generator {
    fn name(&self) -> &'static str {
        self.facts.name
    }

    fn spatial_dims(&self) -> usize {
        self.facts.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.facts.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let b = x.dims()[0];
        let [c, dx, dy, dz] = self.start;
        self.conv.forward(self.linear.forward_flat(x).reshape([b, c, dx, dy, dz]))
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        if shape[1..] == self.latent {
            return Ok(());
        }
        let reason = format!("it was built for latent vectors of shape {:?} after the batch", self.latent);
        Err(ShapeError { network: self.facts.name, shape, reason })
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.facts.clock.set(seed, step);
    }
}

network_entry!(GeneratorConfig {
    name: "Generator",
    aliases: &[],
    about: "Images from latent vectors.",
    paper: "Goodfellow et al. 2014, arXiv:1406.2661",
    example: r#"latent_shape = [64]
start_shape = [64, 8, 8, 8]
channels = [32, 16, 8, 1]
strides = [2, 2, 2, 1]"#,
    input: [1, 64, 1, 1, 1],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.latent_shape),
    init: |c, d, s| c.init(d, s),
});

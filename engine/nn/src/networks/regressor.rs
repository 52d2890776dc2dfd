//! From images to a few numbers: `monai.networks.nets.Regressor`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::defaults::{instance, nda, prelu, three, two, yes};
use super::facts::{Facts, by_facts};
use crate::layers::{
    AdnOptions, Axes, ConfigError, Convolution, ConvolutionOptions, DropoutSpec, Layer, LayerSpec, Linear,
    ResidualUnit, Scope, Sequential,
};
use crate::named::Named;

/// How to build a [`Regressor`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct RegressorConfig {
    /// Channels and size of the image; two sizes for 2-D, three for 3-D.
    #[setters(into)]
    pub in_shape: Vec<usize>,
    /// Shape of the output without the batch, up to four axes.
    #[setters(into)]
    pub out_shape: Vec<usize>,
    /// Channels per layer.
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Stride per layer.
    #[setters(into)]
    pub strides: Vec<Axes>,
    /// Kernel, odd.
    #[serde(default = "three")]
    #[setters(into)]
    pub kernel_size: Axes,
    /// Convolutions per residual unit; 0 for plain convolutions.
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

impl RegressorConfig {
    /// MONAI's defaults for everything else.
    pub fn new(in_shape: &[usize], out_shape: &[usize], channels: &[usize], strides: &[usize]) -> Self {
        RegressorConfig {
            in_shape: in_shape.to_vec(),
            out_shape: out_shape.to_vec(),
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
    pub fn init(&self, device: &Device, seed: u64) -> Result<Regressor, ConfigError> {
        if self.out_shape.is_empty() || self.out_shape.len() > 4 || self.out_shape.contains(&0) {
            return Err(ConfigError::value("out_shape", &self.out_shape, "expected one to four numbers of at least 1"));
        }
        let scope = Scope::new(device, seed);
        let outputs = self.out_shape.iter().product();
        let stem = Stem::new("Regressor", &scope, self, outputs)?;
        let linear = Linear::new(&scope.enter("final").enter("1"), [stem.features, outputs], true);
        let mut out_shape = [1; 4];
        out_shape[..self.out_shape.len()].copy_from_slice(&self.out_shape);
        Ok(Regressor { net: stem.net, last: linear, out_shape, facts: stem.facts })
    }
}

/// The shared convolutions of regressors, classifiers and critics.
pub(super) struct Stem {
    pub net: Sequential,
    /// Features per image after the convolutions.
    pub features: usize,
    pub facts: Facts,
}

impl Stem {
    pub fn new(
        name: &'static str,
        scope: &Scope,
        config: &RegressorConfig,
        outputs: usize,
    ) -> Result<Self, ConfigError> {
        let RegressorConfig { in_shape, channels, strides, .. } = config;
        let dims = in_shape.len().saturating_sub(1);
        let [in_channels, size @ ..] = &in_shape[..] else {
            return Err(ConfigError::value("in_shape", in_shape, "expected the channels and two or three sizes"));
        };
        if ![2, 3].contains(&dims) || size.contains(&0) {
            return Err(ConfigError::value("in_shape", in_shape, "expected the channels and two or three sizes"));
        }
        let mut facts = Facts::new(name, dims, [*in_channels, outputs])?;
        if channels.is_empty() || channels.contains(&0) {
            return Err(ConfigError::value("channels", channels, "expected one layer or more, each of at least 1"));
        }
        if strides.len() != channels.len() {
            return Err(ConfigError::value("strides", strides, format!("expected {}, as channels", channels.len())));
        }
        let mut extent = [1; 3];
        extent[..dims].copy_from_slice(size);
        facts.exact = Some(extent);
        let kernel = config.kernel_size.positive("kernel_size", dims)?;
        let adn = AdnOptions {
            ordering: nda(),
            act: config.act.clone(),
            norm: config.norm.clone(),
            dropout: config.dropout.clone(),
            clock: facts.clock.clone(),
        };
        let mut width = *in_channels;
        let mut layers = Vec::with_capacity(channels.len());
        for (i, (output, stride)) in channels.iter().zip(strides).enumerate() {
            let name = format!("layer_{i}");
            let scope = scope.enter("net").enter(&name);
            let stride = stride.positive("strides", dims)?;
            let last = i + 1 == channels.len();
            let base = ConvolutionOptions::new([width, *output], kernel);
            let mut options = ConvolutionOptions { stride, bias: config.bias, adn: Some(adn.clone()), ..base };
            let layer = if config.num_res_units > 0 {
                Layer::ResidualUnit(ResidualUnit::new(&scope, &options, config.num_res_units, last)?)
            } else {
                options.adn = options.adn.filter(|_| !last);
                Layer::Convolution(Convolution::new(&scope, &options)?)
            };
            layers.push((name, layer));
            extent = after_convolution(extent, kernel, stride)?;
            width = *output;
        }
        Ok(Stem { net: Named::new(layers), features: width * extent.iter().product::<usize>(), facts })
    }
}

/// The size after a convolution whose padding keeps the size at stride 1.
pub(super) fn after_convolution(
    size: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
) -> Result<[usize; 3], ConfigError> {
    if kernel.iter().any(|k| k % 2 == 0) {
        return Err(ConfigError::value("kernel_size", kernel, "every axis must be odd"));
    }
    Ok(std::array::from_fn(|axis| (size[axis].max(1) - 1) / stride[axis] + 1))
}

/// Residual units that reduce an image, and a linear layer to a few numbers.
///
/// `[b, in, x, y, z]`, of the size the network was built for, to `[b, out_shape...]`; axes that
/// `out_shape` lacks are 1 at the end.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, RegressorConfig};
/// let net = RegressorConfig::new(&[1, 64, 64], &[2], &[2, 4, 8], &[2, 2, 2]).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([3, 1, 64, 64, 1], &Device::default())).dims(), [3, 2, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Regressor {
    net: Sequential,
    /// `final.1` in the state dict.
    last: Linear,
    #[module(skip)]
    out_shape: [usize; 4],
    #[module(skip)]
    facts: Facts,
}

impl Network for Regressor {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.facts.clock.next_pass();
        let y = self.last.forward_flat(self.net.forward(x));
        let [o1, o2, o3, o4] = self.out_shape;
        let b = y.dims()[0];
        y.reshape([b, o1, o2, o3, o4])
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(final_layer(path))
    }
}

/// `last` is an entry of MONAI's `final`.
pub(super) fn final_layer(path: &str) -> String {
    match path.strip_prefix("last.") {
        Some(rest) => format!("final.1.{rest}"),
        None => path.to_owned(),
    }
}

network_entry!(RegressorConfig {
    name: "Regressor",
    aliases: &[],
    about: "A few numbers from images of one size.",
    paper: "",
    example: r#"in_shape = [1, 64, 64, 64]
out_shape = [3]
channels = [16, 32, 64, 128]
strides = [2, 2, 2, 2]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| super::spec::first(&c.in_shape),
    init: |c, d, s| c.init(d, s),
});

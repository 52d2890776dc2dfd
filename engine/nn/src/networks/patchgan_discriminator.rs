//! Discriminators of patches: `monai.networks.nets.PatchDiscriminator` and
//! `MultiScalePatchDiscriminator`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{batch, leaky_relu, nda, one};
use super::facts::Facts;
use super::{Network, ShapeError};
use crate::layers::{
    AdnOptions, Axes, ConfigError, Convolution, ConvolutionOptions, DropoutClock, DropoutSpec, Init, LayerSpec, Scope,
    in_space,
};
use crate::named::Named;

/// Options of [`PatchDiscriminator`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct PatchDiscriminatorConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the first convolution; each next one has twice as many.
    pub channels: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output.
    #[serde(default = "one")]
    pub out_channels: usize,
    /// Number of convolutions between the first and the last. All except the last of them halve the
    /// size.
    #[serde(default = "three")]
    pub num_layers_d: usize,
    /// Kernel of the convolutions.
    #[serde(default = "four")]
    pub kernel_size: usize,
    /// The activation.
    #[serde(default = "leaky")]
    #[setters(into)]
    pub activation: Option<LayerSpec>,
    /// Norm of the convolutions between the first and the last.
    #[serde(default = "batch")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Whether the convolutions between the first and the last have a bias.
    #[serde(default)]
    pub bias: bool,
    /// Number of zeros around the input of all convolutions but the last.
    #[serde(default = "one_per_axis")]
    #[setters(into)]
    pub padding: Axes,
    /// Dropout probability.
    #[serde(default)]
    #[setters(into)]
    pub dropout: DropoutSpec,
    /// Kernel of the last convolution; null for `kernel_size`.
    #[serde(default)]
    pub last_conv_kernel_size: Option<usize>,
}

fn three() -> usize {
    3
}

fn four() -> usize {
    4
}

fn leaky() -> Option<LayerSpec> {
    leaky_relu(0.2)
}

fn one_per_axis() -> Axes {
    Axes::All(1)
}

impl PatchDiscriminatorConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(spatial_dims: usize, channels: usize, in_channels: usize) -> Self {
        PatchDiscriminatorConfig {
            spatial_dims,
            channels,
            in_channels,
            out_channels: one(),
            num_layers_d: three(),
            kernel_size: four(),
            activation: leaky(),
            norm: batch(),
            bias: false,
            padding: one_per_axis(),
            dropout: DropoutSpec::default(),
            last_conv_kernel_size: None,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<PatchDiscriminator, ConfigError> {
        let facts = Facts::new("PatchDiscriminator", self.spatial_dims, [self.in_channels, self.out_channels])?;
        let layers = self.layers(&Scope::new(device, seed), &facts.clock)?;
        Ok(PatchDiscriminator { layers, steps: self.steps()?, facts })
    }

    fn layers(&self, scope: &Scope, clock: &DropoutClock) -> Result<Named<Convolution>, ConfigError> {
        if self.channels == 0 || self.num_layers_d > 16 {
            let given = (self.channels, self.num_layers_d);
            let expected = "expected at least one channel and at most 16 layers";
            return Err(ConfigError::value("channels and num_layers_d", given, expected));
        }
        let scope = scope.with_init(Init::Gan(0.02));
        let steps = self.steps()?;
        let last = steps.len() - 1;
        let mut layers = Vec::with_capacity(steps.len());
        for (i, step) in steps.into_iter().enumerate() {
            let name = match i {
                0 => "initial_conv".to_owned(),
                i if i == last => "final_conv".to_owned(),
                i => (i - 1).to_string(),
            };
            let input = if i == 0 { self.in_channels } else { self.channels << (i - 1) };
            let output = if i == last { self.out_channels } else { self.channels << i };
            let adn = AdnOptions {
                ordering: nda(),
                act: self.activation.clone(),
                norm: if i == 0 { None } else { self.norm.clone() },
                dropout: Some(self.dropout.clone()),
                clock: clock.clone(),
            };
            let options = ConvolutionOptions {
                stride: step.stride,
                padding: Some(step.padding),
                bias: i == 0 || i == last || self.bias,
                adn: (i != last).then_some(adn),
                ..ConvolutionOptions::new([input, output], step.kernel)
            };
            let layer = Convolution::new(&scope.enter(&name), &options)?;
            layers.push((name, layer));
        }
        Ok(Named::new(layers))
    }

    /// The change of size of each convolution.
    fn steps(&self) -> Result<Vec<Step>, ConfigError> {
        let last = self.last_conv_kernel_size.unwrap_or(self.kernel_size);
        if self.kernel_size == 0 || last == 0 {
            return Err(ConfigError::value("kernel_size", (self.kernel_size, last), "expected at least 1"));
        }
        let dims = self.spatial_dims;
        let padding = self.padding.resolve("padding", dims, 0)?;
        let step =
            |stride: usize| Step { kernel: in_space(dims, self.kernel_size), stride: in_space(dims, stride), padding };
        let mut steps = vec![step(2)];
        steps.extend((0..self.num_layers_d).map(|i| step(if i + 1 == self.num_layers_d { 1 } else { 2 })));
        let pad = (last - 1) / 2;
        let padding = if dims == 3 { [pad; 3] } else { [pad, pad, 0] };
        steps.push(Step { kernel: in_space(dims, last), stride: [1; 3], padding });
        Ok(steps)
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
}

/// Rejects inputs that are too small for the convolutions.
fn check_size(facts: &Facts, steps: &[Step], shape: [usize; 5]) -> Result<(), ShapeError> {
    facts.check(shape)?;
    let mut size = [shape[2], shape[3], shape[4]];
    for step in steps {
        for (axis, length) in size.iter_mut().enumerate() {
            let room = (*length + 2 * step.padding[axis]).checked_sub(step.kernel[axis]);
            let Some(room) = room else {
                let reason = format!("it is too small for {} convolutions; use larger patches", steps.len());
                return Err(ShapeError { network: facts.name, shape, reason });
            };
            *length = room / step.stride[axis] + 1;
        }
    }
    Ok(())
}

fn features(layers: &Named<Convolution>, x: Tensor<5>) -> Vec<Tensor<5>> {
    let mut all: Vec<Tensor<5>> = Vec::with_capacity(layers.len());
    for layer in layers.iter() {
        let input = all.last().unwrap_or(&x).clone();
        all.push(layer.forward(input));
    }
    all
}

/// A discriminator whose outputs each evaluate a patch (Isola et al.,
/// <https://arxiv.org/abs/1611.07004>; Wang et al., <https://arxiv.org/abs/1711.11585>).
///
/// `[b, in, x, y, z]` to `[b, out, x', y', z']`, one output per patch. `forward_all` returns the
/// features of every convolution, with the output last.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, PatchDiscriminatorConfig};
/// let net = PatchDiscriminatorConfig::new(2, 4, 1).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 64, 64, 1], &Device::default())).dims(), [1, 1, 6, 6, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct PatchDiscriminator {
    layers: Named<Convolution>,
    #[module(skip)]
    steps: Vec<Step>,
    #[module(skip)]
    facts: Facts,
}

impl Network for PatchDiscriminator {
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
        self.layers.iter().fold(x, |x, layer| layer.forward(x))
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.facts.clock.next_pass();
        features(&self.layers, x)
    }

    fn main_output(&self) -> usize {
        self.layers.iter().count().saturating_sub(1)
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        check_size(&self.facts, &self.steps, shape)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.strip_prefix("layers.").unwrap_or(path).to_owned())
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.facts.clock.set(seed, step);
    }
}

/// Options of [`MultiScalePatchDiscriminator`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct MultiScalePatchDiscriminatorConfig {
    /// Number of discriminators.
    pub num_d: usize,
    /// Number of convolutions between first and last of the first discriminator; the second has
    /// twice as many, and so on.
    pub num_layers_d: usize,
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the first convolution; each next one has twice as many.
    pub channels: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of each output.
    #[serde(default = "one")]
    pub out_channels: usize,
    /// Kernel of the convolutions; their padding is `(kernel_size - 1) / 2`.
    #[serde(default = "four")]
    pub kernel_size: usize,
    /// The activation.
    #[serde(default = "leaky")]
    #[setters(into)]
    pub activation: Option<LayerSpec>,
    /// Norm of the convolutions between first and last.
    #[serde(default = "batch")]
    #[setters(into)]
    pub norm: Option<LayerSpec>,
    /// Whether the convolutions between first and last have a bias.
    #[serde(default)]
    pub bias: bool,
    /// Dropout probability.
    #[serde(default)]
    #[setters(into)]
    pub dropout: DropoutSpec,
    /// Smallest size of the images; discriminators with too many layers for this size are an error.
    #[serde(default = "minimum_size")]
    pub minimum_size_im: usize,
    /// Kernel of the last convolution.
    #[serde(default = "one")]
    pub last_conv_kernel_size: usize,
}

fn minimum_size() -> usize {
    256
}

impl MultiScalePatchDiscriminatorConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(num_d: usize, num_layers_d: usize, spatial_dims: usize, channels: usize, in_channels: usize) -> Self {
        MultiScalePatchDiscriminatorConfig {
            num_d,
            num_layers_d,
            spatial_dims,
            channels,
            in_channels,
            out_channels: one(),
            kernel_size: four(),
            activation: leaky(),
            norm: batch(),
            bias: false,
            dropout: DropoutSpec::default(),
            minimum_size_im: minimum_size(),
            last_conv_kernel_size: one(),
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<MultiScalePatchDiscriminator, ConfigError> {
        let channels = [self.in_channels, self.out_channels];
        let facts = Facts::new("MultiScalePatchDiscriminator", self.spatial_dims, channels)?;
        if self.num_d == 0 {
            return Err(ConfigError::value("num_d", self.num_d, "expected at least 1"));
        }
        let (mut discriminators, mut steps) = (Vec::new(), Vec::new());
        for i in 0..self.num_d {
            let num_layers_d = self.num_layers_d * (i + 1);
            if num_layers_d >= 64 || self.minimum_size_im >> num_layers_d == 0 {
                let expected = format!("discriminator {i} halves the image {num_layers_d} times, which leaves nothing");
                return Err(ConfigError::value("minimum_size_im", self.minimum_size_im, expected));
            }
            let config = PatchDiscriminatorConfig {
                out_channels: self.out_channels,
                num_layers_d,
                kernel_size: self.kernel_size,
                activation: self.activation.clone(),
                norm: self.norm.clone(),
                bias: self.bias,
                padding: Axes::All(self.kernel_size.saturating_sub(1) / 2),
                dropout: self.dropout.clone(),
                last_conv_kernel_size: Some(self.last_conv_kernel_size),
                ..PatchDiscriminatorConfig::new(self.spatial_dims, self.channels, self.in_channels)
            };
            let name = format!("discriminator_{i}");
            let layers = config.layers(&Scope::new(device, seed).enter(&name), &facts.clock)?;
            discriminators.push((name, layers));
            steps.push(config.steps()?);
        }
        Ok(MultiScalePatchDiscriminator { discriminators: Named::new(discriminators), steps, facts })
    }
}

/// A set of discriminators of patches of several sizes (Wang et al.,
/// <https://arxiv.org/abs/1711.11585>).
///
/// `[b, in, x, y, z]` to `[b, out, x', y', z']`, the output of the first discriminator;
/// `forward_all` returns the outputs of all.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{MultiScalePatchDiscriminatorConfig, Network};
/// let net = MultiScalePatchDiscriminatorConfig::new(2, 2, 2, 4, 1).init(&Device::default(), 0)?;
/// assert_eq!(net.forward_all(Tensor::zeros([1, 1, 64, 64, 1], &Device::default())).len(), 2);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct MultiScalePatchDiscriminator {
    discriminators: Named<Named<Convolution>>,
    #[module(skip)]
    steps: Vec<Vec<Step>>,
    #[module(skip)]
    facts: Facts,
}

impl MultiScalePatchDiscriminator {
    /// Returns the features of every convolution of each discriminator, with the output last. All are
    /// `[b, c, x, y, z]`, of their own channels and size.
    pub fn forward_features(&self, x: Tensor<5>) -> Vec<Vec<Tensor<5>>> {
        self.facts.clock.next_pass();
        self.discriminators.iter().map(|layers| features(layers, x.clone())).collect()
    }
}

impl Network for MultiScalePatchDiscriminator {
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
        self.discriminators.iter().take(1).flat_map(|layers| layers.iter()).fold(x, |x, layer| layer.forward(x))
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.forward_features(x).into_iter().filter_map(|mut features| features.pop()).collect()
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        self.steps.iter().try_for_each(|steps| check_size(&self.facts, steps, shape))
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(path.strip_prefix("discriminators.").unwrap_or(path).to_owned())
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.facts.clock.set(seed, step);
    }
}

network_entry!(MultiScalePatchDiscriminatorConfig {
    name: "MultiScalePatchDiscriminator",
    aliases: &[],
    about: "Whether patches of several sizes are real or generated.",
    paper: "Wang et al. 2018, arXiv:1711.11585",
    example: r#"num_d = 2
num_layers_d = 2
spatial_dims = 3
channels = 16
in_channels = 1
minimum_size_im = 64"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

network_entry!(PatchDiscriminatorConfig {
    name: "PatchDiscriminator",
    aliases: &[],
    about: "Whether each patch of an image is real or generated.",
    paper: "Isola et al. 2017, arXiv:1611.07004",
    example: r#"spatial_dims = 3
channels = 16
in_channels = 1"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

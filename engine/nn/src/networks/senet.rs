//! The squeeze-and-excitation networks of `monai.networks.nets.senet`: SENet154, SEResNet and
//! SEResNeXt.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::ConvShape;
use hearth_kernels::pool3d::PoolShape;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::check::{known_channels, spatial, untrained};
use super::{Network, ShapeError};
use crate::blocks::{SEBlock, SEBlockKind, SEBlockOptions};
use crate::layers::{
    Act, ConfigError, Conv, Dropout, DropoutClock, Init, Layer, Linear, Norm, Pool, Scope, Sequential, per_axis,
};
use crate::named::Named;

/// Options of a [`SENet`]: MONAI's parameters. Omitted ones have the defaults of the network's
/// name. The name `SENet` itself has no defaults for block, layers, groups and reduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SENetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// The kind of block; only for the name `SENet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<SEBlockKind>,
    /// Number of blocks of each layer, four numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub layers: Option<Vec<usize>>,
    /// Number of groups of the blocks' second convolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<usize>,
    /// Reduction of the squeeze and excitation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<usize>,
    /// Dropout probability before the last layer; null for none.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub dropout_prob: Option<Option<f64>>,
    /// No effect (1 to 3): at the dropout layer a channel is a single number.
    #[serde(default = "one")]
    pub dropout_dim: usize,
    /// Number of channels of the first layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inplanes: Option<usize>,
    /// Kernel of the shortcuts of layers 2 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downsample_kernel_size: Option<usize>,
    /// Whether the network starts with three convolutions of kernel 3 instead of one of kernel 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_3x3: Option<bool>,
    /// Number of classes.
    #[serde(default = "thousand")]
    pub num_classes: usize,
    /// Must be false: weights are loaded from a file.
    #[serde(default)]
    pub pretrained: bool,
}

fn one() -> usize {
    1
}

fn thousand() -> usize {
    1000
}

/// Distinguishes null from a missing value.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::<f64>::deserialize(deserializer).map(Some)
}

/// The defaults of a name.
#[derive(Clone, Copy, Debug)]
pub struct SENetPreset {
    block: SEBlockKind,
    layers: [usize; 4],
    groups: usize,
    dropout: Option<f64>,
    inplanes: usize,
    downsample_kernel_size: usize,
    input_3x3: bool,
}

const fn small(block: SEBlockKind, layers: [usize; 4], groups: usize, dropout: Option<f64>) -> SENetPreset {
    SENetPreset { block, layers, groups, dropout, inplanes: 64, downsample_kernel_size: 1, input_3x3: false }
}

/// The defaults of `SENet154`.
pub const SENET154: SENetPreset = SENetPreset {
    inplanes: 128,
    downsample_kernel_size: 3,
    input_3x3: true,
    ..small(SEBlockKind::SEBottleneck, [3, 8, 36, 3], 64, Some(0.2))
};
/// The defaults of `SEResNet50`.
pub const SERESNET50: SENetPreset = small(SEBlockKind::SEResNetBottleneck, [3, 4, 6, 3], 1, None);
/// The defaults of `SEResNet101`, with dropout as in MONAI.
pub const SERESNET101: SENetPreset = small(SEBlockKind::SEResNetBottleneck, [3, 4, 23, 3], 1, Some(0.2));
/// The defaults of `SEResNet152`, with dropout as in MONAI.
pub const SERESNET152: SENetPreset = small(SEBlockKind::SEResNetBottleneck, [3, 8, 36, 3], 1, Some(0.2));
/// The defaults of `SEResNext50`.
pub const SERESNEXT50: SENetPreset = small(SEBlockKind::SEResNeXtBottleneck, [3, 4, 6, 3], 32, None);
/// The defaults of `SEResNext101`.
pub const SERESNEXT101: SENetPreset = small(SEBlockKind::SEResNeXtBottleneck, [3, 4, 23, 3], 32, None);

impl SENetConfig {
    /// Options with the defaults of the name for everything else.
    pub fn new(spatial_dims: usize, in_channels: usize, num_classes: usize) -> Self {
        SENetConfig {
            spatial_dims,
            in_channels,
            block: None,
            layers: None,
            groups: None,
            reduction: None,
            dropout_prob: None,
            dropout_dim: 1,
            inplanes: None,
            downsample_kernel_size: None,
            input_3x3: None,
            num_classes,
            pretrained: false,
        }
    }

    /// Sets the missing parameters.
    ///
    /// # Errors
    /// If `block` is set, which the preset decides.
    pub fn preset(&self, preset: &SENetPreset) -> Result<Self, ConfigError> {
        if self.block.is_some() {
            return Err(ConfigError::value("block", self.block, "this name has its own; use the name SENet to choose"));
        }
        Ok(SENetConfig {
            block: Some(preset.block),
            layers: Some(self.layers.clone().unwrap_or_else(|| preset.layers.to_vec())),
            groups: self.groups.or(Some(preset.groups)),
            reduction: self.reduction.or(Some(16)),
            dropout_prob: self.dropout_prob.or(Some(preset.dropout)),
            inplanes: self.inplanes.or(Some(preset.inplanes)),
            downsample_kernel_size: self.downsample_kernel_size.or(Some(preset.downsample_kernel_size)),
            input_3x3: self.input_3x3.or(Some(preset.input_3x3)),
            ..self.clone()
        })
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<SENet, ConfigError> {
        let missing = |name: &str| ConfigError::value(name, (), "it must be given, or use a name with sizes: SENet154");
        let dims = self.spatial_dims;
        spatial(dims)?;
        untrained(self.pretrained)?;
        let kind = self.block.ok_or_else(|| missing("block"))?;
        let layers = self.layers.as_ref().ok_or_else(|| missing("layers"))?;
        let layers = <[usize; 4]>::try_from(layers.as_slice())
            .ok()
            .filter(|four| !four.contains(&0))
            .ok_or_else(|| ConfigError::value("layers", layers, "expected four numbers of at least 1"))?;
        let groups = self.groups.ok_or_else(|| missing("groups"))?;
        let reduction = self.reduction.ok_or_else(|| missing("reduction"))?;
        let inplanes = self.inplanes.unwrap_or(SENET154.inplanes);
        if [self.in_channels, self.num_classes, inplanes].contains(&0) || !(1..=3).contains(&self.dropout_dim) {
            let expected = "in_channels, num_classes and inplanes must be at least 1, dropout_dim 1 to 3";
            return Err(ConfigError::value("in_channels", self.in_channels, expected));
        }
        let scope = Scope::new(device, seed).with_init(Init::KaimingFanIn);
        let kernel = self.downsample_kernel_size.unwrap_or(SENET154.downsample_kernel_size);
        let mut channels = inplanes;
        let mut layer = |index: usize| {
            let (planes, stride) = (64 << index, if index == 0 { 1 } else { 2 });
            let inner = scope.enter(&format!("layer{}", index + 1));
            let mut blocks = Vec::new();
            for i in 0..layers[index] {
                let stride = if i == 0 { stride } else { 1 };
                let output = planes * crate::blocks::EXPANSION;
                let options = SEBlockOptions {
                    spatial_dims: dims,
                    kind,
                    inplanes: channels,
                    planes,
                    groups,
                    reduction,
                    stride,
                    base_width: 4,
                    downsample: (stride != 1 || channels != output).then_some(if index == 0 { 1 } else { kernel }),
                };
                blocks.push((i.to_string(), SEBlock::new(&inner.enter(&i.to_string()), &options)?));
                channels = output;
            }
            Ok(Named::new(blocks))
        };
        let (layer1, layer2, layer3, layer4) = (layer(0)?, layer(1)?, layer(2)?, layer(3)?);
        let clock = DropoutClock::default();
        let dropout = self.dropout_prob.unwrap_or(SENET154.dropout);
        let dropout = dropout.map(|p| Dropout::new(scope.enter("dropout").path(), p, &clock)).transpose()?;
        Ok(SENet {
            layer0: self.stem(&scope.enter("layer0"), inplanes)?,
            layer1,
            layer2,
            layer3,
            layer4,
            dropout,
            last_linear: Linear::new(&scope.enter("last_linear"), [channels, self.num_classes], true),
            spatial_dims: dims,
            channels: [self.in_channels, self.num_classes],
            clock,
        })
    }

    /// The first convolutions with norm and ReLU, and a pooling.
    fn stem(&self, scope: &Scope, inplanes: usize) -> Result<Sequential, ConfigError> {
        let dims = self.spatial_dims;
        let convolutions: &[([usize; 2], [usize; 2])] = if self.input_3x3.unwrap_or(SENET154.input_3x3) {
            &[([self.in_channels, 64], [3, 2]), ([64, 64], [3, 1]), ([64, inplanes], [3, 1])]
        } else {
            &[([self.in_channels, inplanes], [7, 2])]
        };
        let mut layers = Vec::with_capacity(10);
        for (i, (channels, [kernel, stride])) in convolutions.iter().enumerate() {
            let [conv, bn, relu] = ["conv", "bn", "relu"].map(|name| format!("{name}{}", i + 1));
            let shape = ConvShape {
                stride: per_axis(dims, *stride, 1),
                padding: per_axis(dims, kernel / 2, 0),
                ..ConvShape::default()
            };
            let kernel = per_axis(dims, *kernel, 1);
            let convolution = Conv::new(&scope.enter(&conv), *channels, kernel, shape, false);
            let norm = Norm::new(&scope.enter(&bn), &"batch".into(), channels[1])?;
            let act = Act::new(&scope.enter(&relu), &"relu".into())?;
            layers.extend([(conv, Layer::Conv(convolution)), (bn, Layer::Norm(norm)), (relu, Layer::Act(act))]);
        }
        let pool = PoolShape { stride: per_axis(dims, 2, 1), ceil_mode: true, ..PoolShape::new(per_axis(dims, 3, 1)) };
        layers.push(("pool".to_owned(), Layer::Pool(Pool::max(pool))));
        Ok(Sequential::new(layers))
    }
}

/// A classification network of bottlenecks with squeeze and excitation (Hu et al.,
/// <https://arxiv.org/abs/1709.01507>).
///
/// `[b, in, x, y, z]` to class scores `[b, num_classes, 1, 1, 1]`.
///
/// ```no_run
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, SERESNET50, SENetConfig};
/// let net = SENetConfig::new(2, 1, 3).preset(&SERESNET50)?.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 64, 64, 1], &Device::default())).dims(), [1, 3, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct SENet {
    layer0: Sequential,
    layer1: Named<SEBlock>,
    layer2: Named<SEBlock>,
    layer3: Named<SEBlock>,
    layer4: Named<SEBlock>,
    dropout: Option<Dropout>,
    last_linear: Linear,
    #[module(skip)]
    spatial_dims: usize,
    #[module(skip)]
    channels: [usize; 2],
    #[module(skip)]
    clock: DropoutClock,
}

impl Network for SENet {
    fn spatial_dims(&self) -> usize {
        self.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.clock.next_pass();
        let layers = [&self.layer1, &self.layer2, &self.layer3, &self.layer4];
        let x = layers.into_iter().flat_map(Named::iter).fold(self.layer0.forward(x), |x, block| block.forward(x));
        let mut x = Pool::global_avg().forward(x);
        if let Some(dropout) = &self.dropout {
            x = dropout.forward(x);
        }
        self.last_linear.forward_flat(x)
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)?;
        // The first convolution halves the size, rounding up; the pooling needs two values.
        if shape[2..2 + self.spatial_dims].iter().any(|n| *n < 3) {
            let reason = "every axis must be at least 3".to_owned();
            return Err(ShapeError { network: "SENet", shape, reason });
        }
        Ok(())
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.clock.set(seed, step);
    }
}

network_entry!(SENetConfig {
    name: "SENet",
    aliases: &[],
    about: "Classification: squeeze and excitation, custom blocks.",
    paper: "Hu et al. 2018, arXiv:1709.01507",
    example: r#"spatial_dims = 3
in_channels = 1
num_classes = 2
block = "se_resnet_bottleneck"
layers = [3, 4, 6, 3]
groups = 1
reduction = 16
inplanes = 64
downsample_kernel_size = 1
input_3x3 = false"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

/// Registers the names with a preset.
macro_rules! preset_entries {
    ($($name:literal: $preset:ident, $about:literal;)*) => {$(
        network_entry!(SENetConfig {
            name: $name,
            aliases: &[],
            about: $about,
            paper: "Hu et al. 2018, arXiv:1709.01507",
            example: "spatial_dims = 3\nin_channels = 1\nnum_classes = 2",
            input: [1, 1, 64, 64, 64],
            dims: &[2, 3],
            in_channels: |c| c.in_channels,
            init: |c, d, s| c.preset(&$preset)?.init(d, s),
        });
    )*};
}

preset_entries! {
    "SENet154": SENET154, "Classification: the largest of the paper.";
    "SEResNet50": SERESNET50, "Classification: ResNet50 with squeeze and excitation.";
    "SEResNet101": SERESNET101, "Classification: ResNet101 with squeeze and excitation.";
    "SEResNet152": SERESNET152, "Classification: ResNet152 with squeeze and excitation.";
    "SEResNext50": SERESNEXT50, "Classification: ResNeXt50 with squeeze and excitation.";
    "SEResNext101": SERESNEXT101, "Classification: ResNeXt101 with squeeze and excitation.";
}

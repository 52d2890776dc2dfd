//! The residual network of `monai.networks.nets.ResNet`, and its depths 10 to 200.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::{Channels, ConvShape};
use hearth_kernels::pool3d::PoolShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{known_channels, spatial, untrained};
use super::resnet_block::{BlockOptions, ResNetBlock, ResNetBlockKind, ShortcutType};
use super::{Network, ShapeError};
use crate::layers::{Act, Axes, ConfigError, Conv, Init, LayerSpec, Linear, Norm, Pool, Scope, per_axis};
use crate::named::Named;

/// Options of [`ResNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct ResNetConfig {
    /// The kind of block. Names with a depth (`resnet18`) set it; otherwise it is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<ResNetBlockKind>,
    /// Number of blocks of each layer, four numbers. Set or required like `block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub layers: Option<Vec<usize>>,
    /// Number of channels of each layer, four numbers. Set or required like `block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub block_inplanes: Option<Vec<usize>>,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three")]
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "three")]
    pub n_input_channels: usize,
    /// Kernel of the first convolution.
    #[serde(default = "seven")]
    #[setters(into)]
    pub conv1_t_size: Axes,
    /// Stride of the first convolution.
    #[serde(default = "one")]
    #[setters(into)]
    pub conv1_t_stride: Axes,
    /// Whether the pooling after the first convolution is omitted.
    #[serde(default)]
    pub no_max_pool: bool,
    /// The shortcut if size or channels change.
    #[serde(default)]
    pub shortcut_type: ShortcutType,
    /// Factor of `block_inplanes`.
    #[serde(default = "unit")]
    pub widen_factor: f64,
    /// Number of classes.
    #[serde(default = "four_hundred")]
    pub num_classes: usize,
    /// Whether the last layer computes class scores; otherwise the output is the mean of the
    /// features.
    #[serde(default = "yes")]
    pub feed_forward: bool,
    /// Whether shortcut B's convolution has a bias.
    #[serde(default = "yes")]
    pub bias_downsample: bool,
    /// The first activation; the blocks use ReLU.
    #[serde(default = "relu")]
    #[setters(into)]
    pub act: LayerSpec,
    /// The first norm; the blocks use batch norm.
    #[serde(default = "batch")]
    #[setters(into)]
    pub norm: LayerSpec,
    /// Must be false: weights are loaded from a file.
    #[serde(default)]
    pub pretrained: bool,
}

fn three() -> usize {
    3
}

fn seven() -> Axes {
    Axes::All(7)
}

fn one() -> Axes {
    Axes::All(1)
}

fn unit() -> f64 {
    1.0
}

fn four_hundred() -> usize {
    400
}

fn yes() -> bool {
    true
}

fn relu() -> LayerSpec {
    "relu".into()
}

fn batch() -> LayerSpec {
    "batch".into()
}

/// Number of channels of each layer of the named depths.
const INPLANES: [usize; 4] = [64, 128, 256, 512];

/// The block and the number of blocks per layer for a depth.
pub(super) fn depth(depth: usize) -> Result<(ResNetBlockKind, [usize; 4]), ConfigError> {
    use ResNetBlockKind::{Basic, Bottleneck};
    Ok(match depth {
        10 => (Basic, [1, 1, 1, 1]),
        18 => (Basic, [2, 2, 2, 2]),
        34 => (Basic, [3, 4, 6, 3]),
        50 => (Bottleneck, [3, 4, 6, 3]),
        101 => (Bottleneck, [3, 4, 23, 3]),
        152 => (Bottleneck, [3, 8, 36, 3]),
        200 => (Bottleneck, [3, 24, 36, 3]),
        other => return Err(ConfigError::value("depth", other, "expected 10, 18, 34, 50, 101, 152 or 200")),
    })
}

impl ResNetConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(block: ResNetBlockKind, layers: [usize; 4], block_inplanes: [usize; 4]) -> Self {
        ResNetConfig {
            block: Some(block),
            layers: Some(layers.to_vec()),
            block_inplanes: Some(block_inplanes.to_vec()),
            spatial_dims: 3,
            n_input_channels: 3,
            conv1_t_size: seven(),
            conv1_t_stride: one(),
            no_max_pool: false,
            shortcut_type: ShortcutType::B,
            widen_factor: 1.0,
            num_classes: 400,
            feed_forward: true,
            bias_downsample: true,
            act: relu(),
            norm: batch(),
            pretrained: false,
        }
    }

    /// Sets block, layers and channels for a depth: 10, 18, 34, 50, 101, 152 or 200.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn of_depth(&self, number: usize) -> Result<Self, ConfigError> {
        let ResNetConfig { block, layers, block_inplanes, .. } = self;
        if block.is_some() || layers.is_some() || block_inplanes.is_some() {
            let expected = format!("ResNet{number} has its own; use the name ResNet to choose");
            return Err(ConfigError::value("block, layers, block_inplanes", (block, layers, block_inplanes), expected));
        }
        let (block, layers) = depth(number)?;
        Ok(ResNetConfig {
            block: Some(block),
            layers: Some(layers.to_vec()),
            block_inplanes: Some(INPLANES.to_vec()),
            ..self.clone()
        })
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<ResNet, ConfigError> {
        self.build(&Scope::new(device, seed), 1, 64)
    }

    /// The number of features of the last layer.
    pub(super) fn features(&self) -> Result<usize, ConfigError> {
        let (block, _, planes) = self.sizes()?;
        Ok(planes[3] * block.expansion())
    }

    fn sizes(&self) -> Result<(ResNetBlockKind, [usize; 4], [usize; 4]), ConfigError> {
        let missing =
            |name: &str| ConfigError::value(name, (), "it must be given, or use a name with a depth: resnet18");
        let four = |name: &str, given: &Option<Vec<usize>>| -> Result<[usize; 4], ConfigError> {
            let given = given.as_ref().ok_or_else(|| missing(name))?;
            let four = <[usize; 4]>::try_from(given.as_slice()).ok().filter(|four| !four.contains(&0));
            four.ok_or_else(|| ConfigError::value(name, given, "expected four numbers of at least 1"))
        };
        let planes = four("block_inplanes", &self.block_inplanes)?;
        let planes = planes.map(|planes| (planes as f64 * self.widen_factor) as usize);
        if planes.contains(&0) {
            return Err(ConfigError::value("widen_factor", self.widen_factor, "a layer would have no channels"));
        }
        Ok((self.block.ok_or_else(|| missing("block"))?, four("layers", &self.layers)?, planes))
    }

    /// Builds the network in a scope, with groups and width of bottlenecks.
    pub(super) fn build(&self, scope: &Scope, groups: usize, base_width: usize) -> Result<ResNet, ConfigError> {
        let dims = self.spatial_dims;
        spatial(dims)?;
        untrained(self.pretrained)?;
        let (kind, layers, planes) = self.sizes()?;
        let kernel = self.conv1_t_size.resolve("conv1_t_size", dims, 1)?;
        let stride = self.conv1_t_stride.resolve("conv1_t_stride", dims, 1)?;
        if kernel.contains(&0) || stride.contains(&0) || [self.n_input_channels, self.num_classes].contains(&0) {
            let expected = "kernel, stride, n_input_channels and num_classes must be at least 1";
            return Err(ConfigError::value("conv1_t_size", &self.conv1_t_size, expected));
        }
        let scope = scope.with_init(Init::KaimingFanOut);
        let mut inplanes = planes[0];
        let mut layer = |index: usize| {
            let name = format!("layer{}", index + 1);
            let inner = scope.enter(&name);
            let mut blocks = Vec::new();
            for i in 0..layers[index] {
                let options = BlockOptions {
                    spatial_dims: dims,
                    kind,
                    inplanes,
                    planes: planes[index],
                    stride: if index > 0 && i == 0 { 2 } else { 1 },
                    shortcut: self.shortcut_type,
                    bias_downsample: self.bias_downsample,
                    groups,
                    base_width,
                };
                blocks.push((i.to_string(), ResNetBlock::new(&inner.enter(&i.to_string()), &options)?));
                inplanes = planes[index] * kind.expansion();
            }
            Ok(Named::new(blocks))
        };
        let shape = ConvShape { stride, padding: kernel.map(|k| k / 2), ..ConvShape::default() };
        let pool = PoolShape {
            stride: per_axis(dims, 2, 1),
            padding: per_axis(dims, 1, 0),
            ..PoolShape::new(per_axis(dims, 3, 1))
        };
        let given = |spec: &LayerSpec| !spec.name().is_empty();
        let norm = given(&self.norm).then(|| Norm::new(&scope.enter("bn1"), &self.norm, planes[0])).transpose()?;
        let act = given(&self.act).then(|| Act::new(&scope.enter("act"), &self.act)).transpose()?;
        let features = planes[3] * kind.expansion();
        let fc = Linear::new(&scope.enter("fc"), [features, self.num_classes], true);
        Ok(ResNet {
            conv1: Conv::new(&scope.enter("conv1"), [self.n_input_channels, planes[0]], kernel, shape, false),
            bn1: norm,
            act,
            maxpool: Pool::max(pool),
            layer1: layer(0)?,
            layer2: layer(1)?,
            layer3: layer(2)?,
            layer4: layer(3)?,
            fc: self.feed_forward.then_some(fc),
            max_pools: !self.no_max_pool,
            spatial_dims: dims,
            channels: [self.n_input_channels, if self.feed_forward { self.num_classes } else { features }],
        })
    }
}

/// A residual network (He et al., <https://arxiv.org/abs/1512.03385>; in 3-D Hara et al.,
/// <https://arxiv.org/abs/1711.09577>) for classification.
///
/// `[b, in, x, y, z]` to class scores `[b, num_classes, 1, 1, 1]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, ResNetBlockKind, ResNetConfig};
/// let config = ResNetConfig { n_input_channels: 1, ..ResNetConfig::new(ResNetBlockKind::Basic, [1; 4], [4, 4, 8, 8]) };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 8, 8, 8], &Device::default())).dims(), [1, 400, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct ResNet {
    conv1: Conv,
    bn1: Option<Norm>,
    act: Option<Act>,
    maxpool: Pool,
    layer1: Named<ResNetBlock>,
    layer2: Named<ResNetBlock>,
    layer3: Named<ResNetBlock>,
    layer4: Named<ResNetBlock>,
    fc: Option<Linear>,
    #[module(skip)]
    max_pools: bool,
    #[module(skip)]
    spatial_dims: usize,
    #[module(skip)]
    channels: [usize; 2],
}

impl ResNet {
    /// The maps of the last layer, `[b, features, x', y', z']`.
    pub(super) fn maps(&self, x: Tensor<5>, max_pools: bool) -> Tensor<5> {
        let x = self.first_maps(x);
        let x = if max_pools { self.maxpool.forward(x) } else { x };
        self.layers().into_iter().fold(x, through)
    }

    /// The maps after the first convolution and after each layer.
    pub(super) fn stages(&self, x: Tensor<5>) -> [Tensor<5>; 5] {
        let first = self.first_maps(x);
        let mut x = if self.max_pools { self.maxpool.forward(first.clone()) } else { first.clone() };
        let [one, two, three, four] = self.layers().map(|layer| {
            x = through(x.clone(), layer);
            x.clone()
        });
        [first, one, two, three, four]
    }

    fn layers(&self) -> [&Named<ResNetBlock>; 4] {
        [&self.layer1, &self.layer2, &self.layer3, &self.layer4]
    }

    fn first_maps(&self, x: Tensor<5>) -> Tensor<5> {
        self.conv1.forward_with(Channels::One(x), &self.bn1, &self.act)
    }

    /// The size of the maps for an input of this size.
    pub(super) fn map_size(&self, input: [usize; 3], max_pools: bool) -> Option<[usize; 3]> {
        let first = self.conv1.output(input)?;
        let pooled = if max_pools { self.maxpool.output(first)? } else { first };
        let depth = |axis: usize| self.spatial_dims == 3 || axis < 2;
        Some(std::array::from_fn(|axis| if depth(axis) { pooled[axis].div_ceil(8) } else { pooled[axis] }))
    }

    /// Whether the pooling after the first convolution is used.
    pub(super) fn max_pools(&self) -> bool {
        self.max_pools
    }
}

/// Runs the blocks of a layer in order.
fn through(x: Tensor<5>, layer: &Named<ResNetBlock>) -> Tensor<5> {
    layer.iter().fold(x, |x, block| block.forward(x))
}

impl Network for ResNet {
    fn spatial_dims(&self) -> usize {
        self.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let features = Pool::global_avg().forward(self.maps(x, self.max_pools));
        match &self.fc {
            Some(fc) => fc.forward_flat(features),
            None => features,
        }
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)?;
        let [_, _, nx, ny, nz] = shape;
        match self.map_size([nx, ny, nz], self.max_pools) {
            Some(_) => Ok(()),
            None => {
                let reason = "it is smaller than the first convolution's kernel".to_owned();
                Err(ShapeError { network: "ResNet", shape, reason })
            }
        }
    }
}

network_entry!(ResNetConfig {
    name: "ResNet",
    aliases: &[],
    about: "Classification: custom residual blocks.",
    paper: "He et al. 2016, arXiv:1512.03385",
    example: r#"spatial_dims = 3
n_input_channels = 1
num_classes = 2
block = "bottleneck"
layers = [3, 4, 6, 3]
block_inplanes = [64, 128, 256, 512]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.n_input_channels,
    init: |c, d, s| c.init(d, s),
});

/// Registers the named depths.
macro_rules! depth_entries {
    ($($name:literal: $depth:literal, $about:literal;)*) => {$(
        network_entry!(ResNetConfig {
            name: $name,
            aliases: &[],
            about: $about,
            paper: "He et al. 2016, arXiv:1512.03385",
            example: "spatial_dims = 3\nn_input_channels = 1\nnum_classes = 2",
            input: [1, 1, 64, 64, 64],
            dims: &[2, 3],
            in_channels: |c| c.n_input_channels,
            init: |c, d, s| c.of_depth($depth)?.init(d, s),
        });
    )*};
}

depth_entries! {
    "resnet10": 10, "Classification: ResNet of depth 10.";
    "resnet18": 18, "Classification: ResNet of depth 18.";
    "resnet34": 34, "Classification: ResNet of depth 34.";
    "resnet50": 50, "Classification: ResNet of depth 50.";
    "resnet101": 101, "Classification: ResNet of depth 101.";
    "resnet152": 152, "Classification: ResNet of depth 152.";
    "resnet200": 200, "Classification: ResNet of depth 200.";
}

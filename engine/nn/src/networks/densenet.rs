//! The densely connected network of `monai.networks.nets.DenseNet`, and its sizes 121, 169, 201 and 264.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::ConvShape;
use hearth_kernels::pool3d::PoolShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{known_channels, spatial, untrained};
use super::{Network, ShapeError};
use crate::layers::{
    Act, ConfigError, Conv, Dropout, DropoutClock, Init, Layer, LayerSpec, Linear, Norm, Pool, Scope, Sequential,
    per_axis,
};
use crate::named::Named;
use crate::trace::concat;

/// Options of [`DenseNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct DenseNetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of classes.
    pub out_channels: usize,
    /// Number of channels of the first convolution.
    #[serde(default = "sixty_four")]
    pub init_features: usize,
    /// Number of channels that a layer adds.
    #[serde(default = "thirty_two")]
    pub growth_rate: usize,
    /// Number of layers of each block. The default is that of the named size, or of DenseNet121 for
    /// `DenseNet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub block_config: Option<Vec<usize>>,
    /// Number of inner channels of a layer, per channel that it adds.
    #[serde(default = "four")]
    pub bn_size: usize,
    /// Activation; `""` for none.
    #[serde(default = "relu")]
    #[setters(into)]
    pub act: LayerSpec,
    /// Norm; `""` for none.
    #[serde(default = "batch")]
    #[setters(into)]
    pub norm: LayerSpec,
    /// Dropout probability after each layer.
    #[serde(default)]
    pub dropout_prob: f64,
    /// Must be false: weights are loaded from a file.
    #[serde(default)]
    pub pretrained: bool,
}

fn sixty_four() -> usize {
    64
}

fn thirty_two() -> usize {
    32
}

fn four() -> usize {
    4
}

fn relu() -> LayerSpec {
    "relu".into()
}

fn batch() -> LayerSpec {
    "batch".into()
}

/// Number of layers of each block of DenseNet121.
const BLOCKS_121: [usize; 4] = [6, 12, 24, 16];

impl DenseNetConfig {
    /// Options of DenseNet121 with MONAI's defaults for everything else.
    pub fn new(spatial_dims: usize, in_channels: usize, out_channels: usize) -> Self {
        DenseNetConfig {
            spatial_dims,
            in_channels,
            out_channels,
            init_features: 64,
            growth_rate: 32,
            block_config: None,
            bn_size: 4,
            act: relu(),
            norm: batch(),
            dropout_prob: 0.0,
            pretrained: false,
        }
    }

    /// Sets these blocks, unless others are given.
    #[must_use]
    pub fn with_blocks(&self, blocks: &[usize]) -> Self {
        DenseNetConfig {
            block_config: Some(self.block_config.clone().unwrap_or_else(|| blocks.to_vec())),
            ..self.clone()
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<DenseNet, ConfigError> {
        spatial(self.spatial_dims)?;
        untrained(self.pretrained)?;
        let blocks = self.block_config.clone().unwrap_or_else(|| BLOCKS_121.to_vec());
        let counts = [self.in_channels, self.out_channels, self.init_features, self.growth_rate, self.bn_size];
        if blocks.is_empty() || counts.contains(&0) {
            let expected = "expected at least one block, and channels, features and growth of at least 1";
            return Err(ConfigError::value("block_config", &blocks, expected));
        }
        let clock = DropoutClock::default();
        let builder = Builder { config: self, clock: &clock };
        let scope = Scope::new(device, seed).with_init(Init::KaimingFanIn);
        let (features, channels) = builder.features(&scope.enter("features"), &blocks)?;
        let head = scope.enter("class_layers");
        Ok(DenseNet {
            features,
            class_layers: Sequential::new(
                [
                    builder.act(&head, "relu")?,
                    Some(("pool".to_owned(), Layer::Pool(Pool::global_avg()))),
                    Some((
                        "out".to_owned(),
                        Layer::Linear(Linear::new(&head.enter("out"), [channels, self.out_channels], true)),
                    )),
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
            spatial_dims: self.spatial_dims,
            channels: [self.in_channels, self.out_channels],
            transitions: blocks.len() - 1,
            clock,
        })
    }
}

/// A layer of a dense block: its output is appended to its input.
#[derive(Module, Debug)]
struct DenseLayer {
    layers: Sequential,
}

/// A stage of the feature extractor.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a dozen of them, and modules cannot be boxed")]
enum Stage {
    Layer(Layer),
    Block(Named<DenseLayer>),
    Transition(Sequential),
}

impl Stage {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Stage::Layer(layer) => layer.forward(x),
            Stage::Block(layers) => layers.iter().fold(x, |x, layer| {
                let new = layer.layers.forward(x.clone());
                let dtype = new.dtype();
                concat(x, new, dtype)
            }),
            Stage::Transition(layers) => layers.forward(x),
        }
    }
}

/// A densely connected network (Huang et al., <https://arxiv.org/abs/1608.06993>) for
/// classification.
///
/// `[b, in, x, y, z]` to class scores `[b, out, 1, 1, 1]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{DenseNetConfig, Network};
/// let config = DenseNetConfig { block_config: Some(vec![2, 2]), init_features: 8, ..DenseNetConfig::new(2, 1, 3) };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 16, 16, 1], &Device::default())).dims(), [1, 3, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct DenseNet {
    features: Named<Stage>,
    class_layers: Sequential,
    #[module(skip)]
    spatial_dims: usize,
    #[module(skip)]
    channels: [usize; 2],
    #[module(skip)]
    transitions: usize,
    #[module(skip)]
    clock: DropoutClock,
}

impl Network for DenseNet {
    fn spatial_dims(&self) -> usize {
        self.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.clock.next_pass();
        self.class_layers.forward(self.features.iter().fold(x, |x, stage| stage.forward(x)))
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)?;
        // The first convolution and pooling halve the size, rounding up; each transition halves it,
        // rounding down.
        let least = 4 * (1 << self.transitions) - 3;
        let axes = &shape[2..2 + self.spatial_dims];
        if axes.iter().any(|n| n.div_ceil(2).div_ceil(2) >> self.transitions == 0) {
            let reason = format!("every axis must be at least {least}");
            return Err(ShapeError { network: "DenseNet", shape, reason });
        }
        Ok(())
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.clock.set(seed, step);
    }
}

struct Builder<'a> {
    config: &'a DenseNetConfig,
    clock: &'a DropoutClock,
}

type Entry = Option<(String, Layer)>;

impl Builder<'_> {
    fn norm(&self, scope: &Scope, name: &str, channels: usize) -> Result<Entry, ConfigError> {
        let spec = Some(&self.config.norm).filter(|spec| !spec.name().is_empty());
        spec.map(|spec| Ok((name.to_owned(), Layer::Norm(Norm::new(&scope.enter(name), spec, channels)?)))).transpose()
    }

    fn act(&self, scope: &Scope, name: &str) -> Result<Entry, ConfigError> {
        let spec = Some(&self.config.act).filter(|spec| !spec.name().is_empty());
        spec.map(|spec| Ok((name.to_owned(), Layer::Act(Act::new(&scope.enter(name), spec)?)))).transpose()
    }

    /// A convolution without bias that outputs `ceil(n / stride)` values.
    fn conv(&self, scope: &Scope, name: &str, channels: [usize; 2], [kernel, stride]: [usize; 2]) -> Entry {
        let dims = self.config.spatial_dims;
        let shape = ConvShape {
            stride: per_axis(dims, stride, 1),
            padding: per_axis(dims, kernel / 2, 0),
            ..ConvShape::default()
        };
        let conv = Conv::new(&scope.enter(name), channels, per_axis(dims, kernel, 1), shape, false);
        Some((name.to_owned(), Layer::Conv(conv)))
    }

    fn layer(&self, scope: &Scope, channels: usize) -> Result<DenseLayer, ConfigError> {
        let DenseNetConfig { growth_rate, bn_size, dropout_prob, .. } = *self.config;
        let (inner, scope) = (bn_size * growth_rate, scope.enter("layers"));
        let dropout = if dropout_prob == 0.0 {
            None
        } else {
            let dropout = Dropout::new(scope.enter("dropout").path(), dropout_prob, self.clock)?;
            Some(("dropout".to_owned(), Layer::Dropout(dropout)))
        };
        let layers = [
            self.norm(&scope, "norm1", channels)?,
            self.act(&scope, "relu1")?,
            self.conv(&scope, "conv1", [channels, inner], [1, 1]),
            self.norm(&scope, "norm2", inner)?,
            self.act(&scope, "relu2")?,
            self.conv(&scope, "conv2", [inner, growth_rate], [3, 1]),
            dropout,
        ];
        Ok(DenseLayer { layers: Sequential::new(layers.into_iter().flatten().collect()) })
    }

    fn transition(&self, scope: &Scope, channels: usize) -> Result<Stage, ConfigError> {
        let pool = Pool::avg(PoolShape::new(per_axis(self.config.spatial_dims, 2, 1)));
        let layers = [
            self.norm(scope, "norm", channels)?,
            self.act(scope, "relu")?,
            self.conv(scope, "conv", [channels, channels / 2], [1, 1]),
            Some(("pool".to_owned(), Layer::Pool(pool))),
        ];
        Ok(Stage::Transition(Sequential::new(layers.into_iter().flatten().collect())))
    }

    /// The feature extractor and its number of channels.
    fn features(&self, scope: &Scope, blocks: &[usize]) -> Result<(Named<Stage>, usize), ConfigError> {
        let DenseNetConfig { spatial_dims, in_channels, init_features, growth_rate, .. } = *self.config;
        let pool = PoolShape {
            stride: per_axis(spatial_dims, 2, 1),
            padding: per_axis(spatial_dims, 1, 0),
            ..PoolShape::new(per_axis(spatial_dims, 3, 1))
        };
        let first = [
            self.conv(scope, "conv0", [in_channels, init_features], [7, 2]),
            self.norm(scope, "norm0", init_features)?,
            self.act(scope, "relu0")?,
            Some(("pool0".to_owned(), Layer::Pool(Pool::max(pool)))),
        ];
        let single = |(name, layer)| (name, Stage::Layer(layer));
        let mut stages: Vec<(String, Stage)> = first.into_iter().flatten().map(single).collect();
        let mut channels = init_features;
        for (i, count) in blocks.iter().enumerate() {
            let name = format!("denseblock{}", i + 1);
            let inner = scope.enter(&name);
            let mut layers = Vec::new();
            for number in 1..=*count {
                let name = format!("denselayer{number}");
                let layer = self.layer(&inner.enter(&name), channels)?;
                layers.push((name, layer));
                channels += growth_rate;
            }
            stages.push((name, Stage::Block(Named::new(layers))));
            if i + 1 == blocks.len() {
                stages.extend(self.norm(scope, "norm5", channels)?.map(single));
            } else {
                if channels < 2 {
                    return Err(ConfigError::value("init_features", init_features, "a transition needs two channels"));
                }
                let name = format!("transition{}", i + 1);
                let transition = self.transition(&scope.enter(&name), channels)?;
                stages.push((name, transition));
                channels /= 2;
            }
        }
        Ok((Named::new(stages), channels))
    }
}

network_entry!(DenseNetConfig {
    name: "DenseNet",
    aliases: &[],
    about: "Classification: every layer reads all earlier layers; custom blocks.",
    paper: "Huang et al. 2017, arXiv:1608.06993",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 2
block_config = [6, 12, 24, 16]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

/// Registers the names of networks with given blocks.
macro_rules! block_entries {
    ($($name:literal: $blocks:expr, $about:literal;)*) => {$(
        network_entry!(DenseNetConfig {
            name: $name,
            aliases: &[],
            about: $about,
            paper: "Huang et al. 2017, arXiv:1608.06993",
            example: "spatial_dims = 3\nin_channels = 1\nout_channels = 2",
            input: [1, 1, 64, 64, 64],
            dims: &[2, 3],
            in_channels: |c| c.in_channels,
            init: |c, d, s| c.with_blocks(&$blocks).init(d, s),
        });
    )*};
}

block_entries! {
    "DenseNet121": [6, 12, 24, 16], "Classification: DenseNet with blocks of 6, 12, 24, 16 layers.";
    "DenseNet169": [6, 12, 32, 32], "Classification: DenseNet with blocks of 6, 12, 32, 32 layers.";
    "DenseNet201": [6, 12, 48, 32], "Classification: DenseNet with blocks of 6, 12, 48, 32 layers.";
    "DenseNet264": [6, 12, 64, 48], "Classification: DenseNet with blocks of 6, 12, 64, 48 layers.";
}

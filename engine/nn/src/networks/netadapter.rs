//! A ResNet with a replaced last layer (`monai.networks.nets.NetAdapter`), optionally fully
//! convolutional.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{known_channels, spatial};
use super::resnet::{ResNet, ResNetConfig};
use super::{Network, ShapeError};
use crate::layers::{ConfigError, Conv, LayerSpec, Linear, Pool, Scope};

/// Options of the head on the features of a network.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HeadOptions {
    pub dim: usize,
    pub num_classes: usize,
    /// Number of inputs of the last layer; by default the number of features.
    pub in_channels: Option<usize>,
    pub use_conv: bool,
    pub pool: Option<LayerSpec>,
    pub bias: bool,
}

/// Options of [`NetAdapter`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct NetAdapterConfig {
    /// The network to adapt.
    #[serde(alias = "resnet_params")]
    pub model: ResNetConfig,
    /// Number of classes.
    #[serde(default = "one")]
    pub num_classes: usize,
    /// Number of spatial axes, 2 or 3; must equal that of the network.
    #[serde(default = "two")]
    pub dim: usize,
    /// Number of inputs of the last layer; by default the network's number of features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_channels: Option<usize>,
    /// Whether the last layer is a convolution of kernel 1, so that larger images give maps of
    /// scores.
    #[serde(default)]
    pub use_conv: bool,
    /// The pooling before the last layer; `""` for none, null to keep the network's own.
    #[serde(default = "pool")]
    #[setters(into)]
    pub pool: Option<LayerSpec>,
    /// Whether the last layer has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
}

fn one() -> usize {
    1
}

fn two() -> usize {
    2
}

fn yes() -> bool {
    true
}

/// `("avg", {"kernel_size": 7, "stride": 1})`
pub(super) fn pool() -> Option<LayerSpec> {
    let arguments = [("kernel_size", 7), ("stride", 1)].map(|(name, value)| (name.to_owned(), value.into()));
    Some(LayerSpec::With("avg".to_owned(), arguments.into_iter().collect()))
}

impl NetAdapterConfig {
    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<NetAdapter, ConfigError> {
        let NetAdapterConfig { num_classes, dim, in_channels, use_conv, ref pool, bias, .. } = *self;
        let head = HeadOptions { dim, num_classes, in_channels, use_conv, pool: pool.clone(), bias };
        NetAdapter::new("NetAdapter", &Scope::new(device, seed), &self.model, [1, 64], &head)
    }
}

/// The last layer.
#[derive(Module, Debug)]
enum Head {
    Conv(Conv),
    Linear(Linear),
}

/// A ResNet whose last pooling and last layer are replaced.
///
/// `[b, in, x, y, z]` to scores `[b, num_classes, x', y', z']`: one per position of the pooled
/// features with `use_conv`, otherwise one per image.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, TorchVisionFCModelConfig};
/// let config = TorchVisionFCModelConfig { use_conv: true, ..TorchVisionFCModelConfig::new("resnet18", 1) };
/// let net = config.init(&Device::default(), 0)?;
/// assert!(net.check_input([1, 3, 224, 224, 1]).is_ok() && net.check_input([1, 3, 96, 96, 1]).is_err());
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct NetAdapter {
    features: ResNet,
    pool: Option<Pool>,
    fc: Head,
    #[module(skip)]
    title: &'static str,
    #[module(skip)]
    num_classes: usize,
    /// Whether the network's own pooling and the names of its layers are kept.
    #[module(skip)]
    keeps_pool: bool,
    /// Number of features, and of inputs of the last layer.
    #[module(skip)]
    widths: [usize; 2],
}

impl NetAdapter {
    /// Builds the network. `[groups, base_width]` are those of bottlenecks.
    pub(super) fn new(
        title: &'static str,
        scope: &Scope,
        model: &ResNetConfig,
        [groups, base_width]: [usize; 2],
        head: &HeadOptions,
    ) -> Result<Self, ConfigError> {
        spatial(head.dim)?;
        if model.spatial_dims != head.dim {
            return Err(ConfigError::value(
                "dim",
                head.dim,
                format!("the model has {} dimensions", model.spatial_dims),
            ));
        }
        if !model.feed_forward {
            return Err(ConfigError::value("feed_forward", false, "there would be no last layer to replace"));
        }
        if head.num_classes == 0 {
            return Err(ConfigError::value("num_classes", 0, "expected at least 1"));
        }
        // The last layer is replaced, so the network is built without it.
        let bare = ResNetConfig { feed_forward: false, ..model.clone() };
        let features = bare.build(&scope.enter("features"), groups, base_width)?;
        let pool = head.pool.as_ref().filter(|spec| !spec.name().is_empty());
        let width = bare.features()?;
        let input = head.in_channels.unwrap_or(width);
        if head.use_conv && input != width {
            return Err(ConfigError::value("in_channels", input, format!("the network has {width} features")));
        }
        let (inner, channels) = (scope.enter("fc"), [input, head.num_classes]);
        let fc = if head.use_conv {
            Head::Conv(Conv::new(&inner, channels, [1; 3], ConvShape::default(), head.bias))
        } else {
            Head::Linear(Linear::new(&inner, channels, head.bias))
        };
        Ok(NetAdapter {
            features,
            pool: pool.map(|spec| Pool::new(spec, head.dim)).transpose()?,
            fc,
            title,
            num_classes: head.num_classes,
            keeps_pool: head.pool.is_none(),
            widths: [width, input],
        })
    }

    /// Whether a max pooling follows the first convolution. In MONAI the rest of the network is a
    /// list of its layers, which includes the pooling even if the network itself would not use it.
    fn max_pools(&self) -> bool {
        !self.keeps_pool || self.features.max_pools()
    }
}

impl Network for NetAdapter {
    fn name(&self) -> &'static str {
        self.title
    }

    fn spatial_dims(&self) -> usize {
        self.features.spatial_dims()
    }

    fn channels(&self) -> [usize; 2] {
        [self.features.channels()[0], self.num_classes]
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let mut x = self.features.maps(x, self.max_pools());
        if self.keeps_pool {
            x = Pool::global_avg().forward(x);
        }
        if let Some(pool) = &self.pool {
            x = pool.forward(x);
        }
        match &self.fc {
            Head::Conv(conv) => conv.forward(x),
            Head::Linear(linear) => linear.forward_flat(x),
        }
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)?;
        let fail = |reason: String| Err(ShapeError { network: self.title, shape, reason });
        let [_, _, nx, ny, nz] = shape;
        let Some(maps) = self.features.map_size([nx, ny, nz], self.max_pools()) else {
            return fail("it is smaller than the first convolution's kernel".to_owned());
        };
        let maps = if self.keeps_pool { [1; 3] } else { maps };
        let pooled = match &self.pool {
            Some(pool) => pool.output(maps),
            None => Some(maps),
        };
        let Some(pooled) = pooled else {
            return fail(format!("its features, {maps:?}, are smaller than a window of `pool`; use larger images"));
        };
        let [width, input] = self.widths;
        let flat = width * pooled.iter().product::<usize>();
        match &self.fc {
            Head::Linear(_) if flat != input => {
                fail(format!("it has {flat} pooled features, and the last layer takes {input}"))
            }
            _ => Ok(()),
        }
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        let name = match path.strip_prefix("features.") {
            Some(rest) if !self.keeps_pool => {
                // The network's layers in order.
                let layers = ["conv1", "bn1", "act", "maxpool", "layer1", "layer2", "layer3", "layer4"];
                let (layer, rest) = rest.split_once('.')?;
                let index = layers.iter().position(|known| *known == layer)?;
                format!("features.{index}.{rest}")
            }
            _ => path.to_owned(),
        };
        Some(name)
    }
}

network_entry!(NetAdapterConfig {
    name: "NetAdapter",
    aliases: &[],
    about: "Classification: a ResNet with another last layer.",
    paper: "He et al. 2016, arXiv:1512.03385",
    example: r#"model = { block = "basic", layers = [2, 2, 2, 2], block_inplanes = [64, 128, 256, 512], spatial_dims = 3, n_input_channels = 1 }
num_classes = 2
dim = 3
pool = ["adaptiveavg", { output_size = 1 }]"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.model.n_input_channels,
    init: |c, d, s| c.init(d, s),
});

//! A ResNet or Inception v3 of torchvision with a replaced last layer
//! (`monai.networks.nets.TorchVisionFCModel`).

use burn::tensor::Device;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AnyNetwork;
use super::check::untrained;
use super::inception::{FEATURES, InceptionV3};
use super::netadapter::{HeadOptions, NetAdapter, pool};
use super::resnet::{ResNetConfig, depth};
use crate::layers::{Axes, ConfigError, LayerSpec, Scope};

/// Options of a `TorchVisionFCModel`: MONAI's parameters and defaults.
///
/// With `use_conv` it is the fully convolutional classifier of patches of whole-slide images:
/// trained on patches of 224, and applied to larger ones for a map of scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct TorchVisionFCModelConfig {
    /// `resnet18`, `resnet34`, `resnet50`, `resnet101`, `resnet152`, `resnext50_32x4d`,
    /// `resnext101_32x8d`, `resnext101_64x4d`, `wide_resnet50_2`, `wide_resnet101_2`, or
    /// `inception_v3`, whose `pool` must be null.
    #[serde(default = "resnet18")]
    #[setters(into)]
    pub model_name: String,
    /// Number of classes.
    #[serde(default = "one")]
    pub num_classes: usize,
    /// Must be 2, as in torchvision's networks.
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
    /// Must be false: weights are loaded from a file.
    #[serde(default)]
    pub pretrained: bool,
    /// Whether images normalized by the mean and deviation of ImageNet are converted to the range
    /// -1 to 1, as torchvision does for `pretrained`. Only for `inception_v3`.
    #[serde(default)]
    pub transform_input: bool,
}

fn resnet18() -> String {
    "resnet18".to_owned()
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

/// The depth, groups and width of a name.
fn sizes(name: &str) -> Option<(usize, [usize; 2])> {
    Some(match name {
        "resnet18" => (18, [1, 64]),
        "resnet34" => (34, [1, 64]),
        "resnet50" => (50, [1, 64]),
        "resnet101" => (101, [1, 64]),
        "resnet152" => (152, [1, 64]),
        "resnext50_32x4d" => (50, [32, 4]),
        "resnext101_32x8d" => (101, [32, 8]),
        "resnext101_64x4d" => (101, [64, 4]),
        "wide_resnet50_2" => (50, [1, 128]),
        "wide_resnet101_2" => (101, [1, 128]),
        _ => return None,
    })
}

impl TorchVisionFCModelConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(model_name: &str, num_classes: usize) -> Self {
        TorchVisionFCModelConfig {
            model_name: model_name.to_owned(),
            num_classes,
            dim: 2,
            in_channels: None,
            use_conv: false,
            pool: pool(),
            bias: true,
            pretrained: false,
            transform_input: false,
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AnyNetwork, ConfigError> {
        untrained(self.pretrained)?;
        let scope = Scope::new(device, seed);
        if self.model_name == "inception_v3" {
            return self.inception(&scope).map(AnyNetwork::new);
        }
        self.resnet(&scope).map(AnyNetwork::new)
    }

    fn inception(&self, scope: &Scope) -> Result<InceptionV3, ConfigError> {
        if self.dim != 2 {
            return Err(ConfigError::value("dim", self.dim, "the model has 2 dimensions"));
        }
        if let Some(pool) = &self.pool {
            let expected = "inception_v3 keeps its own, as in MONAI: set it to null";
            return Err(ConfigError::value("pool", pool.name(), expected));
        }
        if self.use_conv {
            return Err(ConfigError::value("use_conv", true, "only a ResNet can have it"));
        }
        if let Some(given) = self.in_channels.filter(|given| *given != FEATURES) {
            return Err(ConfigError::value("in_channels", given, format!("the network has {FEATURES} features")));
        }
        InceptionV3::new(scope, self.num_classes, self.bias, self.transform_input)
    }

    fn resnet(&self, scope: &Scope) -> Result<NetAdapter, ConfigError> {
        let (number, widths) = sizes(&self.model_name).ok_or_else(|| ConfigError::UnknownName {
            kind: "model_name",
            name: self.model_name.clone(),
            known: "resnet18, resnet34, resnet50, resnet101, resnet152, resnext50_32x4d, resnext101_32x8d, \
                    resnext101_64x4d, wide_resnet50_2, wide_resnet101_2, inception_v3",
        })?;
        if self.transform_input {
            return Err(ConfigError::value("transform_input", true, "only inception_v3 has it"));
        }
        let (block, layers) = depth(number)?;
        let model = ResNetConfig {
            spatial_dims: 2,
            conv1_t_stride: Axes::All(2),
            bias_downsample: false,
            ..ResNetConfig::new(block, layers, [64, 128, 256, 512])
        };
        let TorchVisionFCModelConfig { num_classes, dim, in_channels, use_conv, ref pool, bias, .. } = *self;
        let head = HeadOptions { dim, num_classes, in_channels, use_conv, pool: pool.clone(), bias };
        NetAdapter::new("TorchVisionFCModel", scope, &model, widths, &head)
    }
}

network_entry!(TorchVisionFCModelConfig {
    name: "TorchVisionFCModel",
    aliases: &[],
    about: "Classification of patches, maps of scores for whole slides: a ResNet or Inception v3 of torchvision.",
    paper: "He et al. 2016, arXiv:1512.03385",
    example: r#"model_name = "resnet18"
num_classes = 1
use_conv = true"#,
    input: [1, 3, 224, 224, 1],
    dims: &[2],
    in_channels: |_| 3,
    init: |c, d, s| c.init(d, s),
});

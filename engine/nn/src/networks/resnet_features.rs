//! The stages of a ResNet, used as an encoder: `monai.networks.nets.ResNetFeatures`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::untrained;
use super::resnet::depth;
use super::{Network, ResNet, ResNetBlockKind, ResNetConfig, ShapeError, ShortcutType};
use crate::layers::{Axes, ConfigError};

/// Options of [`ResNetFeatures`]: MONAI's parameters; the default of `pretrained` is false.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct ResNetFeaturesConfig {
    /// `resnet10`, `resnet18`, `resnet34`, `resnet50`, `resnet101`, `resnet152` or `resnet200`.
    #[setters(into)]
    pub model_name: String,
    /// Must be false: weights are loaded from a file.
    #[serde(default)]
    pub pretrained: bool,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three")]
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
}

fn one() -> usize {
    1
}

fn three() -> usize {
    3
}

impl ResNetFeaturesConfig {
    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<ResNetFeatures, ConfigError> {
        untrained(self.pretrained)?;
        let unknown = || ConfigError::UnknownName {
            kind: "model_name",
            name: self.model_name.clone(),
            known: "resnet10, resnet18, resnet34, resnet50, resnet101, resnet152, resnet200",
        };
        let number = self.model_name.strip_prefix("resnet").and_then(|number| number.parse().ok());
        let (block, layers) = number.and_then(|number| depth(number).ok()).ok_or_else(unknown)?;
        let config = ResNetConfig {
            spatial_dims: self.spatial_dims,
            n_input_channels: self.in_channels,
            conv1_t_stride: Axes::All(2),
            // As in the weights of MedicalNet.
            shortcut_type: if ["resnet18", "resnet34"].contains(&self.model_name.as_str()) {
                ShortcutType::A
            } else {
                ShortcutType::B
            },
            bias_downsample: ["resnet18", "resnet34"].contains(&self.model_name.as_str()),
            feed_forward: false,
            ..ResNetConfig::new(block, layers, [64, 128, 256, 512])
        };
        let expansion = if block == ResNetBlockKind::Bottleneck { 4 } else { 1 };
        Ok(ResNetFeatures { resnet: config.init(device, seed)?, channels: [self.in_channels, 512 * expansion] })
    }
}

/// A residual network (He et al., <https://arxiv.org/abs/1512.03385>) that outputs the maps of its
/// stages: after the first convolution, and after each of the four layers.
///
/// `[b, in, x, y, z]` to five maps, the largest first; the main output is the last.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, ResNetFeaturesConfig};
/// let config =
///     ResNetFeaturesConfig { model_name: "resnet10".into(), pretrained: false, spatial_dims: 2, in_channels: 1 };
/// let net = config.init(&Device::default(), 0)?;
/// let maps = net.forward_all(Tensor::zeros([1, 1, 32, 32, 1], &Device::default()));
/// assert_eq!((maps.len(), maps[0].dims(), maps[4].dims()), (5, [1, 64, 16, 16, 1], [1, 512, 1, 1, 1]));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct ResNetFeatures {
    resnet: ResNet,
    #[module(skip)]
    channels: [usize; 2],
}

impl Network for ResNetFeatures {
    fn spatial_dims(&self) -> usize {
        self.resnet.spatial_dims()
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let [_, _, _, _, last] = self.resnet.stages(x);
        last
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.resnet.stages(x).into()
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        self.resnet.check_input(shape).map_err(|error| ShapeError { network: self.name(), ..error })
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        path.strip_prefix("resnet.").map(str::to_owned)
    }
}

network_entry!(ResNetFeaturesConfig {
    name: "ResNetFeatures",
    aliases: &[],
    about: "The feature maps of a ResNet's stages, for a network around it. No recipe trains it: its maps have five sizes, and no loss compares them with one label.",
    paper: "He et al. 2016, arXiv:1512.03385",
    example: r#"model_name = "resnet18"
pretrained = false
spatial_dims = 3
in_channels = 1"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

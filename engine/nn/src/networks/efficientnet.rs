//! EfficientNet: the classifier `EfficientNetBN` and the encoder of [`FlexibleUNet`](super::FlexibleUNet)
//! (`monai.networks.nets.efficientnet`).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::check::untrained;
use super::defaults::yes;
use super::facts::Facts;
use super::{Network, ShapeError};
use crate::blocks::{MBConvBlock, MBConvOptions, SamePadding, mb_conv_name, normed_convolution};
use crate::layers::{Act, ConfigError, Convolution, Dropout, DropoutClock, Init, LayerSpec, Linear, Pool, Scope};
use crate::named::Named;

/// Options of [`EfficientNetBN`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct EfficientNetBNConfig {
    /// `efficientnet-b0` to `efficientnet-b8`, or `efficientnet-l2`.
    #[setters(into)]
    pub model_name: String,
    /// Must be false: weights are loaded from a file.
    #[serde(default)]
    pub pretrained: bool,
    /// No effect: it configures a download in MONAI.
    #[serde(default = "yes")]
    pub progress: bool,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "two_dims")]
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "colours")]
    pub in_channels: usize,
    /// Number of classes.
    #[serde(default = "thousand")]
    pub num_classes: usize,
    /// The norm.
    #[serde(default = "norm")]
    #[setters(into)]
    pub norm: LayerSpec,
    /// No effect: it selects downloaded weights in MONAI.
    #[serde(default)]
    pub adv_prop: bool,
}

pub(super) fn two_dims() -> usize {
    2
}

fn colours() -> usize {
    3
}

fn thousand() -> usize {
    1000
}

/// The norm of the published networks.
pub(super) fn norm() -> LayerSpec {
    LayerSpec::with("batch", &[("eps", json!(1e-3)), ("momentum", json!(0.01))])
}

/// The scaling that the letter and number of a name specify.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    width: f64,
    depth: f64,
    /// Length of the axes of the images that the network is designed for, from which the padding is
    /// computed.
    image_size: usize,
    dropout: f64,
}

impl Scaling {
    /// The scaling of a name.
    pub fn of(parameter: &str, model_name: &str) -> Result<Self, ConfigError> {
        let scaling = |width, depth, image_size, dropout| Ok(Scaling { width, depth, image_size, dropout });
        match model_name {
            "efficientnet-b0" => scaling(1.0, 1.0, 224, 0.2),
            "efficientnet-b1" => scaling(1.0, 1.1, 240, 0.2),
            "efficientnet-b2" => scaling(1.1, 1.2, 260, 0.3),
            "efficientnet-b3" => scaling(1.2, 1.4, 300, 0.3),
            "efficientnet-b4" => scaling(1.4, 1.8, 380, 0.4),
            "efficientnet-b5" => scaling(1.6, 2.2, 456, 0.4),
            "efficientnet-b6" => scaling(1.8, 2.6, 528, 0.5),
            "efficientnet-b7" => scaling(2.0, 3.1, 600, 0.5),
            "efficientnet-b8" => scaling(2.2, 3.6, 672, 0.5),
            "efficientnet-l2" => scaling(4.3, 5.3, 800, 0.5),
            name => {
                let expected = "expected efficientnet-b0 to efficientnet-b8, or efficientnet-l2";
                Err(ConfigError::value(parameter, name, expected))
            }
        }
    }

    /// Scales a number of channels and rounds it to a multiple of 8, by at most a tenth.
    fn channels(self, of_b0: usize) -> usize {
        let exact = of_b0 as f64 * self.width;
        let rounded = (((exact + 4.0) as usize) / 8 * 8).max(8);
        if (rounded as f64) < 0.9 * exact { rounded + 8 } else { rounded }
    }

    fn repeats(self, of_b0: usize) -> usize {
        (of_b0 as f64 * self.depth).ceil() as usize
    }
}

/// A stack of blocks of EfficientNet-B0.
struct Stack {
    repeats: usize,
    kernel_size: usize,
    stride: usize,
    expand_ratio: usize,
    channels: [usize; 2],
}

const fn stack(repeats: usize, kernel_size: usize, stride: usize, expand_ratio: usize, channels: [usize; 2]) -> Stack {
    Stack { repeats, kernel_size, stride, expand_ratio, channels }
}

const STACKS: [Stack; 7] = [
    stack(1, 3, 1, 1, [32, 16]),
    stack(2, 3, 2, 6, [16, 24]),
    stack(2, 5, 2, 6, [24, 40]),
    stack(3, 3, 2, 6, [40, 80]),
    stack(3, 5, 1, 6, [80, 112]),
    stack(4, 5, 2, 6, [112, 192]),
    stack(1, 3, 1, 6, [192, 320]),
];

/// Whether a stack's output is the last of its size.
fn is_last_of_its_size(index: usize) -> bool {
    STACKS.get(index + 1).is_none_or(|next| next.stride > 1)
}

/// The convolutions of an EfficientNet and its linear layer, which an encoder contains but does not
/// use.
#[derive(Module, Debug)]
pub(super) struct EfficientNet {
    stem: Convolution,
    blocks: Named<Named<MBConvBlock>>,
    head: Convolution,
    dropout: Dropout,
    fc: Linear,
    swish: Act,
    #[module(skip)]
    stem_padding: SamePadding,
}

impl EfficientNet {
    pub fn new(
        scope: &Scope,
        scaling: Scaling,
        [spatial_dims, in_channels, num_classes]: [usize; 3],
        norm: &LayerSpec,
        clock: &DropoutClock,
    ) -> Result<Self, ConfigError> {
        let scope = scope.with_init(Init::KaimingFanOutNoBias);
        let mut image_size = scaling.image_size;
        let stem_padding = SamePadding::of(spatial_dims, image_size, 3, 2);
        let first = scaling.channels(STACKS[0].channels[0]);
        let stem = normed_convolution(&scope, ["_conv_stem", "_bn0"], [in_channels, first], stem_padding, 1, norm)?;
        image_size = image_size.div_ceil(2);
        let total: usize = STACKS.iter().map(|stack| scaling.repeats(stack.repeats)).sum();
        let mut number = 0;
        let mut blocks = Vec::with_capacity(STACKS.len());
        for (index, stack) in STACKS.iter().enumerate() {
            let [input, output] = stack.channels.map(|channels| scaling.channels(channels));
            let inner = scope.enter("_blocks").enter(&index.to_string());
            let mut all = Vec::new();
            for repeat in 0..scaling.repeats(stack.repeats) {
                let options = MBConvOptions {
                    spatial_dims,
                    channels: [if repeat == 0 { input } else { output }, output],
                    kernel_size: stack.kernel_size,
                    stride: if repeat == 0 { stack.stride } else { 1 },
                    image_size,
                    expand_ratio: stack.expand_ratio,
                    se_ratio: 0.25,
                    norm: norm.clone(),
                    drop_connect_rate: 0.2 * number as f64 / total as f64,
                };
                let name = number.to_string();
                all.push((name.clone(), MBConvBlock::new(&inner.enter(&name), &options, clock)?));
                image_size = image_size.div_ceil(options.stride);
                number += 1;
            }
            blocks.push(Named::new(all));
        }
        let [last, features] = [STACKS[6].channels[1], 1280].map(|channels| scaling.channels(channels));
        let point = SamePadding::of(spatial_dims, image_size, 1, 1);
        Ok(EfficientNet {
            stem,
            blocks: Named::numbered(blocks),
            head: normed_convolution(&scope, ["_conv_head", "_bn1"], [last, features], point, 1, norm)?,
            dropout: Dropout::new(scope.enter("_dropout").path(), scaling.dropout, clock)?,
            fc: Linear::new(&scope.enter("_fc"), [features, num_classes], true),
            swish: Act::new(&scope.enter("_swish"), &"memswish".into())?,
            stem_padding,
        })
    }

    /// The number of channels of each of [`features`](Self::features).
    pub fn feature_channels(scaling: Scaling) -> Vec<usize> {
        let last = (0..STACKS.len()).filter(|index| is_last_of_its_size(*index));
        last.map(|index| scaling.channels(STACKS[index].channels[1])).collect()
    }

    /// The length of an axis of each of [`features`](Self::features); `None` if the image is too
    /// small.
    pub fn feature_lengths(&self, length: usize) -> Option<Vec<usize>> {
        let mut length = self.stem_padding.output(length)?;
        let mut lengths = Vec::new();
        for (index, stack) in self.blocks.iter().enumerate() {
            for block in stack.iter() {
                length = block.output(length)?;
            }
            if is_last_of_its_size(index) {
                lengths.push(length);
            }
        }
        Some(lengths)
    }

    /// The last output of each size, largest first.
    pub fn features(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let mut x = self.swish.forward(self.stem.forward(self.stem_padding.pad(x)));
        let mut features = Vec::new();
        for (index, stack) in self.blocks.iter().enumerate() {
            x = stack.iter().fold(x, |x, block| block.forward(x));
            if is_last_of_its_size(index) {
                features.push(x.clone());
            }
        }
        features
    }

    fn classes(&self, x: Tensor<5>) -> Tensor<5> {
        let x = self.swish.forward(self.stem.forward(self.stem_padding.pad(x)));
        let x = self.blocks.iter().flat_map(Named::iter).fold(x, |x, block| block.forward(x));
        let x = self.swish.forward(self.head.forward(x));
        self.fc.forward_flat(self.dropout.forward(Pool::global_avg().forward(x)))
    }
}

/// The state-dict key of a parameter at this path of an [`EfficientNet`].
pub(super) fn efficientnet_name(path: &str) -> String {
    const NAMES: [(&str, &str); 5] = [
        ("stem.conv.", "_conv_stem."),
        ("stem.adn.N.", "_bn0."),
        ("head.conv.", "_conv_head."),
        ("head.adn.N.", "_bn1."),
        ("fc.", "_fc."),
    ];
    if let Some(rest) = path.strip_prefix("blocks.") {
        let mut parts = rest.splitn(3, '.');
        if let (Some(stack), Some(block), Some(rest)) = (parts.next(), parts.next(), parts.next()) {
            return format!("_blocks.{stack}.{block}.{}", mb_conv_name(rest));
        }
    }
    let found = NAMES.iter().find_map(|(ours, theirs)| Some(format!("{theirs}{}", path.strip_prefix(ours)?)));
    found.unwrap_or_else(|| path.to_owned())
}

impl EfficientNetBNConfig {
    /// Options with MONAI's defaults for everything else: 2-D, three channels, 1000 classes.
    pub fn new(model_name: &str) -> Self {
        EfficientNetBNConfig {
            model_name: model_name.to_owned(),
            pretrained: false,
            progress: true,
            spatial_dims: two_dims(),
            in_channels: colours(),
            num_classes: thousand(),
            norm: norm(),
            adv_prop: false,
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<EfficientNetBN, ConfigError> {
        untrained(self.pretrained)?;
        let scaling = Scaling::of("model_name", &self.model_name)?;
        let facts = Facts::new("EfficientNetBN", self.spatial_dims, [self.in_channels, self.num_classes])?;
        let sizes = [self.spatial_dims, self.in_channels, self.num_classes];
        let body = EfficientNet::new(&Scope::new(device, seed), scaling, sizes, &self.norm, &facts.clock)?;
        Ok(EfficientNetBN { body, facts })
    }
}

/// EfficientNet (Tan and Le, <https://arxiv.org/abs/1905.11946>) for classification.
///
/// `[b, in, x, y, z]` to class scores `[b, num_classes, 1, 1, 1]`. The padding of the convolutions
/// is computed for images of the size that belongs to the name (224 for `b0`), whatever the actual
/// size, as in MONAI.
///
/// ```no_run
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{EfficientNetBNConfig, Network};
/// let net = EfficientNetBNConfig::new("efficientnet-b0").num_classes(2).init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 3, 64, 64, 1], &Device::default())).dims(), [1, 2, 1, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct EfficientNetBN {
    body: EfficientNet,
    #[module(skip)]
    facts: Facts,
}

impl Network for EfficientNetBN {
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
        self.body.classes(x)
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        self.facts.check(shape)?;
        if shape[2..2 + self.facts.spatial_dims].iter().all(|length| self.body.feature_lengths(*length).is_some()) {
            return Ok(());
        }
        let reason = "it halves the image five times and an axis is too short for that; resize or pad it".to_owned();
        Err(ShapeError { network: self.facts.name, shape, reason })
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(efficientnet_name(path.strip_prefix("body.").unwrap_or(path)))
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.facts.clock.set(seed, step);
    }
}

network_entry!(EfficientNetBNConfig {
    name: "EfficientNetBN",
    aliases: &[],
    about: "Classification: convolutions by channel, scaled together in depth, width and image size.",
    paper: "Tan and Le 2019, arXiv:1905.11946",
    example: r#"model_name = "efficientnet-b0"
spatial_dims = 2
in_channels = 3
num_classes = 2"#,
    input: [1, 3, 224, 224, 1],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

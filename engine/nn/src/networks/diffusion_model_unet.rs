//! The network of a diffusion model, `monai.networks.nets.DiffusionModelUNet`.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::autoencoderkl::{PerLevel, attention_levels, channels, check_levels, epsilon, thirty_two, two_each};
use super::autoencoderkl_blocks::Common;
use super::defaults::yes;
use super::diffusion_blocks::{DownLevel, LevelOptions, MiddleLevel, UpLevel};
use super::facts::{Facts, by_facts};
use crate::layers::{ConfigError, Convolution, GroupNorm, Init, Linear, Scope, swish};
use crate::named::Named;

/// Options of [`DiffusionModelUNet`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct DiffusionModelUNetConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image, or of the latent image.
    pub in_channels: usize,
    /// Number of channels of the output.
    pub out_channels: usize,
    /// Number of residual blocks per level.
    #[serde(default = "two_each")]
    pub num_res_blocks: PerLevel,
    /// Number of channels of each level, top first; divisible by `norm_num_groups`.
    #[serde(default = "channels")]
    #[setters(into)]
    pub channels: Vec<usize>,
    /// Whether a level has attention, top first.
    #[serde(default = "attention_levels")]
    #[setters(into)]
    pub attention_levels: Vec<bool>,
    /// Number of groups of the norms.
    #[serde(default = "thirty_two")]
    pub norm_num_groups: usize,
    /// Epsilon of norms.
    #[serde(default = "epsilon")]
    pub norm_eps: f64,
    /// Whether residual blocks change the size, instead of convolutions.
    #[serde(default)]
    pub resblock_updown: bool,
    /// Number of channels of each attention head; ignored for levels without attention.
    #[serde(default = "eight")]
    pub num_head_channels: PerLevel,
    /// Must be false: attention to a condition is not supported.
    #[serde(default)]
    pub with_conditioning: bool,
    /// No effect: attention to a condition is not supported.
    #[serde(default = "one_layer")]
    pub transformer_num_layers: usize,
    /// Must be null: attention to a condition is not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_attention_dim: Option<usize>,
    /// Must be null: embeddings of classes are not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_class_embeds: Option<usize>,
    /// No effect: attention sums in f32.
    #[serde(default)]
    pub upcast_attention: bool,
    /// No effect: attention to a condition is not supported.
    #[serde(default)]
    pub dropout_cattn: f64,
    /// Whether a linear layer follows the attention.
    #[serde(default = "yes")]
    pub include_fc: bool,
    /// Whether queries, keys and values come from one linear layer.
    #[serde(default)]
    pub use_combined_linear: bool,
    /// No effect: attention never stores the scores of all pairs.
    #[serde(default)]
    pub use_flash_attention: bool,
}

fn eight() -> PerLevel {
    PerLevel::All(8)
}

fn one_layer() -> usize {
    1
}

impl DiffusionModelUNetConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(spatial_dims: usize, in_channels: usize, out_channels: usize) -> Self {
        DiffusionModelUNetConfig {
            spatial_dims,
            in_channels,
            out_channels,
            num_res_blocks: two_each(),
            channels: channels(),
            attention_levels: attention_levels(),
            norm_num_groups: thirty_two(),
            norm_eps: epsilon(),
            resblock_updown: false,
            num_head_channels: eight(),
            with_conditioning: false,
            transformer_num_layers: one_layer(),
            cross_attention_dim: None,
            num_class_embeds: None,
            upcast_attention: false,
            dropout_cattn: 0.0,
            include_fc: true,
            use_combined_linear: false,
            use_flash_attention: false,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<DiffusionModelUNet, ConfigError> {
        for (name, given) in [
            ("with_conditioning", self.with_conditioning),
            ("cross_attention_dim", self.cross_attention_dim.is_some()),
            ("num_class_embeds", self.num_class_embeds.is_some()),
        ] {
            if given {
                return Err(ConfigError::value(name, given, "only the network without conditions can be built"));
            }
        }
        let levels = check_levels(&self.channels, &self.attention_levels, self.norm_num_groups)?;
        let blocks = self.num_res_blocks.resolve("num_res_blocks", levels)?;
        let heads = self.num_head_channels.resolve("num_head_channels", levels)?;
        let facts = Facts::new("DiffusionModelUNet", self.spatial_dims, [self.in_channels, self.out_channels])?;
        let common = Common { spatial_dims: self.spatial_dims, groups: self.norm_num_groups, eps: self.norm_eps };
        let root = Scope::new(device, seed);
        let (first, lowest) = (self.channels[0], self.channels[levels - 1]);
        let embedding = 4 * first;
        let options = |level: usize| LevelOptions {
            common,
            embedding,
            resblock_updown: self.resblock_updown,
            head_channels: self.attention_levels[level].then_some(heads[level]),
            include_fc: self.include_fc,
            use_combined_linear: self.use_combined_linear,
        };
        let down = (0..levels).map(|level| {
            let channels = [self.channels[level.saturating_sub(1)], self.channels[level]];
            let scope = root.enter("down_blocks").enter(&level.to_string());
            DownLevel::new(&scope, &options(level), channels, blocks[level], level + 1 < levels)
        });
        let down_blocks = Named::numbered(down.collect::<Result<Vec<_>, _>>()?);
        let up = (0..levels).rev().enumerate().map(|(i, level)| {
            let below = self.channels[(level + 1).min(levels - 1)];
            let channels = [self.channels[level.saturating_sub(1)], below, self.channels[level]];
            let scope = root.enter("up_blocks").enter(&i.to_string());
            UpLevel::new(&scope, &options(level), channels, blocks[level] + 1, level > 0)
        });
        let up_blocks = Named::numbered(up.collect::<Result<Vec<_>, _>>()?);
        let time = root.enter("time_embed");
        let middle = root.enter("middle_block");
        let out = root.enter("out");
        Ok(DiffusionModelUNet {
            conv_in: common.conv(&root.enter("conv_in"), [self.in_channels, first], 3)?,
            time_embed: TimeEmbed {
                first: Linear::new(&time.enter("0"), [first, embedding], true),
                second: Linear::new(&time.enter("2"), [embedding; 2], true),
            },
            down_blocks,
            middle_block: MiddleLevel::new(&middle, &options(levels - 1), lowest, heads[levels - 1])?,
            up_blocks,
            out: Out {
                norm: common.norm(&out.enter("0"), first)?,
                conv: common.conv(&out.enter("2").with_init(Init::Zeros), [first, self.out_channels], 3)?,
            },
            frequencies: first,
            facts: facts.divisible_by(1 << (levels - 1)),
        })
    }
}

/// The two linear layers over the frequencies of a time step: `0` and `2` of `time_embed`.
#[derive(Module, Debug)]
struct TimeEmbed {
    first: Linear,
    second: Linear,
}

/// The last layers: `0` and `2` of `out`.
#[derive(Module, Debug)]
struct Out {
    norm: GroupNorm,
    conv: Convolution,
}

/// The U-Net of a diffusion model (Rombach et al., <https://arxiv.org/abs/2112.10752>; Pinaya et al.,
/// <https://arxiv.org/abs/2209.07162>), without conditions.
///
/// `[b, in, x, y, z]` and a time step for each item to `[b, out, x, y, z]`, the noise in it; each
/// axis must be divisible by `2^(levels - 1)`. Use [`predict`](Self::predict): the [`Network`]
/// trait has no time steps, and its functions use step 0.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{DiffusionModelUNetConfig, PerLevel};
/// let config = DiffusionModelUNetConfig::new(2, 1, 1).channels([8, 16]).attention_levels([false, true]);
/// let config = config.num_res_blocks(PerLevel::All(1)).norm_num_groups(8).num_head_channels(PerLevel::All(4));
/// let net = config.init(&Device::default(), 0)?;
/// let noisy = Tensor::zeros([2, 1, 16, 16, 1], &Device::default());
/// assert_eq!(net.predict(noisy, &[999, 20]).dims(), [2, 1, 16, 16, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct DiffusionModelUNet {
    conv_in: Convolution,
    time_embed: TimeEmbed,
    down_blocks: Named<DownLevel>,
    middle_block: MiddleLevel,
    up_blocks: Named<UpLevel>,
    out: Out,
    /// Number of frequencies of a time step, sines and cosines together.
    #[module(skip)]
    frequencies: usize,
    #[module(skip)]
    facts: Facts,
}

/// The embedding of each time step, rows of `count` values: cosines, then sines, at `count / 2`
/// frequencies from 1 down to 1 / 10000, and a zero if `count` is odd (Ho et al.,
/// <https://arxiv.org/abs/2006.11239>).
fn time_embedding(timesteps: &[usize], count: usize) -> Vec<f32> {
    let half = count / 2;
    let mut values = Vec::with_capacity(timesteps.len() * count);
    for timestep in timesteps {
        // In f32, as in MONAI, because the angles are large.
        let angle = |i: usize| {
            let exponent = -(10000.0_f64.ln() as f32) * i as f32 / half as f32;
            *timestep as f32 * exponent.exp()
        };
        values.extend((0..half).map(|i| angle(i).cos()));
        values.extend((0..half).map(|i| angle(i).sin()));
        values.extend((count % 2 == 1).then_some(0.0));
    }
    values
}

impl DiffusionModelUNet {
    /// Predicts the noise in `x` at these time steps, one for each item of the batch or one for
    /// all: `[b, in, x, y, z]` to `[b, out, x, y, z]`.
    ///
    /// # Panics
    /// Without a time step, and where an operation does not accept the shape.
    pub fn predict(&self, x: Tensor<5>, timesteps: &[usize]) -> Tensor<5> {
        self.facts.clock.next_pass();
        let items = x.dims()[0];
        let steps: Vec<usize> =
            (0..items).filter_map(|item| timesteps.get(item).or(timesteps.last())).copied().collect();
        let values = time_embedding(&steps, self.frequencies);
        let t = Tensor::<2>::from_data(TensorData::new(values, [steps.len(), self.frequencies]), &x.device());
        let embedding = self.time_embed.second.forward(swish(self.time_embed.first.forward(t)));
        // Each residual block starts with the activation of the embedding, so it is computed once.
        let embedding = swish(embedding);
        let h = self.conv_in.forward(x);
        let mut kept = vec![h.clone()];
        let h = self.down_blocks.iter().fold(h, |h, level| level.forward(h, &embedding, &mut kept));
        let h = self.middle_block.forward(h, &embedding);
        let h = self.up_blocks.iter().fold(h, |h, level| level.forward(h, &embedding, &mut kept));
        self.out.conv.forward(swish(self.out.norm.forward(h)))
    }
}

impl Network for DiffusionModelUNet {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.predict(x, &[0])
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        const NAMES: [(&str, &str); 4] = [
            ("time_embed.first.", "time_embed.0."),
            ("time_embed.second.", "time_embed.2."),
            ("out.norm.", "out.0."),
            ("out.conv.", "out.2."),
        ];
        let found = NAMES.iter().find_map(|(ours, theirs)| Some(format!("{theirs}{}", path.strip_prefix(ours)?)));
        Some(found.unwrap_or_else(|| path.to_owned()))
    }
}

network_entry!(DiffusionModelUNetConfig {
    name: "DiffusionModelUNet",
    aliases: &[],
    about: "The noise in an image, for diffusion models.",
    paper: "Rombach et al. 2022, arXiv:2112.10752",
    example: r#"spatial_dims = 3
in_channels = 3
out_channels = 3
channels = [32, 64]
attention_levels = [false, true]
num_head_channels = [0, 32]
num_res_blocks = 1"#,
    input: [1, 3, 16, 16, 16],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

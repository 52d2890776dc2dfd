//! The autoencoder of latent diffusion, `monai.networks.nets.AutoencoderKL`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::autoencoderkl_blocks::{Block, Common, Downsample, ResBlock, Upsample};
use super::defaults::{one, yes};
use super::facts::{Facts, by_facts};
use crate::blocks::{SpatialAttentionBlock, SpatialAttentionOptions};
use crate::layers::{ConfigError, Convolution, Scope, UpSample, UpSampleOptions, UpsampleMode};
use crate::named::Named;

/// A number for all levels, or one number for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a whole number, or one for each level")]
pub enum PerLevel {
    /// The same number for every level.
    All(usize),
    /// One number for each level, top first.
    Each(Vec<usize>),
}

impl PerLevel {
    /// Returns one number for each of `levels` levels.
    pub(super) fn resolve(&self, name: &str, levels: usize) -> Result<Vec<usize>, ConfigError> {
        match self {
            PerLevel::All(number) => Ok(vec![*number; levels]),
            PerLevel::Each(numbers) if numbers.len() == levels => Ok(numbers.clone()),
            PerLevel::Each(numbers) => {
                let expected = format!("expected one number, or one for each of the {levels} channels");
                Err(ConfigError::value(name, numbers, expected))
            }
        }
    }
}

/// Options of [`AutoencoderKL`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct AutoencoderKLConfig {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    #[serde(default = "one")]
    pub in_channels: usize,
    /// Number of channels of the output.
    #[serde(default = "one")]
    pub out_channels: usize,
    /// Residual blocks per level.
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
    /// Channels of the latent image.
    #[serde(default = "three")]
    pub latent_channels: usize,
    /// Number of groups of the norms.
    #[serde(default = "thirty_two")]
    pub norm_num_groups: usize,
    /// Epsilon of norms.
    #[serde(default = "epsilon")]
    pub norm_eps: f64,
    /// Whether the encoder ends with attention.
    #[serde(default = "yes")]
    pub with_encoder_nonlocal_attn: bool,
    /// Whether the decoder begins with attention.
    #[serde(default = "yes")]
    pub with_decoder_nonlocal_attn: bool,
    /// No effect: the recipe selects whether values are recomputed in the backward pass.
    #[serde(default)]
    pub use_checkpoint: bool,
    /// Whether the decoder's levels are upsampled by transposed convolutions.
    #[serde(default)]
    pub use_convtranspose: bool,
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

pub(super) fn two_each() -> PerLevel {
    PerLevel::Each(vec![2; 4])
}

pub(super) fn channels() -> Vec<usize> {
    vec![32, 64, 64, 64]
}

pub(super) fn attention_levels() -> Vec<bool> {
    vec![false, false, true, true]
}

fn three() -> usize {
    3
}

pub(super) fn thirty_two() -> usize {
    32
}

pub(super) fn epsilon() -> f64 {
    1e-6
}

impl AutoencoderKLConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(spatial_dims: usize) -> Self {
        AutoencoderKLConfig {
            spatial_dims,
            in_channels: 1,
            out_channels: 1,
            num_res_blocks: two_each(),
            channels: channels(),
            attention_levels: attention_levels(),
            latent_channels: three(),
            norm_num_groups: thirty_two(),
            norm_eps: epsilon(),
            with_encoder_nonlocal_attn: true,
            with_decoder_nonlocal_attn: true,
            use_checkpoint: false,
            use_convtranspose: false,
            include_fc: true,
            use_combined_linear: false,
            use_flash_attention: false,
        }
    }

    /// Builds the network with weights drawn from `seed`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<AutoencoderKL, ConfigError> {
        let levels = check_levels(&self.channels, &self.attention_levels, self.norm_num_groups)?;
        let blocks = self.num_res_blocks.resolve("num_res_blocks", levels)?;
        let facts = Facts::new("AutoencoderKL", self.spatial_dims, [self.in_channels, self.out_channels])?;
        if self.latent_channels == 0 {
            return Err(ConfigError::value("latent_channels", 0, "expected at least 1"));
        }
        let scope = Scope::new(device, seed);
        let common = Common { spatial_dims: self.spatial_dims, groups: self.norm_num_groups, eps: self.norm_eps };
        let latent = |name: &str| common.conv(&scope.enter(name), [self.latent_channels; 2], 1);
        Ok(AutoencoderKL {
            encoder: self.encoder(&scope.enter("encoder").enter("blocks"), &common, &blocks)?,
            decoder: self.decoder(&scope.enter("decoder").enter("blocks"), &common, &blocks)?,
            quant_conv_mu: latent("quant_conv_mu")?,
            quant_conv_log_sigma: latent("quant_conv_log_sigma")?,
            post_quant_conv: latent("post_quant_conv")?,
            facts: facts.divisible_by(1 << (levels - 1)),
        })
    }

    fn encoder(&self, scope: &Scope, common: &Common, res_blocks: &[usize]) -> Result<Coder, ConfigError> {
        let mut list = List::new(self, scope, common);
        let mut width = self.channels[0];
        list.add(|list, scope| Ok(Block::Conv(list.common.conv(scope, [self.in_channels, width], 3)?)))?;
        for (level, channels) in self.channels.iter().copied().enumerate() {
            for _ in 0..res_blocks[level] {
                list.res_block([width, channels])?;
                width = channels;
                if self.attention_levels[level] {
                    list.attention(channels)?;
                }
            }
            if level + 1 < self.channels.len() {
                list.add(|list, scope| Ok(Block::Down(Downsample::new(scope, list.common, width)?)))?;
            }
        }
        if self.with_encoder_nonlocal_attn {
            list.middle(width)?;
        }
        list.finish([width, self.latent_channels])
    }

    fn decoder(&self, scope: &Scope, common: &Common, res_blocks: &[usize]) -> Result<Coder, ConfigError> {
        let mut list = List::new(self, scope, common);
        let last = self.channels.len() - 1;
        let mut width = self.channels[last];
        list.add(|list, scope| Ok(Block::Conv(list.common.conv(scope, [self.latent_channels, width], 3)?)))?;
        if self.with_decoder_nonlocal_attn {
            list.middle(width)?;
        }
        for level in (0..=last).rev() {
            let channels = self.channels[level];
            for _ in 0..res_blocks[level] {
                list.res_block([width, channels])?;
                width = channels;
                if self.attention_levels[level] {
                    list.attention(channels)?;
                }
            }
            if level > 0 {
                list.add(|list, scope| match self.use_convtranspose {
                    true => {
                        let options = UpSampleOptions::new(self.spatial_dims, [width; 2], UpsampleMode::Deconv);
                        Ok(Block::Deconv(UpSample::new(scope, &options)?))
                    }
                    false => Ok(Block::Up(Upsample::new(scope, list.common, width)?)),
                })?;
            }
        }
        list.finish([width, self.out_channels])
    }
}

/// Checks channels and attention, and returns the number of levels.
pub(super) fn check_levels(channels: &[usize], attention: &[bool], groups: usize) -> Result<usize, ConfigError> {
    if channels.is_empty() || channels.len() > 16 || channels.len() != attention.len() {
        let expected = format!("expected one for each of the {} channels, of which there are 1 to 16", channels.len());
        return Err(ConfigError::value("attention_levels", attention, expected));
    }
    if groups == 0 || channels.iter().any(|channels| *channels == 0 || channels % groups != 0) {
        let expected = format!("every one must be divisible by norm_num_groups, which is {groups}");
        return Err(ConfigError::value("channels", channels, expected));
    }
    Ok(channels.len())
}

/// A list of blocks under construction.
struct List<'a> {
    config: &'a AutoencoderKLConfig,
    scope: &'a Scope,
    common: &'a Common,
    blocks: Vec<Block>,
}

impl<'a> List<'a> {
    fn new(config: &'a AutoencoderKLConfig, scope: &'a Scope, common: &'a Common) -> Self {
        List { config, scope, common, blocks: Vec::new() }
    }

    fn add(&mut self, make: impl FnOnce(&Self, &Scope) -> Result<Block, ConfigError>) -> Result<(), ConfigError> {
        let block = make(self, &self.scope.enter(&self.blocks.len().to_string()))?;
        self.blocks.push(block);
        Ok(())
    }

    fn res_block(&mut self, channels: [usize; 2]) -> Result<(), ConfigError> {
        self.add(|list, scope| Ok(Block::Res(ResBlock::new(scope, list.common, channels)?)))
    }

    fn attention(&mut self, channels: usize) -> Result<(), ConfigError> {
        let options = SpatialAttentionOptions {
            channels,
            head_channels: None,
            groups: self.common.groups,
            eps: self.common.eps,
            include_fc: self.config.include_fc,
            use_combined_linear: self.config.use_combined_linear,
        };
        self.add(|_, scope| Ok(Block::Attention(SpatialAttentionBlock::new(scope, &options)?)))
    }

    /// Adds attention between two residual blocks.
    fn middle(&mut self, channels: usize) -> Result<(), ConfigError> {
        self.res_block([channels; 2])?;
        self.attention(channels)?;
        self.res_block([channels; 2])
    }

    /// Adds a norm and the last convolution.
    fn finish(mut self, channels: [usize; 2]) -> Result<Coder, ConfigError> {
        self.add(|list, scope| Ok(Block::Norm(list.common.norm(scope, channels[0])?)))?;
        self.add(|list, scope| Ok(Block::Conv(list.common.conv(scope, channels, 3)?)))?;
        Ok(Coder { blocks: Named::numbered(self.blocks) })
    }
}

/// An encoder or a decoder.
#[derive(Module, Debug)]
struct Coder {
    blocks: Named<Block>,
}

impl Coder {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.blocks.iter().fold(x, |x, block| block.forward(x))
    }
}

/// An autoencoder whose latent image follows a normal distribution (Rombach et al.,
/// <https://arxiv.org/abs/2112.10752>; Pinaya et al., <https://arxiv.org/abs/2209.07162>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis must be divisible by `2^(levels - 1)`. In
/// training the latent image is drawn; in evaluation it is the mean (`reconstruct` in MONAI).
/// `forward_all` returns the reconstruction, and mean and deviation of the latent image.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{AutoencoderKLConfig, PerLevel};
/// let config = AutoencoderKLConfig::new(2).channels([4, 8]).attention_levels([false, false]);
/// let config = config.num_res_blocks(PerLevel::All(1)).norm_num_groups(4);
/// let net = config.init(&Device::default(), 0)?;
/// let (mean, deviation) = net.encode(Tensor::zeros([1, 1, 16, 16, 1], &Device::default()));
/// assert_eq!((mean.dims(), deviation.dims()), ([1, 3, 8, 8, 1], [1, 3, 8, 8, 1]));
/// assert_eq!(net.decode(mean).dims(), [1, 1, 16, 16, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct AutoencoderKL {
    encoder: Coder,
    decoder: Coder,
    quant_conv_mu: Convolution,
    quant_conv_log_sigma: Convolution,
    post_quant_conv: Convolution,
    #[module(skip)]
    facts: Facts,
}

impl AutoencoderKL {
    /// Returns mean and standard deviation of the latent image of `x` (`[b, in, x, y, z]`), whose axes
    /// are halved at each level but the last.
    pub fn encode(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        let h = self.encoder.forward(x);
        let mean = self.quant_conv_mu.forward(h.clone());
        let logarithm = self.quant_conv_log_sigma.forward(h).clamp(-30.0, 20.0);
        (mean, (logarithm / 2.0).exp())
    }

    /// Decodes a latent image `[b, latent, x, y, z]` to `[b, out, ...]`.
    pub fn decode(&self, z: Tensor<5>) -> Tensor<5> {
        self.decoder.forward(self.post_quant_conv.forward(z))
    }
}

impl Network for AutoencoderKL {
    by_facts!();

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_all(x).swap_remove(0)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.facts.clock.next_pass();
        let training = x.is_autodiff();
        let (mean, deviation) = self.encode(x);
        let z = if training {
            let [b, c, dx, dy, dz] = mean.dims();
            let noise = self.facts.clock.normal("z", [b, c * dx * dy * dz], &mean.device());
            mean.clone() + noise.reshape([b, c, dx, dy, dz]).cast(mean.dtype()) * deviation.clone()
        } else {
            mean.clone()
        };
        vec![self.decode(z), mean, deviation]
    }
}

network_entry!(AutoencoderKLConfig {
    name: "AutoencoderKL",
    aliases: &[],
    about: "Images from and to a small latent image, for latent diffusion.",
    paper: "Rombach et al. 2022, arXiv:2112.10752",
    example: r#"spatial_dims = 3
in_channels = 1
out_channels = 1
channels = [32, 64]
attention_levels = [false, false]
num_res_blocks = 1
latent_channels = 3"#,
    input: [1, 1, 32, 32, 32],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

//! The Swin transformer of `monai.networks.nets.swin_unetr.SwinTransformer`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::check::spatial;
use super::swin_stage::{Stage, StageOptions};
use crate::blocks::{Merging, PatchEmbed, UnetrBasicBlock, UnetrOptions};
use crate::layers::{Axes, ConfigError, Dropout, DropoutClock, Scope, layer_norm};
use crate::named::Named;

/// Options of a [`SwinTransformer`]: MONAI's parameters and defaults, and the normalization of
/// outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct SwinTransformerConfig {
    /// Number of channels of the image.
    pub in_chans: usize,
    /// Number of features of the first stage.
    pub embed_dim: usize,
    /// Number of positions per axis of a window.
    #[setters(into)]
    pub window_size: Axes,
    /// Size of a patch.
    #[setters(into)]
    pub patch_size: Axes,
    /// Number of blocks of each stage, four numbers.
    #[setters(into)]
    pub depths: Vec<usize>,
    /// Number of heads of each stage, four numbers.
    #[setters(into)]
    pub num_heads: Vec<usize>,
    /// Hidden features of the perceptrons per input feature.
    #[serde(default = "four")]
    pub mlp_ratio: f64,
    /// Whether queries, keys and values have a bias.
    #[serde(default = "yes")]
    pub qkv_bias: bool,
    /// Dropout probability.
    #[serde(default)]
    pub drop_rate: f64,
    /// Dropout probability of the attention weights.
    #[serde(default)]
    pub attn_drop_rate: f64,
    /// Probability of skipping the last block in training; it grows from 0 at the first block.
    #[serde(default)]
    pub drop_path_rate: f64,
    /// Whether patches are normalized.
    #[serde(default)]
    pub patch_norm: bool,
    /// Whether the backward pass recomputes the inner values of attention blocks instead of storing
    /// them, which needs less memory and more time (see docs/training.md). No effect on the
    /// results.
    #[serde(default)]
    pub use_checkpoint: bool,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three")]
    pub spatial_dims: usize,
    /// The merging of neighbours between stages.
    #[serde(default)]
    pub downsample: Merging,
    /// Whether a residual convolution block precedes each stage.
    #[serde(default)]
    pub use_v2: bool,
    /// Must be false: MONAI's HyenaND operator is not part of this library.
    #[serde(default)]
    pub use_hyena: bool,
    /// No effect on the results: it selects MONAI's implementation of attention.
    #[serde(default)]
    pub use_flash_attention: bool,
    /// Whether outputs are normalized over their channels (an argument of the call in MONAI).
    #[serde(default = "yes")]
    pub normalize: bool,
}

pub(super) fn four() -> f64 {
    4.0
}

/// The largest number of blocks of a stage; published networks have up to 18.
const MOST_BLOCKS: usize = 1000;

pub(super) fn three() -> usize {
    3
}

pub(super) fn yes() -> bool {
    true
}

impl SwinTransformerConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(
        spatial_dims: usize,
        in_chans: usize,
        embed_dim: usize,
        depths: [usize; 4],
        num_heads: [usize; 4],
    ) -> Self {
        SwinTransformerConfig {
            in_chans,
            embed_dim,
            window_size: Axes::All(7),
            patch_size: Axes::All(2),
            depths: depths.to_vec(),
            num_heads: num_heads.to_vec(),
            mlp_ratio: 4.0,
            qkv_bias: true,
            drop_rate: 0.0,
            attn_drop_rate: 0.0,
            drop_path_rate: 0.0,
            patch_norm: false,
            use_checkpoint: false,
            spatial_dims,
            downsample: Merging::default(),
            use_v2: false,
            use_hyena: false,
            use_flash_attention: false,
            normalize: true,
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<SwinTransformer, ConfigError> {
        self.build(&Scope::new(device, seed))
    }

    pub(super) fn build(&self, scope: &Scope) -> Result<SwinTransformer, ConfigError> {
        let SwinTransformerConfig { in_chans, embed_dim, spatial_dims, .. } = *self;
        spatial(spatial_dims)?;
        if self.use_hyena {
            return Err(ConfigError::value("use_hyena", true, "the operator is not part of this library"));
        }
        if in_chans == 0 || embed_dim == 0 {
            return Err(ConfigError::value("embed_dim", embed_dim, "channels must be at least 1"));
        }
        if !(0.0..=1.0).contains(&self.drop_path_rate) {
            return Err(ConfigError::value("drop_path_rate", self.drop_path_rate, "a probability is in [0, 1]"));
        }
        let four = |name: &str, given: &[usize]| {
            let four = <[usize; 4]>::try_from(given).ok().filter(|four| !four.contains(&0));
            four.ok_or_else(|| ConfigError::value(name, given, "expected four numbers of at least 1"))
        };
        let (depths, heads) = (four("depths", &self.depths)?, four("num_heads", &self.num_heads)?);
        if depths.iter().any(|depth| *depth > MOST_BLOCKS) {
            return Err(ConfigError::value("depths", &self.depths, format!("expected at most {MOST_BLOCKS} blocks")));
        }
        let window_size = self.window_size.resolve("window_size", spatial_dims, 1)?;
        let patch_size = self.patch_size.resolve("patch_size", spatial_dims, 1)?;
        let clock = DropoutClock::default();
        let blocks = depths.iter().sum::<usize>();
        let drop_path = |block: usize| self.drop_path_rate * block as f64 / (blocks - 1).max(1) as f64;
        let stage = |index: usize| {
            let first: usize = depths[..index].iter().sum();
            let options = StageOptions {
                spatial_dims,
                dim: embed_dim << index,
                num_heads: heads[index],
                window_size,
                drop_path: (first..first + depths[index]).map(drop_path).collect(),
                mlp_ratio: self.mlp_ratio,
                qkv_bias: self.qkv_bias,
                drop: self.drop_rate,
                attn_drop: self.attn_drop_rate,
                merging: self.downsample,
                use_checkpoint: self.use_checkpoint,
                clock: clock.clone(),
            };
            let stage = Stage::new(&scope.enter(&format!("layers{}", index + 1)).enter("0"), &options)?;
            Ok::<_, ConfigError>(Named::new(vec![("0".to_owned(), stage)]))
        };
        let options = UnetrOptions { spatial_dims, norm_name: "instance".into(), res_block: true };
        let before = |index: usize| {
            let inner = scope.enter(&format!("layers{}c", index + 1)).enter("0");
            let block = || UnetrBasicBlock::new(&inner, &options, [embed_dim << index; 2]);
            let block = self.use_v2.then(block).transpose()?;
            Ok::<_, ConfigError>(Named::new(block.into_iter().map(|block| ("0".to_owned(), block)).collect()))
        };
        Ok(SwinTransformer {
            patch_embed: PatchEmbed::new(
                &scope.enter("patch_embed"),
                [in_chans, embed_dim],
                patch_size,
                self.patch_norm,
            )?,
            pos_drop: Dropout::new(scope.enter("pos_drop").path(), self.drop_rate, &clock)?,
            layers1: stage(0)?,
            layers2: stage(1)?,
            layers3: stage(2)?,
            layers4: stage(3)?,
            layers1c: before(0)?,
            layers2c: before(1)?,
            layers3c: before(2)?,
            layers4c: before(3)?,
            spatial_dims,
            channels: [in_chans, embed_dim],
            normalize: self.normalize,
            clock,
        })
    }
}

/// A transformer with attention within windows, which are shifted in every second block (Liu et
/// al., <https://arxiv.org/abs/2103.14030>). With `use_v2` it is the encoder of Swin UNETR v2.
///
/// `[b, in, x, y, z]` to five maps: the patches, and the output of each of four stages, which has
/// half the size and twice the channels of the previous one. The main output is the first.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, SwinTransformerConfig};
/// let net = SwinTransformerConfig::new(2, 1, 4, [1; 4], [1; 4]).init(&Device::default(), 0)?;
/// let maps = net.forward_all(Tensor::zeros([1, 1, 32, 32, 1], &Device::default()));
/// assert_eq!((maps[0].dims(), maps[4].dims()), ([1, 4, 16, 16, 1], [1, 64, 1, 1, 1]));
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct SwinTransformer {
    patch_embed: PatchEmbed,
    pos_drop: Dropout,
    layers1: Named<Stage>,
    layers2: Named<Stage>,
    layers3: Named<Stage>,
    layers4: Named<Stage>,
    layers1c: Named<UnetrBasicBlock>,
    layers2c: Named<UnetrBasicBlock>,
    layers3c: Named<UnetrBasicBlock>,
    layers4c: Named<UnetrBasicBlock>,
    #[module(skip)]
    spatial_dims: usize,
    #[module(skip)]
    channels: [usize; 2],
    #[module(skip)]
    normalize: bool,
    #[module(skip)]
    clock: DropoutClock,
}

impl SwinTransformer {
    fn output(&self, x: &Tensor<5>) -> Tensor<5> {
        if !self.normalize {
            return x.clone();
        }
        layer_norm(x.clone().permute([0, 2, 3, 4, 1])).permute([0, 4, 1, 2, 3])
    }

    /// The clock that keys the dropout draws.
    pub(super) fn clock(&self) -> &DropoutClock {
        &self.clock
    }
}

impl Network for SwinTransformer {
    fn spatial_dims(&self) -> usize {
        self.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_all(x).swap_remove(0)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.clock.next_pass();
        let mut x = self.pos_drop.forward(self.patch_embed.forward(x));
        let mut outputs = vec![self.output(&x)];
        let stages = [
            (&self.layers1c, &self.layers1),
            (&self.layers2c, &self.layers2),
            (&self.layers3c, &self.layers3),
            (&self.layers4c, &self.layers4),
        ];
        for (before, stage) in stages {
            x = before.iter().fold(x, |x, block| block.forward(x));
            x = stage.iter().fold(x, |x, stage| stage.forward(x));
            outputs.push(self.output(&x));
        }
        outputs
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.clock.set(seed, step);
    }
}

network_entry!(SwinTransformerConfig {
    name: "SwinTransformer",
    aliases: &[],
    about: "Feature maps by attention within shifted windows.",
    paper: "Liu et al. 2021, arXiv:2103.14030",
    example: r#"in_chans = 1
embed_dim = 48
window_size = [7, 7, 7]
patch_size = [2, 2, 2]
depths = [2, 2, 2, 2]
num_heads = [3, 6, 12, 24]
spatial_dims = 3"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_chans,
    init: |c, d, s| c.init(d, s),
});

//! A Swin transformer with a convolutional decoder (`monai.networks.nets.SwinUNETR`).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::check_divisible;
use super::swin_transformer::{SwinTransformer, SwinTransformerConfig, four, three, yes};
use super::unetr::instance;
use super::{Network, ShapeError};
use crate::blocks::{Merging, UnetOutBlock, UnetrBasicBlock, UnetrOptions, UnetrUpBlock};
use crate::layers::{Axes, ConfigError, LayerSpec, Scope};

/// Options of [`SwinUNETR`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct SwinUNETRConfig {
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Number of channels of the output: one per class.
    pub out_channels: usize,
    /// Length of a patch; must be 2, because the decoder doubles the size.
    #[serde(default = "two")]
    pub patch_size: usize,
    /// Number of blocks of each stage, four numbers.
    #[serde(default = "depths")]
    #[setters(into)]
    pub depths: Vec<usize>,
    /// Number of heads of each stage, four numbers.
    #[serde(default = "num_heads")]
    #[setters(into)]
    pub num_heads: Vec<usize>,
    /// Number of positions per axis of a window.
    #[serde(default = "seven")]
    #[setters(into)]
    pub window_size: Axes,
    /// Whether queries, keys and values have a bias.
    #[serde(default = "yes")]
    pub qkv_bias: bool,
    /// Hidden features of the perceptrons per input feature.
    #[serde(default = "four")]
    pub mlp_ratio: f64,
    /// Number of channels of the first level, a multiple of 12.
    #[serde(default = "twenty_four")]
    pub feature_size: usize,
    /// Norm of the convolutions; `""` for none.
    #[serde(default = "instance")]
    #[setters(into)]
    pub norm_name: LayerSpec,
    /// Dropout probability.
    #[serde(default)]
    pub drop_rate: f64,
    /// Dropout probability of the attention weights.
    #[serde(default)]
    pub attn_drop_rate: f64,
    /// Probability of skipping the last block in training; it grows from 0 at the first block.
    #[serde(default)]
    pub dropout_path_rate: f64,
    /// Whether the transformer's maps are normalized over their channels.
    #[serde(default = "yes")]
    pub normalize: bool,
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
    /// The merging of neighbours between stages; `merginglegacy` for weights from before MONAI 1.5.
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
}

fn two() -> usize {
    2
}

fn depths() -> Vec<usize> {
    vec![2; 4]
}

fn num_heads() -> Vec<usize> {
    vec![3, 6, 12, 24]
}

fn seven() -> Axes {
    Axes::All(7)
}

fn twenty_four() -> usize {
    24
}

impl SwinUNETRConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(spatial_dims: usize, in_channels: usize, out_channels: usize) -> Self {
        SwinUNETRConfig {
            in_channels,
            out_channels,
            patch_size: 2,
            depths: depths(),
            num_heads: num_heads(),
            window_size: seven(),
            qkv_bias: true,
            mlp_ratio: 4.0,
            feature_size: 24,
            norm_name: instance(),
            drop_rate: 0.0,
            attn_drop_rate: 0.0,
            dropout_path_rate: 0.0,
            normalize: true,
            patch_norm: false,
            use_checkpoint: false,
            spatial_dims,
            downsample: Merging::default(),
            use_v2: false,
            use_hyena: false,
            use_flash_attention: false,
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<SwinUNETR, ConfigError> {
        let SwinUNETRConfig { in_channels, out_channels, feature_size, spatial_dims, .. } = *self;
        if self.patch_size != 2 {
            return Err(ConfigError::value("patch_size", self.patch_size, "expected 2: the decoder doubles the size"));
        }
        if feature_size == 0 || !feature_size.is_multiple_of(12) || out_channels == 0 {
            let expected = "feature_size must be a multiple of 12, and out_channels at least 1";
            return Err(ConfigError::value("feature_size", feature_size, expected));
        }
        let scope = Scope::new(device, seed);
        let transformer = SwinTransformerConfig {
            in_chans: in_channels,
            embed_dim: feature_size,
            window_size: self.window_size.clone(),
            patch_size: Axes::All(self.patch_size),
            depths: self.depths.clone(),
            num_heads: self.num_heads.clone(),
            mlp_ratio: self.mlp_ratio,
            qkv_bias: self.qkv_bias,
            drop_rate: self.drop_rate,
            attn_drop_rate: self.attn_drop_rate,
            drop_path_rate: self.dropout_path_rate,
            patch_norm: self.patch_norm,
            use_checkpoint: self.use_checkpoint,
            spatial_dims,
            downsample: self.downsample,
            use_v2: self.use_v2,
            use_hyena: self.use_hyena,
            use_flash_attention: self.use_flash_attention,
            normalize: self.normalize,
        };
        let swin = transformer.build(&scope.enter("swinViT"))?;
        let options = UnetrOptions { spatial_dims, norm_name: self.norm_name.clone(), res_block: true };
        let size = |factor: usize| factor * feature_size;
        let encoder = |name: &str, channels| UnetrBasicBlock::new(&scope.enter(name), &options, channels);
        let decoder = |name: &str, channels| UnetrUpBlock::new(&scope.enter(name), &options, channels);
        Ok(SwinUNETR {
            swin,
            encoder1: encoder("encoder1", [in_channels, size(1)])?,
            encoder2: encoder("encoder2", [size(1); 2])?,
            encoder3: encoder("encoder3", [size(2); 2])?,
            encoder4: encoder("encoder4", [size(4); 2])?,
            encoder10: encoder("encoder10", [size(16); 2])?,
            decoder5: decoder("decoder5", [size(16), size(8)])?,
            decoder4: decoder("decoder4", [size(8), size(4)])?,
            decoder3: decoder("decoder3", [size(4), size(2)])?,
            decoder2: decoder("decoder2", [size(2), size(1)])?,
            decoder1: decoder("decoder1", [size(1); 2])?,
            out: UnetOutBlock::new(&scope.enter("out"), spatial_dims, [size(1), out_channels]),
            channels: [in_channels, out_channels],
        })
    }
}

/// A U-shaped network with a Swin transformer as its encoder (Hatamizadeh et al.,
/// <https://arxiv.org/abs/2201.01266>).
///
/// `[b, in, x, y, z]` to `[b, out, x, y, z]`; each axis must be divisible by 32.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, SwinUNETRConfig};
/// let config = SwinUNETRConfig { feature_size: 12, depths: vec![1; 4], num_heads: vec![1; 4], ..SwinUNETRConfig::new(2, 1, 3) };
/// let net = config.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 32, 32, 1], &Device::default())).dims(), [1, 3, 32, 32, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct SwinUNETR {
    swin: SwinTransformer,
    encoder1: UnetrBasicBlock,
    encoder2: UnetrBasicBlock,
    encoder3: UnetrBasicBlock,
    encoder4: UnetrBasicBlock,
    encoder10: UnetrBasicBlock,
    decoder5: UnetrUpBlock,
    decoder4: UnetrUpBlock,
    decoder3: UnetrUpBlock,
    decoder2: UnetrUpBlock,
    decoder1: UnetrUpBlock,
    out: UnetOutBlock,
    #[module(skip)]
    channels: [usize; 2],
}

impl Network for SwinUNETR {
    fn spatial_dims(&self) -> usize {
        self.swin.spatial_dims()
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let hidden = self.swin.forward_all(x.clone());
        let at = |index: usize| hidden[index].clone();
        let decoded = self.decoder5.forward(self.encoder10.forward(at(4)), at(3));
        let decoded = self.decoder4.forward(decoded, self.encoder4.forward(at(2)));
        let decoded = self.decoder3.forward(decoded, self.encoder3.forward(at(1)));
        let decoded = self.decoder2.forward(decoded, self.encoder2.forward(at(0)));
        self.out.forward(self.decoder1.forward(decoded, self.encoder1.forward(x)))
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        check_divisible(self, shape, 32)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Some(match path.strip_prefix("swin.") {
            Some(rest) => format!("swinViT.{rest}"),
            None => path.to_owned(),
        })
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.swin.clock().set(seed, step);
    }
}

network_entry!(SwinUNETRConfig {
    name: "SwinUNETR",
    aliases: &[],
    about: "Segmentation: Swin transformer encoder, convolutional decoder.",
    paper: "Hatamizadeh et al. 2022, arXiv:2201.01266",
    example: r#"in_channels = 1
out_channels = 2
feature_size = 24
spatial_dims = 3"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

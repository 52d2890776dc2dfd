//! The vision transformer of `monai.networks.nets.ViT`.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{known_channels, spatial};
use super::{Network, ShapeError};
use crate::blocks::{
    PatchEmbeddingBlock, PatchEmbeddingOptions, PositionEmbedding, Projection, TransformerBlock, TransformerOptions,
};
use crate::layers::{Axes, ConfigError, DropoutClock, LayerNorm, Linear, Scope};
use crate::named::Named;

/// Options of [`ViT`]: MONAI's parameters and defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct ViTConfig {
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Size of the image.
    #[setters(into)]
    pub img_size: Axes,
    /// Size of a patch.
    #[setters(into)]
    pub patch_size: Axes,
    /// Number of features of a token, a multiple of `num_heads`.
    #[serde(default = "hidden")]
    pub hidden_size: usize,
    /// Number of hidden features of the perceptrons; 0 for `hidden_size`.
    #[serde(default = "mlp")]
    pub mlp_dim: usize,
    /// Number of blocks.
    #[serde(default = "twelve")]
    pub num_layers: usize,
    /// Number of heads.
    #[serde(default = "twelve")]
    pub num_heads: usize,
    /// How a patch becomes a token.
    #[serde(default)]
    pub proj_type: Projection,
    /// The position embedding that is added to the tokens.
    #[serde(default)]
    pub pos_embed_type: PositionEmbedding,
    /// Whether the outputs are class scores.
    #[serde(default)]
    pub classification: bool,
    /// Number of classes.
    #[serde(default = "two")]
    pub num_classes: usize,
    /// Dropout probability.
    #[serde(default)]
    pub dropout_rate: f64,
    /// Number of spatial axes: 2 or 3.
    #[serde(default = "three")]
    pub spatial_dims: usize,
    /// `"Tanh"` for class scores in [-1, 1]; any other value for unbounded ones.
    #[serde(default = "tanh")]
    #[setters(into)]
    pub post_activation: Option<String>,
    /// Whether queries, keys and values have a bias.
    #[serde(default)]
    pub qkv_bias: bool,
    /// No effect: attention maps are not stored.
    #[serde(default)]
    pub save_attn: bool,
}

pub(super) fn hidden() -> usize {
    768
}

pub(super) fn mlp() -> usize {
    3072
}

pub(super) fn twelve() -> usize {
    12
}

fn two() -> usize {
    2
}

pub(super) fn three() -> usize {
    3
}

fn tanh() -> Option<String> {
    Some("Tanh".to_owned())
}

impl ViTConfig {
    /// Options with MONAI's defaults for everything else.
    pub fn new(spatial_dims: usize, in_channels: usize, img_size: Axes, patch_size: Axes) -> Self {
        ViTConfig {
            in_channels,
            img_size,
            patch_size,
            hidden_size: 768,
            mlp_dim: 3072,
            num_layers: 12,
            num_heads: 12,
            proj_type: Projection::default(),
            pos_embed_type: PositionEmbedding::default(),
            classification: false,
            num_classes: 2,
            dropout_rate: 0.0,
            spatial_dims,
            post_activation: tanh(),
            qkv_bias: false,
            save_attn: false,
        }
    }

    /// Builds the network; its weights depend on `seed` only, so they are the same on every device.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn init(&self, device: &Device, seed: u64) -> Result<ViT, ConfigError> {
        self.build(&Scope::new(device, seed))
    }

    pub(super) fn build(&self, scope: &Scope) -> Result<ViT, ConfigError> {
        spatial(self.spatial_dims)?;
        if self.hidden_size == 0 || self.num_layers == 0 || (self.classification && self.num_classes == 0) {
            let expected = "hidden_size, num_layers and num_classes must be at least 1";
            return Err(ConfigError::value("hidden_size", self.hidden_size, expected));
        }
        let clock = DropoutClock::default();
        let img_size = self.img_size.resolve("img_size", self.spatial_dims, 1)?;
        let embedding = PatchEmbeddingOptions {
            spatial_dims: self.spatial_dims,
            in_channels: self.in_channels,
            img_size,
            patch_size: self.patch_size.resolve("patch_size", self.spatial_dims, 1)?,
            hidden_size: self.hidden_size,
            proj_type: self.proj_type,
            pos_embed_type: self.pos_embed_type,
            dropout_rate: self.dropout_rate,
            clock: clock.clone(),
        };
        let transformer = TransformerOptions {
            hidden_size: self.hidden_size,
            mlp_dim: self.mlp_dim,
            num_heads: self.num_heads,
            dropout_rate: self.dropout_rate,
            qkv_bias: self.qkv_bias,
            clock: clock.clone(),
        };
        let inner = scope.enter("blocks");
        let mut blocks = Vec::new();
        for i in 0..self.num_layers {
            let name = i.to_string();
            let block = TransformerBlock::new(&inner.enter(&name), &transformer)?;
            blocks.push((name, block));
        }
        let patch_embedding = PatchEmbeddingBlock::new(&scope.enter("patch_embedding"), &embedding)?;
        let output = if self.classification { self.num_classes } else { patch_embedding.tokens() };
        Ok(ViT {
            patch_embedding,
            blocks: Named::new(blocks),
            norm: LayerNorm::new(&scope.enter("norm"), self.hidden_size),
            cls_token: self.classification.then(|| scope.constant([1, 1, self.hidden_size], 0.0)),
            classification_head: self.classification.then(|| self.head(scope)),
            spatial_dims: self.spatial_dims,
            channels: [self.in_channels, output],
            img_size,
            clock,
        })
    }

    fn head(&self, scope: &Scope) -> Head {
        let inner = scope.enter("classification_head");
        let size = [self.hidden_size, self.num_classes];
        if self.post_activation == tanh() {
            Head::Tanh(Named::new(vec![("0".to_owned(), Linear::new(&inner.enter("0"), size, true))]))
        } else {
            Head::Plain(Linear::new(&inner, size, true))
        }
    }
}

/// The head that computes class scores from the first token.
#[derive(Module, Debug)]
enum Head {
    Plain(Linear),
    /// A linear layer, named `0`, with a hyperbolic tangent.
    Tanh(Named<Linear>),
}

/// A vision transformer (Dosovitskiy et al., <https://arxiv.org/abs/2010.11929>).
///
/// `[b, in, x, y, z]` to tokens `[b, tokens, hidden_size, 1, 1]`, or with `classification` to class
/// scores `[b, num_classes, 1, 1, 1]`. `forward_all` returns this output and the tokens after every
/// block.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::{Network, ViTConfig};
/// let config = ViTConfig::new(3, 1, 16.into(), 8.into());
/// let net = ViTConfig { hidden_size: 12, mlp_dim: 8, num_heads: 2, num_layers: 2, ..config }.init(&Device::default(), 0)?;
/// assert_eq!(net.forward(Tensor::zeros([1, 1, 16, 16, 16], &Device::default())).dims(), [1, 8, 12, 1, 1]);
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct ViT {
    patch_embedding: PatchEmbeddingBlock,
    blocks: Named<TransformerBlock>,
    norm: LayerNorm,
    cls_token: Option<Param<Tensor<3>>>,
    classification_head: Option<Head>,
    #[module(skip)]
    spatial_dims: usize,
    /// Numbers of channels of the image, and of tokens or classes.
    #[module(skip)]
    channels: [usize; 2],
    #[module(skip)]
    img_size: [usize; 3],
    #[module(skip)]
    clock: DropoutClock,
}

impl ViT {
    /// Returns the normalized tokens, and the tokens after every block.
    pub(super) fn tokens(&self, x: Tensor<5>) -> (Tensor<3>, Vec<Tensor<3>>) {
        self.clock.next_pass();
        let mut x = self.patch_embedding.forward(x);
        if let Some(token) = &self.cls_token {
            let [b, _, hidden] = x.dims();
            let token = token.val().cast(x.dtype()).expand([b, 1, hidden]);
            x = Tensor::cat(vec![token, x], 1);
        }
        let mut hidden = Vec::with_capacity(self.blocks.len());
        for block in self.blocks.iter() {
            x = block.forward(x);
            hidden.push(x.clone());
        }
        (self.norm.forward(x), hidden)
    }

    /// The clock that keys the dropout draws.
    pub(super) fn clock(&self) -> &DropoutClock {
        &self.clock
    }

    fn output(&self, tokens: Tensor<3>) -> Tensor<5> {
        let [b, _, hidden] = tokens.dims();
        let first = |tokens: Tensor<3>| tokens.narrow(1, 0, 1).reshape([b, hidden]);
        let scores = match &self.classification_head {
            None => return tokens.unsqueeze_dims(&[3, 4]),
            Some(Head::Plain(linear)) => linear.forward(first(tokens)),
            Some(Head::Tanh(linears)) => linears.iter().fold(first(tokens), |x, linear| linear.forward(x)).tanh(),
        };
        scores.unsqueeze_dims(&[2, 3, 4])
    }
}

impl Network for ViT {
    fn spatial_dims(&self) -> usize {
        self.spatial_dims
    }

    fn channels(&self) -> [usize; 2] {
        self.channels
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let (tokens, _) = self.tokens(x);
        self.output(tokens)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let (tokens, hidden) = self.tokens(x);
        let hidden = hidden.into_iter().map(|tokens| tokens.unsqueeze_dims(&[3, 4]));
        std::iter::once(self.output(tokens)).chain(hidden).collect()
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        known_channels(self, shape)?;
        if shape[2..] != self.img_size {
            let reason = format!("it was built for images of {:?}; crop, pad or resize to it", self.img_size);
            return Err(ShapeError { network: "ViT", shape, reason });
        }
        Ok(())
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.clock.set(seed, step);
    }
}

network_entry!(ViTConfig {
    name: "ViT",
    aliases: &[],
    about: "Classification, or features of patches: the vision transformer.",
    paper: "Dosovitskiy et al. 2021, arXiv:2010.11929",
    example: r#"in_channels = 1
img_size = [64, 64, 64]
patch_size = [16, 16, 16]
classification = true
num_classes = 2
spatial_dims = 3"#,
    input: [1, 1, 64, 64, 64],
    dims: &[2, 3],
    in_channels: |c| c.in_channels,
    init: |c, d, s| c.init(d, s),
});

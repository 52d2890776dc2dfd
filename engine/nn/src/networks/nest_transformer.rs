//! The nested transformer that is the encoder of [`UNesT`](super::UNesT).

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use hearth_kernels::conv3d::ConvShape;

use crate::blocks::{Mlp, fused, product, softmax, split_heads};
use crate::layers::{
    ConfigError, Conv, Draw, DropPath, Dropout, DropoutClock, Init, LayerNorm, Linear, Scope, max_pool,
};
use crate::named::Named;

/// Epsilon of the layer norms.
const EPS: f64 = 1e-6;
/// Standard deviation of the initial weights of linear layers.
const DEVIATION: f64 = 0.02;
/// Number of levels; each has an eighth of the blocks of the previous one.
pub(super) const LEVELS: usize = 3;

/// Options of [`NestTransformer`].
#[derive(Clone, Debug)]
pub(super) struct NestOptions {
    pub in_channels: usize,
    /// Length of each axis of the image.
    pub img_size: usize,
    pub patch_size: usize,
    /// Number of features of each level.
    pub embed_dims: [usize; LEVELS],
    pub num_heads: [usize; LEVELS],
    /// Number of transformer layers of each level.
    pub depths: [usize; LEVELS],
    /// Probability that the last layer is skipped in training; it grows from 0 at the first layer.
    pub drop_path_rate: f64,
}

/// Self-attention whose heads are joined feature by feature: the features of the result are
/// `[feature of the head, head]`, as in the published weights.
#[derive(Module, Debug)]
struct Attention {
    qkv: Linear,
    proj: Linear,
    drop_weights: Dropout,
    #[module(skip)]
    heads: usize,
}

impl Attention {
    fn new(scope: &Scope, features: usize, heads: usize) -> Result<Self, ConfigError> {
        Ok(Attention {
            qkv: Linear::new(&scope.enter("qkv"), [features, 3 * features], true),
            proj: Linear::new(&scope.enter("proj"), [features; 2], true),
            drop_weights: Dropout::new(scope.enter("attn_drop").path(), 0.0, &DropoutClock::default())?,
            heads,
        })
    }

    /// Maps `[blocks, tokens, features]` to the same shape; each block is processed independently.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [b, n, features] = x.dims();
        let d = features / self.heads;
        let scale = (d as f64).powf(-0.5);
        // Both paths first give [blocks, tokens, heads, features of a head].
        let joined = match fused(self.qkv.forward(x), self.heads, scale, None, None, &self.drop_weights) {
            Ok(joined) => joined.reshape([b, n, self.heads, d]),
            Err(qkv) => {
                let [q, k, v] = split_heads(qkv, self.heads);
                product(softmax(product(q, k.transpose()) * scale), v).swap_dims(1, 2)
            }
        };
        self.proj.forward(joined.swap_dims(2, 3).reshape([b, n, features]))
    }
}

/// A transformer layer: attention and a perceptron, each with norm and shortcut.
#[derive(Module, Debug)]
struct TransformerLayer {
    norm1: LayerNorm,
    attn: Attention,
    norm2: LayerNorm,
    mlp: Mlp,
    drop_path: DropPath,
}

impl TransformerLayer {
    fn new(
        scope: &Scope,
        [features, heads]: [usize; 2],
        drop_path: f64,
        clock: &DropoutClock,
    ) -> Result<Self, ConfigError> {
        let norm = |name: &str| LayerNorm::new(&scope.enter(name), features).with_eps(EPS);
        Ok(TransformerLayer {
            norm1: norm("norm1"),
            attn: Attention::new(&scope.enter("attn"), features, heads)?,
            norm2: norm("norm2"),
            mlp: Mlp::new(&scope.enter("mlp"), [features, 4 * features], 0.0, clock)?,
            drop_path: DropPath::new(scope.enter("drop_path").path(), drop_path, clock)?,
        })
    }

    fn forward(&self, x: Tensor<3>, blocks: usize) -> Tensor<3> {
        // An image is skipped as a whole, because its blocks are rows of the batch.
        let dropped = |y: Tensor<3>| {
            let [rows, n, c] = y.dims();
            self.drop_path.forward(y.reshape([rows / blocks, blocks, n, c])).reshape([rows, n, c])
        };
        let x = x.clone() + dropped(self.attn.forward(self.norm1.forward(x)));
        x.clone() + dropped(self.mlp.forward(self.norm2.forward(x)))
    }
}

/// Downsampling by 2: a convolution, a norm over the channels, and pooling.
#[derive(Module, Debug)]
struct ConvPool {
    conv: Conv,
    norm: LayerNorm,
}

/// A norm over the channels of each voxel.
fn over_channels(norm: &LayerNorm, x: Tensor<5>) -> Tensor<5> {
    norm.forward(x.permute([0, 2, 3, 4, 1])).permute([0, 4, 1, 2, 3])
}

impl ConvPool {
    fn new(scope: &Scope, channels: [usize; 2]) -> Self {
        let shape = ConvShape { padding: [1; 3], ..ConvShape::default() };
        ConvPool {
            conv: Conv::new(&scope.enter("conv"), channels, [3; 3], shape, true),
            norm: LayerNorm::new(&scope.enter("norm"), channels[1]).with_eps(EPS),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        max_pool(over_channels(&self.norm, self.conv.forward(x)), [3; 3], [2; 3], [1; 3])
    }
}

/// Transformer layers over blocks of voxels, which are processed independently.
#[derive(Module, Debug)]
struct Level {
    /// The position embeddings, `[1, blocks, tokens, features]`.
    pos_embed: Param<Tensor<4>>,
    pool: Option<ConvPool>,
    transformer_encoder: Named<TransformerLayer>,
    /// Number of blocks along each axis.
    #[module(skip)]
    grid: usize,
    /// Number of voxels of a block along each axis.
    #[module(skip)]
    block: usize,
}

impl Level {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = match &self.pool {
            Some(pool) => pool.forward(x),
            None => x,
        };
        let [b, c, ..] = x.dims();
        let (g, s) = (self.grid, self.block);
        let (blocks, tokens) = (g * g * g, s * s * s);
        let split: Tensor<8> = x.reshape([b, c, g, s, g, s, g, s]).permute([0, 2, 4, 6, 3, 5, 7, 1]);
        let x = split.reshape([b, blocks, tokens, c]);
        let dtype = x.dtype();
        let x = (x + self.pos_embed.val().cast(dtype)).reshape([b * blocks, tokens, c]);
        let x = self.transformer_encoder.iter().fold(x, |x, layer| layer.forward(x, blocks));
        let split: Tensor<8> = x.reshape([b, g, g, g, s, s, s, c]).permute([0, 7, 1, 4, 2, 5, 3, 6]);
        split.reshape([b, c, g * s, g * s, g * s])
    }
}

/// The first convolution, which embeds patches.
#[derive(Module, Debug)]
struct PatchEmbed {
    proj: Conv,
}

/// A nested transformer (Zhang et al., <https://arxiv.org/abs/2105.12723>) for volumes of one size.
#[derive(Module, Debug)]
pub(super) struct NestTransformer {
    patch_embed: PatchEmbed,
    levels: Named<Level>,
    norm: LayerNorm,
}

impl NestTransformer {
    pub fn new(scope: &Scope, options: &NestOptions, clock: &DropoutClock) -> Result<Self, ConfigError> {
        let NestOptions { in_channels, img_size, patch_size, embed_dims, num_heads, depths, .. } = *options;
        let first_grid = 1 << (LEVELS - 1);
        let patches = img_size / patch_size.max(1);
        if patch_size == 0 || patches == 0 || img_size % patch_size != 0 || patches % first_grid != 0 {
            let expected = format!("expected a multiple of {}", first_grid * patch_size.max(1));
            return Err(ConfigError::value("img_size", img_size, expected));
        }
        for (level, heads) in num_heads.iter().enumerate() {
            if *heads == 0 || embed_dims[level] == 0 || embed_dims[level] % heads != 0 {
                let expected = format!("expected divisors of embed_dim, which is {embed_dims:?}");
                return Err(ConfigError::value("num_heads", num_heads, expected));
            }
        }
        let block = patches / first_grid;
        let kernel = [patch_size; 3];
        let shape = ConvShape { stride: kernel, ..ConvShape::default() };
        let proj =
            Conv::new(&scope.enter("patch_embed").enter("proj"), [in_channels, embed_dims[0]], kernel, shape, true);
        let linear = scope.with_init(Init::Normal(DEVIATION));
        let layers: usize = depths.iter().sum();
        let rate = |layer: usize| options.drop_path_rate * layer as f64 / (layers.max(2) - 1) as f64;
        let mut levels = Vec::with_capacity(LEVELS);
        for level in 0..LEVELS {
            let inner = linear.enter("levels").enter(&level.to_string());
            let (features, grid) = (embed_dims[level], 1 << (LEVELS - 1 - level));
            let before: usize = depths[..level].iter().sum();
            let encoder = (0..depths[level]).map(|layer| {
                let scope = inner.enter("transformer_encoder").enter(&layer.to_string());
                TransformerLayer::new(&scope, [features, num_heads[level]], rate(before + layer), clock)
            });
            levels.push(Level {
                pos_embed: inner.draw(
                    "pos_embed",
                    [1, grid * grid * grid, block * block * block, features],
                    Draw::Normal(DEVIATION),
                ),
                pool: (level > 0).then(|| {
                    let scope = inner.enter("pool").with_init(Init::Torch);
                    ConvPool::new(&scope, [embed_dims[level - 1], features])
                }),
                transformer_encoder: Named::numbered(encoder.collect::<Result<Vec<_>, _>>()?),
                grid,
                block,
            });
        }
        Ok(NestTransformer {
            patch_embed: PatchEmbed { proj },
            levels: Named::numbered(levels),
            norm: LayerNorm::new(&scope.enter("norm"), embed_dims[LEVELS - 1]).with_eps(EPS),
        })
    }

    /// Returns the result, the embedded patches, and the result of each level.
    pub fn forward(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<5>, Vec<Tensor<5>>) {
        let patches = self.patch_embed.proj.forward(x);
        let mut x = patches.clone();
        let mut states = Vec::with_capacity(LEVELS);
        for level in self.levels.iter() {
            x = level.forward(x);
            states.push(x.clone());
        }
        (over_channels(&self.norm, x), patches, states)
    }
}

/// The state-dict key of a parameter at this path.
pub(super) fn nest_name(path: &str) -> String {
    path.replace(".mlp.linear1.", ".mlp.fc1.").replace(".mlp.linear2.", ".mlp.fc2.")
}

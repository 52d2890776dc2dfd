//! An image as tokens with positions (`monai.networks.blocks.PatchEmbeddingBlock`).

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use hearth_kernels::conv3d::ConvShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::position_embedding::{fourier, sincos};
use crate::layers::{ConfigError, Conv, Draw, Dropout, DropoutClock, Init, Linear, Scope};
use crate::named::Named;

/// The initial standard deviation of linear layers and learnable positions.
const DEVIATION: f64 = 0.02;

/// The layer that makes a token of a patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Projection {
    /// A convolution with the patch as kernel and stride.
    #[default]
    Conv,
    /// A linear layer of the patch's values.
    Perceptron,
}

/// The position embedding that is added to the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PositionEmbedding {
    /// A learned embedding, initialized with zeros.
    None,
    /// A learned embedding, initialized with random numbers.
    #[default]
    Learnable,
    /// Fixed sines and cosines.
    Sincos,
    /// Fixed sines and cosines along random directions.
    Fourier,
}

/// Options of a [`PatchEmbeddingBlock`].
#[derive(Clone, Debug)]
pub struct PatchEmbeddingOptions {
    /// Number of spatial axes: 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of the image.
    pub in_channels: usize,
    /// Size of the image; the third axis of a 2-D image is 1.
    pub img_size: [usize; 3],
    /// Size of a patch.
    pub patch_size: [usize; 3],
    /// Features of a token.
    pub hidden_size: usize,
    /// How a patch becomes a token.
    pub proj_type: Projection,
    /// The position embedding.
    pub pos_embed_type: PositionEmbedding,
    /// Dropout probability.
    pub dropout_rate: f64,
    /// The clock that keys the dropout draws.
    pub clock: DropoutClock,
}

/// The projection of patches to tokens.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only one of them, and modules cannot be boxed")]
pub enum PatchEmbeddings {
    /// The convolution.
    Conv(Conv),
    /// The linear layer, under the name `1`.
    Perceptron(Named<Linear>),
}

/// Projects patches to tokens and adds position embeddings (Dosovitskiy et al.,
/// <https://arxiv.org/abs/2010.11929>).
#[derive(Module, Debug)]
pub struct PatchEmbeddingBlock {
    /// The projection.
    pub patch_embeddings: PatchEmbeddings,
    /// The position embeddings, `[1, tokens, hidden]`.
    pub position_embeddings: Param<Tensor<3>>,
    dropout: Dropout,
    #[module(skip)]
    patch_size: [usize; 3],
}

impl PatchEmbeddingBlock {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &PatchEmbeddingOptions) -> Result<Self, ConfigError> {
        let PatchEmbeddingOptions { spatial_dims, in_channels, img_size, patch_size, hidden_size, .. } = *options;
        if in_channels == 0 || patch_size.contains(&0) || img_size.iter().zip(patch_size).any(|(n, p)| *n < p) {
            return Err(ConfigError::value("patch_size", patch_size, format!("expected 1 to {img_size:?}, img_size")));
        }
        let perceptron = options.proj_type == Projection::Perceptron;
        if perceptron && img_size.iter().zip(patch_size).any(|(n, p)| n % p != 0) {
            let expected = format!("with the perceptron img_size, {img_size:?}, must be divisible by it");
            return Err(ConfigError::value("patch_size", patch_size, expected));
        }
        let inner = scope.enter("patch_embeddings");
        let patch_embeddings = if perceptron {
            let inner = inner.enter("1").with_init(Init::Normal(DEVIATION));
            let features = in_channels * patch_size.iter().product::<usize>();
            let linear = Linear::new(&inner, [features, hidden_size], true);
            PatchEmbeddings::Perceptron(Named::new(vec![("1".to_owned(), linear)]))
        } else {
            let shape = ConvShape { stride: patch_size, ..ConvShape::default() };
            PatchEmbeddings::Conv(Conv::new(&inner, [in_channels, hidden_size], patch_size, shape, true))
        };
        let grid: [usize; 3] = std::array::from_fn(|axis| img_size[axis] / patch_size[axis]);
        let shape = [1, grid.iter().product(), hidden_size];
        let fixed = |values: Vec<f32>| {
            let value = Tensor::from_data(TensorData::new(values, shape), scope.device());
            Param::from_tensor(value).set_require_grad(false)
        };
        let name = "position_embeddings";
        scope.count(name, &[grid[0], grid[1], grid[2], hidden_size]);
        let position_embeddings = match options.pos_embed_type {
            PositionEmbedding::None => scope.constant(shape, 0.0),
            PositionEmbedding::Learnable => scope.draw(name, shape, Draw::Normal(DEVIATION)),
            PositionEmbedding::Sincos => fixed(sincos(grid, hidden_size, spatial_dims)?),
            PositionEmbedding::Fourier => fixed(fourier(grid, hidden_size, spatial_dims, scope.key(name))?),
        };
        let dropout = Dropout::new(scope.enter("dropout").path(), options.dropout_rate, &options.clock)?;
        Ok(PatchEmbeddingBlock { patch_embeddings, position_embeddings, dropout, patch_size })
    }

    /// The number of tokens of an image.
    pub fn tokens(&self) -> usize {
        self.position_embeddings.lazy_shape().dims::<3>()[1]
    }

    /// Maps `[b, c, x, y, z]` to `[b, tokens, hidden]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<3> {
        let tokens = match &self.patch_embeddings {
            PatchEmbeddings::Conv(conv) => {
                let y = conv.forward(x);
                let [b, hidden, nx, ny, nz] = y.dims();
                y.reshape([b, hidden, nx * ny * nz]).swap_dims(1, 2)
            }
            PatchEmbeddings::Perceptron(linear) => {
                let [b, c, nx, ny, nz] = x.dims();
                let [px, py, pz] = self.patch_size;
                let (gx, gy, gz) = (nx / px, ny / py, nz / pz);
                let patches = x.reshape([b, c, gx, px, gy, py, gz, pz]).permute([0, 2, 4, 6, 3, 5, 7, 1]);
                let patches: Tensor<3> = patches.reshape([b, gx * gy * gz, px * py * pz * c]);
                linear.iter().fold(patches, |x, linear| linear.forward(x))
            }
        };
        let dtype = tokens.dtype();
        self.dropout.forward(tokens + self.position_embeddings.val().cast(dtype))
    }
}

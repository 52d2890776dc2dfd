//! Window attention and a perceptron, each with a shortcut
//! (`monai.networks.nets.swin_unetr.SwinTransformerBlock`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::cast;

use super::window::{fit, partition, reverse};
use super::{Mlp, WindowAttention, WindowAttentionOptions};
use crate::layers::{ConfigError, DropPath, DropoutClock, LayerNorm, Scope};

/// Options of a [`SwinTransformerBlock`].
#[derive(Clone, Debug)]
pub struct SwinTransformerOptions {
    /// Number of input and output features.
    pub dim: usize,
    /// Number of heads, a divisor of `dim`.
    pub num_heads: usize,
    /// Number of positions per axis of a window.
    pub window_size: [usize; 3],
    /// Shift of the windows per axis.
    pub shift_size: [usize; 3],
    /// Hidden features of the perceptron per input feature.
    pub mlp_ratio: f64,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Dropout probability.
    pub drop: f64,
    /// Dropout probability of the attention weights.
    pub attn_drop: f64,
    /// Probability of skipping each half of the block in training.
    pub drop_path: f64,
    /// The clock that keys the dropout draws.
    pub clock: DropoutClock,
}

/// A block of the Swin transformer (Liu et al., <https://arxiv.org/abs/2103.14030>).
#[derive(Module, Debug)]
pub struct SwinTransformerBlock {
    /// The norm before the attention.
    pub norm1: LayerNorm,
    /// The attention.
    pub attn: WindowAttention,
    /// The norm before the perceptron.
    pub norm2: LayerNorm,
    /// The perceptron.
    pub mlp: Mlp,
    drop_attn: DropPath,
    drop_mlp: DropPath,
    #[module(skip)]
    window_size: [usize; 3],
    #[module(skip)]
    shift_size: [usize; 3],
}

impl SwinTransformerBlock {
    /// Builds the block.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &SwinTransformerOptions) -> Result<Self, ConfigError> {
        let SwinTransformerOptions { dim, num_heads, window_size, shift_size, mlp_ratio, qkv_bias, .. } = *options;
        let attention = WindowAttentionOptions {
            dim,
            num_heads,
            window_size,
            qkv_bias,
            attn_drop: options.attn_drop,
            proj_drop: options.drop,
            clock: options.clock.clone(),
        };
        let hidden = match (dim as f64 * mlp_ratio) as usize {
            // MONAI's block takes a hidden size of 0 as the number of features.
            0 => dim,
            hidden => hidden,
        };
        Ok(SwinTransformerBlock {
            norm1: LayerNorm::new(&scope.enter("norm1"), dim),
            attn: WindowAttention::new(&scope.enter("attn"), &attention)?,
            norm2: LayerNorm::new(&scope.enter("norm2"), dim),
            mlp: Mlp::new(&scope.enter("mlp"), [dim, hidden], options.drop, &options.clock)?,
            drop_attn: DropPath::new(scope.enter("drop_attn").path(), options.drop_path, &options.clock)?,
            drop_mlp: DropPath::new(scope.enter("drop_mlp").path(), options.drop_path, &options.clock)?,
            window_size,
            shift_size,
        })
    }

    /// Maps `[b, x, y, z, dim]` to the same shape; `regions` are those of shifted windows on this
    /// size.
    pub fn forward(&self, x: Tensor<5>, regions: &Tensor<2>) -> Tensor<5> {
        let attended = self.attend(self.norm1.forward(x.clone()), regions);
        let dtype = attended.dtype();
        let x = cast(x, dtype) + self.drop_attn.forward(attended);
        let mlp = self.mlp.forward(self.norm2.forward(x.clone()));
        x + self.drop_mlp.forward(mlp)
    }

    fn attend(&self, x: Tensor<5>, regions: &Tensor<2>) -> Tensor<5> {
        let [b, nx, ny, nz, c] = x.dims();
        let size = [nx, ny, nz];
        let (window, shift) = fit(size, self.window_size, self.shift_size);
        let padded: [usize; 3] = std::array::from_fn(|axis| size[axis].next_multiple_of(window[axis]));
        let x = pad_end(x, padded);
        let shifted = shift != [0; 3];
        let by = shift.map(|shift| shift as i64);
        let axes = [1_i64, 2, 3];
        let x = if shifted { x.roll(&by.map(|shift| -shift), &axes) } else { x };
        let windows = self.attn.forward(partition(x, window), shifted.then_some(regions));
        let x = reverse(windows, window, padded);
        let x = if shifted { x.roll(&by, &axes) } else { x };
        if padded == size { x } else { x.slice([0..b, 0..nx, 0..ny, 0..nz, 0..c]) }
    }
}

/// Pads the spatial axes of `[b, x, y, z, c]` with zeros at the far end.
pub(super) fn pad_end(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    let [_, nx, ny, nz, _] = x.dims();
    if size == [nx, ny, nz] {
        return x;
    }
    x.pad([(0, 0), (0, size[0] - nx), (0, size[1] - ny), (0, size[2] - nz), (0, 0)], 0.0)
}

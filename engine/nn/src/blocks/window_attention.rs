//! Self-attention within windows (`monai.networks.nets.swin_unetr.WindowAttention`).

use burn::module::{Module, Param, ParamId};
use burn::tensor::{Int, Tensor, TensorData};
use hearth_kernels::attention::APART;

use super::self_attention::{fused, join_heads, product, softmax, split_heads};
use crate::layers::{ConfigError, Draw, Dropout, DropoutClock, Linear, Scope};

/// Options of a [`WindowAttention`].
#[derive(Clone, Debug)]
pub struct WindowAttentionOptions {
    /// Number of input and output features.
    pub dim: usize,
    /// Number of heads, a divisor of `dim`.
    pub num_heads: usize,
    /// Number of positions per axis of a full-size window.
    pub window_size: [usize; 3],
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Dropout probability of the attention weights.
    pub attn_drop: f64,
    /// Dropout probability of the output.
    pub proj_drop: f64,
    /// The clock that keys the dropout draws.
    pub clock: DropoutClock,
}

/// Multi-head self-attention with a learned bias per relative position (Liu et al.,
/// <https://arxiv.org/abs/2103.14030>).
#[derive(Module, Debug)]
pub struct WindowAttention {
    /// The table of biases per relative position and head.
    pub relative_position_bias_table: Param<Tensor<2>>,
    /// The table row of every pair of positions. A constant, stored because MONAI's state dict
    /// includes it.
    relative_position_index: Param<Tensor<2, Int>>,
    /// The projection to the queries, keys and values of all heads.
    pub qkv: Linear,
    /// The projection after the heads are joined.
    pub proj: Linear,
    attn_drop: Dropout,
    proj_drop: Dropout,
    #[module(skip)]
    heads: usize,
}

/// The table row of the difference of two positions, counted from the most negative difference.
fn relative_positions([wx, wy, wz]: [usize; 3]) -> Vec<i64> {
    let places = wx * wy * wz;
    let at = |index: usize| [index / (wy * wz), index / wz % wy, index % wz];
    let row = |i: usize, j: usize| {
        let (a, b) = (at(i), at(j));
        let [x, y, z] = [(0, wx), (1, wy), (2, wz)].map(|(axis, length)| a[axis] + length - 1 - b[axis]);
        ((x * (2 * wy - 1) + y) * (2 * wz - 1) + z) as i64
    };
    (0..places * places).map(|pair| row(pair / places, pair % places)).collect()
}

impl WindowAttention {
    /// Builds the layer.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(scope: &Scope, options: &WindowAttentionOptions) -> Result<Self, ConfigError> {
        let WindowAttentionOptions { dim, num_heads, window_size, qkv_bias, attn_drop, proj_drop, ref clock } =
            *options;
        if num_heads == 0 || !dim.is_multiple_of(num_heads) {
            let expected = format!("the {dim} features of `{}` must be divisible by it", scope.path());
            return Err(ConfigError::value("num_heads", num_heads, expected));
        }
        if window_size.contains(&0) {
            return Err(ConfigError::value("window_size", window_size, "expected at least 1"));
        }
        let [x, y, z] = window_size;
        // Each value has eight bytes.
        let rehearsed = scope.count("relative_position_index", &[2, x, y, z, x, y, z]);
        let places: usize = if rehearsed { 1 } else { window_size.iter().product() };
        let rows = window_size.iter().map(|length| 2 * length - 1).product();
        let kept = if rehearsed { [1; 3] } else { window_size };
        let index = TensorData::new(relative_positions(kept), [places, places]);
        Ok(WindowAttention {
            relative_position_bias_table: scope.draw(
                "relative_position_bias_table",
                [rows, num_heads],
                Draw::Normal(0.02),
            ),
            relative_position_index: Param::initialized(ParamId::new(), Tensor::from_data(index, scope.device())),
            qkv: Linear::new(&scope.enter("qkv"), [dim, 3 * dim], qkv_bias),
            proj: Linear::new(&scope.enter("proj"), [dim; 2], true),
            attn_drop: Dropout::new(scope.enter("attn_drop").path(), attn_drop, clock)?,
            proj_drop: Dropout::new(scope.enter("proj_drop").path(), proj_drop, clock)?,
            heads: num_heads,
        })
    }

    /// Maps `[b windows, positions, dim]` to the same shape. The regions of shifted windows are
    /// `[windows, positions]`.
    pub fn forward(&self, x: Tensor<3>, regions: Option<&Tensor<2>>) -> Tensor<3> {
        let places = x.dims()[1];
        let heads = self.heads;
        let qkv = self.qkv.forward(x);
        let dtype = qkv.dtype();
        let scale = (qkv.dims()[2] as f64 / (3 * heads) as f64).powf(-0.5);
        // A window cut to a small image uses the first rows and columns of the full index, as in
        // MONAI.
        let index = self.relative_position_index.val().slice([0..places, 0..places]).reshape([places * places]);
        let bias = self.relative_position_bias_table.val().cast(dtype).select(0, index);
        let bias: Tensor<3> = bias.swap_dims(0, 1).reshape([heads, places, places]);
        let attended = match fused(qkv, heads, scale, Some(&bias), regions, &self.attn_drop) {
            Ok(attended) => attended,
            Err(qkv) => self.attend(qkv, scale, bias, regions),
        };
        self.proj_drop.forward(self.proj.forward(attended))
    }

    /// Computes the attention one operation at a time.
    fn attend(&self, qkv: Tensor<3>, scale: f64, bias: Tensor<3>, regions: Option<&Tensor<2>>) -> Tensor<3> {
        let ([count, places, _], heads, dtype) = (qkv.dims(), self.heads, qkv.dtype());
        let [q, k, v] = split_heads(qkv, heads);
        let scores = product(q * scale, k.transpose()) + bias.unsqueeze();
        let scores = match regions {
            Some(regions) => {
                let windows = regions.dims()[0];
                let pairs = |shape: [usize; 3]| regions.clone().reshape(shape).expand([windows, places, places]);
                let apart = pairs([windows, places, 1]).not_equal(pairs([windows, 1, places])).float() * APART;
                let mask = apart.cast(dtype).reshape([1, windows, 1, places, places]);
                let scores = scores.reshape([count / windows, windows, heads, places, places]) + mask;
                scores.reshape([count, heads, places, places])
            }
            None => scores,
        };
        join_heads(product(self.attn_drop.forward(softmax(scores)), v))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tensor};

    use super::*;
    use crate::blocks::shifted_regions;

    /// The fallback for devices without a kernel and for dropout of the weights gives the same
    /// result.
    #[test]
    fn both_ways_give_the_same() -> Result<(), ConfigError> {
        let device = Device::default();
        let options = WindowAttentionOptions {
            dim: 12,
            num_heads: 3,
            window_size: [2, 3, 2],
            qkv_bias: true,
            attn_drop: 0.0,
            proj_drop: 0.0,
            clock: DropoutClock::default(),
        };
        let layer = WindowAttention::new(&Scope::new(&device, 1), &options)?;
        let regions = shifted_regions([4, 6, 4], [2, 3, 2], [1, 1, 1], &device);
        let windows = regions.dims()[0];
        let qkv = Tensor::<3>::random([2 * windows, 12, 36], Distribution::Default, &device);
        let bias = Tensor::<3>::random([3, 12, 12], Distribution::Default, &device);
        let at_once = fused(qkv.clone(), 3, 0.5, Some(&bias), Some(&regions), &layer.attn_drop);
        // A GPU-only build has no kernel to compare.
        let Ok(at_once) = at_once else { return Ok(()) };
        let operations = |regions| layer.attend(qkv.clone(), 0.5, bias.clone(), regions);
        let difference = |other: Tensor<3>| (at_once.clone() - other).abs().max().into_scalar::<f32>();
        let (apart, without) = (difference(operations(Some(&regions))), difference(operations(None)));
        assert!(apart < 1e-5 && without > 1e-2, "{apart} {without}");
        Ok(())
    }

    /// All pairs of positions one step apart have the same row; the middle of the table is the
    /// position itself.
    #[test]
    fn rows_of_the_table_are_differences() {
        let index = relative_positions([2, 3, 1]);
        assert_eq!(index.len(), 36);
        assert!((0..6).all(|i| index[i * 6 + i] == 7));
        assert_eq!(index[1], index[6 + 2]);
        assert_eq!((index[5], index[30]), (0, 14));
    }
}

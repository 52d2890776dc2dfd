//! Self-attention of all heads in one operation, with a handwritten backward pass.
//!
//! `softmax(scale q k^T + bias) v` (Vaswani et al., <https://arxiv.org/abs/1706.03762>; with a bias
//! per pair of positions: Liu et al., <https://arxiv.org/abs/2103.14030>). On the CPU, a block of
//! rows of the scores is computed, used and discarded, in the forward pass and again in the
//! backward pass, as in Dao et al., <https://arxiv.org/abs/2205.14135>. The scores of all pairs,
//! which would take most of a transformer's memory, are never stored.

mod cpu;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::{DType, Tensor};

use crate::cast::{cast, half_on_cpu};

/// The value added to the score of two positions that must not attend to each other.
pub const APART: f32 = -100.0;

/// Attention of `qkv` (`[b, n, 3 heads d]`: queries, keys and values, each by head) to
/// `[b, n, heads d]`.
///
/// `bias` is `[heads, n, n]` and may be learned. `regions` is `[w, n]`, where item `i` of the batch
/// uses row `i % w`: [`APART`] is added to the score of two positions of different regions. Regions
/// get no gradient.
///
/// # Errors
/// Returns `qkv` where there is no kernel for it: on devices other than the CPU, and for types
/// other than 32-bit and 16-bit floats.
///
/// # Panics
/// Where the shapes do not fit, as Burn's own operations do.
#[expect(clippy::result_large_err, reason = "both variants contain a tensor")]
pub fn attention(
    qkv: Tensor<3>,
    heads: usize,
    scale: f64,
    bias: Option<&Tensor<3>>,
    regions: Option<&Tensor<2>>,
) -> Result<Tensor<3>, Tensor<3>> {
    if ops::on_cpu(&qkv, bias, regions) {
        return Ok(ops::attention(qkv, heads, scale, bias, regions));
    }
    if let Some(dtype) = half_on_cpu(&qkv) {
        let bias = bias.map(|bias| cast(bias.clone(), DType::F32));
        let regions = regions.map(|regions| cast(regions.clone(), DType::F32));
        let wide = attention(cast(qkv, DType::F32), heads, scale, bias.as_ref(), regions.as_ref());
        return wide.map(|out| cast(out, dtype)).map_err(|qkv| cast(qkv, dtype));
    }
    let _ = (heads, scale, bias, regions);
    Err(qkv)
}

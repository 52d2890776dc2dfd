//! Self-attention of all heads in one operation, with a handwritten backward pass.
//!
//! `softmax(scale q k^T + bias) v` (Vaswani et al., <https://arxiv.org/abs/1706.03762>; with a bias
//! per pair of places: Liu et al., <https://arxiv.org/abs/2103.14030>). On the CPU a block of rows
//! of the scores is made, used and forgotten, forward and once more backward, as in Dao et al.,
//! <https://arxiv.org/abs/2205.14135>: the scores of all pairs, which are most of a transformer's
//! memory, are never stored.

mod cpu;
mod ops;
#[cfg(test)]
mod tests;

use burn::tensor::{DType, Tensor};

use crate::cast::{cast, half_on_cpu};

/// What is added to the score of two places that should not see each other.
pub const APART: f32 = -100.0;

/// Attention of `qkv` (`[b, n, 3 heads d]`: queries, keys and values, each by head) to
/// `[b, n, heads d]`.
///
/// `bias` is `[heads, n, n]` and may be learned. `regions` is `[w, n]`, where item `i` of the batch
/// takes row `i % w`: the score of two places of different regions is changed by [`APART`]. They
/// get no gradient.
///
/// # Errors
/// Gives `qkv` back where there is no kernel for it: on other devices than the CPU, and for types
/// that are no floats of 32 or 16 bits.
///
/// # Panics
/// Where the shapes do not fit, as Burn's own operations do.
#[expect(clippy::result_large_err, reason = "either way it is the tensor that is handed on")]
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

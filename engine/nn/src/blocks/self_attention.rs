//! Self-attention over all tokens (`monai.networks.blocks.SABlock`).

use burn::module::Module;
use burn::tensor::{DType, Tensor, activation};
use hearth_kernels::attention::attention;

use crate::cost;
use crate::layers::{ConfigError, Dropout, DropoutClock, Linear, Scope};

/// Splits `[b, n, 3 heads d]` into the queries, keys and values of every head, each `[b, heads, n,
/// d]`.
pub(crate) fn split_heads(qkv: Tensor<3>, heads: usize) -> [Tensor<4>; 3] {
    let [b, n, features] = qkv.dims();
    let d = features / (3 * heads);
    let split = qkv.reshape([b, n, 3, heads, d]).permute([2, 0, 3, 1, 4]);
    [0, 1, 2].map(|i| split.clone().narrow(0, i, 1).reshape([b, heads, n, d]))
}

/// Joins the heads: `[b, heads, n, d]` to `[b, n, heads d]`.
pub(super) fn join_heads(x: Tensor<4>) -> Tensor<3> {
    let [b, heads, n, d] = x.dims();
    x.swap_dims(1, 2).reshape([b, n, heads * d])
}

/// The softmax over the last axis, in f32.
pub(crate) fn softmax<const D: usize>(scores: Tensor<D>) -> Tensor<D> {
    let dtype = scores.dtype();
    cost::output(None, activation::softmax(scores.cast(DType::F32), D - 1).cast(dtype))
}

/// The matrix product of each head: `[b, heads, n, k]` by `[b, heads, k, m]`.
pub(crate) fn product(left: Tensor<4>, right: Tensor<4>) -> Tensor<4> {
    let ([b, heads, n, k], [_, _, _, m]) = (left.dims(), right.dims());
    let device = left.device();
    cost::product(None, (b * heads * n * k * m) as u64, [b, heads, n, m], &device, || left.matmul(right))
}

/// Attention in one operation, with a bias and regions as in [`attention`]. Returns `qkv` if the
/// device has no kernel, if dropout applies to the weights, or if costs are counted per operation.
#[expect(clippy::result_large_err, reason = "both variants contain a tensor")]
pub(crate) fn fused(
    qkv: Tensor<3>,
    heads: usize,
    scale: f64,
    bias: Option<&Tensor<3>>,
    regions: Option<&Tensor<2>>,
    dropout: &Dropout,
) -> Result<Tensor<3>, Tensor<3>> {
    if cost::apart() || dropout.is_active(&qkv) {
        return Err(qkv);
    }
    attention(qkv, heads, scale, bias, regions)
}

/// Multi-head self-attention (Vaswani et al., <https://arxiv.org/abs/1706.03762>).
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// The projection after the heads are joined.
    pub out_proj: Linear,
    /// The projection to the queries, keys and values of all heads.
    pub qkv: Linear,
    drop_weights: Dropout,
    drop_output: Dropout,
    #[module(skip)]
    heads: usize,
}

impl SelfAttention {
    /// Builds the layer with `hidden` input and output features, split among `heads`.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn new(
        scope: &Scope,
        [hidden, heads]: [usize; 2],
        dropout: f64,
        qkv_bias: bool,
        clock: &DropoutClock,
    ) -> Result<Self, ConfigError> {
        Ok(SelfAttention {
            out_proj: Linear::new(&scope.enter("out_proj"), [hidden; 2], true),
            qkv: Linear::new(&scope.enter("qkv"), [hidden, 3 * hidden], qkv_bias),
            drop_weights: Dropout::new(scope.enter("drop_weights").path(), dropout, clock)?,
            drop_output: Dropout::new(scope.enter("drop_output").path(), dropout, clock)?,
            heads,
        })
    }

    /// Maps `[b, tokens, hidden]` to the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let qkv = self.qkv.forward(x);
        let scale = (qkv.dims()[2] as f64 / (3 * self.heads) as f64).powf(-0.5);
        let attended = match fused(qkv, self.heads, scale, None, None, &self.drop_weights) {
            Ok(attended) => attended,
            Err(qkv) => self.attend(qkv, scale),
        };
        self.drop_output.forward(self.out_proj.forward(attended))
    }

    /// Computes the attention one operation at a time.
    fn attend(&self, qkv: Tensor<3>, scale: f64) -> Tensor<3> {
        let [q, k, v] = split_heads(qkv, self.heads);
        join_heads(product(self.drop_weights.forward(softmax(product(q, k.transpose()) * scale)), v))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tensor};

    use super::*;

    /// The fallback for devices without a kernel and for dropout of the weights gives the same
    /// result.
    #[test]
    fn both_ways_give_the_same() -> Result<(), ConfigError> {
        let device = Device::default();
        let clock = DropoutClock::default();
        let layer = SelfAttention::new(&Scope::new(&device, 1), [12, 3], 0.0, false, &clock)?;
        let qkv = Tensor::<3>::random([2, 19, 36], Distribution::Default, &device);
        let at_once = fused(qkv.clone(), 3, 0.5, None, None, &layer.drop_weights);
        // A GPU-only build has no kernel to compare.
        let Ok(at_once) = at_once else { return Ok(()) };
        let apart = (at_once - layer.attend(qkv, 0.5)).abs().max().into_scalar::<f32>();
        assert!(apart < 1e-5, "{apart}");
        Ok(())
    }
}

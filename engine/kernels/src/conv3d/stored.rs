//! Converts tensors from their stored type (f32, f16 or bf16) to that of the sums, and back. Half
//! precision stays half precision in the graph; sums are f32.

use burn::backend::{Flex, tensor::FloatTensor};
use half::bf16;

use super::blocked::{Behind, Loops};
use super::cpu;
use super::geometry::Geometry;
use super::pairs;
use crate::cast::convert::{in_order, narrow, wide};
use crate::flex::{floats, with};

/// Calls `run` with the values of both, where both are bf16.
fn of_bf16<R>([a, b]: [&FloatTensor<Flex>; 2], run: impl FnOnce(&[bf16], &[bf16]) -> Option<R>) -> Option<R> {
    run(a.as_slice::<bf16>()?, b.as_slice::<bf16>()?)
}

/// The values of a bias.
fn bias_values(bias: Option<FloatTensor<Flex>>) -> Option<Vec<f32>> {
    bias.map(|bias| with([wide(bias)], |[bias]| bias.to_vec()))
}

/// The shape `[batch, channels, ...]`.
fn shape(batch: usize, channels: usize, spatial: [usize; 3]) -> Vec<usize> {
    vec![batch, channels, spatial[0], spatial[1], spatial[2]]
}

/// The convolution of `x` by `weight` plus an optional bias; in the type of `x`.
pub fn forward(
    x: FloatTensor<Flex>,
    weight: FloatTensor<Flex>,
    bias: Option<FloatTensor<Flex>>,
    g: &Geometry,
) -> FloatTensor<Flex> {
    let (dtype, bias, [x, weight]) = (x.dtype(), bias_values(bias), [x, weight].map(in_order));
    let behind = Behind { bias: bias.as_deref(), ..Behind::default() };
    let out = of_bf16([&x, &weight], |x, weight| pairs::forward(x, weight, behind, g))
        .unwrap_or_else(|| with([wide(x), wide(weight)], |[x, w]| cpu::forward(Loops::here(), x, w, behind, g)));
    narrow(out.into(), shape(g.batch, g.channels()[1], g.output), dtype)
}

/// The input gradient, or the transposed convolution, of `dy` by `weight`, and a bias; in the type
/// of `dy`.
pub fn input_gradient(
    dy: FloatTensor<Flex>,
    weight: FloatTensor<Flex>,
    bias: Option<FloatTensor<Flex>>,
    g: &Geometry,
) -> FloatTensor<Flex> {
    let (dtype, bias, [dy, weight]) = (dy.dtype(), bias_values(bias), [dy, weight].map(in_order));
    let behind = Behind { bias: bias.as_deref(), ..Behind::default() };
    let out = of_bf16([&dy, &weight], |dy, weight| pairs::input_gradient(dy, weight, behind, g)).unwrap_or_else(|| {
        with([wide(dy), wide(weight)], |[dy, w]| cpu::input_gradient(Loops::here(), dy, w, behind, g))
    });
    narrow(out.into(), shape(g.batch, g.channels()[0], g.input), dtype)
}

/// The weight gradient, in the type of `x`.
pub fn weight_gradient(x: FloatTensor<Flex>, dy: FloatTensor<Flex>, g: &Geometry) -> FloatTensor<Flex> {
    let (dtype, [x, dy]) = (x.dtype(), [x, dy].map(in_order));
    let out = of_bf16([&x, &dy], |x, dy| pairs::weight_gradient(x, dy, g))
        .unwrap_or_else(|| with([wide(x), wide(dy)], |[x, dy]| cpu::weight_gradient(Loops::here(), x, dy, g)));
    narrow(out.into(), shape(g.channels()[1], g.channels_in, g.kernel), dtype)
}

/// The sums of `[batch, channels, ...]` over everything but the channel, in f32.
pub fn channel_sums(x: FloatTensor<Flex>, batch: usize, channels: usize) -> FloatTensor<Flex> {
    floats(with([wide(x)], |[x]| cpu::bias_gradient(x, batch, channels)), [channels])
}

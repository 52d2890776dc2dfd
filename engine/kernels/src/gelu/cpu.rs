//! The activation on the CPU, on all threads.

use std::mem::MaybeUninit;

use burn::backend::{Flex, tensor::FloatTensor};

use super::ops::GeluOps;
use crate::math;
use crate::precision::{Precision, by_precision, each, tensor, with_values};
use crate::ranges::kernel;
use crate::simd::widest;

/// The number of values of a task.
const TASK: usize = 16 << 10;

/// The number of values that are processed while they are in the first-level cache.
const STEP: usize = 512;

impl GeluOps for Flex {
    fn normal_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let _range = kernel!("gelu", [x, x]);
        let dims = x.layout().shape().to_vec();
        by_precision!(x.dtype(), S => tensor(with_values([x], |[x]: [&[S]; 1]| values(x)), dims))
    }

    fn normal_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        let _range = kernel!("gelu gradient", [x, dy, x]);
        let dims = x.layout().shape().to_vec();
        by_precision!(x.dtype(), S => tensor(with_values([x, dy], |[x, dy]: [&[S]; 2]| gradients(x, dy)), dims))
    }
}

/// The exponent of the complementary error function of `z >= 0`, without its factor `t`. The
/// relative error is below 1.2e-7 everywhere (Press et al., Numerical Recipes, 6.2, a Chebyshev
/// fit).
#[inline(always)]
fn exponent(z: f32, t: f32) -> f32 {
    const FIT: [f32; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let mut sum = FIT[0];
    let mut i = 1;
    while i < FIT.len() {
        sum = sum * t + FIT[i];
        i += 1;
    }
    sum - z * z
}

/// The normal distribution function at `x`.
fn below(x: &[f32], out: &mut [f32]) {
    const ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2;
    widest(
        #[inline(always)]
        || {
            for (out, x) in out.iter_mut().zip(x) {
                let z = x.abs() * ROOT;
                *out = exponent(z, 1.0 / (1.0 + 0.5 * z));
            }
        },
    );
    math::exp(out);
    widest(
        #[inline(always)]
        || {
            for (out, x) in out.iter_mut().zip(x) {
                let tail = *out * 0.5 / (1.0 + 0.5 * x.abs() * ROOT);
                *out = if *x < 0.0 { tail } else { 1.0 - tail };
            }
        },
    );
}

/// Calls `work` with blocks of the inputs, the distribution function there, and the output.
fn blocks<S: Precision, const N: usize>(
    inputs: [&[S]; N],
    work: impl Fn([&[f32]; N], &[f32], &mut [MaybeUninit<f32>]) + Sync,
) -> Vec<S> {
    each(inputs, TASK, |_, out, inputs| {
        let mut part = [0.0; STEP];
        for (step, out) in out.chunks_mut(STEP).enumerate() {
            let values = inputs.map(|input| &input[step * STEP..][..out.len()]);
            let part = &mut part[..out.len()];
            below(values[0], part);
            work(values, part, out);
        }
    })
}

fn values<S: Precision>(x: &[S]) -> Vec<S> {
    blocks([x], |[x], part, out| {
        widest(
            #[inline(always)]
            move || {
                for ((out, x), part) in out.iter_mut().zip(x).zip(part) {
                    out.write(x * part);
                }
            },
        );
    })
}

fn gradients<S: Precision>(x: &[S], dy: &[S]) -> Vec<S> {
    /// One over the root of 2 pi.
    const DENSITY: f32 = 0.398_942_28;
    blocks([x, dy], |[x, dy], part, out| {
        let mut density = [0.0; STEP];
        let density = &mut density[..x.len()];
        widest(
            #[inline(always)]
            || {
                for (density, x) in density.iter_mut().zip(x) {
                    *density = -0.5 * x * x;
                }
            },
        );
        math::exp(density);
        widest(
            #[inline(always)]
            || {
                for ((((out, x), dy), part), density) in out.iter_mut().zip(x).zip(dy).zip(part).zip(&*density) {
                    out.write(dy * (part + x * DENSITY * density));
                }
            },
        );
    })
}

//! The activation on the CPU, on all threads.

use std::mem::MaybeUninit;

use burn::backend::{Flex, tensor::FloatTensor};

use super::ops::SwishOps;
use crate::math;
use crate::precision::{Precision, by_precision, each, tensor, with_values};
use crate::ranges::kernel;
use crate::simd::widest;

/// The number of values of a task.
const TASK: usize = 16 << 10;

/// The number of values that are processed while they are in the first-level cache.
const STEP: usize = 512;

impl SwishOps for Flex {
    fn logistic_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let _range = kernel!("swish", [x, x]);
        let dims = x.layout().shape().to_vec();
        by_precision!(x.dtype(), S => tensor(with_values([x], |[x]: [&[S]; 1]| values(x)), dims))
    }

    fn logistic_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        let _range = kernel!("swish gradient", [x, dy, x]);
        let dims = x.layout().shape().to_vec();
        by_precision!(x.dtype(), S => tensor(with_values([x, dy], |[x, dy]: [&[S]; 2]| gradients(x, dy)), dims))
    }
}

/// The exponential of `-x`.
fn decay(x: &[f32], out: &mut [f32]) {
    widest(
        #[inline(always)]
        || {
            for (out, x) in out.iter_mut().zip(x) {
                *out = -x;
            }
        },
    );
    math::exp(out);
}

/// Calls `work` with blocks of the inputs, the exponential of minus the first, and the output.
fn blocks<S: Precision, const N: usize>(
    inputs: [&[S]; N],
    work: impl Fn([&[f32]; N], &[f32], &mut [MaybeUninit<f32>]) + Sync,
) -> Vec<S> {
    each(inputs, TASK, |_, out, inputs| {
        let mut part = [0.0; STEP];
        for (step, out) in out.chunks_mut(STEP).enumerate() {
            let values = inputs.map(|input| &input[step * STEP..][..out.len()]);
            let part = &mut part[..out.len()];
            decay(values[0], part);
            work(values, part, out);
        }
    })
}

fn values<S: Precision>(x: &[S]) -> Vec<S> {
    blocks([x], |[x], decay, out| {
        widest(
            #[inline(always)]
            move || {
                for ((out, x), decay) in out.iter_mut().zip(x).zip(decay) {
                    out.write(x / (1.0 + decay));
                }
            },
        );
    })
}

fn gradients<S: Precision>(x: &[S], dy: &[S]) -> Vec<S> {
    blocks([x, dy], |[x, dy], decay, out| {
        widest(
            #[inline(always)]
            move || {
                for (((out, x), dy), decay) in out.iter_mut().zip(x).zip(dy).zip(decay) {
                    let share = 1.0 / (1.0 + decay);
                    out.write(dy * share * (1.0 + x * (1.0 - share)));
                }
            },
        );
    })
}

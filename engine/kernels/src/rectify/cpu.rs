//! The activation on the CPU, by all threads.

use burn::backend::{Flex, tensor::FloatTensor};
use rayon::prelude::*;

use super::ops::RectifyOps;
use crate::flex::{floats, with};
use crate::simd::widest;

/// Values of one task.
const TASK: usize = 64 << 10;

impl RectifyOps for Flex {
    fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let dims = x.layout().shape().to_vec();
        floats(with([x, y], |[x, y]| add(x, y, slope)), dims)
    }

    fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let dims = x.layout().shape().to_vec();
        floats(with([x], |[x]| select(x, x, slope)), dims)
    }

    fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let dims = y.layout().shape().to_vec();
        floats(with([y, dy], |[y, dy]| select(y, dy, slope)), dims)
    }
}

/// `value` of each where `sign` is positive, `slope value` elsewhere.
fn select(sign: &[f32], values: &[f32], slope: f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    let places = &mut out.spare_capacity_mut()[..values.len()];
    let tasks = places.par_chunks_mut(TASK).zip(sign.par_chunks(TASK)).zip(values.par_chunks(TASK));
    tasks.for_each(|((out, sign), values)| {
        widest(
            #[inline(always)]
            move || {
                if slope == 0.0 {
                    // Not a product: minus infinity becomes 0, and what is not a number stays.
                    for ((out, sign), value) in out.iter_mut().zip(sign).zip(values) {
                        out.write(if *sign <= 0.0 { 0.0 } else { *value });
                    }
                    return;
                }
                for ((out, sign), value) in out.iter_mut().zip(sign).zip(values) {
                    out.write(value * if *sign > 0.0 { 1.0 } else { slope });
                }
            },
        );
    });
    // SAFETY: every place has been written.
    unsafe { out.set_len(values.len()) };
    out
}

/// The sum of each, times `slope` unless it is positive.
fn add(x: &[f32], y: &[f32], slope: f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    let places = &mut out.spare_capacity_mut()[..x.len()];
    let tasks = places.par_chunks_mut(TASK).zip(x.par_chunks(TASK)).zip(y.par_chunks(TASK));
    tasks.for_each(|((out, x), y)| {
        widest(
            #[inline(always)]
            move || {
                if slope == 0.0 {
                    for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                        let sum = x + y;
                        out.write(if sum <= 0.0 { 0.0 } else { sum });
                    }
                    return;
                }
                for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                    let sum = x + y;
                    out.write(sum * if sum > 0.0 { 1.0 } else { slope });
                }
            },
        );
    });
    // SAFETY: every place has been written.
    unsafe { out.set_len(x.len()) };
    out
}

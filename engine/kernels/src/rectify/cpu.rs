//! The activation on the CPU, on all threads.

use burn::backend::{Flex, tensor::FloatTensor};

use super::ops::RectifyOps;
use crate::precision::{Precision, by_precision, each, tensor, with_values};
use crate::ranges::kernel;
use crate::simd::widest;

/// The number of values of a task.
const TASK: usize = 64 << 10;

impl RectifyOps for Flex {
    fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let _range = kernel!("rectified sum", [x, y, x]);
        let dims = x.layout().shape().to_vec();
        by_precision!(x.dtype(), S => tensor(with_values([x, y], |[x, y]: [&[S]; 2]| add(x, y, slope)), dims))
    }

    fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let _range = kernel!("rectify", [x, x]);
        let dims = x.layout().shape().to_vec();
        by_precision!(x.dtype(), S => tensor(with_values([x], |[x]: [&[S]; 1]| select(x, x, slope)), dims))
    }

    fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let _range = kernel!("rectify gradient", [y, dy, y]);
        let dims = y.layout().shape().to_vec();
        by_precision!(y.dtype(), S => tensor(with_values([y, dy], |[y, dy]: [&[S]; 2]| select(y, dy, slope)), dims))
    }
}

/// Selects `value` where `sign` is positive, and `slope value` elsewhere.
fn select<S: Precision>(sign: &[S], values: &[S], slope: f32) -> Vec<S> {
    each([sign, values], TASK, |_, out, [sign, values]| {
        widest(
            #[inline(always)]
            move || {
                if slope == 0.0 {
                    // With a slope of 0 this is not a product: minus infinity becomes 0, and NaN
                    // stays NaN.
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
    })
}

/// Adds both, times `slope` unless the sum is positive.
fn add<S: Precision>(x: &[S], y: &[S], slope: f32) -> Vec<S> {
    each([x, y], TASK, |_, out, [x, y]| {
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
    })
}

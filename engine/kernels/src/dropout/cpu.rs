//! Dropout on the CPU, on all threads.

use std::mem::MaybeUninit;

use burn::backend::{Flex, tensor::FloatTensor};

use super::Drops;
use super::ops::DropoutOps;
use crate::precision::{by_precision, each, tensor, with_values};
use crate::ranges::kernel;
use crate::simd::widest;

/// The number of values of a task.
const TASK: usize = 32 << 10;

impl DropoutOps for Flex {
    fn drop_out(x: FloatTensor<Self>, drops: Drops) -> FloatTensor<Self> {
        let _range = kernel!("dropout", [x, x]);
        let dims = x.layout().shape().to_vec();
        by_precision!(x.dtype(), S => {
            let dropped = |[x]: [&[S]; 1]| each([x], TASK, |first, out, [x]| write(out, x, first, drops));
            tensor(with_values([x], dropped), dims)
        })
    }
}

/// Writes the values from index `first` on.
fn write(out: &mut [MaybeUninit<f32>], x: &[f32], first: usize, drops: Drops) {
    if drops.run == 1 {
        return singly(out, x, first as u64, drops);
    }
    let mut at = 0;
    while at < x.len() {
        let draw = (first + at) / drops.run;
        let end = ((draw + 1) * drops.run - first).min(x.len());
        let [factor, offset] = drops.of(draw as u64);
        let (places, values) = (&mut out[at..end], &x[at..end]);
        widest(
            #[inline(always)]
            move || {
                for (place, x) in places.iter_mut().zip(values) {
                    place.write(x * factor + offset);
                }
            },
        );
        at = end;
    }
}

/// Makes a draw for each value.
fn singly(out: &mut [MaybeUninit<f32>], x: &[f32], first: u64, drops: Drops) {
    let (key, threshold, scale, [kept, dropped]) = (drops.key, drops.threshold(), drops.scale, drops.offsets);
    widest(
        #[inline(always)]
        move || {
            for (i, (out, x)) in out.iter_mut().zip(x).enumerate() {
                let drops = key.bits(first + i as u64) >> 11 < threshold;
                let (factor, offset) = if drops { (0.0, dropped) } else { (scale, kept) };
                out.write(x * factor + offset);
            }
        },
    );
}

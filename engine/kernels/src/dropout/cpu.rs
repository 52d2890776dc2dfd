//! Dropout on the CPU, by all threads.

use burn::backend::{Flex, tensor::FloatTensor};
use rayon::prelude::*;

use super::Drops;
use super::ops::DropoutOps;
use crate::flex::{floats, with};
use crate::simd::widest;

/// Values of one task.
const TASK: usize = 32 << 10;

impl DropoutOps for Flex {
    fn drop_out(x: FloatTensor<Self>, drops: Drops) -> FloatTensor<Self> {
        let dims = x.layout().shape().to_vec();
        floats(with([x], |[x]| dropped(x, &drops)), dims)
    }
}

fn dropped(x: &[f32], drops: &Drops) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    out.par_chunks_mut(TASK).zip(x.par_chunks(TASK)).enumerate().for_each(|(task, (out, x))| {
        let first = task * TASK;
        if drops.run == 1 {
            each(out, x, first as u64, *drops);
            return;
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
                        *place = x * factor + offset;
                    }
                },
            );
            at = end;
        }
    });
    out
}

/// A draw for each value.
fn each(out: &mut [f32], x: &[f32], first: u64, drops: Drops) {
    let (key, threshold, scale, [kept, dropped]) = (drops.key, drops.threshold(), drops.scale, drops.offsets);
    widest(
        #[inline(always)]
        move || {
            for (i, (out, x)) in out.iter_mut().zip(x).enumerate() {
                let drops = key.bits(first + i as u64) >> 11 < threshold;
                let (factor, offset) = if drops { (0.0, dropped) } else { (scale, kept) };
                *out = x * factor + offset;
            }
        },
    );
}

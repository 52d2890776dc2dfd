//! bf16 on CPUs that add two products at once (AVX-512-BF16): two channels, or two images for the
//! weight gradient, are packed in one word, and the f32 loops run over half as many words. Sums are
//! f32.

use std::mem::MaybeUninit;

use half::bf16;
use rayon::prelude::*;

use super::blocked::{Behind, Loops};
use super::cpu::{self, MANY};
use super::geometry::Geometry;
use super::winograd::Walk;
use crate::simd::widest;

/// The number of words per task.
const PIECE: usize = 16 << 10;

/// If minimal filtering saves more than this factor, f32 is faster: pairs save at most a factor of
/// 2.
const FEWER: f64 = 2.5;

/// The loops for a number of output channels (or channels of the input gradient) and of values
/// summed in pairs; `None` where the CPU does not support pairs or f32 is as fast.
fn loops(g: &Geometry, walk: Option<Walk>, lanes: usize, summed: usize) -> Option<Loops<'static>> {
    let fewer = walk.is_some_and(|walk| walk.times_fewer() >= FEWER);
    (g.groups == 1 && !fewer && lanes >= MANY && summed >= 2).then(Loops::of_pairs).flatten()
}

/// Packs `values`, `[outer, n, inner]`: neighbours along `n` become the low and the high half of a
/// word, whose bits are stored as an f32. The last of an odd number is paired with a zero.
fn words(values: &[bf16], n: usize, inner: usize) -> Vec<f32> {
    let pairs = n.div_ceil(2);
    let count = values.len() / n * pairs;
    let mut out = Vec::with_capacity(count);
    out.spare_capacity_mut()[..count].par_chunks_mut(inner).enumerate().for_each(|(row, out)| {
        let start = (row / pairs * n + row % pairs * 2) * inner;
        let low = &values[start..][..inner];
        let high = (row % pairs * 2 + 1 < n).then(|| &values[start + inner..][..inner]);
        out.par_chunks_mut(PIECE).enumerate().for_each(|(piece, out)| {
            let from = piece * PIECE..piece * PIECE + out.len();
            let (low, high) = (&low[from.clone()], high.map(|high| &high[from]));
            widest(
                #[inline(always)]
                move || join(out, low, high),
            );
        });
    });
    // SAFETY: the rows cover all words.
    unsafe { out.set_len(count) };
    out
}

#[inline(always)]
fn join(out: &mut [MaybeUninit<f32>], low: &[bf16], high: Option<&[bf16]>) {
    match high {
        Some(high) => {
            for ((word, low), high) in out.iter_mut().zip(low).zip(high) {
                word.write(f32::from_bits(u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16));
            }
        }
        None => {
            for (word, low) in out.iter_mut().zip(low) {
                word.write(f32::from_bits(u32::from(low.to_bits())));
            }
        }
    }
}

fn volume(axes: [usize; 3]) -> usize {
    axes.iter().product()
}

/// Same as [`cpu::forward`]; `None` where f32 is as fast.
pub fn forward(x: &[bf16], weight: &[bf16], behind: Behind<'_>, g: &Geometry) -> Option<Vec<f32>> {
    let loops = loops(g, Walk::forward(&g.flat_first()), g.channels_out, g.channels_in)?;
    let (x, weight) = (words(x, g.channels_in, volume(g.input)), words(weight, g.channels_in, g.taps()));
    let g = Geometry { channels_in: g.channels_in.div_ceil(2), ..*g };
    Some(cpu::forward(loops, &x[..], &weight, behind, &g))
}

/// Same as [`cpu::input_gradient`]; `None` where f32 is as fast.
pub fn input_gradient(dy: &[bf16], weight: &[bf16], behind: Behind<'_>, g: &Geometry) -> Option<Vec<f32>> {
    let loops = loops(g, Walk::input_gradient(&g.flat_first()), g.channels_in, g.channels_out)?;
    let dy = words(dy, g.channels_out, volume(g.output));
    let weight = words(weight, g.channels_out, g.channels_in * g.taps());
    let g = Geometry { channels_out: g.channels_out.div_ceil(2), ..*g };
    Some(cpu::input_gradient(loops, &dy[..], &weight, behind, &g))
}

/// Same as [`cpu::weight_gradient`]; `None` where f32 is as fast.
pub fn weight_gradient(x: &[bf16], dy: &[bf16], g: &Geometry) -> Option<Vec<f32>> {
    let loops = loops(g, Walk::forward(&g.flat_first()), g.channels_out, g.batch)?;
    let x = words(x, g.batch, g.channels_in * volume(g.input));
    let dy = words(dy, g.batch, g.channels_out * volume(g.output));
    let g = Geometry { batch: g.batch.div_ceil(2), ..*g };
    Some(cpu::weight_gradient(loops, &x, &dy, &g))
}

//! The gradients with respect to weight and bias, on the CPU.
//!
//! Partial sums are split by image and by a fixed number of depth segments, and added in that order: results do not
//! depend on the number of threads.

use rayon::prelude::*;

use super::super::geometry::Geometry;
use super::arrange;
use super::tile::{Inner, ROWS, TAPS};

/// Values of a run that are worked on while they are in the first-level cache: eight rows of these are 32 KiB.
const CHUNK: usize = 1024;

/// Planes up to this size are walked through together.
const SMALL_PLANE: usize = 400;

/// Enough tasks for any machine, without making partial sums the larger part of the memory.
const TASKS: usize = 32;

/// The gradient with respect to the weight, `[O, I, ...kernel]`, from the input `x` and the output gradient `dy`.
pub fn weight_gradient(inner: &Inner, x: &[f32], dy: &[f32], g: &Geometry) -> Vec<f32> {
    let source = arrange::input(x, g);
    let layout = &source.layout;
    let taps = layout.offsets.len();
    let [depth, height, width] = g.output;
    let (pitch, plane) = (layout.extent[2], layout.plane());
    // A run goes over one plane, or, where planes are small, over all of them: summing up a run has a fixed price.
    let planes = if plane <= SMALL_PLANE { depth } else { 1 };
    let runs = depth / planes;
    let run = ((planes - 1) * plane + (height - 1) * pitch + width).next_multiple_of(16);
    // The output gradient at the arrangement's pitch: where a row of the arrangement has padding, it has zeros.
    let mut pitched = vec![0.0_f32; g.batch * g.channels_out * runs * run];
    pitched.par_chunks_mut(run).zip(dy.par_chunks(planes * height * width)).for_each(|(to, from)| {
        for (row, values) in from.chunks_exact(width).enumerate() {
            let at = row / height * plane + row % height * pitch;
            to[at..at + width].copy_from_slice(values);
        }
    });
    let last = layout.offsets.iter().max().copied().unwrap_or(0);
    assert!(
        (g.batch - 1) * layout.image + (runs - 1) * plane + last + run <= source.values.len(),
        "a block would read past its arrangement"
    );

    let blocks = g.channels_out.div_ceil(ROWS);
    let segments = TASKS.div_ceil(g.batch * blocks).min(runs);
    let per_segment = runs.div_ceil(segments);
    let partials: Vec<Vec<[[f32; TAPS]; ROWS]>> = (0..g.batch * segments * blocks)
        .into_par_iter()
        .map(|task| {
            let (block, part) = (task % blocks, task / blocks);
            let (image, segment) = (part / segments, part % segments);
            let mut sums = vec![[[0.0_f32; TAPS]; ROWS]; taps.div_ceil(TAPS)];
            for d in segment * per_segment..((segment + 1) * per_segment).min(runs) {
                for from in (0..run).step_by(CHUNK) {
                    let length = CHUNK.min(run - from);
                    // Rows and taps beyond the last repeat it; what they sum is not read.
                    let rows: [*const f32; ROWS] = std::array::from_fn(|row| {
                        let channel = (block * ROWS + row).min(g.channels_out - 1);
                        pitched[((image * g.channels_out + channel) * runs + d) * run + from..].as_ptr()
                    });
                    let base = image * layout.image + d * plane + from;
                    for (group, sums) in sums.iter_mut().enumerate() {
                        let at: [*const f32; TAPS] = std::array::from_fn(|t| {
                            let tap = (group * TAPS + t).min(taps - 1);
                            source.values[base + layout.offsets[tap]..].as_ptr()
                        });
                        // SAFETY: rows hold `run` values each; the assertion above covers the taps.
                        unsafe { (inner.block)(&rows, &at, length, sums) };
                    }
                }
            }
            sums
        })
        .collect();

    let mut out = vec![0.0_f32; g.weight_len()];
    out.par_chunks_mut(taps).enumerate().for_each(|(channel, gradient)| {
        let (block, row) = (channel / ROWS, channel % ROWS);
        for part in partials.iter().skip(block).step_by(blocks) {
            for (tap, value) in gradient.iter_mut().enumerate() {
                *value += part[tap / TAPS][row][tap % TAPS];
            }
        }
    });
    out
}

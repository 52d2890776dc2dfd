//! Weight gradients for few output channels.

use std::cell::RefCell;

use rayon::prelude::*;

use super::super::geometry::Geometry;
use super::WIDTH;
use super::pack::{self, Block, Image, Pitch};
use super::plan::Plan;
use super::position_tile::{Kernels, Rows};

/// The maximum number of values of a packed block of the source.
const BLOCK: usize = 160 << 10;

/// The minimum number of tasks, where the work can be split.
const TASKS: usize = 16;

/// The approximate number of positions over which sums stay in registers.
const POSITIONS: usize = 1024;

thread_local! {
    /// A task's packed source, reused by the next task.
    static PACKED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Computes the gradient with respect to the weight, `[O, I, ...kernel]`, from the source `x` and
/// the output gradient `dy`.
pub fn weight_gradient(kernels: &Kernels, x: &[f32], dy: &[f32], g: &Geometry) -> Vec<f32> {
    let plan = &Plan::forward(g, 1);
    let [depth, height, width] = g.output;
    let per_row =
        g.channels_in * (width + plan.reach[2]) * plan.source.iter().map(|a| a.phases.len()).product::<usize>();
    let block = pack::block_size([depth, height], plan.reach, per_row, BLOCK);
    let pitch = Pitch::new(plan, block[0], block[1], g.channels_in);
    let blocks: Vec<(usize, Block)> = pack::blocks(g.batch, [depth, height], block);
    let runs = &plan.groups[0].columns[0].runs;
    let mut offsets: Vec<usize> = (0..g.channels_in)
        .flat_map(|c| runs.iter().map(move |run| c * pitch.channel + pitch.tap(run.phase, run.shift)))
        .collect();
    let count = offsets.len();
    let furthest = offsets.iter().max().copied().unwrap_or(0);
    // The channels of a block of sums, and its offsets, the last of which is repeated until they
    // fill blocks.
    let at_once = kernels.channels(g.channels_out);
    let (taken, Some(run)) = kernels.block(at_once) else { unreachable!("a block for every number of channels") };
    offsets.resize(count.next_multiple_of(taken), offsets[count - 1]);
    let chunks = g.channels_out.div_ceil(at_once);
    let each = offsets.len() * at_once * WIDTH;
    let segments = TASKS.min(blocks.len());
    let (volume_in, volume_out) = (g.input.iter().product::<usize>(), depth * height * width);
    let partial: Vec<Vec<f32>> = (0..segments)
        .into_par_iter()
        .map(|segment| {
            let mut sums = vec![0.0; chunks * each];
            // The gradient of a last, incomplete group of channels is copied and zero-padded.
            let mut spare = Vec::new();
            let from = |s: usize| s * blocks.len() / segments;
            PACKED.with_borrow_mut(|packed| {
                for (image, block) in &blocks[from(segment)..from(segment + 1)] {
                    let image_len = g.channels_in * volume_in;
                    let values = &x[image * image_len..][..image_len];
                    pack::pack(packed, Image::one(values, image_len / g.channels_in), plan, &pitch, block);
                    for chunk in 0..chunks {
                        let first = chunk * at_once;
                        let from = (image * g.channels_out + first) * volume_out;
                        let channels = at_once.min(g.channels_out - first);
                        let mut gradient = &dy[from..from + channels * volume_out];
                        if channels < at_once {
                            spare.clear();
                            spare.extend_from_slice(gradient);
                            spare.resize(at_once * volume_out, 0.0);
                            gradient = &spare;
                        }
                        let sums = &mut sums[chunk * each..][..each];
                        let (planes, rows) = (block.depth.len(), block.height.len());
                        let at_once_rows = POSITIONS.div_ceil(width);
                        let plane_step = at_once_rows.div_ceil(rows).min(planes);
                        let row_step = at_once_rows.min(rows);
                        for d in (0..planes).step_by(plane_step) {
                            for h in (0..rows).step_by(row_step) {
                                let rows = Rows {
                                    planes: plane_step.min(planes - d),
                                    rows: row_step.min(rows - h),
                                    width,
                                    x_plane: pitch.plane,
                                    x_row: pitch.row,
                                    dy_channel: volume_out,
                                    dy_plane: height * width,
                                    dy_row: width,
                                };
                                let start = ((block.depth.start + d) * height + block.height.start + h) * width;
                                let dy = &gradient[start..];
                                let x = &packed[d * pitch.plane + h * pitch.row..];
                                let beyond = (rows.planes - 1) * rows.x_plane + (rows.rows - 1) * rows.x_row + width;
                                assert!(furthest + beyond <= x.len(), "a block would read past the source");
                                let last = ((rows.planes - 1) * height + rows.rows) * width;
                                assert!(
                                    (at_once - 1) * volume_out + last <= dy.len(),
                                    "a block would read past the gradient"
                                );
                                let parts = sums.chunks_exact_mut(taken * at_once * WIDTH);
                                for (offsets, sums) in offsets.chunks_exact(taken).zip(parts) {
                                    // SAFETY: the assertions cover all reads, and `sums` holds a
                                    // register for every channel and offset.
                                    unsafe { run(x.as_ptr(), offsets, &rows, dy.as_ptr(), sums.as_mut_ptr()) };
                                }
                            }
                        }
                    }
                }
            });
            sums
        })
        .collect();
    let mut out = vec![0.0_f32; g.weight_len()];
    let taps = g.taps();
    for (o, gradient) in out.chunks_exact_mut(g.channels_in * taps).enumerate() {
        let (chunk, row) = (o / at_once, o % at_once);
        for k in 0..count {
            let at = chunk * each + ((k / taken * at_once + row) * taken + k % taken) * WIDTH;
            let sum: f32 = partial.iter().map(|part| part[at..at + WIDTH].iter().sum::<f32>()).sum();
            gradient[k / runs.len() * taps + runs[k % runs.len()].taps[0]] = sum;
        }
    }
    out
}

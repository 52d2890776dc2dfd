//! Weight gradients for many output channels.

use std::cell::RefCell;

use rayon::prelude::*;

use super::super::geometry::Geometry;
use super::WIDTH;
use super::channel_tile::{Kernels, Rows};
use super::pack::{self, Block, Image, Pitch};
use super::plan::{Plan, RUN};
use crate::shared::Shared;

/// The maximum number of values of a packed block of the source.
const BLOCK: usize = 128 << 10;

/// The maximum number of sums of a task.
const SUMS: usize = 64 << 10;

/// The minimum number of tasks, where the work can be split.
const TASKS: usize = 16;

/// The approximate number of positions over which sums stay in registers.
const POSITIONS: usize = 128;

/// The number of registers of lanes that share a packed block.
const VECTORS: usize = 4;

/// Runs of one length over the channels of a task.
struct Step {
    taps: usize,
    /// The read offset of each channel and run; the last one is repeated until they fill blocks.
    offsets: Vec<usize>,
    /// The largest offset.
    furthest: usize,
    /// The number of offsets without repetition.
    count: usize,
    runs: std::ops::Range<usize>,
    /// The start of the sums, in registers of lanes.
    sums: usize,
}

/// Lanes `first..` in registers: the part of one block of sums.
#[derive(Clone, Copy)]
struct Chunk {
    first: usize,
    vectors: usize,
}

struct Work<'a> {
    kernels: &'a Kernels,
    plan: &'a Plan,
    g: &'a Geometry,
    x: &'a [f32],
    dy: &'a [f32],
    /// Planes and rows of a block.
    block: [usize; 2],
    blocks: Vec<(usize, Block)>,
    /// The maximum number of channels of the source in a task.
    channels: usize,
}

thread_local! {
    /// A task's packed source and gradient, reused by the next task.
    static SCRATCH: RefCell<[Vec<f32>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// Computes the gradient with respect to the weight, `[O, I, ...kernel]`, from the source `x` and
/// the output gradient `dy`.
pub fn weight_gradient(kernels: &Kernels, x: &[f32], dy: &[f32], g: &Geometry) -> Vec<f32> {
    let plan = &Plan::forward(g, RUN);
    let taps = g.taps();
    let group = VECTORS * WIDTH;
    let groups = g.channels_out.div_ceil(group);
    let lanes = g.channels_out.min(group).next_multiple_of(WIDTH);
    // As many channels as the limit of sums allows, in equal parts.
    let parts = g.channels_in.div_ceil((SUMS / (taps * lanes)).max(1));
    let channels = g.channels_in.div_ceil(parts);
    let parts = g.channels_in.div_ceil(channels);
    let [depth, height, width] = g.output;
    let per_row = channels * (width + plan.reach[2]) * plan.source.iter().map(|a| a.phases.len()).product::<usize>();
    let block = pack::block_size([depth, height], plan.reach, per_row, BLOCK);
    let blocks = pack::blocks(g.batch, [depth, height], block);
    let segments = TASKS.div_ceil(groups * parts).min(blocks.len());
    let work = Work { kernels, plan, g, x, dy, block, blocks, channels };
    let mut partial: Vec<Vec<f32>> = (0..groups * parts * segments)
        .into_par_iter()
        .map(|task| {
            let (segment, place) = (task % segments, task / segments);
            work.task(place / parts, place % parts, segment, segments)
        })
        .collect();
    let mut out: Vec<f32> = Vec::with_capacity(g.weight_len());
    let shared = Shared::new(&mut out.spare_capacity_mut()[..g.weight_len()]);
    partial.par_chunks_mut(segments).enumerate().for_each(|(place, segments)| {
        work.put_together(place / parts, place % parts, segments, shared);
    });
    // SAFETY: every group of output channels and part of the channels has been written.
    unsafe { out.set_len(g.weight_len()) };
    out
}

impl Work<'_> {
    /// The registers of lanes of one group of output channels.
    fn chunks(&self, group: usize) -> Vec<Chunk> {
        let end = self.g.channels_out.min((group + 1) * VECTORS * WIDTH);
        let mut found = Vec::new();
        let mut first = group * VECTORS * WIDTH;
        while first < end {
            let chunk = Chunk { first, vectors: self.kernels.vectors.min((end - first).div_ceil(WIDTH)) };
            first += chunk.vectors * WIDTH;
            found.push(chunk);
        }
        found
    }

    fn part(&self, part: usize) -> std::ops::Range<usize> {
        part * self.channels..((part + 1) * self.channels).min(self.g.channels_in)
    }

    fn pitch(&self, part: usize) -> Pitch {
        Pitch::new(self.plan, self.block[0], self.block[1], self.part(part).len())
    }

    /// The steps of one part of the channels, in order.
    fn steps(&self, part: usize, vectors: usize) -> Vec<Step> {
        let pitch = self.pitch(part);
        let all = &self.plan.groups[0].columns[0].runs;
        let mut sums = 0;
        let mut found = Vec::new();
        for taps in (1..=RUN).rev() {
            let runs =
                all.partition_point(|run| run.taps.len() > taps)..all.partition_point(|run| run.taps.len() >= taps);
            if runs.is_empty() {
                continue;
            }
            let mut offsets: Vec<usize> = (0..self.part(part).len())
                .flat_map(|c| {
                    all[runs.clone()].iter().map(move |run| c * pitch.channel + pitch.tap(run.phase, run.shift))
                })
                .collect();
            let count = offsets.len();
            let last = offsets[count - 1];
            offsets.resize(count.next_multiple_of(self.kernels.table(vectors, 1).block(taps).0), last);
            let registers = offsets.len() * taps;
            let furthest = offsets.iter().max().copied().unwrap_or(0);
            found.push(Step { taps, offsets, furthest, count, runs, sums });
            sums += registers;
        }
        found
    }

    /// The number of sums of one chunk, in its registers.
    fn registers(&self, part: usize, vectors: usize) -> usize {
        self.steps(part, vectors).iter().map(|step| step.offsets.len() * step.taps).sum()
    }

    /// Computes the sums of one group of output channels and one part of the channels over one
    /// segment of the blocks.
    fn task(&self, group: usize, part: usize, segment: usize, segments: usize) -> Vec<f32> {
        let chunks = self.chunks(group);
        let steps: Vec<Vec<Step>> = chunks.iter().map(|chunk| self.steps(part, chunk.vectors)).collect();
        let lengths: Vec<usize> =
            chunks.iter().map(|chunk| self.registers(part, chunk.vectors) * chunk.vectors * WIDTH).collect();
        let mut sums = vec![0.0; lengths.iter().sum()];
        let volume: usize = self.g.input.iter().product();
        let (pitch, channels) = (self.pitch(part), self.part(part));
        let from = |s: usize| s * self.blocks.len() / segments;
        SCRATCH.with_borrow_mut(|[packed, gradient]| {
            for (image, block) in &self.blocks[from(segment)..from(segment + 1)] {
                let start = (image * self.g.channels_in + channels.start) * volume;
                let values = &self.x[start..start + channels.len() * volume];
                pack::pack(packed, Image::one(values, volume), self.plan, &pitch, block);
                let mut rest = sums.as_mut_slice();
                for ((chunk, steps), length) in chunks.iter().zip(&steps).zip(&lengths) {
                    let (sums, after) = rest.split_at_mut(*length);
                    rest = after;
                    self.pack_gradient(gradient, *image, block, *chunk);
                    self.block(block, &pitch, chunk.vectors, steps, packed, gradient, sums);
                }
            }
        });
        sums
    }

    /// Writes the weight gradients of one group and part: adds up the sums of the segments in
    /// order.
    fn put_together(&self, group: usize, part: usize, segments: &mut [Vec<f32>], out: Shared) {
        let Some((sums, others)) = segments.split_first_mut() else { return };
        for other in others {
            for (sum, value) in sums.iter_mut().zip(other) {
                *sum += *value;
            }
        }
        let (channels, taps, all) = (self.part(part), self.g.taps(), self.g.channels_in * self.g.taps());
        let mut rest = sums.as_slice();
        for chunk in self.chunks(group) {
            let lanes = chunk.vectors * WIDTH;
            let rows = lanes.min(self.g.channels_out - chunk.first);
            // SAFETY: no other task uses these channels of the source for these output channels.
            let mut rows: Vec<_> = (0..rows)
                .map(|row| unsafe {
                    out.part((chunk.first + row) * all + channels.start * taps, channels.len() * taps)
                })
                .collect();
            let places = self.places(part, chunk.vectors);
            let (mut columns, mut square) = ([0.0; VECTORS * WIDTH * WIDTH], [0.0; WIDTH * WIDTH]);
            for (block, places) in places.chunks(WIDTH).enumerate() {
                for (column, place) in columns.chunks_exact_mut(lanes).zip(places) {
                    column.copy_from_slice(&rest[place * lanes..][..lanes]);
                }
                for (rows, column) in rows.chunks_mut(WIDTH).zip((0..lanes).step_by(WIDTH)) {
                    // SAFETY: `WIDTH` columns of `lanes` values are contiguous, and the square
                    // holds all values that are read.
                    unsafe { (self.kernels.transpose)(columns[column..].as_ptr(), lanes, square.as_mut_ptr(), WIDTH) };
                    for (row, values) in rows.iter_mut().zip(square.chunks_exact(WIDTH)) {
                        row[block * WIDTH..][..places.len()].write_copy_of_slice(&values[..places.len()]);
                    }
                }
            }
            rest = &rest[self.registers(part, chunk.vectors) * lanes..];
        }
    }

    /// The index of the sums of each channel and kernel position, in registers of lanes.
    fn places(&self, part: usize, vectors: usize) -> Vec<usize> {
        let taps = self.g.taps();
        let mut found = vec![0; self.part(part).len() * taps];
        for step in self.steps(part, vectors) {
            let runs = &self.plan.groups[0].columns[0].runs[step.runs.clone()];
            for k in 0..step.count {
                for (n, tap) in runs[k % runs.len()].taps.iter().enumerate() {
                    found[k / runs.len() * taps + tap] = step.sums + k * step.taps + n;
                }
            }
        }
        found
    }

    /// Packs the output gradient of a block with its channels as lanes: `[x][y][z][vector][lane]`.
    fn pack_gradient(&self, buffer: &mut Vec<f32>, image: usize, block: &Block, chunk: Chunk) {
        let [depth, height, width] = self.g.output;
        let (volume, lanes) = (depth * height * width, chunk.vectors * WIDTH);
        let size = (block.depth.len() * block.height.len() * width + WIDTH) * lanes;
        if buffer.len() < size {
            buffer.resize(size, 0.0);
        }
        let rows = block.depth.clone().flat_map(|d| block.height.clone().map(move |h| d * height + h));
        for (index, row) in rows.enumerate() {
            for vector in 0..chunk.vectors {
                let first = chunk.first + vector * WIDTH;
                let channels = WIDTH.min(self.g.channels_out - first);
                let from = (image * self.g.channels_out + first) * volume + row * width;
                for position in (0..width).step_by(WIDTH) {
                    let to = &mut buffer[(index * width + position) * lanes + vector * WIDTH..];
                    let from = &self.dy[from + position..];
                    if channels == WIDTH && from.len() >= 15 * volume + WIDTH && to.len() >= 15 * lanes + WIDTH {
                        // SAFETY: both squares lie within their buffers. Values written beyond the
                        // row are part of the next row, which is written later, or of the slack.
                        unsafe { (self.kernels.transpose)(from.as_ptr(), volume, to.as_mut_ptr(), lanes) };
                        continue;
                    }
                    for lane in 0..channels {
                        for p in 0..WIDTH.min(width - position) {
                            to[p * lanes + lane] = from[lane * volume + p];
                        }
                    }
                }
            }
        }
    }

    /// Adds one block.
    #[expect(clippy::too_many_arguments, reason = "the buffers are the task's own")]
    fn block(
        &self,
        block: &Block,
        pitch: &Pitch,
        vectors: usize,
        steps: &[Step],
        packed: &[f32],
        gradient: &[f32],
        sums: &mut [f32],
    ) {
        let (width, lanes) = (self.g.output[2], vectors * WIDTH);
        let [planes, height] = [block.depth.len(), block.height.len()];
        // A few rows at a time, to fit the first-level cache; whole planes where they are small.
        let at_once = POSITIONS.div_ceil(width);
        let (plane_step, row_step) = (at_once.div_ceil(height).min(planes), at_once.min(height));
        let corners = (0..planes).step_by(plane_step).flat_map(|d| (0..height).step_by(row_step).map(move |h| (d, h)));
        for (d, h) in corners {
            let rows = Rows {
                planes: plane_step.min(planes - d),
                rows: row_step.min(height - h),
                width,
                x_plane: pitch.plane,
                x_row: pitch.row,
                dy_plane: height * width * lanes,
            };
            let dy = &gradient[(d * height + h) * width * lanes..];
            let x = &packed[d * pitch.plane + h * pitch.row..];
            let last = (rows.planes - 1) * rows.x_plane + (rows.rows - 1) * rows.x_row + width;
            let dy_end = ((rows.planes - 1) * height + rows.rows) * width * lanes;
            assert!(dy_end <= dy.len(), "a block would read past the gradient");
            for step in steps {
                let (count, run) = self.kernels.table(vectors, 1).block(step.taps);
                let Some(run) = run else { unreachable!("a block for every length of a run") };
                assert!(step.furthest + last + step.taps - 1 <= x.len(), "a block would read past the source");
                for (k, offsets) in step.offsets.chunks_exact(count).enumerate() {
                    let sums = &mut sums[(step.sums + k * count * step.taps) * lanes..][..count * step.taps * lanes];
                    // SAFETY: the assertions cover all reads, and `sums` holds a register for every
                    // offset, tap and vector.
                    unsafe { run(x.as_ptr(), offsets, &rows, dy.as_ptr(), sums.as_mut_ptr()) };
                }
            }
        }
    }
}

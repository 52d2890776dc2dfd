//! Outputs computed from a source: the forward sum and the input gradient.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::pack::{self, Block, Pitch};
use super::plan::{Plan, RUN, RowGroup};
use super::turn::{turn, turn_into, write_row};
use super::{Loops, WIDTH};
use crate::moments::Moments;
use crate::shared::Shared;
use crate::simd::{each, widest};

/// The maximum number of values of a packed block; it leaves space for weights in a second-level
/// cache of 1 MiB.
const BLOCK: usize = 160 << 10;

/// The maximum number of weights that a pass over a number of rows reads repeatedly.
const WEIGHTS: usize = 64 << 10;

/// The maximum number of sums that are kept while a pass covers the channels part by part.
const SUMS: usize = 32 << 10;

/// The number of fused multiply-adds of one thread in the time of packing a value.
const PACKING: f64 = 64.0;

/// Weights by lane (output channel), channel of the source, and kernel tap.
#[derive(Clone, Copy)]
pub struct Weight<'a> {
    pub values: &'a [f32],
    /// Distance between lanes and between channels; taps are contiguous.
    pub lane: usize,
    pub channel: usize,
}

/// The source tensor, `[images, channels, ...]`; the last channels may be in a second tensor.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    first: &'a [f32],
    second: &'a [f32],
    /// The number of channels of the first tensor.
    split: usize,
}

impl<'a> Source<'a> {
    /// Makes a source with the first `split` channels in one tensor, and the others in another.
    pub fn two(first: &'a [f32], second: &'a [f32], split: usize) -> Self {
        Source { first, second, split }
    }

    /// All channels, which must be in one tensor.
    pub fn whole(&self) -> &'a [f32] {
        assert!(self.second.is_empty(), "the channels lie in two tensors");
        self.first
    }

    /// One image of `channels` channels of `volume` values.
    pub fn image(&self, index: usize, channels: usize, volume: usize) -> pack::Image<'a> {
        let split = self.split.min(channels);
        let part = |values: &'a [f32], channels: usize| &values[index * channels * volume..][..channels * volume];
        pack::Image { parts: [part(self.first, split), part(self.second, channels - split)], split, volume }
    }
}

impl<'a> From<&'a [f32]> for Source<'a> {
    /// Makes a source with all channels in one tensor.
    fn from(values: &'a [f32]) -> Self {
        Source { first: values, second: &[], split: usize::MAX }
    }
}

/// The operation applied to the sums of each output channel before they are written:
/// `act(scale sum + offset)`, where the activation multiplies non-positive values by a slope.
#[derive(Clone, Copy)]
pub struct Epilogue<'a> {
    pub scale: &'a [f32],
    pub offset: &'a [f32],
    /// One slope for all channels, or one for each.
    pub slope: &'a [f32],
}

impl Epilogue<'_> {
    /// Applies it to rows of `width` values of the channels from `first` on.
    #[inline(always)]
    pub fn apply(&self, first: usize, rows: &mut [f32], width: usize) {
        let one = self.slope.len() == 1;
        let of_channels = self.scale[first..].iter().zip(&self.offset[first..]).enumerate();
        for ((index, (scale, offset)), row) in of_channels.zip(rows.chunks_exact_mut(width)) {
            let slope = self.slope[if one { 0 } else { first + index }];
            for value in row {
                let z = *value * scale + offset;
                *value = z * if z > 0.0 { 1.0 } else { slope };
            }
        }
    }

    /// Applies it to contiguous sums, each with all channels of a chunk.
    #[inline(always)]
    pub fn apply_to_sums(&self, Chunk { first, lanes }: Chunk, sums: &mut [f32]) {
        let of_lanes = |values: &[f32], vector: usize| -> [f32; WIDTH] {
            each(|lane| if values.len() == 1 { values[0] } else { values[first + vector + lane] })
        };
        for vector in (0..lanes).step_by(WIDTH) {
            let (scale, offset) = (of_lanes(self.scale, vector), of_lanes(self.offset, vector));
            let slope = of_lanes(self.slope, vector);
            for sums in sums.chunks_exact_mut(lanes) {
                for (lane, value) in sums[vector..][..WIDTH].iter_mut().enumerate() {
                    let z = *value * scale[lane] + offset[lane];
                    *value = z * if z > 0.0 { 1.0 } else { slope[lane] };
                }
            }
        }
    }
}

/// Runs of one length over a number of channels: the work of one call of a tile.
struct Step {
    taps: usize,
    /// The read offset of each channel and run.
    offsets: Vec<usize>,
    /// The largest offset.
    furthest: usize,
    /// The start of the weights, in numbers of lanes.
    weights: usize,
    /// The part of the channels, and the runs, for packing the weights.
    channels: std::ops::Range<usize>,
    runs: std::ops::Range<usize>,
}

/// The meaning of the lanes of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Output channels, where there are many.
    Channels,
    /// Neighbours of a row; the channels are few.
    Positions,
}

/// A group of output channels: the first one, and the number of sums of each output, some of which
/// may be padding.
#[derive(Clone, Copy)]
pub struct Chunk {
    pub first: usize,
    pub lanes: usize,
}

/// The data that all tasks share.
struct Work<'a> {
    loops: Loops<'a>,
    along: Along,
    plan: &'a Plan,
    pitch: Pitch,
    /// Indexed by part of the channels, group and column.
    steps: Vec<Vec<Vec<Vec<Step>>>>,
    chunks: Vec<Chunk>,
    /// Indexed by chunk.
    weights: Vec<Vec<f32>>,
    behind: Behind<'a>,
    out: Shared,
}

thread_local! {
    /// A task's packed values, sums and rows, reused by the next task.
    static SCRATCH: RefCell<[Vec<f32>; 3]> = const { RefCell::new([Vec::new(), Vec::new(), Vec::new()]) };
}

/// The epilogue of each output channel: a bias, a norm with an activation, and a tensor added to
/// the output.
#[derive(Clone, Copy, Default)]
pub struct Behind<'a> {
    pub bias: Option<&'a [f32]>,
    pub epilogue: Option<Epilogue<'a>>,
    /// The tensor that is added, of the output's size.
    pub plus: Option<&'a [f32]>,
    /// Receives the moments of each channel of each image, for a norm with the outputs' own
    /// statistics; only with nothing but a bias, and left empty where the loops do not compute
    /// them.
    pub moments: Option<&'a OnceLock<Vec<Moments>>>,
}

/// Computes the sums of `plan` over `source` (`[images, channels, ...]`) with their epilogue:
/// `[images, lanes, ...]`.
pub fn outputs(
    loops: Loops<'_>,
    along: Along,
    plan: &Plan,
    images: usize,
    source: Source<'_>,
    weight: Weight<'_>,
    behind: Behind<'_>,
) -> Vec<f32> {
    let volume: usize = plan.output.iter().product();
    let count = images * plan.lanes * volume;
    assert!(behind.plus.is_none_or(|plus| plus.len() == count), "what is added is as large as the output");
    let mut out: Vec<f32> = Vec::with_capacity(count);
    let [depth, height, width] = plan.largest();
    let per_row =
        plan.channels * (width + plan.reach[2]) * plan.source.iter().map(|a| a.phases.len()).product::<usize>();
    let [block_depth, block_height] = pack::block_size([depth, height], plan.reach, per_row, BLOCK);
    let pitch = Pitch::new(plan, block_depth, block_height, plan.channels);
    let chunks = chunks(plan.lanes, &loops, along);
    let widest = chunks.iter().map(|chunk| chunk.lanes).max().unwrap_or(1);
    let steps = steps(plan, &pitch, WEIGHTS / (plan.most_taps() * widest).max(1));
    let places = weight_places(plan, &steps, weight);
    let weights = chunks.par_iter().map(|chunk| pack_weights(plan, &places, *chunk, weight, loops)).collect();
    let shared = Shared::new(&mut out.spare_capacity_mut()[..count]);
    let work = Work { loops, along, plan, pitch, steps, chunks, weights, behind, out: shared };

    let blocks = pack::blocks(images, [depth, height], [block_depth, block_height]);
    let products = (plan.most_taps() * plan.lanes) as f64;
    let per_part = chunks_per_task(blocks.len(), work.chunks.len(), products);
    let parts = work.chunks.len().div_ceil(per_part);
    let read: usize = plan.source.iter().map(|axis| axis.length).product();
    (0..blocks.len() * parts).into_par_iter().for_each(|task| {
        let (part, place) = (task % parts, task / parts);
        let (index, block) = &blocks[place];
        SCRATCH.with_borrow_mut(|[packed, sums, rows]| {
            pack::pack(packed, source.image(*index, plan.channels, read), plan, &work.pitch, block);
            for chunk in (part * per_part..(part + 1) * per_part).take_while(|chunk| *chunk < work.chunks.len()) {
                for (group, grid) in plan.groups.iter().enumerate() {
                    work.grid(*index, block, chunk, (group, grid), packed, sums, rows);
                }
            }
        });
    });
    // SAFETY: the grids cover every output of every image and channel once, and the tasks have
    // written all of them.
    unsafe { out.set_len(count) };
    out
}

/// The number of chunks of a block per task. Each task packs the block again, so fewer tasks cost
/// less in total; but few tasks leave threads idle. `products` is the number of products per packed
/// value.
fn chunks_per_task(blocks: usize, chunks: usize, products: f64) -> usize {
    let threads = rayon::current_num_threads();
    let price = |per_task: usize| {
        let tasks = blocks * chunks.div_ceil(per_task);
        tasks.div_ceil(threads) as f64 * (PACKING + products * per_task as f64 / chunks as f64)
    };
    (1..=chunks).min_by(|a, b| price(*a).total_cmp(&price(*b))).unwrap_or(1)
}

/// The groups of output channels whose sums are in the lanes of registers.
pub fn chunks_of_channels(channels: usize, loops: &Loops<'_>) -> Vec<Chunk> {
    chunks(channels, loops, Along::Channels)
}

fn chunks(channels: usize, loops: &Loops<'_>, along: Along) -> Vec<Chunk> {
    let mut found = Vec::new();
    let mut first = 0;
    while first < channels {
        let left = channels - first;
        let lanes = match along {
            Along::Channels => loops.channels.vectors.min(left.div_ceil(WIDTH)) * WIDTH,
            Along::Positions => loops.positions.channels(left),
        };
        found.push(Chunk { first, lanes });
        first += lanes;
    }
    found
}

/// The steps of every part of the channels, group and column.
fn steps(plan: &Plan, pitch: &Pitch, channels: usize) -> Vec<Vec<Vec<Vec<Step>>>> {
    let mut weights = 0;
    let channels = channels.max(1);
    (0..plan.channels)
        .step_by(channels)
        .map(|first| {
            let part = first..(first + channels).min(plan.channels);
            let column = |runs: &[super::plan::Run], weights: &mut usize| {
                let mut found = Vec::new();
                for taps in (1..=RUN).rev() {
                    let (start, end) = (
                        runs.partition_point(|run| run.taps.len() > taps),
                        runs.partition_point(|run| run.taps.len() >= taps),
                    );
                    if start == end {
                        continue;
                    }
                    let at = |c: usize| {
                        runs[start..end].iter().map(move |run| c * pitch.channel + pitch.tap(run.phase, run.shift))
                    };
                    let offsets: Vec<usize> = part.clone().flat_map(at).collect();
                    let furthest = offsets.iter().max().copied().unwrap_or(0);
                    let step =
                        Step { taps, weights: *weights, channels: part.clone(), runs: start..end, offsets, furthest };
                    *weights += step.offsets.len() * taps;
                    found.push(step);
                }
                found
            };
            plan.groups
                .iter()
                .map(|group| group.columns.iter().map(|c| column(&c.runs, &mut weights)).collect())
                .collect()
        })
        .collect()
}

/// The source index of each weight of a lane, and its index in the order in which the steps read
/// them; sorted by the first, so that adjacent weights are read together.
fn weight_places(plan: &Plan, steps: &[Vec<Vec<Vec<Step>>>], weight: Weight<'_>) -> Vec<(usize, usize)> {
    let mut places: Vec<(usize, usize)> = Vec::new();
    for part in steps {
        for (group, columns) in plan.groups.iter().zip(part) {
            for (column, steps) in group.columns.iter().zip(columns) {
                for step in steps {
                    let taps = || column.runs[step.runs.clone()].iter().flat_map(|run| &run.taps);
                    let from = step.channels.clone().flat_map(|c| taps().map(move |tap| c * weight.channel + tap));
                    places.extend(from.zip(step.weights..));
                }
            }
        }
    }
    places.sort_unstable();
    places
}

/// Packs the weights of one chunk at their indices, without gaps.
fn pack_weights(
    plan: &Plan,
    places: &[(usize, usize)],
    chunk: Chunk,
    weight: Weight<'_>,
    loops: Loops<'_>,
) -> Vec<f32> {
    let lanes = chunk.lanes;
    let count = places.len() * lanes;
    let mut packed = Vec::with_capacity(count);
    let room = &mut packed.spare_capacity_mut()[..count];
    let present = lanes.min(plan.lanes - chunk.first);
    if present < lanes {
        for place in room.chunks_exact_mut(lanes) {
            place[present..].fill(MaybeUninit::new(0.0));
        }
    }
    let values = &weight.values[chunk.first * weight.lane..];
    let mut square = [0.0; WIDTH * WIDTH];
    let mut rest = places;
    while let Some((start, _)) = rest.first().copied() {
        let (near, after) = rest.split_at(rest.partition_point(|(from, _)| *from < start + WIDTH));
        rest = after;
        for lane in (0..present).step_by(WIDTH) {
            let from = &values[lane * weight.lane + start..];
            let count = WIDTH.min(present - lane);
            if near.len() >= WIDTH / 2 && count == WIDTH && from.len() >= 15 * weight.lane + WIDTH {
                // SAFETY: sixteen runs of sixteen weights lie within the source, and the square
                // holds them.
                unsafe { (loops.channels.transpose)(from.as_ptr(), weight.lane, square.as_mut_ptr(), WIDTH) };
                for (from, to) in near {
                    let row = &square[(from - start) * WIDTH..][..WIDTH];
                    room[to * lanes + lane..][..WIDTH].write_copy_of_slice(row);
                }
                continue;
            }
            for (at, to) in near {
                let column = from[at - start..].iter().step_by(weight.lane);
                for (to, value) in room[to * lanes + lane..][..count].iter_mut().zip(column) {
                    to.write(*value);
                }
            }
        }
    }
    // SAFETY: each index of `0..places.len()` occurs once, as `steps` numbers them; for each index,
    // the loop has written the lanes that exist, and the code before it the others.
    unsafe { packed.set_len(count) };
    packed
}

impl Work<'_> {
    /// Computes all rows of one grid within a block, for one chunk of output channels.
    #[expect(clippy::too_many_arguments, reason = "the buffers are the task's own")]
    fn grid(
        &self,
        image: usize,
        block: &Block,
        chunk: usize,
        (index, group): (usize, &RowGroup),
        packed: &[f32],
        sums: &mut Vec<f32>,
        rows: &mut Vec<f32>,
    ) {
        let depth = block.depth.start..block.depth.end.min(group.count[0]);
        let height = block.height.start..block.height.end.min(group.count[1]);
        let (Chunk { first, lanes }, columns) = (self.chunks[chunk], group.columns.len());
        let widest = group.columns.iter().map(|column| column.count).max().unwrap_or(0);
        if depth.is_empty() || height.is_empty() || widest == 0 {
            return;
        }
        // A row of sums consists of whole squares of sixteen outputs, as the transposition reads
        // them.
        let padded = widest.next_multiple_of(WIDTH);
        let per_column = padded * lanes;
        let all = depth.len() * height.len();
        // Where all channels form one part, one row at a time stays in the first-level cache.
        let pass = if self.steps.len() == 1 { 1 } else { (SUMS / (per_column * columns)).clamp(1, all) };
        // Passes of nearly the same length, since each reads all weights.
        let pass = all.div_ceil(all.div_ceil(pass));
        sums.resize(sums.len().max(pass * columns * per_column), 0.0);
        rows.resize(rows.len().max(columns * per_column), 0.0);
        let mut bias = [0.0; 2 * WIDTH];
        if let Some(values) = self.behind.bias {
            let count = lanes.min(values.len() - first);
            bias[..count].copy_from_slice(&values[first..first + count]);
        }
        let bias = &bias[..lanes];
        let place = |row: usize| (depth.start + row / height.len(), height.start + row % height.len());
        for from in (0..all).step_by(pass) {
            let pass = from..(from + pass).min(all);
            let all = &mut sums[..pass.len() * columns * per_column];
            match self.along {
                Along::Channels => {
                    // Whole registers: a copy of variable length would be a function call each
                    // time.
                    let registers = bias.as_chunks::<WIDTH>().0.iter().cycle();
                    all.as_chunks_mut::<WIDTH>().0.iter_mut().zip(registers).for_each(|(sum, bias)| *sum = *bias);
                }
                Along::Positions => all.chunks_exact_mut(padded).zip(bias.iter().cycle()).for_each(|(s, b)| s.fill(*b)),
            }
            for part in &self.steps {
                for (column, steps) in part[index].iter().enumerate() {
                    for step in steps {
                        for row in pass.clone() {
                            let (d, h) = place(row);
                            let base =
                                (d - block.depth.start) * self.pitch.plane + (h - block.height.start) * self.pitch.row;
                            let at = ((row - pass.start) * columns + column) * per_column;
                            let count = group.columns[column].count;
                            self.row(step, chunk, &packed[base..], count, &mut sums[at..][..per_column]);
                        }
                    }
                }
            }
            for row in pass.clone() {
                let at = (row - pass.start) * columns * per_column;
                let (d, h) = place(row);
                let place = [group.start[0] + d * self.plan.step[0], group.start[1] + h * self.plan.step[1]];
                self.write(image, self.chunks[chunk], group, place, &mut sums[at..][..columns * per_column], rows);
            }
        }
    }

    /// Runs one step for one row of outputs.
    fn row(&self, step: &Step, chunk: usize, packed: &[f32], count: usize, sums: &mut [f32]) {
        let lanes = self.chunks[chunk].lanes;
        let weights = &self.weights[chunk][step.weights * lanes..][..step.offsets.len() * step.taps * lanes];
        if self.along == Along::Positions {
            return self.row_of_positions(step, lanes, packed, count, weights, sums);
        }
        assert!(step.furthest + count + step.taps - 1 <= packed.len(), "a row would read past its block");
        // Tiles of nearly the same length.
        let vectors = lanes / WIDTH;
        let table = self.loops.channels.table(vectors, 1);
        let tiles = count.div_ceil(table.most);
        let mut at = 0;
        for tile in 0..tiles {
            let length = (count - at).div_ceil(tiles - tile);
            let Some(run) = table.tile(step.taps, length) else { unreachable!("a tile of any length") };
            // SAFETY: the assertion above covers all reads; `sums` holds a row of whole squares,
            // and there is a weight for each of the step's offsets and taps.
            unsafe {
                let sums = sums[at * lanes..][..length * lanes].as_mut_ptr();
                run(packed.as_ptr().add(at), &step.offsets, weights.as_ptr(), sums, true);
            }
            at += length;
        }
    }

    /// Same as [`row`](Self::row) with neighbours in the lanes: `sums` has a row for each channel.
    fn row_of_positions(
        &self,
        step: &Step,
        lanes: usize,
        packed: &[f32],
        count: usize,
        weights: &[f32],
        sums: &mut [f32],
    ) {
        let (registers, padded) = (count.div_ceil(WIDTH), sums.len() / lanes);
        // Values after the row are read, but their sums are not written.
        assert!(step.taps == 1 && step.furthest + registers * WIDTH <= packed.len(), "a row would read past its block");
        assert!(registers * WIDTH <= padded, "sums for whole registers");
        let tiles = registers.div_ceil(self.loops.positions.most(lanes));
        let mut at = 0;
        for tile in 0..tiles {
            let length = (registers - at).div_ceil(tiles - tile);
            let Some(run) = self.loops.positions.tile(lanes, length) else { unreachable!("a tile of any length") };
            // SAFETY: the assertions cover all reads and sums; there is one weight for each offset
            // and lane.
            unsafe {
                let (source, sums) = (packed.as_ptr().add(at * WIDTH), sums.as_mut_ptr().add(at * WIDTH));
                run(source, &step.offsets, weights.as_ptr(), sums, padded);
            }
            at += length;
        }
    }

    /// Writes one row of all columns to the output, channel by channel.
    fn write(
        &self,
        image: usize,
        Chunk { first, lanes }: Chunk,
        group: &RowGroup,
        [x, y]: [usize; 2],
        sums: &mut [f32],
        rows: &mut [f32],
    ) {
        let per_column = sums.len() / group.columns.len();
        let padded = per_column / lanes;
        let [depth, height, width] = self.plan.output;
        let whole = self.along == Along::Channels && first + lanes <= self.plan.lanes && self.behind.plus.is_none();
        if whole
            && self.plan.step[2] == 1
            && group.columns.len() == 1
            && group.columns[0].count == width
            && width >= WIDTH
        {
            if let Some(epilogue) = self.behind.epilogue {
                widest(
                    #[inline(always)]
                    || epilogue.apply_to_sums(Chunk { first, lanes }, sums),
                );
            }
            let (row, channel) = ((x * height + y) * width, image * self.plan.lanes + first);
            let volume = depth * height * width;
            turn_into(self.loops, sums, self.out, channel * volume + row, volume, [lanes, width]);
            return;
        }
        let rows = if self.along == Along::Positions {
            sums
        } else {
            for (sums, rows) in sums.chunks_exact(per_column).zip(rows.chunks_exact_mut(per_column)) {
                turn(self.loops, sums, rows, lanes, padded);
            }
            &mut rows[..group.columns.len() * per_column]
        };
        if let Some(epilogue) = self.behind.epilogue {
            widest(
                #[inline(always)]
                || {
                    for rows in rows.chunks_exact_mut(per_column) {
                        epilogue.apply(first, rows, padded);
                    }
                },
            );
        }
        let rows = &*rows;
        for lane in 0..lanes.min(self.plan.lanes - first) {
            let channel = image * self.plan.lanes + first + lane;
            let start = ((channel * depth + x) * height + y) * width;
            // SAFETY: this row of this channel belongs to this task.
            let target = unsafe { self.out.part(start, width) };
            let row = |column: usize| &rows[column * per_column + lane * padded..][..group.columns[column].count];
            write_row(self.loops, target, group, self.plan.step[2], row);
            if let Some(plus) = self.behind.plus {
                // SAFETY: the columns of a row cover it.
                let written = unsafe { target.assume_init_mut() };
                written.iter_mut().zip(&plus[start..]).for_each(|(to, value)| *to += value);
            }
        }
    }
}

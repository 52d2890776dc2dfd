//! A padded, phase-split copy of a part of the source, small enough for the second-level cache.
//!
//! The layout is `[phase x][x][phase y][y][channel][phase z][z]`, which keeps the values for an
//! output row close together.

use std::ops::Range;

use super::plan::Plan;
use crate::simd::{prefetch, widest};

/// The number of values past the end that a kernel may access.
const SLACK: usize = 64;

/// A box of grid positions along the first two axes.
#[derive(Clone, Debug)]
pub struct Block {
    pub depth: Range<usize>,
    pub height: Range<usize>,
}

/// The numbers of planes and rows of a block of at most `budget` values, chosen so that outputs
/// share most of their inputs.
///
/// `count` is the number of outputs, `reach` the additional number of inputs, `row` the number of
/// values of one row of all channels.
pub fn block_size(count: [usize; 2], reach: [usize; 3], row: usize, budget: usize) -> [usize; 2] {
    let rows = budget / row.max(1);
    let mut best = ([1, count[1].clamp(1, 8)], f64::INFINITY);
    for parts in 1..=count[1].div_ceil(4).max(1) {
        let height = count[1].div_ceil(parts);
        let Some(depth) = (rows / (height + reach[1])).checked_sub(reach[0]).filter(|depth| *depth > 0) else {
            continue;
        };
        // Blocks of nearly the same depth.
        let depth = count[0].div_ceil(count[0].div_ceil(depth.min(count[0])));
        let price = ((depth + reach[0]) * (height + reach[1])) as f64 / (depth * height) as f64;
        if price < best.1 {
            best = ([depth, height], price);
        }
    }
    best.0
}

/// The blocks of all images, by image.
pub fn blocks(images: usize, count: [usize; 2], size: [usize; 2]) -> Vec<(usize, Block)> {
    let along = |axis: usize| {
        (0..count[axis]).step_by(size[axis]).map(move |first| first..(first + size[axis]).min(count[axis]))
    };
    (0..images)
        .flat_map(|image| along(0).map(move |depth| (image, depth)))
        .flat_map(|(image, depth)| along(1).map(move |height| (image, Block { depth: depth.clone(), height })))
        .collect()
}

/// Strides within a packed block.
#[derive(Clone, Copy, Debug)]
pub struct Pitch {
    /// Distance between rows of `z` and those of the next phase, channel, `y`, phase of `y`, `x`,
    /// phase of `x`.
    z_phase: usize,
    pub channel: usize,
    pub row: usize,
    row_phase: usize,
    pub plane: usize,
    plane_phase: usize,
    total: usize,
}

impl Pitch {
    /// The strides of blocks with this many planes, rows and channels.
    pub fn new(plan: &Plan, depth: usize, height: usize, channels: usize) -> Self {
        let width = plan.largest()[2] + plan.reach[2];
        let phases = |a: usize| plan.source[a].phases.len();
        let z_phase = width;
        let channel = z_phase * phases(2);
        let row = channel * channels;
        let row_phase = row * (height + plan.reach[1]);
        let plane = row_phase * phases(1);
        let plane_phase = plane * (depth + plan.reach[0]);
        Pitch { z_phase, channel, row, row_phase, plane, plane_phase, total: plane_phase * phases(0) }
    }

    /// The index that a tap of channel 0 reads for the first output of the block.
    pub fn tap(&self, phase: [usize; 3], shift: [usize; 3]) -> usize {
        phase[0] * self.plane_phase
            + shift[0] * self.plane
            + phase[1] * self.row_phase
            + shift[1] * self.row
            + phase[2] * self.z_phase
            + shift[2]
    }
}

/// One phase of the rows: the positions within the tensor, and the index of the first.
struct RowPhase {
    valid: Range<usize>,
    first: usize,
}

/// The channels of one image, whole volumes, in one tensor or in two.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    pub parts: [&'a [f32]; 2],
    /// The number of channels in the first tensor.
    pub split: usize,
    /// The number of values of a channel.
    pub volume: usize,
}

impl<'a> Image<'a> {
    /// All channels in one tensor.
    pub fn one(values: &'a [f32], volume: usize) -> Self {
        Image { parts: [values, &[]], split: usize::MAX, volume }
    }

    /// The tensor of a channel, and the index of its first value.
    #[inline(always)]
    pub fn channel(&self, c: usize) -> (&'a [f32], usize) {
        if c < self.split { (self.parts[0], c * self.volume) } else { (self.parts[1], (c - self.split) * self.volume) }
    }
}

/// Packs the channels of `image` that the grid positions of `block` read.
pub fn pack(buffer: &mut Vec<f32>, image: Image<'_>, plan: &Plan, pitch: &Pitch, block: &Block) {
    let size = pitch.total + SLACK;
    if buffer.len() < size {
        buffer.resize(size, 0.0);
    }
    let z = &plan.source[2];
    let phases: Vec<RowPhase> = (0..z.phases.len())
        .map(|phase| {
            let valid = z.valid(phase, pitch.z_phase);
            let first = if valid.is_empty() { 0 } else { z.index(phase, valid.start) };
            RowPhase { valid, first }
        })
        .collect();
    widest(
        #[inline(always)]
        || pack_rows(buffer, image, plan, pitch, block, &phases),
    );
}

#[inline(always)]
fn pack_rows(buffer: &mut [f32], image: Image<'_>, plan: &Plan, pitch: &Pitch, block: &Block, phases: &[RowPhase]) {
    let [x, y, z] = &plan.source;
    let width = pitch.z_phase;
    let depth = block.depth.start..block.depth.end + plan.reach[0];
    let height = block.height.start..block.height.end + plan.reach[1];
    // For each row of a plane: its target, and its index in the source where it has one.
    let mut rows = Vec::with_capacity(height.len() * y.phases.len());
    for (at_y, jy) in height.clone().enumerate() {
        for py in 0..y.phases.len() {
            let from = y.valid(py, height.end).contains(&jy).then(|| y.index(py, jy));
            rows.push((py * pitch.row_phase + at_y * pitch.row, from));
        }
    }
    let halves = match phases {
        [one, other] if z.stride == 2 => Halves::of(one, other),
        _ => None,
    };
    // In the memory order of the source, for the hardware prefetcher.
    for (at_x, jx) in depth.clone().enumerate() {
        for px in 0..x.phases.len() {
            let inside_x = x.valid(px, depth.end).contains(&jx);
            let plane = px * pitch.plane_phase + at_x * pitch.plane;
            for c in 0..pitch.row / pitch.channel {
                let ((values, first), (next, next_first)) = (image.channel(c), image.channel(c + 1));
                for (row, from) in &rows {
                    let row = plane + row + c * pitch.channel;
                    let target = &mut buffer[row..row + pitch.channel];
                    let Some(from) = from.filter(|_| inside_x) else {
                        clear(target);
                        continue;
                    };
                    let from = (x.index(px, jx) * y.length + from) * z.length;
                    let source = &values[first + from..][..z.length];
                    // The next channel's row is too far away for the hardware prefetcher.
                    prefetch(next, next_first + from, z.length);
                    if let Some(halves) = &halves {
                        halves.pack(target, source, width);
                        continue;
                    }
                    for (target, phase) in target.chunks_exact_mut(width).zip(phases) {
                        pack_row(target, source, z.stride, phase);
                    }
                }
            }
        }
    }
}

/// Two phases of rows: one takes the first of each two values, and the other the second.
struct Halves {
    /// Which of the two phases takes the first values.
    even: usize,
    /// The valid positions of each phase, the even phase first.
    valid: [Range<usize>; 2],
}

impl Halves {
    /// `None` where the values are arranged differently.
    fn of(one: &RowPhase, other: &RowPhase) -> Option<Self> {
        let (even, [first, second]) = match (one.first, other.first) {
            (0, 1) => (0, [one, other]),
            (1, 0) => (1, [other, one]),
            _ => return None,
        };
        Some(Halves { even, valid: [first.valid.clone(), second.valid.clone()] })
    }

    /// Same as [`pack_row`], for both phases at once.
    #[inline(always)]
    fn pack(&self, target: &mut [f32], source: &[f32], width: usize) {
        let (one, other) = target.split_at_mut(width);
        let mut targets = if self.even == 0 { [one, other] } else { [other, one] };
        for (target, valid) in targets.iter_mut().zip(&self.valid) {
            clear(&mut target[..valid.start]);
            clear(&mut target[valid.end..]);
        }
        let [even, odd] = targets;
        let (even, odd) = (&mut even[self.valid[0].clone()], &mut odd[self.valid[1].clone()]);
        let pairs = even.len().min(odd.len()).min(source.len() / 2);
        let ((even, even_rest), (odd, odd_rest)) = (even.split_at_mut(pairs), odd.split_at_mut(pairs));
        let (both, after) = source.split_at(2 * pairs);
        in_halves(both, even, odd);
        // The last value may have no partner.
        for (to, value) in even_rest.iter_mut().zip(after.iter().step_by(2)) {
            *to = *value;
        }
        for (to, value) in odd_rest.iter_mut().zip(after.iter().skip(1).step_by(2)) {
            *to = *value;
        }
    }
}

/// Splits pairs into their first and their second values.
#[inline(always)]
pub fn in_halves(both: &[f32], even: &mut [f32], odd: &mut [f32]) {
    // Sixteen pairs fill two of the widest registers, eight two of half their size.
    let (sixteens, rest) = both.as_chunks::<32>();
    let ((evens, even), (odds, odd)) = (even.as_chunks_mut::<16>(), odd.as_chunks_mut::<16>());
    for ((both, even), odd) in sixteens.iter().zip(evens).zip(odds) {
        for i in 0..16 {
            even[i] = both[2 * i];
            odd[i] = both[2 * i + 1];
        }
    }
    let (eights, rest) = rest.as_chunks::<16>();
    let ((evens, even), (odds, odd)) = (even.as_chunks_mut::<8>(), odd.as_chunks_mut::<8>());
    for ((both, even), odd) in eights.iter().zip(evens).zip(odds) {
        for i in 0..8 {
            even[i] = both[2 * i];
            odd[i] = both[2 * i + 1];
        }
    }
    for ((pair, even), odd) in rest.as_chunks::<2>().0.iter().zip(even).zip(odd) {
        (*even, *odd) = (pair[0], pair[1]);
    }
}

/// Copies a short row; a call of `memcpy` would take longer than the copy itself.
#[inline(always)]
fn copy(target: &mut [f32], source: &[f32]) {
    let (whole, rest) = target.as_chunks_mut::<16>();
    let (from, from_rest) = source[..whole.len() * 16 + rest.len()].as_chunks::<16>();
    whole.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    rest.iter_mut().zip(from_rest).for_each(|(to, from)| *to = *from);
}

/// Writes zeros. Margins are mostly one value, for which a call of `memset` would take longer than
/// the rest of a short row.
#[inline(always)]
fn clear(target: &mut [f32]) {
    match target {
        [] => {}
        [one] => *one = 0.0,
        [one, other] => (*one, *other) = (0.0, 0.0),
        more => more.fill(0.0),
    }
}

/// Packs one row: every `stride`-th value, with zeros at both margins.
#[inline(always)]
fn pack_row(target: &mut [f32], source: &[f32], stride: usize, RowPhase { valid, first }: &RowPhase) {
    clear(&mut target[..valid.start]);
    clear(&mut target[valid.end..]);
    let source = &source[*first..];
    let target = &mut target[valid.clone()];
    match stride {
        1 => copy(target, source),
        2 => {
            // Whole pairs; the last value may have no partner.
            let pairs = (source.len() / 2).min(target.len());
            let (whole, rest) = target.split_at_mut(pairs);
            let (pairs, left) = source.as_chunks::<2>();
            for (value, pair) in whole.iter_mut().zip(pairs) {
                *value = pair[0];
            }
            if let (Some(last), Some(value)) = (rest.first_mut(), left.first()) {
                *last = *value;
            }
        }
        stride => {
            for (to, value) in target.iter_mut().zip(source.iter().step_by(stride)) {
                *to = *value;
            }
        }
    }
}

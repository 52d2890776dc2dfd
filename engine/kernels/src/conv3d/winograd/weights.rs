//! Weight gradients by minimal filtering.

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use super::super::blocked::channel_tile::Rows;
use super::super::blocked::{Chunk, Loops, WIDTH, chunks_of_channels, pack};
use super::super::geometry::Geometry;
use super::taps::{self, TAPS, Taps};
use super::tiles::{Bundle, Run, Walk, apart, clear};
use super::transform::Transforms;
use crate::shared::Shared;

/// The maximum number of values of packed tiles of the source and of the gradient.
const BLOCK: usize = 160 << 10;

/// The maximum number of sums of a task: they are read and written once for every block.
const SUMS: usize = 256 << 10;

/// The minimum number of tasks, where the work can be split.
const TASKS: usize = 16;

/// The number of registers of lanes that share a packed block.
const VECTORS: usize = 4;

struct Work<'a> {
    loops: Loops<'a>,
    transforms: &'a Transforms,
    walk: Walk,
    x: &'a [f32],
    dy: &'a [f32],
    /// The maximum number of channels of the source in a task.
    channels: usize,
    /// The number of bundles of a block.
    block: usize,
}

/// Buffers of the output gradient.
#[derive(Default)]
struct Gradient {
    packed: Vec<f32>,
    /// The rows of a bundle with channels as lanes.
    rows: Vec<f32>,
    /// A row of a bundle before that, lane by lane.
    lines: Vec<f32>,
}

thread_local! {
    /// A task's packed source, and buffers of the gradient, reused by the next task.
    static SCRATCH: RefCell<(Vec<f32>, Gradient)> = RefCell::default();
}

/// Computes the gradient with respect to the weight, `[O, I, ...kernel]`, from the source `x` and
/// the output gradient `dy`. `None` where the plain sum is faster, or a value is not finite.
pub fn weight_gradient(loops: Loops<'_>, x: &[f32], dy: &[f32], g: &Geometry) -> Option<Vec<f32>> {
    let walk = Walk::forward(g)?;
    let group = VECTORS * WIDTH;
    let groups = walk.lanes.div_ceil(group);
    let lanes = walk.lanes.min(group).next_multiple_of(WIDTH);
    // As many channels as the limit of sums allows, in equal parts.
    let components = walk.kind.components();
    let parts = walk.channels.div_ceil((SUMS / (components * walk.taps * lanes)).max(1));
    let channels = walk.channels.div_ceil(parts);
    let parts = walk.channels.div_ceil(channels);
    let each = components * (walk.component(channels) + walk.sums(lanes.min(loops.channels.vectors * WIDTH)));
    let block = (BLOCK / each).max(1);
    let segments = TASKS.div_ceil(groups * parts).min(walk.bundles().div_ceil(block));
    let work = Work { loops, transforms: loops.transforms.of(walk.kind), walk, x, dy, channels, block };
    let mut partial: Vec<Vec<f32>> = (0..groups * parts * segments)
        .into_par_iter()
        .map(|task| {
            let (segment, place) = (task % segments, task / segments);
            let from = |s: usize| s * walk.bundles() / segments;
            work.task(place / parts, place % parts, from(segment)..from(segment + 1))
        })
        .collect::<Option<_>>()?;
    let mut out: Vec<f32> = Vec::with_capacity(g.weight_len());
    let shared = Shared::new(&mut out.spare_capacity_mut()[..g.weight_len()]);
    partial.par_chunks_mut(segments).enumerate().for_each(|(place, segments)| {
        work.put_together(place / parts, place % parts, segments, shared);
    });
    // SAFETY: every group of output channels and part of the channels has been written.
    unsafe { out.set_len(g.weight_len()) };
    Some(out)
}

impl Work<'_> {
    /// The registers of lanes of one group of output channels.
    fn chunks(&self, group: usize) -> Vec<Chunk> {
        let first = group * VECTORS * WIDTH;
        let lanes = (self.walk.lanes - first).min(VECTORS * WIDTH);
        let of_group = |chunk: Chunk| Chunk { first: first + chunk.first, ..chunk };
        chunks_of_channels(lanes, &self.loops).into_iter().map(of_group).collect()
    }

    fn part(&self, part: usize) -> Range<usize> {
        part * self.channels..((part + 1) * self.channels).min(self.walk.channels)
    }

    /// The start of each channel of a part within a component; the last one is repeated until they
    /// fill blocks of `count`.
    fn offsets(&self, part: usize, count: usize) -> Vec<usize> {
        let channels = self.part(part).len();
        (0..channels.next_multiple_of(count)).map(|c| c.min(channels - 1) * self.walk.pitch()).collect()
    }

    /// The sums of one run of taps of a component for one chunk: the number of channels that are
    /// summed at a time, and the number of sums.
    fn run(&self, part: usize, chunk: Chunk, taps: usize) -> (usize, usize) {
        let (count, _) = self.loops.channels.table(chunk.lanes / WIDTH, self.walk.sharing).block(taps);
        (count, self.part(part).len().next_multiple_of(count) * taps * chunk.lanes)
    }

    /// The number of sums of the runs before the one that starts with this tap.
    fn before(&self, part: usize, chunk: Chunk, tap: usize) -> usize {
        self.walk.runs().take_while(|run| run.taps.start < tap).map(|run| self.run(part, chunk, run.taps.len()).1).sum()
    }

    /// The number of sums of a component for one chunk: `[channel][tap][lane]` for each run of
    /// taps.
    fn sums(&self, part: usize, chunk: Chunk) -> usize {
        apart(self.walk.runs().map(|run| self.run(part, chunk, run.taps.len()).1).sum())
    }

    /// Computes the sums of one group of output channels and one part of the channels over some
    /// bundles, `[chunk][component]`; `None` where a value is not finite.
    fn task(&self, group: usize, part: usize, bundles: Range<usize>) -> Option<Vec<f32>> {
        let (walk, chunks, channels) = (&self.walk, self.chunks(group), self.part(part));
        let components = walk.kind.components();
        let lengths: Vec<usize> = chunks.iter().map(|chunk| components * self.sums(part, *chunk)).collect();
        let mut sums = vec![0.0; lengths.iter().sum()];
        let (volume, component) = (walk.source.iter().product::<usize>(), walk.component(channels.len()));
        let mut odd = [0.0; WIDTH];
        SCRATCH.with_borrow_mut(|(packed, gradient)| {
            let bundles: Vec<Bundle> = bundles.map(|index| walk.bundle(index)).collect();
            for bundles in bundles.chunks(self.block) {
                packed.resize(packed.len().max(bundles.len() * components * component), 0.0);
                let image = |index: usize| {
                    let start = index * walk.channels * volume;
                    pack::Image::one(&self.x[start..][..walk.channels * volume], volume)
                };
                let loops = (self.transforms.source, self.loops.channels.in_turn);
                walk.pack(loops, bundles, image, channels.clone(), packed, &mut odd);
                let mut rest = sums.as_mut_slice();
                for (chunk, length) in chunks.iter().zip(&lengths) {
                    let here;
                    (here, rest) = rest.split_at_mut(*length);
                    self.pack_gradient(gradient, bundles, *chunk, &mut odd);
                    self.products(part, *chunk, bundles.len(), packed, &gradient.packed, here);
                }
            }
        });
        odd.iter().all(|odd| *odd == 0.0).then_some(sums)
    }

    /// Packs the components of the output gradient with its channels as lanes:
    /// `[bundle][component][position][lane]`, zeros beyond a tile's row.
    fn pack_gradient(
        &self,
        Gradient { packed, rows, lines }: &mut Gradient,
        bundles: &[Bundle],
        Chunk { first, lanes }: Chunk,
        odd: &mut [f32; WIDTH],
    ) {
        let (walk, component) = (&self.walk, self.walk.sums(lanes));
        let (components, outputs) = (walk.kind.components(), walk.kind.outputs());
        packed.resize(packed.len().max(bundles.len() * components * component), 0.0);
        // Whole squares of sixteen positions.
        let each = walk.row.next_multiple_of(WIDTH) * WIDTH;
        rows.resize(rows.len().max(outputs * each), 0.0);
        let rows = &mut rows[..outputs * each];
        for (bundle, to) in bundles.iter().zip(packed.chunks_exact_mut(components * component)) {
            for vector in (0..lanes).step_by(WIDTH) {
                for (index, row) in rows.chunks_exact_mut(each).enumerate() {
                    self.turn_gradient(row, lines, bundle, index, first + vector);
                }
                // SAFETY: the rows have that many registers, and each component has space for them
                // at the distance of its lanes.
                unsafe {
                    let to = to[vector..].as_mut_ptr();
                    let steps = (component, lanes);
                    (self.transforms.gradient)(rows.as_ptr(), each, walk.row, to, steps, odd.as_mut_ptr());
                }
            }
        }
    }

    /// Transposes a row of the output gradient of the tiles of a bundle: sixteen lanes of the
    /// channels from `channel` on at each position, zeros beyond it.
    fn turn_gradient(&self, row: &mut [f32], lines: &mut Vec<f32>, bundle: &Bundle, index: usize, channel: usize) {
        let (walk, turn) = (&self.walk, self.loops.channels.transpose);
        let (volume, count) = (walk.output.iter().product::<usize>(), bundle.columns.len());
        let (length, present) = (row.len() / WIDTH, (WIDTH / walk.sharing).min(walk.lanes - channel));
        let place = |tile: usize| {
            let (image, place) = walk.row_of_output(bundle, tile, index)?;
            Some((image * walk.lanes + channel) * volume + place)
        };
        if let Some(from) = place(0).map(|from| &self.dy[from..])
            && present == WIDTH
            && from.len() >= 15 * volume + length
        {
            for position in (0..length).step_by(WIDTH) {
                // SAFETY: sixteen rows of `length` values lie within the gradient, and the row has
                // `length` registers.
                unsafe {
                    turn(from[position..].as_ptr(), volume, row[position * WIDTH..].as_mut_ptr(), WIDTH);
                }
            }
            // Values that were read beyond the row belong to another one.
            clear(&mut row[count * WIDTH..]);
            return;
        }
        if (0..walk.sharing).all(|tile| place(tile).is_none()) {
            row.fill(0.0);
            return;
        }
        lines.resize(WIDTH * length, 0.0);
        for (lane, line) in lines.chunks_exact_mut(length).enumerate() {
            let (channel, tile) = (lane / walk.sharing, lane % walk.sharing);
            let from = place(tile).filter(|_| channel < present).map(|from| &self.dy[from + channel * volume..]);
            let values = from.map_or(&[][..], |from| &from[..count]);
            line[..values.len()].copy_from_slice(values);
            clear(&mut line[values.len()..]);
        }
        for position in (0..length).step_by(WIDTH) {
            // SAFETY: there are sixteen lines of `length` values, and `length` registers.
            unsafe {
                turn(lines[position..].as_ptr(), length, row[position * WIDTH..].as_mut_ptr(), WIDTH);
            }
        }
    }

    /// Adds the products of some bundles.
    fn products(&self, part: usize, chunk: Chunk, bundles: usize, packed: &[f32], gradient: &[f32], sums: &mut [f32]) {
        let (walk, length, components) = (&self.walk, self.sums(part, chunk), self.walk.kind.components());
        let (component, row) = (walk.component(self.part(part).len()), walk.sums(chunk.lanes));
        let rows = Rows {
            planes: bundles,
            rows: 1,
            width: walk.row,
            x_plane: components * component,
            x_row: 0,
            dy_plane: components * row,
        };
        assert!(
            packed.len() >= bundles * components * component && gradient.len() >= bundles * components * row,
            "components of all bundles"
        );
        for Run { taps, from, .. } in walk.runs() {
            let table = self.loops.channels.table(chunk.lanes / WIDTH, walk.sharing);
            let (_, Some(run)) = table.block(taps.len()) else { unreachable!("a block for every length of a run") };
            let (count, used) = self.run(part, chunk, taps.len());
            let offsets = self.offsets(part, count);
            let before = self.before(part, chunk, taps.start);
            for (c, sums) in sums.chunks_exact_mut(length).enumerate() {
                let (x, dy) = (&packed[c * component + from..], &gradient[c * row..]);
                let sums = sums[before..][..used].chunks_exact_mut(count * taps.len() * chunk.lanes);
                for (offsets, sums) in offsets.chunks_exact(count).zip(sums) {
                    // SAFETY: the assertion covers all reads, a row of which has one value per tile
                    // less than outputs and taps together; `sums` holds a register for every
                    // channel, tap and vector.
                    unsafe { run(x.as_ptr(), offsets, &rows, dy.as_ptr(), sums.as_mut_ptr()) };
                }
            }
        }
    }

    /// Writes the weight gradients of one group and part: adds up the sums of the segments in
    /// order.
    fn put_together(&self, group: usize, part: usize, segments: &mut [Vec<f32>], out: Shared) {
        let Some((sums, others)) = segments.split_first_mut() else { return };
        for other in others {
            sums.iter_mut().zip(other).for_each(|(sum, value)| *sum += *value);
        }
        let (walk, channels) = (&self.walk, self.part(part));
        let mut taps: Taps = [[0.0; WIDTH]; TAPS];
        let mut turned = [[0.0; TAPS]; WIDTH];
        let (components, count) = (walk.kind.components(), walk.all_taps());
        let mut rest = sums.as_slice();
        for chunk in self.chunks(group) {
            let step = self.sums(part, chunk);
            let here;
            (here, rest) = rest.split_at(components * step);
            for (index, channel) in channels.clone().enumerate() {
                for vector in (0..chunk.lanes).step_by(WIDTH) {
                    for run in walk.runs().map(|run| run.taps) {
                        let before = self.before(part, chunk, run.start);
                        let from = &here[before + index * run.len() * chunk.lanes + vector..];
                        // SAFETY: the last component has a register of these lanes for each tap,
                        // and so has `taps`.
                        unsafe {
                            let (taps, run) = (taps[run.start..].as_mut_ptr().cast(), (walk.taps, run.len()));
                            (self.transforms.taps)(from.as_ptr(), (step, chunk.lanes), taps, run);
                        }
                    }
                    walk.order(&mut taps[..count]);
                    taps::turned(self.loops, &taps, count, &mut turned);
                    let lane = chunk.first + vector;
                    // The sums of the tiles that share registers.
                    for rows in turned.chunks_exact_mut(walk.sharing) {
                        let Some((row, others)) = rows.split_first_mut() else { continue };
                        for other in others {
                            row[..count].iter_mut().zip(other).for_each(|(sum, value)| *sum += *value);
                        }
                    }
                    for (l, row) in turned.iter().step_by(walk.sharing).enumerate().take(walk.lanes - lane) {
                        // SAFETY: no other task uses these taps.
                        let to = unsafe { out.part(((lane + l) * walk.channels + channel) * count, count) };
                        to.write_copy_of_slice(&row[..count]);
                    }
                }
            }
        }
    }
}

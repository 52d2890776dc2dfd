//! Outputs computed from a source: the forward sum and the input gradient.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::super::blocked::{
    Behind, Chunk, Loops, Source, WIDTH, Weight, chunks_of_channels, turn, turn_into, write_whole,
};
use super::taps::{self, TAPS, Taps};
use super::tiles::{Bundle, Part, Run, SHARING, Walk, apart};
use super::transform::{Pace, Transforms};
use crate::moments::{Moments, OfLanes};
use crate::shared::Shared;
use crate::simd::widest;

/// The maximum number of values of packed tiles; it leaves space for weights and sums in a
/// second-level cache of 1 MiB.
const BLOCK: usize = 128 << 10;

/// The maximum number of sums that are kept at a time.
const SUMS: usize = 64 << 10;

/// The maximum number of rows of outputs of a tile.
const MOST_ROWS: usize = 36;

/// The maximum number of registers of a chunk's lanes.
const MOST_VECTORS: usize = 2;

thread_local! {
    /// A task's packed values, sums and rows, reused by the next task.
    static SCRATCH: RefCell<[Vec<f32>; 3]> = const { RefCell::new([Vec::new(), Vec::new(), Vec::new()]) };
}

/// The data that all tasks share.
struct Work<'a> {
    loops: Loops<'a>,
    transforms: &'a Transforms,
    walk: &'a Walk,
    source: Source<'a>,
    chunks: Vec<Chunk>,
    /// By chunk: `[component]`, and in it `[channel][tap][lane]` for each run of taps.
    weights: Vec<Vec<f32>>,
    /// By chunk: the bias of each lane.
    biases: Vec<Vec<f32>>,
    /// The start of each channel within a component.
    offsets: Vec<usize>,
    runs: Vec<Run>,
    behind: Behind<'a>,
    out: Shared,
    /// The moments, where requested: means and sums of squared deviations, `[bundle][2][lane]`.
    moments: Option<Shared>,
}

/// Computes the sums of `walk` over `source` (`[images, channels, ...]`) with their epilogue:
/// `[images, lanes, ...]`. `None` where a value that is read is not finite.
pub fn outputs(
    loops: Loops<'_>,
    walk: &Walk,
    images: usize,
    source: Source<'_>,
    weight: Weight<'_>,
    behind: Behind<'_>,
) -> Option<Vec<f32>> {
    let volume: usize = walk.output.iter().product();
    let count = images * walk.lanes * volume;
    assert!(behind.plus.is_none_or(|plus| plus.len() == count), "what is added is as large as the output");
    let chunks = chunks_of_channels(walk.lanes, &loops);
    let weights: Vec<Vec<f32>> =
        chunks.par_iter().map(|chunk| transformed(loops, walk, *chunk, weight)).collect::<Option<_>>()?;
    let mut out: Vec<f32> = Vec::with_capacity(count);
    let shared = Shared::new(&mut out.spare_capacity_mut()[..count]);
    let offsets = (0..walk.channels).map(|c| c * walk.pitch()).collect();
    let biases = chunks.iter().map(|chunk| of_lanes(behind.bias, *chunk, walk.sharing)).collect();
    let transforms = loops.transforms.of(walk.kind);
    let all = walk.bundles();
    let wanted = behind.moments.filter(|_| walk.sharing == 1);
    let parts = wanted.map_or(0, |_| all * 2 * walk.lanes);
    let mut moments: Vec<f32> = Vec::with_capacity(parts);
    let of_bundles = wanted.map(|_| Shared::new(&mut moments.spare_capacity_mut()[..parts]));
    let work = Work {
        loops,
        transforms,
        walk,
        source,
        chunks,
        weights,
        biases,
        offsets,
        runs: walk.runs().collect(),
        behind,
        out: shared,
        moments: of_bundles,
    };

    let (lanes, components) =
        (work.chunks.iter().map(|chunk| chunk.lanes).max().unwrap_or(WIDTH), walk.kind.components());
    let pass = (SUMS / (components * walk.sums(lanes))).max(1);
    let fitting = (BLOCK / (components * walk.component(walk.channels))).max(pass);
    // The same number of tasks for every thread: one where reading weights dominates, otherwise at
    // least two.
    let threads = rayon::current_num_threads();
    let heavy = walk.lanes * walk.taps * threads > all * walk.pitch();
    let rounds = all.div_ceil(fitting).div_ceil(threads).max(if heavy { 1 } else { 2 });
    let each = all.div_ceil(rounds * threads);
    let odd = AtomicBool::new(false);
    (0..all.div_ceil(each)).into_par_iter().for_each(|task| {
        let here = task * each..((task + 1) * each).min(all);
        let bundles: Vec<Bundle> = here.clone().map(|index| walk.bundle(index)).collect();
        if !SCRATCH.with_borrow_mut(|scratch| work.task(&bundles, here.start, pass, scratch)) {
            odd.store(true, Ordering::Relaxed);
        }
    });
    if odd.into_inner() {
        return None;
    }
    // SAFETY: the tiles cover every output of every image and channel once, and no task has stopped
    // early. Each task has written the moments of all lanes of its bundles.
    unsafe {
        out.set_len(count);
        moments.set_len(parts);
    }
    if let Some(wanted) = wanted {
        wanted.get_or_init(|| put_together(walk, images, &moments));
    }
    Some(out)
}

/// The moments of each channel of each image, computed from those of the bundles, in their order.
fn put_together(walk: &Walk, images: usize, of_bundles: &[f32]) -> Vec<Moments> {
    let lanes = walk.lanes;
    let mut all = vec![Moments::default(); images * lanes];
    let bundles = || {
        of_bundles.chunks_exact(2 * lanes).enumerate().map(|(index, part)| {
            let bundle = walk.bundle(index);
            let rows = (0..walk.kind.outputs()).filter_map(|row| walk.row_of_output(&bundle, 0, row)).count();
            let image = bundle.tiles[0].map_or(0, |tile| tile.image);
            (image * lanes..(image + 1) * lanes, (rows * bundle.columns.len()) as f64, part.split_at(lanes))
        })
    };
    for (channels, count, (means, _)) in bundles() {
        for (all, mean) in all[channels].iter_mut().zip(means) {
            all.count += count;
            all.mean += count * f64::from(*mean);
        }
    }
    all.iter_mut().for_each(|all| all.mean /= all.count);
    for (channels, count, (means, squares)) in bundles() {
        for ((all, mean), squares) in all[channels].iter_mut().zip(means).zip(squares) {
            let apart = f64::from(*mean) - all.mean;
            all.squares += f64::from(*squares) + count * apart * apart;
        }
    }
    all
}

/// The bias of each lane of a chunk, whose channels have `sharing` lanes each; zeros where there is
/// none.
fn of_lanes(bias: Option<&[f32]>, Chunk { first, lanes }: Chunk, sharing: usize) -> Vec<f32> {
    let mut found = vec![0.0; lanes];
    let bias = bias.map_or(&[][..], |bias| &bias[first..]);
    found.chunks_exact_mut(sharing).zip(bias).for_each(|(to, bias)| to.fill(*bias));
    found
}

/// The weights of a chunk; `None` where one is not finite.
fn transformed(loops: Loops<'_>, walk: &Walk, Chunk { first, lanes }: Chunk, weight: Weight<'_>) -> Option<Vec<f32>> {
    let (used, components, count) = (walk.channels * walk.taps * lanes, walk.kind.components(), walk.all_taps());
    let step = apart(used);
    let mut transformed = Vec::with_capacity(components * step);
    let room = &mut transformed.spare_capacity_mut()[..components * step];
    room.chunks_exact_mut(step).for_each(|component| component[used..].fill(MaybeUninit::new(0.0)));
    let mut odd = [0.0; WIDTH];
    let mut taps: Taps = [[0.0; WIDTH]; TAPS];
    for c in 0..walk.channels {
        for vector in (0..lanes).step_by(WIDTH) {
            let lane = first + vector;
            let from = &weight.values[lane * weight.lane + c * weight.channel..];
            let present = WIDTH.min(walk.lanes - lane);
            taps::read(loops, &mut taps, from, (weight.lane, count), (present, walk.sharing));
            walk.order(&mut taps[..count]);
            for run in walk.runs().map(|run| run.taps) {
                let to = room[(run.start * walk.channels + c * run.len()) * lanes + vector..].as_mut_ptr().cast();
                // SAFETY: there is a register for each tap, and the last component of the last
                // channel has space for its last tap's.
                unsafe {
                    let (taps, run) = (taps[run.start..].as_ptr().cast(), (walk.taps, run.len()));
                    (loops.transforms.of(walk.kind).weights)(taps, run, to, (step, lanes), odd.as_mut_ptr());
                }
            }
        }
    }
    // SAFETY: every tap of every channel and lane has been written in each component, and the
    // padding before that.
    unsafe { transformed.set_len(components * step) };
    odd.iter().all(|odd| *odd == 0.0).then_some(transformed)
}

impl Work<'_> {
    /// Computes a number of bundles, starting with `number`, for all output channels; returns
    /// false, without any effect, where a value of the source is not finite.
    fn task(&self, bundles: &[Bundle], number: usize, pass: usize, [packed, sums, rows]: &mut [Vec<f32>; 3]) -> bool {
        let walk = self.walk;
        let (volume, component) = (walk.source.iter().product(), walk.component(walk.channels));
        grow(packed, bundles.len() * walk.kind.components() * component);
        let mut odd = [0.0; WIDTH];
        let image = |index: usize| self.source.image(index, walk.channels, volume);
        let loops = (self.transforms.source, self.loops.channels.in_turn);
        walk.pack(loops, bundles, image, 0..walk.channels, packed, &mut odd);
        if odd.iter().any(|odd| *odd != 0.0) {
            return false;
        }
        for chunk in 0..self.chunks.len() {
            let mut packed = packed.as_slice();
            let mut numbers = number..;
            for bundles in bundles.chunks(pass) {
                let here;
                (here, packed) = packed.split_at(bundles.len() * walk.kind.components() * component);
                self.products(chunk, bundles, here, sums);
                for ((bundle, sums), number) in
                    bundles.iter().zip(sums.chunks_exact(self.sums(chunk))).zip(&mut numbers)
                {
                    self.write(chunk, (number, bundle), sums, rows);
                }
            }
        }
        true
    }

    /// The number of sums of a bundle: `[component][position][lane]`.
    fn sums(&self, chunk: usize) -> usize {
        self.walk.kind.components() * self.walk.sums(self.chunks[chunk].lanes)
    }

    fn products(&self, chunk: usize, bundles: &[Bundle], packed: &[f32], sums: &mut Vec<f32>) {
        let (walk, lanes, components) = (self.walk, self.chunks[chunk].lanes, self.walk.kind.components());
        let (row, slab) = (walk.sums(lanes), apart(walk.channels * walk.taps * lanes));
        let component = walk.component(walk.channels);
        grow(sums, bundles.len() * self.sums(chunk));
        let table = self.loops.channels.table(lanes / WIDTH, walk.sharing);
        for c in 0..components {
            let weights = &self.weights[chunk][c * slab..][..slab];
            for (index, bundle) in bundles.iter().enumerate() {
                let source = &packed[(index * components + c) * component..][..component];
                let sums = &mut sums[(index * components + c) * row..][..row];
                for run in &self.runs {
                    let positions = run.part.of(bundle.columns.len());
                    let (weights, sums) =
                        (&weights[run.taps.start * walk.channels * lanes..], &mut sums[positions.start * lanes..]);
                    let (count, pieces) = (positions.len(), positions.len().div_ceil(table.most));
                    let mut at = 0;
                    for piece in 0..pieces {
                        let length = (count - at).div_ceil(pieces - piece);
                        let Some(tile) = table.tile(run.taps.len(), length) else {
                            unreachable!("a tile of any length")
                        };
                        // SAFETY: a row has one value per tile less than outputs and taps together,
                        // so that the last channel's last tap lies within the component; there is a
                        // sum for each position and lane, and a weight for each channel, tap and
                        // lane. The first run of a position sets its sums.
                        unsafe {
                            let source = source.as_ptr().add(at * walk.sharing + run.from);
                            let sums = sums[at * lanes..][..length * lanes].as_mut_ptr();
                            tile(source, &self.offsets, weights.as_ptr(), sums, run.adds);
                        }
                        at += length;
                    }
                }
            }
        }
    }

    /// Writes the rows of the tiles of a bundle to the output, channel by channel.
    fn write(&self, chunk: usize, (number, bundle): (usize, &Bundle), sums: &[f32], rows: &mut Vec<f32>) {
        let (walk, Chunk { first, lanes }) = (self.walk, self.chunks[chunk]);
        let (count, volume) = (bundle.columns.len(), walk.output.iter().product::<usize>());
        // Whole squares of sixteen outputs, as the transposition reads them.
        let padded = count.next_multiple_of(WIDTH);
        let each = padded * lanes;
        let outputs = walk.kind.outputs();
        grow(rows, 2 * outputs * each);
        let (mixed, rows) = rows.split_at_mut(outputs * each);
        let parts: &[(Part, usize)] = match walk.kind.pace() {
            Pace::Each | Pace::Halved => &[(Part::All, 0)],
            Pace::Doubled => &[(Part::Even, 0), (Part::Odd, 1)],
        };
        for (part, first) in parts {
            let positions = part.of(count);
            // SAFETY: the components of a row have as many registers as outputs and lanes, and the
            // rows have the same length; with two parts, each has every other position.
            unsafe {
                let (from, bias) = (sums[positions.start * lanes..].as_ptr(), &self.biases[chunk]);
                let (to, steps) = (mixed[first * lanes..].as_mut_ptr(), (each, parts.len()));
                (self.transforms.outputs)(from, walk.sums(lanes), positions.len(), bias, to, steps);
            }
        }
        let whole = walk.sharing == 1 && first + lanes <= walk.lanes;
        let straight = count >= WIDTH && whole && self.behind.plus.is_none();
        if straight || self.moments.is_some() {
            let mut of_lanes = [OfLanes::NONE; MOST_VECTORS];
            for (index, mixed) in mixed.chunks_exact_mut(each).enumerate() {
                let Some((image, place)) = walk.row_of_output(bundle, 0, index) else { continue };
                if self.moments.is_some() {
                    for (vector, moments) in of_lanes.iter_mut().enumerate().take(lanes / WIDTH) {
                        // SAFETY: a row has `count` times `lanes` values.
                        unsafe {
                            (self.loops.channels.moments)(moments, mixed[vector * WIDTH..].as_ptr(), lanes, count)
                        }
                    }
                }
                if straight {
                    if let Some(epilogue) = self.behind.epilogue {
                        widest(
                            #[inline(always)]
                            || epilogue.apply_to_sums(self.chunks[chunk], &mut mixed[..count * lanes]),
                        );
                    }
                    let start = (image * walk.lanes + first) * volume + place;
                    turn_into(self.loops, mixed, self.out, start, volume, [lanes, count]);
                }
            }
            self.write_moments(self.chunks[chunk], number, count, &of_lanes);
            if straight {
                return;
            }
        }
        for (mixed, row) in mixed.chunks_exact(each).zip(rows.chunks_exact_mut(each)) {
            turn(self.loops, mixed, row, lanes, padded);
            if let Some(epilogue) = self.behind.epilogue {
                widest(
                    #[inline(always)]
                    || epilogue.apply(first, row, padded * walk.sharing),
                );
            }
        }
        let mut places = [[None; MOST_ROWS]; SHARING];
        for (tile, places) in places.iter_mut().enumerate().take(walk.sharing) {
            for (index, place) in places.iter_mut().enumerate().take(outputs) {
                let found = walk.row_of_output(bundle, tile, index);
                *place = found.map(|(image, place)| (image * walk.lanes + first) * volume + place);
            }
        }
        // Channel by channel, since the rows of a plane are contiguous.
        for lane in 0..lanes.min((walk.lanes - first) * walk.sharing) {
            let (channel, tile) = (lane / walk.sharing, lane % walk.sharing);
            for (row, place) in rows.chunks_exact(each).zip(&places[tile][..outputs]) {
                let Some(place) = place else { continue };
                let start = channel * volume + place;
                // SAFETY: no other task uses this part of this row of this channel.
                let target = unsafe { self.out.part(start, count) };
                write_whole(target, &row[lane * padded..][..count]);
                if let Some(plus) = self.behind.plus {
                    // SAFETY: it has just been written.
                    let written = unsafe { target.assume_init_mut() };
                    written.iter_mut().zip(&plus[start..]).for_each(|(to, value)| *to += value);
                }
            }
        }
    }

    /// Writes the moments of a bundle's outputs, whose rows have `count` positions.
    fn write_moments(&self, chunk: Chunk, number: usize, count: usize, of_lanes: &[OfLanes; MOST_VECTORS]) {
        let Some(moments) = self.moments else { return };
        let lanes = self.walk.lanes;
        for (lane, of_lanes) in (chunk.first..lanes.min(chunk.first + chunk.lanes)).step_by(WIDTH).zip(of_lanes) {
            for (nth, values) in of_lanes.all(count).iter().enumerate() {
                let here = WIDTH.min(lanes - lane);
                // SAFETY: no other task uses these lanes of this bundle.
                let to = unsafe { moments.part((2 * number + nth) * lanes + lane, here) };
                to.write_copy_of_slice(&values[..here]);
            }
        }
    }
}

/// Extends a buffer to at least this length.
fn grow(buffer: &mut Vec<f32>, count: usize) {
    if buffer.len() < count {
        buffer.resize(count, 0.0);
    }
}

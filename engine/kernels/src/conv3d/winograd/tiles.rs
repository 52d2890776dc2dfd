//! The convolutions that use minimal filtering, and the tiles of their outputs.

use std::ops::Range;

use super::super::blocked::channel_tile::InTurn;
use super::super::blocked::{self, WIDTH, pack};
use super::super::geometry::Geometry;
use super::transform::{Kind, Pace, Source};
use crate::simd::{prefetch, widest};

/// The number of channels on either side from which the additions pay off for every kind of tile,
/// even with empty lanes.
const CHANNELS: usize = 5;

/// The minimum numbers of source and output channels: with fewer than [`CHANNELS`], the other side
/// needs that many, and only tiles that save the most products are used.
const FEWEST: [usize; 2] = [2, 3];

/// The maximum number of tiles that share registers.
pub const SHARING: usize = 2;

/// The maximum number of outputs of a tile's rows times lanes.
const ROW: usize = 2048;

/// The number of positions from which transforming the weights pays off.
const POSITIONS: usize = 32;

/// The cost of transforming a weight, in positions: larger tiles transform more weights at fewer
/// positions.
const WEIGHT: usize = 96;

/// The maximum number of taps along a row.
pub const MOST_TAPS: usize = 8;

/// A row outside of the tensor, as long as the longest row that is read, at stride 2.
static ZEROS: [f32; 2 * ROW / WIDTH + MOST_TAPS] = [0.0; 2 * ROW / WIDTH + MOST_TAPS];

/// The taps of a kernel at stride 2, and of its transpose: two in one run, and one in another.
const STRIDED: [Range<usize>; 2] = [0..2, 2..3];

/// The sum to compute: a convolution of stride 1, or its input gradient, which is also one; or of
/// stride 2.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub kind: Kind,
    pub source: [usize; 3],
    pub output: [usize; 3],
    pub padding: [usize; 3],
    /// Taps along a row, which are not transformed.
    pub taps: usize,
    /// The numbers of source and output channels.
    pub channels: usize,
    pub lanes: usize,
    /// Whether taps are read backwards.
    pub backwards: bool,
    /// Images, and tiles of each: along planes, parts of rows, and rows, which are consecutive.
    tiles: [usize; 4],
    /// The maximum number of outputs of a tile's rows.
    pub row: usize,
    /// Tiles that share registers, because each needs only a part of the lanes.
    pub sharing: usize,
}

/// Taps that are consecutive in the order of [`Walk::order`], and their use.
#[derive(Clone, Debug)]
pub struct Run {
    pub taps: Range<usize>,
    /// The value of a row of the source that the first tap reads for the first output.
    pub from: usize,
    /// Whether earlier runs have written the same sums, so that this run adds to them.
    pub adds: bool,
    pub part: Part,
}

/// Positions of a row of outputs whose sums are contiguous: those at even positions first, where
/// the two parts are summed separately.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    All,
    Even,
    Odd,
}

impl Part {
    /// The part's range, for `count` positions.
    pub fn of(self, count: usize) -> Range<usize> {
        match self {
            Part::All => 0..count,
            Part::Even => 0..count.div_ceil(2),
            Part::Odd => count.div_ceil(2)..count,
        }
    }
}

/// One tile.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    pub image: usize,
    /// The first plane and row.
    pub plane: usize,
    pub row: usize,
}

/// The tiles that share registers, and their common part of the rows.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// `None` for a missing tile.
    pub tiles: [Option<Tile>; SHARING],
    pub columns: Range<usize>,
}

impl Walk {
    /// The forward sum, if minimal filtering is faster for it.
    pub fn forward(g: &Geometry) -> Option<Self> {
        Self::new(g, g.input, g.output, g.padding, [g.channels_in, g.channels_out], false)
    }

    /// The input gradient, if minimal filtering is faster for it.
    pub fn input_gradient(g: &Geometry) -> Option<Self> {
        let mut padding = [0; 3];
        for ((to, from), kernel) in padding.iter_mut().zip(g.padding).zip(g.kernel) {
            *to = (kernel - 1).checked_sub(from)?;
        }
        Self::new(g, g.output, g.input, padding, [g.channels_out, g.channels_in], true)
    }

    fn new(
        g: &Geometry,
        source: [usize; 3],
        output: [usize; 3],
        padding: [usize; 3],
        [channels, lanes]: [usize; 2],
        backwards: bool,
    ) -> Option<Self> {
        let pace = match (g.stride, backwards) {
            ([1, 1, 1], _) => Pace::Each,
            ([2, 2, 2], false) => Pace::Halved,
            ([2, 2, 2], true) => Pace::Doubled,
            _ => return None,
        };
        let whole = match pace {
            // A transposed convolution with padded output does not satisfy this.
            Pace::Each => (0..3).all(|a| output[a] + g.kernel[a] - 1 == source[a] + 2 * padding[a]),
            Pace::Halved => g.kernel == [3; 3],
            Pace::Doubled => (g.kernel, g.padding) == ([3; 3], [1; 3]),
        };
        let enough = match pace {
            Pace::Each => channels >= FEWEST[0] && lanes >= FEWEST[1] && channels.max(lanes) >= CHANNELS,
            // Tiles do not share registers in this case.
            Pace::Halved | Pace::Doubled => channels >= CHANNELS && lanes > WIDTH / SHARING,
        };
        if super::are_plain() || (g.dilation, g.groups) != ([1; 3], 1) || g.kernel[2] > MOST_TAPS || !whole || !enough {
            return None;
        }
        // The source of a transposed convolution is read from the start of its outputs.
        let padding = if pace == Pace::Doubled { [0; 3] } else { padding };
        // The reduction of products from which the transforms pay off.
        let least = match pace {
            Pace::Each if channels.min(lanes) < CHANNELS => 3.0,
            Pace::Each => 1.5,
            Pace::Halved | Pace::Doubled => 1.25,
        };
        let tiles = |kind: Kind| {
            let [planes, rows] = kind.sides();
            [output[0].div_ceil(planes.outputs), output[1].div_ceil(rows.outputs)]
        };
        let images = g.batch * super::parts();
        let positions = |kind: Kind| images * tiles(kind).iter().product::<usize>() * output[2];
        let gains = |kind: Kind| {
            let products = tiles(kind).iter().product::<usize>() * kind.components();
            plain_products(kind, source, output) as f64 >= products as f64 * least && positions(kind) >= POSITIONS
        };
        let kind = Kind::ALL
            .into_iter()
            .filter(|kind| kind.pace() == pace && kind.sides().map(|side| side.taps) == [g.kernel[0], g.kernel[1]])
            .filter(|kind| gains(*kind))
            .min_by_key(|kind| kind.components() * (positions(*kind) + WEIGHT))?;
        let most = ROW / lanes.next_multiple_of(WIDTH).min(2 * WIDTH);
        let row = output[2].div_ceil(output[2].div_ceil(most));
        // Parts of rows begin at even outputs.
        let row = if pace == Pace::Doubled { row.next_multiple_of(2) } else { row };
        let [planes, rows] = tiles(kind);
        let tiles = [g.batch, planes, output[2].div_ceil(row), rows];
        let several = pace == Pace::Each && g.batch * planes * rows > 1;
        let sharing = if lanes * SHARING <= WIDTH && several { SHARING } else { 1 };
        let taps = g.kernel[2];
        Some(Walk { kind, source, output, padding, taps, channels, lanes, backwards, tiles, row, sharing })
    }

    /// The factor by which the number of products is smaller than in the plain sum.
    pub fn times_fewer(&self) -> f64 {
        let [_, planes, _, rows] = self.tiles;
        plain_products(self.kind, self.source, self.output) as f64 / (planes * rows * self.kind.components()) as f64
    }

    /// The number of bundles of one part of the rows of all images.
    fn of_a_part(&self) -> usize {
        let [images, planes, _, rows] = self.tiles;
        (images * planes * rows).div_ceil(self.sharing)
    }

    /// The number of bundles of all images.
    pub fn bundles(&self) -> usize {
        self.tiles[2] * self.of_a_part()
    }

    /// The bundle at an index. The tiles of a bundle are as far apart as possible, so that those of
    /// neighbouring bundles share rows.
    pub fn bundle(&self, index: usize) -> Bundle {
        let [images, planes, parts, rows] = self.tiles;
        let [of_planes, of_rows] = self.kind.sides().map(|side| side.outputs);
        // Along the planes of all images, the last of which may have fewer bundles.
        let each = self.of_a_part();
        let plane = (index / (parts * rows)).min(each / rows);
        let here = if plane < each / rows { rows } else { each % rows };
        let (part, row) = ((index - plane * parts * rows) / here, (index - plane * parts * rows) % here);
        let tiles = std::array::from_fn(|nth| {
            let at = plane * rows + row + nth * each;
            (nth < self.sharing && at < images * planes * rows).then(|| Tile {
                image: at / (planes * rows),
                plane: at / rows % planes * of_planes,
                row: at % rows * of_rows,
            })
        });
        Bundle { tiles, columns: part * self.row..((part + 1) * self.row).min(self.output[2]) }
    }

    /// The number of taps of the kernel.
    pub fn all_taps(&self) -> usize {
        self.kind.taps() * self.taps
    }

    /// The taps along a row, in runs that the inner loops support.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<> {
        let Walk { taps, sharing, row, .. } = *self;
        let pace = self.kind.pace();
        let each = (0..taps).step_by(blocked::RUN).map(move |first| first..(first + blocked::RUN).min(taps));
        let (each, strided) = match pace {
            Pace::Each => (Some(each), None),
            Pace::Halved | Pace::Doubled => (None, Some(STRIDED)),
        };
        each.into_iter().flatten().chain(strided.into_iter().flatten()).map(move |taps| {
            let later = taps.start > 0;
            match pace {
                Pace::Each => Run { from: taps.start * sharing, adds: later, part: Part::All, taps },
                // Values at odd positions follow those at even ones, of which there is one more.
                Pace::Halved => Run { from: if later { row + 1 } else { 0 }, adds: later, part: Part::All, taps },
                Pace::Doubled => Run { from: 0, adds: false, part: if later { Part::Even } else { Part::Odd }, taps },
            }
        })
    }

    /// Reorders the taps of a kernel from those of a forward sum to the order of the runs.
    pub fn order(&self, taps: &mut [[f32; WIDTH]]) {
        match self.kind.pace() {
            Pace::Each if self.backwards => taps.reverse(),
            Pace::Each => {}
            // The first and the last tap read values at even positions.
            Pace::Halved => taps.chunks_exact_mut(3).for_each(|row| row.swap(1, 2)),
            // Outputs at odd positions are sums of the last tap and the first.
            Pace::Doubled => taps.chunks_exact_mut(3).for_each(|row| row.rotate_right(1)),
        }
    }

    /// The number of values of one channel of one component: a row and the values after it that its
    /// taps read, interleaved over the tiles of a bundle.
    pub fn pitch(&self) -> usize {
        self.reach(self.row) * self.sharing
    }

    /// The number of values of a row of the source that `outputs` outputs read.
    fn reach(&self, outputs: usize) -> usize {
        match self.kind.pace() {
            Pace::Each => outputs + self.taps - 1,
            Pace::Halved => 2 * outputs + 1,
            Pace::Doubled => outputs.div_ceil(2) + 1,
        }
    }

    /// The distance between components of the source, with this number of channels.
    pub fn component(&self, channels: usize) -> usize {
        apart(channels * self.pitch())
    }

    /// The distance between components of sums, or of output gradients, with this number of lanes.
    pub fn sums(&self, lanes: usize) -> usize {
        apart(self.row * lanes)
    }

    /// The location of a row of the outputs of one of a bundle's tiles: the image, and the start
    /// within a channel of it; `None` outside of the output.
    pub fn row_of_output(&self, bundle: &Bundle, nth: usize, index: usize) -> Option<(usize, usize)> {
        let [depth, height, width] = self.output;
        let (tile, of_rows) = (bundle.tiles[nth]?, self.kind.sides()[1].outputs);
        let (x, y) = (tile.plane + index / of_rows, tile.row + index % of_rows);
        (x < depth && y < height).then(|| (tile.image, (x * height + y) * width + bundle.columns.start))
    }

    /// Packs the components of the source that bundles read,
    /// `[bundle][component][channel][position]`; positions beyond a tile are zeros. `odd` is as for
    /// [`Source`].
    pub fn pack<'a>(
        &self,
        loops: (Source, InTurn),
        bundles: &[Bundle],
        image: impl Fn(usize) -> pack::Image<'a>,
        channels: Range<usize>,
        mut to: &mut [f32],
        odd: &mut [f32; WIDTH],
    ) {
        let each = self.kind.components() * self.component(channels.len());
        let rows = self.kind.sides()[1].outputs;
        let mut buffers = Rows::default();
        for strip in bundles.chunk_by(|bundle, next| bundle.is_before(next, rows)) {
            let here;
            (here, to) = to.split_at_mut(strip.len() * each);
            let images = strip[0].tiles.map(|tile| image(tile.map_or(0, |tile| tile.image)));
            self.pack_strip(loops, strip, images, channels.clone(), here, &mut buffers, odd);
        }
    }

    /// Packs consecutive bundles, which share rows.
    #[expect(clippy::too_many_arguments, reason = "the buffers are the caller's own")]
    fn pack_strip(
        &self,
        (transform, in_turn): (Source, InTurn),
        strip: &[Bundle],
        images: [pack::Image<'_>; SHARING],
        channels: Range<usize>,
        to: &mut [f32],
        rows: &mut Rows,
        odd: &mut [f32; WIDTH],
    ) {
        let (pitch, [depth, height, width], columns) = (self.pitch(), self.source, &strip[0].columns);
        let ([of_planes, of_rows], components) = (self.kind.sides(), self.kind.components());
        let step = self.component(channels.len());
        assert!(to.len() == strip.len() * components * step, "room for all components");
        // The part of the row that lies within the tensor.
        let (pace, reach) = (self.kind.pace(), self.reach(columns.len()));
        let start = match pace {
            Pace::Each => columns.start,
            Pace::Halved => 2 * columns.start,
            Pace::Doubled => columns.start / 2,
        };
        let before = self.padding[2].saturating_sub(start).min(reach);
        let first = (start + before).saturating_sub(self.padding[2]).min(width);
        let count = (reach - before).min(width - first);
        assert!(count.max(pitch / self.sharing) <= ZEROS.len(), "a row is no longer than a tile's");
        let inside =
            |at: usize, axis: usize, length: usize| at.checked_sub(self.padding[axis]).filter(|at| *at < length);
        rows.starts.clear();
        let of_tile = (of_rows.step * strip.len() + of_rows.source - of_rows.step) * of_planes.source;
        for tile in &strip[0].tiles[..self.sharing] {
            // The start of the tile's source.
            let begin = tile.map(|tile| {
                (tile.plane / of_planes.outputs * of_planes.step, tile.row / of_rows.outputs * of_rows.step)
            });
            for row in 0..of_tile / of_planes.source {
                let y = begin.and_then(|(plane, first)| inside(first + row, 1, height).zip(Some(plane)));
                rows.starts.extend((0..of_planes.source).map(|x| {
                    let (y, plane) = y?;
                    inside(plane + x, 0, depth).map(|x| (x * height + y) * width + first)
                }));
            }
        }
        for (index, c) in channels.enumerate() {
            rows.from.clear();
            for (image, starts) in images.iter().zip(rows.starts.chunks_exact(of_tile)) {
                let ((values, from), (next, next_from)) = (image.channel(c), image.channel(c + 1));
                let values = &values[from..][..image.volume];
                rows.from.extend(starts.iter().map(|start| {
                    let Some(start) = *start else { return ZEROS.as_ptr() };
                    // The next channel's rows are too far away for the hardware prefetcher.
                    prefetch(next, next_from + start, count);
                    values[start..start + count].as_ptr()
                }));
            }
            if self.sharing > 1 {
                // SAFETY: the rows have `count` values.
                unsafe { rows.take_turns(in_turn, count) };
            }
            let row = index * pitch;
            if pace == Pace::Halved {
                widest(
                    #[inline(always)]
                    || rows.split(before, count, self.row),
                );
                // SAFETY: the rows now have `pitch` values, and there is space as below.
                unsafe {
                    transform(&rows.from, pitch, to.as_mut_ptr().add(row), (components * step, step), odd.as_mut_ptr());
                }
                continue;
            }
            let [before, count] = [before, count].map(|values| values * self.sharing);
            if before > 0 || before + count < pitch {
                for component in to[row..].chunks_mut(step) {
                    clear(&mut component[..before]);
                    clear(&mut component[before + count..pitch]);
                }
            }
            // SAFETY: the rows have `count` values, and each component of each bundle has space for
            // a row of `pitch` values.
            unsafe {
                let to = to.as_mut_ptr().add(row + before);
                transform(&rows.from, count, to, (components * step, step), odd.as_mut_ptr());
            }
        }
    }
}

/// The number of products of the plain sum over planes and rows, for each tap along the row.
fn plain_products(kind: Kind, source: [usize; 3], output: [usize; 3]) -> usize {
    let [depth, height, _] = if kind.pace() == Pace::Doubled { source } else { output };
    depth * height * kind.taps()
}

/// Rounds up to an odd number of cache lines: components that are written together would otherwise
/// evict each other.
pub fn apart(count: usize) -> usize {
    (count.div_ceil(WIDTH) | 1) * WIDTH
}

/// The rows that a strip of bundles reads, by tile, row and plane: their starts in a channel
/// (`None` outside of the tensor), and in memory.
#[derive(Default)]
struct Rows {
    starts: Vec<Option<usize>>,
    from: Vec<*const f32>,
    /// Copies of rows: two rows interleaved, or one with its even positions first.
    both: Vec<f32>,
}

impl Rows {
    /// Interleaves the rows of two tiles, `count` values each.
    unsafe fn take_turns(&mut self, in_turn: InTurn, count: usize) {
        let each = self.from.len() / 2;
        self.both.resize(self.both.len().max(2 * each * count), 0.0);
        let to = self.both.as_mut_ptr();
        for row in 0..each {
            // SAFETY: the caller guarantees `count` values of each row, and there is space for both
            // of every row.
            unsafe {
                let to = to.add(2 * row * count);
                in_turn([self.from[row], self.from[each + row]], count, to);
                self.from[row] = to;
            }
        }
        self.from.truncate(each);
    }

    /// Reorders rows of `count` values, whose first value is at the position `before`: the
    /// `half + 1` values at even positions, then the `half` values at odd ones; missing values are
    /// zeros.
    #[inline(always)]
    fn split(&mut self, before: usize, count: usize, half: usize) {
        let each = 2 * half + 1;
        self.both.resize(self.both.len().max(self.from.len() * each), 0.0);
        let rows = self.from.iter_mut().zip(&self.starts).zip(self.both.chunks_exact_mut(each));
        for ((from, _), to) in rows.filter(|((_, start), _)| start.is_some()) {
            // SAFETY: a row that starts within the tensor has `count` values.
            let source = unsafe { std::slice::from_raw_parts(*from, count) };
            *from = to.as_ptr();
            let (even, odd) = to.split_at_mut(half + 1);
            // A first value at an odd position has no partner before it, and the last may have none
            // after it.
            let (alone, source) = source.split_at(count.min(before % 2));
            let (both, last) = source.split_at(source.len() / 2 * 2);
            let (first, pairs) = (before.div_ceil(2), both.len() / 2);
            clear(&mut even[..first]);
            clear(&mut odd[..before / 2]);
            clear(&mut even[first + pairs + last.len()..]);
            clear(&mut odd[first + pairs..]);
            odd[before / 2..].iter_mut().zip(alone).for_each(|(to, value)| *to = *value);
            even[first + pairs..].iter_mut().zip(last).for_each(|(to, value)| *to = *value);
            pack::in_halves(both, &mut even[first..][..pairs], &mut odd[first..][..pairs]);
        }
    }
}

impl Bundle {
    /// Whether each tile of the other bundle directly follows that of this one, which has `rows`
    /// rows of outputs.
    fn is_before(&self, other: &Self, rows: usize) -> bool {
        let follows = |(tile, next): (&Option<Tile>, &Option<Tile>)| match (tile, next) {
            (Some(a), Some(b)) => (a.image, a.plane, a.row + rows) == (b.image, b.plane, b.row),
            (None, None) => true,
            _ => false,
        };
        self.columns == other.columns && self.tiles.iter().zip(&other.tiles).all(follows)
    }
}

/// Writes zeros; usually there are none, or one per tile.
pub fn clear(values: &mut [f32]) {
    match values {
        [] => {}
        [one] => *one = 0.0,
        [one, other] => (*one, *other) = (0.0, 0.0),
        more => more.fill(0.0),
    }
}

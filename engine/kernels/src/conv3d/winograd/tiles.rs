//! Which convolutions use minimal filtering, and the tiles of their outputs.

use std::ops::Range;

use super::super::blocked::{self, WIDTH, pack};
use super::super::geometry::Geometry;
use super::transform::{Kind, Source};
use crate::simd::prefetch;

/// From this number of channels on either side the additions pay off, even with lanes left empty.
const CHANNELS: usize = 8;

/// The most outputs of a tile's rows times lanes.
const ROW: usize = 2048;

/// From this number of positions on, transforming the weights pays off.
const POSITIONS: usize = 32;

/// The cost of transforming a weight, in positions: larger tiles transform more weights at fewer
/// positions.
const WEIGHT: usize = 96;

/// Taps along a row, at most.
pub const MOST_TAPS: usize = 8;

/// A row that lies beyond the tensor.
static ZEROS: [f32; ROW / WIDTH + MOST_TAPS] = [0.0; ROW / WIDTH + MOST_TAPS];

/// The sum to compute: a convolution of stride 1, or its input gradient, which is also one.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub kind: Kind,
    pub source: [usize; 3],
    pub output: [usize; 3],
    pub padding: [usize; 3],
    /// Taps along a row, which are not transformed.
    pub taps: usize,
    /// Of the source, and of the output.
    pub channels: usize,
    pub lanes: usize,
    /// Whether taps are read backwards.
    pub backwards: bool,
    /// Images, and tiles of each: along planes, parts of rows, and rows, which follow each other.
    tiles: [usize; 4],
    /// Outputs of a tile's rows, at most.
    pub row: usize,
}

/// One tile.
#[derive(Clone, Debug)]
pub struct Tile {
    pub image: usize,
    /// Its first plane and row.
    pub plane: usize,
    pub row: usize,
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
        let plain = (g.stride, g.dilation, g.groups) == ([1; 3], [1; 3], 1) && g.kernel[2] <= MOST_TAPS;
        // A transposed convolution whose output is padded falls short of this.
        let whole = (0..3).all(|a| output[a] + g.kernel[a] - 1 == source[a] + 2 * padding[a]);
        if !plain || !whole || channels.min(lanes) < CHANNELS || super::are_plain() {
            return None;
        }
        let tiles = |kind: Kind| {
            let [planes, rows] = kind.sides();
            [output[0].div_ceil(planes.outputs), output[1].div_ceil(rows.outputs)]
        };
        let positions = |kind: Kind| g.batch * tiles(kind).iter().product::<usize>() * output[2];
        let gains = |kind: Kind| {
            let products = tiles(kind).iter().product::<usize>() * kind.components();
            output[0] * output[1] * kind.taps() * 2 >= products * 3 && positions(kind) >= POSITIONS
        };
        let kind = Kind::ALL
            .into_iter()
            .filter(|kind| kind.sides().map(|side| side.taps) == [g.kernel[0], g.kernel[1]] && gains(*kind))
            .min_by_key(|kind| kind.components() * (positions(*kind) + WEIGHT))?;
        let most = ROW / lanes.next_multiple_of(WIDTH).min(2 * WIDTH);
        let row = output[2].div_ceil(output[2].div_ceil(most));
        let [planes, rows] = tiles(kind);
        let tiles = [g.batch, planes, output[2].div_ceil(row), rows];
        Some(Walk { kind, source, output, padding, taps: g.kernel[2], channels, lanes, backwards, tiles, row })
    }

    /// How many times fewer products are taken than in the plain sum.
    pub fn times_fewer(&self) -> f64 {
        let [_, planes, _, rows] = self.tiles;
        let plain = self.output[0] * self.output[1] * self.kind.taps();
        plain as f64 / (planes * rows * self.kind.components()) as f64
    }

    /// Tiles of all images.
    pub fn tiles(&self) -> usize {
        self.tiles.iter().product()
    }

    pub fn tile(&self, index: usize) -> Tile {
        let [_, planes, parts, rows] = self.tiles;
        let [of_planes, of_rows] = self.kind.sides().map(|side| side.outputs);
        let first = index / rows % parts * self.row;
        Tile {
            image: index / (parts * rows * planes),
            plane: index / (parts * rows) % planes * of_planes,
            row: index % rows * of_rows,
            columns: first..(first + self.row).min(self.output[2]),
        }
    }

    /// Taps of the kernel.
    pub fn all_taps(&self) -> usize {
        self.kind.taps() * self.taps
    }

    /// The taps along a row, in runs that the inner loops support.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let taps = self.taps;
        (0..taps).step_by(blocked::RUN).map(move |first| first..(first + blocked::RUN).min(taps))
    }

    /// Values of one channel of one component: a row, and the values beyond it that its taps read.
    pub fn pitch(&self) -> usize {
        self.row + self.taps - 1
    }

    /// From one component of the source to the next, with this number of channels.
    pub fn component(&self, channels: usize) -> usize {
        apart(channels * self.pitch())
    }

    /// From one component of sums, or of output gradients, to the next, with this number of lanes.
    pub fn sums(&self, lanes: usize) -> usize {
        apart(self.row * lanes)
    }

    /// Where a row of a tile's outputs lies within a channel of the output; `None` beyond it.
    pub fn row_of_output(&self, tile: &Tile, index: usize) -> Option<usize> {
        let [depth, height, width] = self.output;
        let of_rows = self.kind.sides()[1].outputs;
        let (x, y) = (tile.plane + index / of_rows, tile.row + index % of_rows);
        (x < depth && y < height).then(|| (x * height + y) * width + tile.columns.start)
    }

    /// Components of the source that tiles read, `[tile][component][channel][position]`; positions
    /// beyond a tile are zeros. `odd` is as for [`Source`].
    pub fn pack<'a>(
        &self,
        transform: Source,
        tiles: &[Tile],
        image: impl Fn(usize) -> pack::Image<'a>,
        channels: Range<usize>,
        mut to: &mut [f32],
        odd: &mut [f32; WIDTH],
    ) {
        let each = self.kind.components() * self.component(channels.len());
        let rows = self.kind.sides()[1].outputs;
        let mut buffers = Rows::default();
        for strip in tiles.chunk_by(|tile, next| tile.is_before(next, rows)) {
            let here;
            (here, to) = to.split_at_mut(strip.len() * each);
            self.pack_strip(transform, strip, image(strip[0].image), channels.clone(), here, &mut buffers, odd);
        }
    }

    /// Consecutive tiles, which share rows.
    #[expect(clippy::too_many_arguments, reason = "the buffers are the caller's own")]
    fn pack_strip(
        &self,
        transform: Source,
        strip: &[Tile],
        image: pack::Image<'_>,
        channels: Range<usize>,
        to: &mut [f32],
        rows: &mut Rows,
        odd: &mut [f32; WIDTH],
    ) {
        let (pitch, [depth, height, width], tile) = (self.pitch(), self.source, &strip[0]);
        let ([of_planes, of_rows], components) = (self.kind.sides(), self.kind.components());
        let step = self.component(channels.len());
        assert!(to.len() == strip.len() * components * step, "room for all components");
        // The part of the row that lies within the tensor.
        let reach = tile.columns.len() + self.taps - 1;
        let before = self.padding[2].saturating_sub(tile.columns.start).min(reach);
        let first = (tile.columns.start + before).saturating_sub(self.padding[2]).min(width);
        let count = (reach - before).min(width - first);
        assert!(count <= ZEROS.len(), "a row is no longer than a tile's");
        let inside =
            |at: usize, axis: usize, length: usize| at.checked_sub(self.padding[axis]).filter(|at| *at < length);
        rows.starts.clear();
        for y in 0..of_rows.outputs * strip.len() + of_rows.source - of_rows.outputs {
            let y = inside(tile.row + y, 1, height);
            for x in 0..of_planes.source {
                let x = inside(tile.plane + x, 0, depth);
                rows.starts.push(x.zip(y).map(|(x, y)| (x * height + y) * width + first));
            }
        }
        for (index, c) in channels.enumerate() {
            let ((values, from), (next, next_from)) = (image.channel(c), image.channel(c + 1));
            let values = &values[from..][..image.volume];
            rows.from.clear();
            rows.from.extend(rows.starts.iter().map(|start| {
                let Some(start) = *start else { return ZEROS.as_ptr() };
                // The next channel's rows lie far away, where the hardware does not prefetch.
                prefetch(next, next_from + start, count);
                values[start..start + count].as_ptr()
            }));
            let row = index * pitch;
            if before > 0 || before + count < pitch {
                for component in to[row..].chunks_mut(step) {
                    clear(&mut component[..before]);
                    clear(&mut component[before + count..pitch]);
                }
            }
            // SAFETY: the rows have `count` values, and each component of each tile has space for a
            // row of `pitch` values.
            unsafe {
                let to = to.as_mut_ptr().add(row + before);
                transform(&rows.from, count, to, (components * step, step), odd.as_mut_ptr());
            }
        }
    }
}

/// Rounds up to an odd number of cache lines: components that are written together would otherwise
/// evict each other.
pub fn apart(count: usize) -> usize {
    (count.div_ceil(WIDTH) | 1) * WIDTH
}

/// The rows that a strip of tiles reads, by plane: where they begin in a channel (`None`: none of
/// the tensor's), and in memory.
#[derive(Default)]
struct Rows {
    starts: Vec<Option<usize>>,
    from: Vec<*const f32>,
}

impl Tile {
    /// Whether the other one follows this one, which has `rows` rows of outputs.
    fn is_before(&self, other: &Self, rows: usize) -> bool {
        let place = |tile: &Self| (tile.image, tile.plane, tile.columns.start);
        place(self) == place(other) && self.row + rows == other.row
    }
}

/// Zeros; margins are mostly one value.
fn clear(values: &mut [f32]) {
    match values {
        [] => {}
        [one] => *one = 0.0,
        more => more.fill(0.0),
    }
}

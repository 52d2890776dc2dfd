//! Which convolutions are taken, and the tiles of their outputs.

use std::ops::Range;

use super::super::blocked::{WIDTH, pack};
use super::super::geometry::Geometry;
use super::transform::{COMPONENTS, Source};
use crate::simd::prefetch;

/// Channels on either side from which on the additions are worth it.
const CHANNELS: usize = 16;

/// Outputs of a tile's rows times lanes, at most.
const ROW: usize = 2048;

/// Positions from which on weights are worth a transform.
const POSITIONS: usize = 192;

/// A row that lies beyond the tensor.
static ZEROS: [f32; ROW / WIDTH + 2] = [0.0; ROW / WIDTH + 2];

/// What is summed: a convolution of kernel 3 and stride 1, or its input gradient, which is one too.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub source: [usize; 3],
    pub output: [usize; 3],
    pub padding: [usize; 3],
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
    /// The forward sum, if it is one that gains.
    pub fn forward(g: &Geometry) -> Option<Self> {
        Self::new(g, g.input, g.output, g.padding, [g.channels_in, g.channels_out], false)
    }

    /// The input gradient, if it is one that gains.
    pub fn input_gradient(g: &Geometry) -> Option<Self> {
        let mut padding = [0; 3];
        for (to, from) in padding.iter_mut().zip(g.padding) {
            *to = 2_usize.checked_sub(from)?;
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
        let plain = (g.kernel, g.stride, g.dilation, g.groups) == ([3; 3], [1; 3], [1; 3], 1);
        // A transposed convolution whose output is padded falls short of this.
        let whole = (0..3).all(|a| output[a] + 2 == source[a] + 2 * padding[a]);
        if !plain || !whole || channels.min(lanes) < CHANNELS {
            return None;
        }
        let most = ROW / lanes.next_multiple_of(WIDTH).min(2 * WIDTH);
        let row = output[2].div_ceil(output[2].div_ceil(most));
        let tiles = [g.batch, output[0].div_ceil(2), output[2].div_ceil(row), output[1].div_ceil(2)];
        let products = tiles[1] * tiles[3] * COMPONENTS * 3;
        let gains =
            output[0] * output[1] * 27 * 2 >= products * 3 && g.batch * tiles[1] * tiles[3] * output[2] >= POSITIONS;
        gains.then_some(Walk { source, output, padding, channels, lanes, backwards, tiles, row })
    }

    /// Tiles of all images.
    pub fn tiles(&self) -> usize {
        self.tiles.iter().product()
    }

    pub fn tile(&self, index: usize) -> Tile {
        let [_, planes, parts, rows] = self.tiles;
        let first = index / rows % parts * self.row;
        Tile {
            image: index / (parts * rows * planes),
            plane: index / (parts * rows) % planes * 2,
            row: index % rows * 2,
            columns: first..(first + self.row).min(self.output[2]),
        }
    }

    /// Values of one channel of one component: a row, and what its taps reach.
    pub fn pitch(&self) -> usize {
        self.row + 2
    }

    /// From one component of the source to the next, with so many channels.
    pub fn component(&self, channels: usize) -> usize {
        apart(channels * self.pitch())
    }

    /// From one component of sums, or of output gradients, to the next, with so many lanes.
    pub fn sums(&self, lanes: usize) -> usize {
        apart(self.row * lanes)
    }

    /// Components of the source that tiles read, `[tile][component][channel][position]`; positions beyond a tile are zeros. `odd` is as for
    /// [`Source`].
    pub fn pack<'a>(
        &self,
        transform: Source,
        tiles: &[Tile],
        image: impl Fn(usize) -> pack::Image<'a>,
        channels: Range<usize>,
        mut to: &mut [f32],
        odd: &mut [f32; WIDTH],
    ) {
        let each = COMPONENTS * self.component(channels.len());
        let mut rows = Rows::default();
        for strip in tiles.chunk_by(Tile::is_before) {
            let here;
            (here, to) = to.split_at_mut(strip.len() * each);
            self.pack_strip(transform, strip, image(strip[0].image), channels.clone(), here, &mut rows, odd);
        }
    }

    /// Tiles that lie behind each other, and share rows.
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
        let step = self.component(channels.len());
        assert!(to.len() == strip.len() * COMPONENTS * step, "room for all components");
        // The part of the row that lies within the tensor.
        let reach = tile.columns.len() + 2;
        let before = self.padding[2].saturating_sub(tile.columns.start).min(reach);
        let first = (tile.columns.start + before).saturating_sub(self.padding[2]).min(width);
        let count = (reach - before).min(width - first);
        assert!(count <= ZEROS.len(), "a row is no longer than a tile's");
        let inside =
            |at: usize, axis: usize, length: usize| at.checked_sub(self.padding[axis]).filter(|at| *at < length);
        let planes: [Option<usize>; 4] = std::array::from_fn(|x| inside(tile.plane + x, 0, depth));
        rows.starts.clear();
        for y in 0..2 * strip.len() + 2 {
            let y = inside(tile.row + y, 1, height);
            let start = |x: usize| planes[x].zip(y).map_or(OUTSIDE, |(x, y)| (x * height + y) * width + first);
            rows.starts.push(std::array::from_fn(start));
        }
        for (index, c) in channels.enumerate() {
            let ((values, from), (next, next_from)) = (image.channel(c), image.channel(c + 1));
            let values = &values[from..][..image.volume];
            rows.from.clear();
            for starts in &rows.starts {
                let mut row = [ZEROS.as_ptr(); 4];
                for (row, start) in row.iter_mut().zip(starts) {
                    if *start != OUTSIDE {
                        // The next channel's rows lie far away, where nothing reads ahead by itself.
                        prefetch(next, next_from + start, count);
                        *row = values[*start..*start + count].as_ptr();
                    }
                }
                rows.from.push(row);
            }
            let row = index * pitch;
            if before > 0 || before + count < pitch {
                for component in to[row..].chunks_mut(step) {
                    clear(&mut component[..before]);
                    clear(&mut component[before + count..pitch]);
                }
            }
            // SAFETY: the rows have `count` values, and each component of each tile has room for a row of `pitch` values.
            unsafe {
                let to = to.as_mut_ptr().add(row + before);
                transform(&rows.from, count, to, (COMPONENTS * step, step), odd.as_mut_ptr());
            }
        }
    }
}

/// At least so many values, an odd number of lines of the cache: the sixteen components that are written together would otherwise
/// drive each other out of it.
pub fn apart(count: usize) -> usize {
    (count.div_ceil(WIDTH) | 1) * WIDTH
}

/// Where a row lies that is none of the tensor's.
const OUTSIDE: usize = usize::MAX;

/// The rows that a strip of tiles reads, by plane: where they begin in a channel, and in memory.
#[derive(Default)]
struct Rows {
    starts: Vec<[usize; 4]>,
    from: Vec<[*const f32; 4]>,
}

impl Tile {
    /// Whether the other one lies behind this one.
    fn is_before(&self, other: &Self) -> bool {
        let place = |tile: &Self| (tile.image, tile.plane, tile.columns.start);
        place(self) == place(other) && self.row + 2 == other.row
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

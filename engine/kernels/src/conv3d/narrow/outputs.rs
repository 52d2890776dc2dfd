//! The sums that read the arrangement: outputs from taps (forward, input gradient) on the CPU.
//!
//! Every output is one sum in one order, made by one task: results do not depend on the number of threads.

use rayon::prelude::*;

use super::super::geometry::Geometry;
use super::arrange::{self, Arranged, PhaseGrid};
use super::tile::{Inner, LANES, ROWS, Tile};

/// A task computes at least about so many outputs of each row, so that starting it costs little beside.
const RUN: usize = 2048;

/// Weights of a group of rows, as a tile reads them: for each tap the rows one after the other.
struct RowBlock {
    first: usize,
    rows: usize,
    tile: Tile,
    weights: Vec<f32>,
}

fn pack(inner: &Inner, rows: usize, taps: usize, weight: impl Fn(usize, usize) -> f32 + Sync) -> Vec<RowBlock> {
    (0..rows.div_ceil(ROWS))
        .into_par_iter()
        .map(|block| {
            let first = block * ROWS;
            let count = ROWS.min(rows - first);
            let (height, tile) = inner.tile(count);
            let mut weights = vec![0.0; taps * height];
            for row in 0..count {
                for tap in 0..taps {
                    weights[tap * height + row] = weight(first + row, tap);
                }
            }
            RowBlock { first, rows: count, tile, weights }
        })
        .collect()
}

/// Where the sums of one grid go.
struct Target {
    /// Index of the first value of image 0, row 0.
    start: usize,
    /// Values from one image, and from one row (channel), to the next.
    image: usize,
    channel: usize,
    /// Values from one grid position to the next along each axis.
    steps: [usize; 3],
}

/// A buffer that tasks write disjoint parts of.
#[derive(Clone, Copy)]
struct Shared(*mut f32, usize);
// SAFETY: every task writes other positions: a task owns (image, depth, rows of one grid), and grids of different phases
// interleave without overlap.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Writes `value`, checked against the buffer's end.
    fn put(self, index: usize, value: f32) {
        assert!(index < self.1, "an output lies outside its buffer");
        // SAFETY: the index is within the buffer, and no other task writes it.
        unsafe { *self.0.add(index) = value }
    }

    /// Writes `values + bias` one after the other.
    fn put_row(self, index: usize, values: &[f32], bias: f32) {
        assert!(index + values.len() <= self.1, "a row lies outside its buffer");
        // SAFETY: the range is within the buffer, and no other task writes it.
        let row = unsafe { std::slice::from_raw_parts_mut(self.0.add(index), values.len()) };
        row.iter_mut().zip(values).for_each(|(to, value)| *to = value + bias);
    }
}

/// One grid of outputs: `count` positions, each the sum over `offsets` of weight times value.
struct Grid<'a> {
    source: &'a Arranged,
    offsets: &'a [usize],
    count: [usize; 3],
    blocks: &'a [RowBlock],
    bias: Option<&'a [f32]>,
    target: Target,
}

impl Grid<'_> {
    fn compute(&self, images: usize, out: Shared) {
        let [depth, height, width] = self.count;
        if depth * height * width == 0 {
            return;
        }
        let pitch = self.source.layout.extent[2];
        let rows = RUN.div_ceil(pitch).min(height);
        let chunks = height.div_ceil(rows);
        (0..images * depth * chunks).into_par_iter().for_each_init(
            || [0.0_f32; ROWS * LANES],
            |buffer, task| {
                let (image, d, first) = (task / (depth * chunks), task / chunks % depth, task % chunks * rows);
                let rows = rows.min(height - first);
                let run = (rows - 1) * pitch + width;
                let layout = &self.source.layout;
                let base = image * layout.image + d * layout.plane() + first * pitch;
                let last = self.offsets.iter().max().copied().unwrap_or(0);
                assert!(
                    base + last + run.next_multiple_of(LANES) <= self.source.values.len(),
                    "a tile would read past its arrangement"
                );
                for lane in (0..run).step_by(LANES) {
                    for block in self.blocks {
                        // SAFETY: the assertion above covers every tile of the run; weights hold `offsets.len()` taps of
                        // the tile's height, and the buffer eight rows of `LANES`.
                        unsafe {
                            let source = self.source.values.as_ptr().add(base + lane);
                            (block.tile)(source, self.offsets, block.weights.as_ptr(), buffer.as_mut_ptr());
                        }
                        for row in 0..block.rows {
                            let channel = block.first + row;
                            let bias = self.bias.map_or(0.0, |bias| bias[channel]);
                            let start = self.target.start
                                + image * self.target.image
                                + channel * self.target.channel
                                + d * self.target.steps[0];
                            let sums = &buffer[row * LANES..][..LANES.min(run - lane)];
                            self.store(sums, lane, first, start, bias, out);
                        }
                    }
                }
            },
        );
    }

    /// Stores the sums of one tile, leaving out those computed over a row's end.
    fn store(&self, sums: &[f32], lane: usize, first_row: usize, start: usize, bias: f32, out: Shared) {
        let (pitch, width, steps) = (self.source.layout.extent[2], self.count[2], self.target.steps);
        let mut at = 0;
        while at < sums.len() {
            let (row, column) = ((lane + at) / pitch, (lane + at) % pitch);
            let left = (pitch - column).min(sums.len() - at);
            if column < width {
                let wanted = left.min(width - column);
                let to = start + (first_row + row) * steps[1] + column * steps[2];
                let values = &sums[at..at + wanted];
                if steps[2] == 1 {
                    out.put_row(to, values, bias);
                } else {
                    values.iter().enumerate().for_each(|(i, value)| out.put(to + i * steps[2], value + bias));
                }
            }
            at += left;
        }
    }
}

/// The convolution: `x` is `[B, I, ...input]`, `weight` `[O, I, ...kernel]`; gives `[B, O, ...output]`.
pub fn forward(inner: &Inner, x: &[f32], weight: &[f32], bias: Option<&[f32]>, g: &Geometry) -> Vec<f32> {
    let mut out = vec![0.0; g.output_len()];
    let source = arrange::input(x, g);
    let taps = g.channels_in * g.taps();
    let blocks = pack(inner, g.channels_out, taps, |row, tap| weight[row * taps + tap]);
    let channel: usize = g.output.iter().product();
    let target = Target {
        start: 0,
        image: g.channels_out * channel,
        channel,
        steps: [g.output[1] * g.output[2], g.output[2], 1],
    };
    let grid =
        Grid { source: &source, offsets: &source.layout.offsets, count: g.output, blocks: &blocks, bias, target };
    grid.compute(g.batch, Shared(out.as_mut_ptr(), out.len()));
    out
}

/// The gradient with respect to the input, which is also the transposed convolution: `dy` is `[B, O, ...output]`; gives
/// `[B, I, ...input]`, plus `bias` `[I]`.
pub fn input_gradient(inner: &Inner, dy: &[f32], weight: &[f32], bias: Option<&[f32]>, g: &Geometry) -> Vec<f32> {
    let mut out = vec![0.0; g.input_len()];
    let (source, grids) = arrange::output(dy, g);
    let (taps, channel) = (g.taps(), g.input.iter().product::<usize>());
    let row = [g.input[1] * g.input[2], g.input[2], 1];
    for PhaseGrid { count, start, offsets, taps: reached } in &grids {
        let blocks = pack(inner, g.channels_in, offsets.len(), |c, k| {
            let (from, tap) = (k / reached.len(), reached[k % reached.len()]);
            weight[(from * g.channels_in + c) * taps + tap]
        });
        let target = Target {
            start: start.iter().zip(row).map(|(s, r)| s * r).sum(),
            image: g.channels_in * channel,
            channel,
            steps: std::array::from_fn(|a| row[a] * g.stride[a]),
        };
        let grid = Grid { source: &source, offsets, count: *count, blocks: &blocks, bias, target };
        grid.compute(g.batch, Shared(out.as_mut_ptr(), out.len()));
    }
    out
}

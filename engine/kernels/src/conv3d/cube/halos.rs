//! Convolutions and input gradients of many channels without strides: tiles of the outputs, whose
//! inputs are loaded with their halo (`halo_kernel`).

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::add_pieces;
use super::halo_kernel::{HaloOptions, HaloTile, HaloWorkLaunch, halo_kernel};
use super::matrices::EDGE;
use super::three::{offsets, three};
use super::tile_kernel::UNITS;
use super::tiles::{element_of, ends, many, multiplies, pack, reads_quads};
use crate::conv3d::geometry::Geometry;
use crate::gpu::{element, empty};

/// The maximum number of positions that a unit loads.
const REACH: usize = 4;
/// The maximum shared memory of a workgroup, so that several of them run on a multiprocessor at
/// once.
const MEMORY: usize = 64 << 10;
/// The maximum number of output channels without matrices: with more, the sums of a tap cost more
/// than loading its inputs.
const CHANNELS: usize = 32;
/// The limit of the gaps, relative to the positions, without matrices: a ninth.
const GAPS: (usize, usize) = (10, 9);
/// The minimum number of workgroups with a large tile, on a large GPU.
const ENOUGH: usize = 256;

/// The gaps of an axis, and the reach of its taps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    /// The number of positions that the taps reach over.
    reach: usize,
    /// The positions that the padding of two rows does not share.
    gap: usize,
    /// Zeros before the first input; negative where the first inputs are not read.
    before: isize,
}

impl Gap {
    /// The gaps for a convolution from `input` to `output` positions.
    fn new(taps: usize, dilation: usize, input: usize, output: usize, before: isize) -> Self {
        let reach = (taps - 1) * dilation;
        let behind = (output + reach) as isize - input as isize - before;
        // The zeros after a row are those before the next one.
        let shared = before.min(behind).clamp(0, reach as isize) as usize;
        Gap { reach, gap: reach - shared, before }
    }
}

/// The axes of a convolution, or of the input gradient of one.
fn gaps(g: &Geometry, transposed: bool) -> [Gap; 3] {
    [0, 1, 2].map(|axis| {
        let (taps, dilation, padding) = (g.kernel[axis], g.dilation[axis], g.padding[axis] as isize);
        match transposed {
            false => Gap::new(taps, dilation, g.input[axis], g.output[axis], padding),
            // For a gradient, the taps are read backwards.
            true => {
                let before = ((taps - 1) * dilation) as isize - padding;
                Gap::new(taps, dilation, g.output[axis], g.input[axis], before)
            }
        }
    })
}

/// The tile for this number of output channels, for `blocks` blocks of input channels and for
/// `positions` positions with their gaps.
fn tile(outs: usize, blocks: usize, positions: usize, matrices: bool) -> [usize; 5] {
    let large = |[m, n, ..]: &[usize; 5]| positions.div_ceil(*m) * outs.div_ceil(*n) * blocks >= ENOUGH;
    match (outs, matrices) {
        (..=16, false) => [256, 16, 8, 4, 4],
        (_, false) => [256, 32, 8, 8, 4],
        (..=16, true) => [128, 16, 16, 1, 1],
        (17..=32, true) => [128, 32, 16, 2, 1],
        (_, true) => Some([256, 64, 16, 2, 4]).filter(large).unwrap_or([128, 32, 16, 2, 1]),
    }
}

/// The plan of this convolution with a halo, where it takes fewer instructions than tap by tap
/// (counted in the code for an H100), and the shared memory is large enough.
pub(super) fn plan(x: &CubeTensor, g: &Geometry, transposed: bool) -> Option<(HaloTile, [Gap; 3])> {
    let [_, taps_y, taps_z] = g.kernel;
    let matrices = multiplies(x);
    let [ins, outs] = ends(g, transposed);
    if g.stride != [1; 3] || taps_y * taps_z == 1 || (!matrices && outs > CHANNELS) {
        return None;
    }
    let gaps = gaps(g, transposed);
    let output = if transposed { g.input } else { g.output };
    let (pitch_y, pitch_z) = (output[1] + gaps[1].gap, output[2] + gaps[2].gap);
    if !matrices && pitch_y * pitch_z * GAPS.1 > output[1] * output[2] * GAPS.0 {
        return None;
    }
    let depth = if matrices { EDGE } else { 8 };
    let positions = g.batch * output[0] * pitch_y * pitch_z;
    let [m, n, k, rows, columns] = tile(outs, ins.div_ceil(depth), positions, matrices);
    let seen = m + gaps[1].reach * pitch_z + gaps[2].reach;
    let together = if !matrices && taps_z == 3 && g.dilation[2] == 1 { 3 } else { 1 };
    let tile = HaloTile { m, n, k, rows, columns, reach: seen.div_ceil(UNITS), taps_y, taps_z, together };
    let size = if matrices { x.dtype.size() } else { 4 };
    let results = if matrices { m * n / columns * 4 } else { 0 };
    let bytes = (tile.reach * UNITS + taps_y * taps_z * n) * k * size + results;
    let memory = x.client.properties().hardware.max_shared_memory_size.min(MEMORY);
    (tile.reach <= REACH && bytes <= memory).then_some((tile, gaps))
}

/// Runs a convolution, or an input gradient: `transposed`.
pub(super) fn run(
    x: &CubeTensor,
    weight: &CubeTensor,
    bias: Option<&CubeTensor>,
    g: &Geometry,
    out: [usize; 5],
    transposed: bool,
    (tile, [gap_x, gap_y, gap_z]): (HaloTile, [Gap; 3]),
) -> CubeTensor {
    let [ins, outs] = ends(g, transposed);
    let (input, output) = if transposed { (g.output, g.input) } else { (g.input, g.output) };
    let matrices = multiplies(x);
    let width = outs.next_multiple_of(tile.n);
    let packed = pack(x, weight, g, width, matrices, transposed, transposed);
    let (pitch_y, pitch_z) = (output[1] + gap_y.gap, output[2] + gap_z.gap);
    let positions = g.batch * output[0] * pitch_y * pitch_z;
    let tasks = g.groups * (width / tile.n) * positions.div_ceil(tile.m);
    let pieces = many(tile.n).div_ceil(tasks.max(1)).clamp(1, ins.div_ceil(tile.k));
    let span = ins.div_ceil(pieces).next_multiple_of(tile.k);
    let pieces = ins.div_ceil(span);
    let total: usize = out.iter().product();
    let to = if pieces == 1 { empty(x, out, x.dtype) } else { empty(x, [pieces, total], DType::F32) };
    let tasks = tasks * pieces;
    let u = |n: usize| n as u32;
    let work = HaloWorkLaunch {
        tasks: u(tasks),
        batch: u(g.batch),
        groups: u(g.groups),
        channels_in: u(ins),
        channels_out: u(outs),
        width: u(width),
        span: u(span),
        taps_x: u(g.kernel[0]),
        input: three(input),
        output: three(output),
        apart: three(g.dilation),
        pad: offsets([gap_x, gap_y, gap_z].map(|gap| gap.before as i64)),
        pitch_y: u(pitch_y),
        pitch_z: u(pitch_z),
        seen: u(tile.m + gap_y.reach * pitch_z + gap_z.reach),
    };
    let dim = CubeDim::new_1d(UNITS as u32);
    let count = cubecl::calculate_cube_count_elemwise(&x.client, tasks * UNITS, dim);
    let biased = bias.filter(|_| pieces == 1);
    let options = HaloOptions { tile, biased: biased.is_some(), matrices, quads: reads_quads(x) };
    // SAFETY: inputs are read at positions within the image, packed weights and outputs below their
    // counts, shared memory at positions within the sizes of the tile.
    unsafe {
        halo_kernel::launch_unchecked(
            &x.client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            packed.clone().into_tensor_arg(),
            biased.unwrap_or(&packed).clone().into_tensor_arg(),
            to.clone().into_tensor_arg(),
            work,
            options,
            element(x),
            element_of(packed.dtype),
            element(&to),
        );
    }
    if pieces == 1 { to } else { add_pieces(x, to, bias, pieces, out) }
}

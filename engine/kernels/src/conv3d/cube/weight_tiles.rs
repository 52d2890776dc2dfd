//! Weight gradients of many channels: tiles of the gradient (`weight_tile_kernel`).

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::add_pieces;
use super::three::three;
use super::tile_kernel::UNITS;
use super::tiles::{multiplies, reads_quads};
use super::weight_tile_kernel::{WeightOptions, WeightTile, WeightWorkLaunch, weight_tile_kernel};
use crate::conv3d::geometry::Geometry;
use crate::gpu::{element, empty};

/// The number of input and output channels from which tiles are used: half of their smallest size.
/// Measured from 16.
const CHANNELS: usize = 9;
/// The number of workgroups that a launch should have to keep a large GPU busy: for 16, and for
/// more channels.
const MANY: [usize; 2] = [1 << 10, 1 << 9];
/// The minimum number of steps of a workgroup, where the positions are divided.
const STEPS: usize = 8;

/// Whether tiles are used for this weight gradient.
pub(super) fn takes(g: &Geometry) -> bool {
    g.channels_in >= CHANNELS && g.channels_out >= CHANNELS
}

/// The tile for these numbers of input and output channels, and of taps along the last axis: the
/// fastest of six for most layers, on an H100 (docs/benches/runs/2026-11-27-h100.md).
fn tile(ins: usize, outs: usize, taps: usize, matrices: bool) -> WeightTile {
    let together = if taps == 3 { 3 } else { 1 };
    let [m, n, k, taps, rows, columns] = match (ins.min(outs), matrices, together) {
        (..=16, false, _) => [16, 16, 64, together, 1, 1],
        (17..=32, false, _) => [32, 32, 32, together, 1, 1],
        (_, false, _) => [64, 64, 32, 1, 1, 1],
        (..=16, true, 3) => [16, 16, 64, 3, 1, 3],
        (..=16, true, _) => [16, 16, 64, 1, 1, 1],
        (17..=32, true, 3) => [32, 32, 64, 3, 1, 3],
        (17..=32, true, _) => [32, 32, 64, 1, 1, 1],
        (_, true, _) => [64, 64, 64, 1, 2, 1],
    };
    WeightTile { m, n, k, taps, rows, columns }
}

/// The number of workgroups that a launch of tiles should have with this many channels.
fn many(channels: usize) -> usize {
    MANY[usize::from(channels > 16)]
}

/// Computes the gradient, of the shape `weight`.
pub(super) fn run(x: &CubeTensor, dy: &CubeTensor, g: &Geometry, weight: [usize; 5]) -> CubeTensor {
    let matrices = multiplies(x);
    let tile = tile(g.channels_in, g.channels_out, g.kernel[2], matrices);
    let positions = g.batch * g.output.iter().product::<usize>();
    let tasks = g.groups
        * g.channels_in.div_ceil(tile.n)
        * g.channels_out.div_ceil(tile.m)
        * (g.kernel[0] * g.kernel[1] * (g.kernel[2] / tile.taps));
    let pieces = many(tile.n).div_ceil(tasks).clamp(1, positions.div_ceil(tile.k * STEPS).max(1));
    let span = positions.div_ceil(pieces).next_multiple_of(tile.k);
    let pieces = positions.div_ceil(span).max(1);
    let tasks = tasks * pieces;
    let parts = empty(x, [pieces, g.groups * g.weight_len()], DType::F32);
    let u = |n: usize| n as u32;
    let work = WeightWorkLaunch {
        tasks: u(tasks),
        batch: u(g.batch),
        groups: u(g.groups),
        channels_in: u(g.channels_in),
        channels_out: u(g.channels_out),
        span: u(span),
        input: three(g.input),
        output: three(g.output),
        kernel: three(g.kernel),
        stride: three(g.stride),
        apart: three(g.dilation),
        pad: three(g.padding),
    };
    let staged = if matrices { x.dtype } else { DType::F32 };
    let dim = CubeDim::new_1d(UNITS as u32);
    let count = cubecl::calculate_cube_count_elemwise(&x.client, tasks * UNITS, dim);
    // SAFETY: inputs and gradients are read at positions within the image, or at 0; a workgroup
    // writes the sums of its own piece; shared memory is accessed at positions within the sizes of
    // the tile.
    unsafe {
        weight_tile_kernel::launch_unchecked(
            &x.client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            dy.clone().into_tensor_arg(),
            parts.clone().into_tensor_arg(),
            work,
            WeightOptions { tile, matrices, quads: reads_quads(x) },
            element(x),
            super::tiles::element_of(staged),
        );
    }
    add_pieces(x, parts, None, pieces, weight)
}

//! Weight gradients: sums of pieces of the positions, then of the pieces.

#![allow(clippy::manual_is_multiple_of, reason = "CubeCL supports no other form")]

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::axis::Axis;
use super::three::{offsets, three};
use super::{OUTS, Sizes, SizesLaunch, add_pieces, is_read, outs, weight_tiles};
use crate::conv3d::geometry::Geometry;
use crate::gpu::{element, empty, ordered};

/// The number of units of a workgroup that sums a weight gradient.
const LANES: usize = 64;
/// The maximum number of sums of a unit in a weight gradient.
const SUMS: usize = 96;
/// The number of neighbouring outputs of a unit in a weight gradient.
const ROWS: usize = 4;
/// The number of runs of outputs per unit of a weight gradient, so that adding up its sums pays
/// off.
const RUNS: usize = 8;
/// The number of workgroups that a weight gradient should have.
const WORKGROUPS: usize = 1 << 12;
/// The number of sums that are added up over the workgroup at a time.
const ROUND: usize = 24;

/// The weight gradient.
pub(super) fn weights(x: CubeTensor, dy: CubeTensor, g: &Geometry) -> CubeTensor {
    let [x, dy] = ordered([x, dy]);
    let weight = [g.channels()[1], g.channels_in, g.kernel[0], g.kernel[1], g.kernel[2]];
    let g = &g.flat_first();
    if weight_tiles::takes(g) {
        return weight_tiles::run(&x, &dy, g, weight);
    }
    let axes = [0, 1, 2].map(|axis| Axis::plain(g, axis));
    let [kx, ky, kz] = g.kernel;
    // The taps along the last axis are combined where the registers hold them.
    let (outs, together) = match SUMS / (ky * kz) {
        0 => (outs(g.channels_out, (SUMS / ky).next_power_of_two() / 2).clamp(1, OUTS), 1),
        most => (outs(g.channels_out, (most + 1).next_power_of_two() / 2).clamp(1, OUTS), kz),
    };
    let tiles = g.channels_out.div_ceil(outs);
    let runs = g.batch * g.output[0] * g.output[1].div_ceil(ROWS) * g.output[2];
    let each_piece = g.groups * tiles * g.channels_in * kx * (kz / together);
    let pieces = runs.div_ceil(LANES * RUNS).min(WORKGROUPS.div_ceil(each_piece));
    let client = x.client.clone();
    let total = g.groups * g.weight_len();
    let parts = empty(&x, [pieces, total], DType::F32);
    let u = |n: usize| n as u32;
    let [stride_x, _, stride_z] = g.stride.map(u);
    let [apart_x, _, apart_z] = g.dilation.map(u);
    let sizes = SizesLaunch {
        units: u(each_piece * pieces),
        groups: u(g.groups),
        channels_in: u(g.channels_in),
        channels_out: u(g.channels_out),
        input: three(g.input),
        output: three(g.output),
        kx: u(kx),
        kz: u(kz),
        stride_x,
        stride_z,
        apart_x,
        apart_z,
        begin: offsets(axes.map(|axis| axis.begin)),
    };
    let dim = CubeDim::new_1d(LANES as u32);
    let count = cubecl::calculate_cube_count_elemwise(&client, each_piece * pieces * LANES, dim);
    let (image, gradient) = (x.clone().into_tensor_arg(), dy.into_tensor_arg());
    // SAFETY: inputs and gradients are read at positions within the image, or at 0; a workgroup writes the
    // sums of its own piece.
    unsafe {
        weights_kernel::launch_unchecked(
            &client,
            count,
            dim,
            image,
            gradient,
            parts.clone().into_tensor_arg(),
            WorkLaunch { sizes, batch: u(g.batch), pieces: u(pieces) },
            UnitTile { outs, taps: ky, together, stride: axes[1].stride, apart: axes[1].apart },
            element(&x),
        );
    }
    add_pieces(&x, parts, None, pieces, weight)
}

/// The parameters of the kernel; a unit in its sizes is a workgroup.
#[derive(CubeLaunch, CubeType)]
struct Work {
    sizes: Sizes,
    batch: u32,
    pieces: u32,
}

/// The work of a unit: output channels, taps along the second axis and neighbours along the last,
/// and the parameters of the second axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnitTile {
    outs: usize,
    taps: usize,
    together: usize,
    stride: usize,
    apart: usize,
}

/// Each workgroup computes a piece of the positions, a group, `outs` output channels, an input
/// channel, a tap along the first axis, and `together` taps along the last.
#[cube(launch_unchecked)]
fn weights_kernel<F: Float>(
    input: &Tensor<F>,
    gradient: &Tensor<F>,
    parts: &mut Tensor<f32>,
    work: &Work,
    #[comptime] unit_tile: UnitTile,
    #[define(F)] _of: ElemType,
) {
    let sizes = &work.sizes;
    let task = CUBE_POS;
    if task >= sizes.units as usize {
        terminate!();
    }
    let (outs, taps, together) = comptime!((unit_tile.outs, unit_tile.taps, unit_tile.together));
    let (stride, apart) = comptime!((unit_tile.stride, unit_tile.apart));
    let (ox, oy, oz) = sizes.output.axes();
    let (nx, ny, nz) = sizes.input.axes();
    let (ins, all) = (sizes.channels_in as usize, sizes.channels_out as usize);
    let (kx, kz) = (sizes.kx as usize, sizes.kz as usize);
    let pieces = work.pieces as usize;
    let piece = task % pieces;
    let rest = task / pieces;
    let spans = kz / together;
    let c_first = rest % spans * together;
    let rest = rest / spans;
    let a = rest % kx;
    let rest = rest / kx;
    let i = rest % ins;
    let rest = rest / ins;
    let tiles = all.div_ceil(outs);
    let tile = rest % tiles;
    let group = rest / tiles;
    let groups = sizes.groups as usize;

    let lines = comptime!((ROWS - 1) * stride + (taps - 1) * apart + 1);
    let count = comptime!(outs * taps * together);
    let mut sums = Array::<f32>::new(count);
    #[unroll]
    for i in 0..count {
        sums[i] = 0.0f32;
    }
    let mut values = Array::<f32>::new(lines);
    let mut slopes = Array::<f32>::new(comptime!(ROWS * outs));
    let blocks = oy.div_ceil(ROWS);
    let runs = work.batch as usize * ox * blocks * oz;
    let plane = ox * oy * oz;
    let mut run = piece * LANES + UNIT_POS as usize;
    while run < runs {
        let z = run % oz;
        let y = run / oz % blocks * ROWS;
        let rest = run / (oz * blocks);
        let x = rest % ox;
        let image = rest / ox * groups + group;
        #[unroll]
        for row in 0..ROWS {
            #[unroll]
            for o in 0..outs {
                let channel = tile * outs + o;
                let there = y + row < oy && channel < all;
                let at = (image * all + channel) * plane + (x * oy + y + row) * oz + z;
                let value = f32::cast_from(gradient[select(there, at, 0usize)]);
                slopes[comptime!(row * outs + o)] = select(there, value, 0.0f32);
            }
        }
        let at_x = i32::cast_from(x * sizes.stride_x as usize + a * sizes.apart_x as usize) + sizes.begin.x;
        let in_x = at_x >= 0i32 && at_x < i32::cast_from(nx);
        let first_y = i32::cast_from(y * stride) + sizes.begin.y;
        #[unroll]
        for c in 0..together {
            let at_z =
                i32::cast_from(z * sizes.stride_z as usize + (c_first + c) * sizes.apart_z as usize) + sizes.begin.z;
            let inside = in_x && at_z >= 0i32 && at_z < i32::cast_from(nz);
            #[unroll]
            for line in 0..lines {
                if comptime!(is_read(line, ROWS, taps, stride, apart)) {
                    let at_y = first_y + i32::cast_from(line);
                    let there = inside && at_y >= 0i32 && at_y < i32::cast_from(ny);
                    let at = ((image * ins + i) * nx + usize::cast_from(at_x)) * ny + usize::cast_from(at_y);
                    let at = at * nz + usize::cast_from(at_z);
                    let value = f32::cast_from(input[select(there, at, 0usize)]);
                    values[line] = select(there, value, 0.0f32);
                }
            }
            #[unroll]
            for b in 0..taps {
                #[unroll]
                for o in 0..outs {
                    #[unroll]
                    for row in 0..ROWS {
                        sums[comptime!((b * together + c) * outs + o)] +=
                            values[comptime!(row * stride + b * apart)] * slopes[comptime!(row * outs + o)];
                    }
                }
            }
        }
        run += pieces * LANES;
    }

    // A row of the sums of all units is one longer, so that units access different banks.
    let mut places = Shared::new_slice(comptime!(ROUND * (LANES + 1)));
    let unit = UNIT_POS as usize;
    let total = groups * all * ins * kx * taps * kz;
    #[unroll]
    for round in 0..comptime!(count.div_ceil(ROUND)) {
        sync_cube();
        #[unroll]
        for i in 0..comptime!(usize::min(ROUND, count - round * ROUND)) {
            places[i * comptime!(LANES + 1) + unit] = sums[comptime!(round * ROUND + i)];
        }
        sync_cube();
        if unit < comptime!(usize::min(ROUND, count - round * ROUND)) {
            let mut sum = 0.0f32;
            for other in 0..LANES {
                sum += places[unit * comptime!(LANES + 1) + other];
            }
            let which = round * ROUND + unit;
            let channel = tile * outs + which % outs;
            let c = which / outs % together + c_first;
            let b = which / comptime!(outs * together);
            if channel < all {
                let filter = (group * all + channel) * ins + i;
                parts[piece * total + ((filter * kx + a) * taps + b) * kz + c] = sum;
            }
        }
    }
}

//! A workgroup computes a tile of a weight gradient: `m` output by `n` input channels, at `taps`
//! taps along the last axis. The inputs and gradients of some positions are staged in shared
//! memory; then each unit accumulates sums in registers, or each plane of units multiplies
//! matrices. Where a tile has fewer sums than the units can hold, they divide the positions, and
//! their sums are added up at the end.

#![allow(clippy::manual_is_multiple_of, reason = "CubeCL supports no other form")]

use cubecl::cmma::MatrixLayout;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::matrices::{EDGE, PLANE, multiply, write, zeros};
use super::three::Three;
use super::tile_kernel::{UNITS, bring_out};

/// Rows and columns of the sums of a unit, for each tap.
const SUMS: usize = 4;
/// The number of sums of a unit that are added up over the workgroup at a time.
const ROUND: usize = 8;
/// The padding at the end of a row of shared memory, so that units access different banks.
const APART: usize = 8;
/// The number of neighbouring positions that a plane loads.
const NEIGHBOURS: usize = 8;

/// The work of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WeightTile {
    /// Output channels, input channels, and positions per step: 32 or 64.
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Neighbouring taps along the last axis.
    pub taps: usize,
    /// Matrices of a plane.
    pub rows: usize,
    pub columns: usize,
}

/// Compile-time options of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WeightOptions {
    pub tile: WeightTile,
    /// Whether planes multiply matrices.
    pub matrices: bool,
    /// Whether four values of shared memory are read at once.
    pub quads: bool,
}

/// A weight gradient.
#[derive(CubeLaunch, CubeType)]
pub(super) struct WeightWork {
    pub tasks: u32,
    pub batch: u32,
    pub groups: u32,
    pub channels_in: u32,
    pub channels_out: u32,
    pub span: u32,
    pub input: Three,
    pub output: Three,
    pub kernel: Three,
    pub stride: Three,
    pub apart: Three,
    pub pad: Three,
}

#[cube(launch_unchecked)]
pub(super) fn weight_tile_kernel<F: Float, S: Float>(
    input: &Tensor<F>,
    gradient: &Tensor<F>,
    parts: &mut Tensor<f32>,
    work: &WeightWork,
    #[comptime] options: WeightOptions,
    #[define(F)] _of: ElemType,
    #[define(S)] _staged: ElemType,
) {
    let task = CUBE_POS;
    if task >= work.tasks as usize {
        terminate!();
    }
    let tile = comptime!(options.tile);
    let (matrices, quads) = comptime!((options.matrices, options.quads));
    let (m, n, k, taps) = comptime!((tile.m, tile.n, tile.k, tile.taps));
    let unit = UNIT_POS as usize;
    let (ins, outs) = (work.channels_in as usize, work.channels_out as usize);
    let (batch, groups) = (work.batch as usize, work.groups as usize);
    let (nx, ny, nz) = work.input.axes();
    let (ox, oy, oz) = work.output.axes();
    let (kx, ky, kz) = work.kernel.axes();
    let positions = batch * ox * oy * oz;

    let (tiles_in, tiles_out) = (ins.div_ceil(n), outs.div_ceil(m));
    let first_in = task % tiles_in * n;
    let rest = task / tiles_in;
    let first_out = rest % tiles_out * m;
    let rest = rest / tiles_out;
    let runs = kz / taps;
    let (c, rest) = (rest % runs * taps, rest / runs);
    let (b, rest) = (rest % ky, rest / ky);
    let (a, rest) = (rest % kx, rest / kx);
    let (group, piece) = (rest % groups, rest / groups);
    let from = piece * work.span as usize;
    let to = usize::min(from + work.span as usize, positions);
    let begin_x = i32::cast_from(a * work.apart.x as usize) - i32::cast_from(work.pad.x);
    let begin_y = i32::cast_from(b * work.apart.y as usize) - i32::cast_from(work.pad.y);
    let begin_z = i32::cast_from(c * work.apart.z as usize) - i32::cast_from(work.pad.z);
    let apart = i32::cast_from(work.apart.z);
    let (limit_x, limit_y, limit_z) = (i32::cast_from(nx), i32::cast_from(ny), i32::cast_from(nz));

    // A plane loads eight neighbours of four channels: whole sectors of memory, to different banks.
    let (lane, many) = (unit % PLANE, unit / PLANE);
    let bundles = comptime!(k / NEIGHBOURS);
    let mine = lane % NEIGHBOURS + many % bundles * NEIGHBOURS;
    let channel = lane / NEIGHBOURS + many / bundles * comptime!(PLANE / NEIGHBOURS);
    // The number of channels that all units load at a time.
    let each = comptime!(UNITS / k);
    let bring = comptime!(m / each);
    let bring_in = comptime!(n / each);
    let width = comptime!(m + APART);
    let width_in = comptime!(n * taps + APART);
    let mut gradients = Shared::<[Vector<S, Const<1>>]>::new_aligned_slice(comptime!(k * width), 32usize);
    let mut inputs = Shared::<[Vector<S, Const<1>>]>::new_aligned_slice(comptime!(k * width_in), 32usize);
    let mut brought = Array::<S>::new(bring);
    let mut brought_in = Array::<S>::new(comptime!(bring_in * taps));

    // The units, or planes, of a tile; the number of them that share it, and the positions that
    // this one adds.
    let high = comptime!(if matrices { m / EDGE / tile.rows } else { m / SUMS });
    let wide = comptime!(if matrices { n * taps / EDGE / tile.columns } else { n / SUMS });
    let cover = comptime!(high * wide);
    let depth = comptime!(if matrices { k / EDGE } else { k });
    let shares = comptime!({
        let fit = if matrices { UNITS / PLANE } else { UNITS } / cover;
        if fit < depth { fit } else { depth }
    });
    let who = if comptime!(matrices) { many } else { unit };
    let (place, share) = (who % cover, who / cover);
    let (down, side) = (place % high, place / high);
    let count = comptime!(SUMS * SUMS * taps);
    let mut sums = Array::<f32>::new(comptime!(if matrices { 1 } else { count }));
    let products = zeros(comptime!(if matrices { tile.rows * tile.columns } else { 0 }));
    if comptime!(!matrices) {
        #[unroll]
        for i in 0..count {
            sums[i] = 0.0f32;
        }
    }

    let steps = (to - from).div_ceil(k);
    for step in 0..steps + 1 {
        // The next values are loaded while the current ones are multiplied.
        if step > 0 {
            sync_cube();
            #[unroll]
            for i in 0..bring {
                gradients[mine * width + channel + comptime!(i * each)] = Vector::new(brought[i]);
            }
            #[unroll]
            for tap in 0..taps {
                #[unroll]
                for i in 0..bring_in {
                    inputs[mine * width_in + channel + comptime!(tap * n + i * each)] =
                        Vector::new(brought_in[comptime!(tap * bring_in + i)]);
                }
            }
            sync_cube();
        }
        if step < steps {
            let at = from + step * k + mine;
            let is_one = at < to;
            let z = at % oz;
            let y = at / oz % oy;
            let x = at / (oz * oy) % ox;
            let image = usize::min(at / (oz * oy * ox), batch - 1usize);
            let plane = ox * oy * oz;
            let place = ((image * groups + group) * outs + first_out + channel) * plane + (x * oy + y) * oz + z;
            #[unroll]
            for i in 0..bring {
                let is_read = is_one && first_out + channel + comptime!(i * each) < outs;
                let value = gradient[select(is_read, place + comptime!(i * each) * plane, 0usize)];
                brought[i] = S::cast_from(select(is_read, value, F::from_int(0)));
            }
            let at_x = i32::cast_from(x * work.stride.x as usize) + begin_x;
            let at_y = i32::cast_from(y * work.stride.y as usize) + begin_y;
            let at_z = i32::cast_from(z * work.stride.z as usize) + begin_z;
            let in_x = at_x >= 0i32 && at_x < limit_x;
            let in_y = at_y >= 0i32 && at_y < limit_y;
            let plane = nx * ny * nz;
            let place = ((image * groups + group) * ins + first_in + channel) * plane
                + (usize::cast_from(at_x) * ny + usize::cast_from(at_y)) * nz;
            #[unroll]
            for tap in 0..taps {
                let at_z = at_z + i32::cast_from(tap) * apart;
                let there = is_one && in_x && in_y && at_z >= 0i32 && at_z < limit_z;
                #[unroll]
                for i in 0..bring_in {
                    let is_read = there && first_in + channel + comptime!(i * each) < ins;
                    let at = place + comptime!(i * each) * plane + usize::cast_from(at_z);
                    let value = input[select(is_read, at, 0usize)];
                    brought_in[comptime!(tap * bring_in + i)] = S::cast_from(select(is_read, value, F::from_int(0)));
                }
            }
        }
        if step > 0 && share < shares {
            if comptime!(matrices) {
                #[unroll]
                for deep in 0..comptime!(depth / shares) {
                    let deep = (share + deep * shares) * EDGE;
                    let at = deep * width + down * comptime!(tile.rows * EDGE);
                    let by_at = deep * width_in + side * comptime!(tile.columns * EDGE);
                    multiply(
                        &gradients,
                        at,
                        width,
                        MatrixLayout::ColMajor,
                        &inputs,
                        by_at,
                        width_in,
                        &products,
                        tile.rows,
                        tile.columns,
                    );
                }
            } else {
                let mut slopes = Array::<f32>::new(SUMS);
                let mut values = Array::<f32>::new(SUMS);
                for deep in 0..comptime!(depth / shares) {
                    let deep = deep * shares + share;
                    bring_out(&gradients, deep * width + down * SUMS, 0usize, &mut slopes, SUMS, SUMS, quads);
                    #[unroll]
                    for tap in 0..taps {
                        let at = deep * width_in + side * SUMS;
                        bring_out(&inputs, at, comptime!(tap * n), &mut values, SUMS, SUMS, quads);
                        #[unroll]
                        for j in 0..SUMS {
                            #[unroll]
                            for i in 0..SUMS {
                                sums[comptime!((tap * SUMS + j) * SUMS + i)] += slopes[i] * values[j];
                            }
                        }
                    }
                }
            }
        }
    }

    let total = groups * outs * ins * kx * ky * kz;
    let tap = (a * ky + b) * kz + c;
    if comptime!(matrices) {
        let mut results = Shared::<[f32]>::new_aligned_slice(comptime!(shares * m * n * taps), 32usize);
        if share < shares {
            let at = share * comptime!(m * n * taps)
                + side * comptime!(tile.columns * EDGE * m)
                + down * comptime!(tile.rows * EDGE);
            #[unroll]
            for j in 0..tile.columns {
                let at = at + comptime!(j * EDGE * m);
                write(&products, &mut results, at, m, tile.rows, tile.columns, j);
            }
        }
        sync_cube();
        #[unroll]
        for i in 0..comptime!((m * n * taps).div_ceil(UNITS)) {
            let at = unit + comptime!(i * UNITS);
            let (o, column) = (first_out + at % m, at / m);
            let (channel, along) = (first_in + column % n, column / n);
            if at < comptime!(m * n * taps) && o < outs && channel < ins {
                let mut sum = 0.0f32;
                #[unroll]
                for share in 0..shares {
                    sum += results[at + comptime!(share * m * n * taps)];
                }
                parts[piece * total + ((group * outs + o) * ins + channel) * (kx * ky * kz) + tap + along] = sum;
            }
        }
    } else {
        // Eight sums of each unit at a time, so that little shared memory is needed.
        let mut places = Shared::<[f32]>::new_slice(comptime!(UNITS * ROUND));
        #[unroll]
        for round in 0..comptime!(count / ROUND) {
            sync_cube();
            #[unroll]
            for i in 0..ROUND {
                places[unit + comptime!(i * UNITS)] = sums[comptime!(round * ROUND + i)];
            }
            sync_cube();
            #[unroll]
            for i in 0..comptime!((cover * ROUND).div_ceil(UNITS)) {
                let at = unit + comptime!(i * UNITS);
                let (place, which) = (at % cover, at / cover);
                let o = first_out + place % high * SUMS + which % SUMS;
                let column = comptime!(round * ROUND % (SUMS * SUMS) / SUMS) + which / SUMS;
                let channel = first_in + place / high * SUMS + column;
                if which < ROUND && o < outs && channel < ins {
                    let mut sum = 0.0f32;
                    #[unroll]
                    for share in 0..shares {
                        sum += places[which * UNITS + place + comptime!(share * cover)];
                    }
                    let along = comptime!(round * ROUND / (SUMS * SUMS));
                    parts[piece * total + ((group * outs + o) * ins + channel) * (kx * ky * kz) + tap + along] = sum;
                }
            }
        }
    }
}

//! A workgroup computes a tile of the outputs: `m` positions by `n` channels. The inputs and
//! weights of a few channels of a tap are staged in shared memory; then each unit accumulates
//! `rows` by `columns` sums in registers, or each plane of units multiplies matrices.

#![allow(clippy::manual_is_multiple_of, reason = "CubeCL supports no other form")]

use cubecl::cmma::MatrixLayout;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::matrices::{EDGE, PLANE, multiply, write, zeros};
use super::three::Three;

/// The number of units of a workgroup.
pub(super) const UNITS: usize = 256;

/// The maximum index in shared memory.
pub(super) const PLACES: usize = (1 << 16) - 1;

/// The work of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tile {
    /// Positions, output channels, and input channels per step.
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Sums of a unit: positions by channels.
    pub rows: usize,
    pub columns: usize,
}

/// Compile-time options of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TileOptions {
    pub tile: Tile,
    pub transposed: bool,
    pub biased: bool,
    /// Whether planes multiply matrices.
    pub matrices: bool,
    /// Whether four values of shared memory are read at once.
    pub quads: bool,
}

/// A convolution, or an input gradient. An output `first + i * step` of an axis is the sum over the
/// taps `t` of input `i * stride + t * apart - padding`; for an input gradient, of input
/// `(first + padding - t) / step + i`, over the taps that are divisible without remainder.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Work {
    pub tasks: u32,
    pub batch: u32,
    pub groups: u32,
    pub channels_in: u32,
    pub channels_out: u32,
    pub width: u32,
    pub span: u32,
    pub input: Three,
    pub output: Three,
    pub kernel: Three,
    pub stride: Three,
    pub step: Three,
    pub apart: Three,
    pub pad: Three,
}

/// The index of a unit's `i`-th row (or column): neighbours in groups of four, so that four are
/// read at once.
pub(super) const fn spread(i: usize, of: usize, each: usize) -> usize {
    let four = if each < 4 { each } else { 4 };
    i / four * (of / (each / four)) + i % four
}

/// Reads a unit's rows or columns from shared memory: those from `at` on, `ahead` of it. With
/// `quads`, four at a time, where the device may read values as vectors.
///
/// An index never exceeds [`PLACES`]. Where the compiler can prove this, it saves one addition per
/// value, as it adds the constant part to the address.
#[cube]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
pub(super) fn bring_out<S: Float>(
    from: &[Vector<S, Const<1>>],
    at: usize,
    #[comptime] ahead: usize,
    to: &mut Array<f32>,
    #[comptime] of: usize,
    #[comptime] each: usize,
    #[comptime] quads: bool,
) {
    if comptime!(quads && each % 4 == 0) {
        let from = from.with_vector_size::<Const<4>>();
        #[unroll]
        for i in 0..comptime!(each / 4) {
            let four = from[(at & PLACES) / 4 + comptime!((ahead + spread(4 * i, of, each)) / 4)];
            #[unroll]
            for j in 0..4 {
                to[comptime!(4 * i + j)] = f32::cast_from(four.extract(j));
            }
        }
    } else {
        #[unroll]
        for i in 0..each {
            let value = from[(at & PLACES) + comptime!(ahead + spread(i, of, each))];
            to[i] = f32::cast_from(value.extract(0usize));
        }
    }
}

/// The position of the first input of an axis.
#[cube]
fn begin(first: usize, tap: usize, step: usize, padding: usize, #[comptime] transposed: bool) -> i32 {
    if comptime!(transposed) { i32::cast_from((first + padding - tap) / step) } else { -i32::cast_from(padding) }
}

#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
pub(super) fn tile_kernel<F: Float, S: Float, O: Float>(
    input: &Tensor<F>,
    packed: &Tensor<S>,
    bias: &Tensor<f32>,
    output: &mut Tensor<O>,
    work: &Work,
    #[comptime] options: TileOptions,
    #[define(F)] _of: ElemType,
    #[define(S)] _staged: ElemType,
    #[define(O)] _to: ElemType,
) {
    let task = CUBE_POS;
    if task >= work.tasks as usize {
        terminate!();
    }
    let tile = comptime!(options.tile);
    let (transposed, biased) = comptime!((options.transposed, options.biased));
    let (matrices, quads) = comptime!((options.matrices, options.quads));
    let (m, n, k) = comptime!((tile.m, tile.n, tile.k));
    let unit = UNIT_POS as usize;
    let (ins, all, width) = (work.channels_in as usize, work.channels_out as usize, work.width as usize);
    let (batch, groups) = (work.batch as usize, work.groups as usize);
    let (nx, ny, nz) = work.input.axes();
    let (to_x, to_y, to_z) = work.output.axes();
    let (step_x, step_y, step_z) = work.step.axes();
    let (kx, ky, kz) = work.kernel.axes();
    // The number of outputs of the remainder that has the most.
    let (ox, oy, oz) = (to_x.div_ceil(step_x), to_y.div_ceil(step_y), to_z.div_ceil(step_z));
    let positions = batch * ox * oy * oz;

    let tiles = width / n;
    let channel = task % tiles * n;
    let rest = task / tiles;
    let blocks = positions.div_ceil(m);
    let position = rest % blocks * m;
    let rest = rest / blocks;
    let group = rest % groups;
    let rest = rest / groups;
    let (first_z, rest) = (rest % step_z, rest / step_z);
    let (first_y, rest) = (rest % step_y, rest / step_y);
    let (first_x, piece) = (rest % step_x, rest / step_x);
    let from = piece * work.span as usize;
    let to = usize::min(from + work.span as usize, ins);

    // The first tap of each axis, the number of taps, and the start of the input.
    let (pad_x, pad_y, pad_z) = work.pad.axes();
    let tap_x = select(comptime!(transposed), (first_x + pad_x) % step_x, 0usize);
    let tap_y = select(comptime!(transposed), (first_y + pad_y) % step_y, 0usize);
    let tap_z = select(comptime!(transposed), (first_z + pad_z) % step_z, 0usize);
    let count_x = (kx + step_x - 1usize - tap_x) / step_x;
    let count_y = (ky + step_y - 1usize - tap_y) / step_y;
    let count_z = (kz + step_z - 1usize - tap_z) / step_z;
    let mut apart_x = i32::cast_from(work.apart.x);
    let mut apart_y = i32::cast_from(work.apart.y);
    let mut apart_z = i32::cast_from(work.apart.z);
    if comptime!(transposed) {
        apart_x = -apart_x;
        apart_y = -apart_y;
        apart_z = -apart_z;
    }

    // The position whose inputs this unit loads.
    let mine = unit % m;
    let at = position + mine;
    let is_one = at < positions;
    let z = at % oz;
    let y = at / oz % oy;
    let x = at / (oz * oy) % ox;
    let image = usize::min(at / (oz * oy * ox), batch - 1usize);
    let begin_x = i32::cast_from(x * work.stride.x as usize) + begin(first_x, tap_x, step_x, pad_x, transposed);
    let begin_y = i32::cast_from(y * work.stride.y as usize) + begin(first_y, tap_y, step_y, pad_y, transposed);
    let begin_z = i32::cast_from(z * work.stride.z as usize) + begin(first_z, tap_z, step_z, pad_z, transposed);
    let plane = nx * ny * nz;
    let (limit_x, limit_y, limit_z) = (i32::cast_from(nx), i32::cast_from(ny), i32::cast_from(nz));
    let first_row = unit / m;
    let images = (image * groups + group) * ins + from + first_row;
    let first_filter = unit / n;

    let mut inputs = Shared::<[Vector<S, Const<1>>]>::new_aligned_slice(comptime!(m * k), 32usize);
    let mut weights = Shared::<[Vector<S, Const<1>>]>::new_aligned_slice(comptime!(n * k), 32usize);
    let bring = comptime!((m * k).div_ceil(UNITS));
    let bring_weights = comptime!((n * k).div_ceil(UNITS));
    let mut brought = Array::<S>::new(bring);
    let mut brought_weights = Array::<S>::new(bring_weights);

    let mut sums = Array::<f32>::new(comptime!(if matrices { 1 } else { tile.rows * tile.columns }));
    let products = zeros(comptime!(if matrices { tile.rows * tile.columns } else { 0 }));
    if comptime!(!matrices) {
        #[unroll]
        for i in 0..comptime!(tile.rows * tile.columns) {
            sums[i] = 0.0f32;
        }
    }

    // The rows and columns of this unit, or of this plane: the units of a plane are arranged eight
    // by four, so that they access few banks.
    let (lane, many) = (unit % PLANE, unit / PLANE);
    let across = comptime!(if matrices { n / (EDGE * tile.columns) } else { n / (4 * tile.columns) });
    let (down, side) = (many / across, many % across);
    let row = comptime!(if tile.rows < 4 { tile.rows } else { 4 });
    let column = comptime!(if tile.columns < 4 { tile.columns } else { 4 });
    let row = (down * 8 + lane % 8) * row;
    let column = (side * 4 + lane / 8) * column;

    let blocks_k = (to - from).div_ceil(k);
    let steps = count_x * count_y * count_z * blocks_k;
    let mut a = 0usize;
    let mut b = 0usize;
    let mut c = 0usize;
    let mut block = 0usize;
    let mut there = false;
    let mut place = 0usize;
    let mut filter = 0usize;
    for step in 0..steps + 1 {
        // The next values are loaded while the current ones are multiplied.
        if step > 0 {
            sync_cube();
            #[unroll]
            for i in 0..bring {
                inputs[unit + comptime!(i * UNITS)] = Vector::new(brought[i]);
            }
            #[unroll]
            for i in 0..bring_weights {
                if comptime!((i + 1) * UNITS <= n * k) || unit + comptime!(i * UNITS) < comptime!(n * k) {
                    weights[unit + comptime!(i * UNITS)] = Vector::new(brought_weights[i]);
                }
            }
            sync_cube();
        }
        if step < steps {
            if block == 0 {
                let at_x = begin_x + i32::cast_from(a) * apart_x;
                let at_y = begin_y + i32::cast_from(b) * apart_y;
                let at_z = begin_z + i32::cast_from(c) * apart_z;
                let in_x = at_x >= 0i32 && at_x < limit_x;
                let in_y = at_y >= 0i32 && at_y < limit_y;
                let in_z = at_z >= 0i32 && at_z < limit_z;
                there = is_one && in_x && in_y && in_z;
                place = images * plane
                    + (usize::cast_from(at_x) * ny + usize::cast_from(at_y)) * nz
                    + usize::cast_from(at_z);
                let tap = ((tap_x + a * step_x) * ky + tap_y + b * step_y) * kz + tap_z + c * step_z;
                filter = ((group * kx * ky * kz + tap) * ins + from + first_filter) * width + channel + unit % n;
            }
            let left = to - from - block * k;
            #[unroll]
            for i in 0..bring {
                let is_read = there && first_row + comptime!(i * UNITS / m) < left;
                let value = input[select(is_read, place + comptime!(i * UNITS / m) * plane, 0usize)];
                brought[i] = S::cast_from(select(is_read, value, F::from_int(0)));
            }
            #[unroll]
            for i in 0..bring_weights {
                let is_read = first_filter + comptime!(i * UNITS / n) < usize::min(left, k);
                let value = packed[select(is_read, filter + comptime!(i * UNITS / n) * width, 0usize)];
                brought_weights[i] = select(is_read, value, S::from_int(0));
            }
            place += plane * k;
            filter += width * k;
            block += 1;
            if block == blocks_k {
                block = 0;
                c += 1;
                if c == count_z {
                    c = 0;
                    b += 1;
                    if b == count_y {
                        b = 0;
                        a += 1;
                    }
                }
            }
        }
        if step > 0 {
            if comptime!(matrices) {
                #[unroll]
                for deep in 0..comptime!(k / EDGE) {
                    let at = comptime!(deep * EDGE * m) + down * comptime!(tile.rows * EDGE);
                    let by_at = comptime!(deep * EDGE * n) + side * comptime!(tile.columns * EDGE);
                    multiply(
                        &inputs,
                        at,
                        m,
                        MatrixLayout::ColMajor,
                        &weights,
                        by_at,
                        n,
                        &products,
                        tile.rows,
                        tile.columns,
                    );
                }
            } else {
                let mut values = Array::<f32>::new(tile.rows);
                let mut factors = Array::<f32>::new(tile.columns);
                #[unroll]
                for deep in 0..k {
                    bring_out(&inputs, row, comptime!(deep * m), &mut values, m, tile.rows, quads);
                    bring_out(&weights, column, comptime!(deep * n), &mut factors, n, tile.columns, quads);
                    #[unroll]
                    for i in 0..tile.rows {
                        #[unroll]
                        for j in 0..tile.columns {
                            sums[comptime!(i * tile.columns + j)] += values[i] * factors[j];
                        }
                    }
                }
            }
        }
    }

    let volume = to_x * to_y * to_z;
    let images = batch * groups;
    if comptime!(matrices) {
        // The matrices are stored where each unit finds its own position.
        let mut results = Shared::<[f32]>::new_aligned_slice(comptime!(m * n), 32usize);
        let at = side * comptime!(tile.columns * EDGE * m) + down * comptime!(tile.rows * EDGE);
        #[unroll]
        for j in 0..tile.columns {
            let at = at + comptime!(j * EDGE * m);
            write(&products, &mut results, at, m, tile.rows, tile.columns, j);
        }
        sync_cube();
        let x = x * step_x + first_x;
        let y = y * step_y + first_y;
        let z = z * step_z + first_z;
        if is_one && x < to_x && y < to_y && z < to_z {
            let at = ((piece * images + image * groups + group) * all + channel) * volume + (x * to_y + y) * to_z + z;
            #[unroll]
            for i in 0..comptime!(m * n / UNITS) {
                let column = first_row + comptime!(i * UNITS / m);
                if channel + column < all {
                    let mut sum = results[column * m + mine];
                    if comptime!(biased) {
                        sum += bias[group * all + channel + column];
                    }
                    output[at + column * volume] = O::cast_from(sum);
                }
            }
        }
    } else {
        #[unroll]
        for i in 0..tile.rows {
            let at = position + row + comptime!(spread(i, m, tile.rows));
            let z = at % oz * step_z + first_z;
            let y = at / oz % oy * step_y + first_y;
            let x = at / (oz * oy) % ox * step_x + first_x;
            if at < positions && x < to_x && y < to_y && z < to_z {
                let image = at / (oz * oy * ox);
                let at = ((piece * images + image * groups + group) * all) * volume + (x * to_y + y) * to_z + z;
                #[unroll]
                for j in 0..tile.columns {
                    let column = channel + column + comptime!(spread(j, n, tile.columns));
                    if column < all {
                        let mut sum = sums[comptime!(i * tile.columns + j)];
                        if comptime!(biased) {
                            sum += bias[group * all + column];
                        }
                        output[at + column * volume] = O::cast_from(sum);
                    }
                }
            }
        }
    }
}

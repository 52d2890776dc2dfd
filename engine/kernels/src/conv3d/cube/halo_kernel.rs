//! A workgroup computes a tile of the outputs of a convolution without strides: `m` positions by
//! `n` channels. The inputs of a few channels, with their halo, and the weights of all taps of a
//! plane are staged in shared memory; then each unit accumulates `rows` by `columns` sums in
//! registers, or each plane of units multiplies matrices.
//!
//! Positions are counted in rows including the gaps that the taps reach over. The input of a tap is
//! therefore at a fixed distance from that of the first tap, whatever the position: `m` consecutive
//! positions and their halo serve all taps of a plane. Results in the gaps are not written.

#![allow(clippy::manual_is_multiple_of, reason = "CubeCL supports no other form")]

use cubecl::cmma::MatrixLayout;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::matrices::{EDGE, PLANE, multiply, write, zeros};
use super::three::{Offsets, Three};
use super::tile_kernel::{PLACES, UNITS, bring_out, spread};

/// The number of half-precision values that are written to shared memory at once.
const AT_ONCE: usize = 8;
/// The number of values of a row of four, plus two more that the taps reach.
const ROW: usize = 6;

/// The work of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HaloTile {
    /// Positions, output channels, and input channels per step.
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Sums of a unit: positions by channels. With matrices, those of a plane.
    pub rows: usize,
    pub columns: usize,
    /// Positions that a unit loads.
    pub reach: usize,
    /// Taps of a plane.
    pub taps_y: usize,
    pub taps_z: usize,
    /// Neighbouring taps along the last axis for which a unit reads inputs once: one or three.
    pub together: usize,
}

/// Compile-time options of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HaloOptions {
    pub tile: HaloTile,
    pub biased: bool,
    /// Whether planes multiply matrices.
    pub matrices: bool,
    /// Whether four values of shared memory are read and written at once.
    pub quads: bool,
}

/// A convolution: output `i` of an axis is the sum over the taps `t` of input `i + t * apart - padding`.
#[derive(CubeLaunch, CubeType)]
pub(super) struct HaloWork {
    pub tasks: u32,
    pub batch: u32,
    pub groups: u32,
    pub channels_in: u32,
    pub channels_out: u32,
    pub width: u32,
    pub span: u32,
    pub taps_x: u32,
    pub input: Three,
    pub output: Three,
    pub apart: Three,
    pub pad: Offsets,
    /// Rows of a plane and positions of a row, including gaps; positions that a workgroup needs.
    pub pitch_y: u32,
    pub pitch_z: u32,
    pub seen: u32,
}

/// Stores the values that a unit has loaded, all channels of a position contiguous, to shared
/// memory.
#[cube]
fn put_together<S: Float>(
    brought: &Array<S>,
    to: &mut [Vector<S, Const<1>>],
    unit: usize,
    #[comptime] reach: usize,
    #[comptime] k: usize,
) {
    let to = to.with_vector_size_mut::<Const<AT_ONCE>>();
    #[unroll]
    for i in 0..reach {
        #[unroll]
        for part in 0..comptime!(k / AT_ONCE) {
            let mut values = Vector::<S, Const<AT_ONCE>>::empty();
            #[unroll]
            for j in 0..AT_ONCE {
                values.insert(j, brought[comptime!(i * k + part * AT_ONCE + j)]);
            }
            to[(unit + comptime!(i * UNITS)) * comptime!(k / AT_ONCE) + part] = values;
        }
    }
}

/// Reads four contiguous weights.
#[cube]
fn read_four<S: Float>(from: &[Vector<S, Const<1>>], at: usize, to: &mut Array<S>, #[comptime] first: usize) {
    let four = from.with_vector_size::<Const<4>>()[at / 4];
    #[unroll]
    for j in 0..4 {
        to[comptime!(first + j)] = four.extract(j);
    }
}

/// Writes four weights.
#[cube]
fn write_four<S: Float>(from: &Array<S>, #[comptime] first: usize, to: &mut [Vector<S, Const<1>>], at: usize) {
    let mut four = Vector::<S, Const<4>>::empty();
    #[unroll]
    for j in 0..4 {
        four.insert(j, from[comptime!(first + j)]);
    }
    to.with_vector_size_mut::<Const<4>>()[at / 4] = four;
}

#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
pub(super) fn halo_kernel<F: Float, S: Float, O: Float>(
    input: &Tensor<F>,
    packed: &Tensor<Vector<S, Const<1>>>,
    bias: &Tensor<f32>,
    output: &mut Tensor<O>,
    work: &HaloWork,
    #[comptime] options: HaloOptions,
    #[define(F)] _of: ElemType,
    #[define(S)] _staged: ElemType,
    #[define(O)] _to: ElemType,
) {
    let task = CUBE_POS;
    if task >= work.tasks as usize {
        terminate!();
    }
    let tile = comptime!(options.tile);
    let (biased, matrices, quads) = comptime!((options.biased, options.matrices, options.quads));
    let (m, n, k, reach, together) = comptime!((tile.m, tile.n, tile.k, tile.reach, tile.together));
    let taps = comptime!(tile.taps_y * tile.taps_z);
    let unit = UNIT_POS as usize;
    let (ins, all, width) = (work.channels_in as usize, work.channels_out as usize, work.width as usize);
    let (batch, groups) = (work.batch as usize, work.groups as usize);
    let (nx, ny, nz) = work.input.axes();
    let (ox, oy, oz) = work.output.axes();
    let (pitch_y, pitch_z) = (work.pitch_y as usize, work.pitch_z as usize);
    let positions = batch * ox * pitch_y * pitch_z;

    let tiles = width / n;
    let channel = task % tiles * n;
    let rest = task / tiles;
    let blocks = positions.div_ceil(m);
    let position = rest % blocks * m;
    let rest = rest / blocks;
    let (group, piece) = (rest % groups, rest / groups);
    let from = piece * work.span as usize;
    let to = usize::min(from + work.span as usize, ins);

    // The positions whose inputs this unit loads, and whether they lie within an image's planes.
    let (sheet, plane) = (ny * nz, nx * ny * nz);
    let (limit_x, limit_y, limit_z) = (i32::cast_from(nx), i32::cast_from(ny), i32::cast_from(nz));
    let mut places_x = Array::<i32>::new(reach);
    let mut places = Array::<usize>::new(reach);
    let mut are_some = Array::<bool>::new(reach);
    #[unroll]
    for i in 0..reach {
        let behind = unit + comptime!(i * UNITS);
        let at = position + behind;
        let row = at / pitch_z;
        let slice = row / pitch_y;
        let image = slice / ox;
        let at_z = i32::cast_from(at % pitch_z) - work.pad.z;
        let at_y = i32::cast_from(row % pitch_y) - work.pad.y;
        let in_y = at_y >= 0i32 && at_y < limit_y;
        let in_z = at_z >= 0i32 && at_z < limit_z;
        places_x[i] = i32::cast_from(slice % ox) - work.pad.x;
        are_some[i] = behind < work.seen as usize && image < batch && in_y && in_z;
        places[i] =
            ((image * groups + group) * ins + from) * plane + usize::cast_from(at_y) * nz + usize::cast_from(at_z);
    }

    let spots = comptime!(reach * UNITS);
    // Some columns of the results are stored there at the end.
    let slots = comptime!(n / tile.columns);
    let pitch = comptime!(if matrices { m } else { m + 1 });
    let held = comptime!(usize::max(spots * k, if matrices { 0 } else { pitch * slots }));
    let mut inputs = Shared::<[Vector<S, Const<1>>]>::new_aligned_slice(held, 32usize);
    let mut weights = Shared::<[Vector<S, Const<1>>]>::new_aligned_slice(comptime!(taps * n * k), 32usize);
    let each = comptime!(if quads { 4 } else { 1 });
    let bring_weights = comptime!((taps * n * k).div_ceil(UNITS * each));
    let mut brought = Array::<S>::new(comptime!(reach * k));
    let mut brought_weights = Array::<S>::new(comptime!(bring_weights * each));

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
    let four = comptime!(if tile.rows < 4 { tile.rows } else { 4 });
    let four_columns = comptime!(if tile.columns < 4 { tile.columns } else { 4 });
    let row = (down * 8 + lane % 8) * four;
    let slot = side * 4 + lane / 8;

    let blocks_k = (to - from).div_ceil(k);
    let steps = work.taps_x as usize * blocks_k;
    let mut a = 0usize;
    let mut block = 0usize;
    for step in 0..steps + 1 {
        // The next values are loaded while the current ones are multiplied.
        if step > 0 {
            sync_cube();
            if comptime!(matrices) {
                put_together(&brought, &mut inputs, unit, reach, k);
            } else {
                #[unroll]
                for i in 0..reach {
                    #[unroll]
                    for deep in 0..k {
                        let value = brought[comptime!(i * k + deep)];
                        inputs[unit + comptime!(i * UNITS + deep * spots)] = Vector::new(value);
                    }
                }
            }
            #[unroll]
            for i in 0..bring_weights {
                let at = (unit + comptime!(i * UNITS)) * each;
                if comptime!((i + 1) * UNITS * each <= taps * n * k) || at < comptime!(taps * n * k) {
                    if comptime!(quads) {
                        write_four(&brought_weights, comptime!(i * each), &mut weights, at);
                    } else {
                        weights[at] = Vector::new(brought_weights[i]);
                    }
                }
            }
            sync_cube();
        }
        if step < steps {
            let left = to - from - block * k;
            #[unroll]
            for i in 0..reach {
                let at_x = places_x[i] + i32::cast_from(a * work.apart.x as usize);
                let place = places[i] + usize::cast_from(at_x) * sheet + block * k * plane;
                let there = are_some[i] && at_x >= 0i32 && at_x < limit_x;
                #[unroll]
                for deep in 0..k {
                    brought[comptime!(i * k + deep)] = S::from_int(0);
                }
                if there && left >= k {
                    #[unroll]
                    for deep in 0..k {
                        brought[comptime!(i * k + deep)] = S::cast_from(input[place + deep * plane]);
                    }
                } else if there {
                    #[unroll]
                    for deep in 0..k {
                        if deep < left {
                            brought[comptime!(i * k + deep)] = S::cast_from(input[place + deep * plane]);
                        }
                    }
                }
            }
            let filters = ((group * work.taps_x as usize + a) * taps * ins + from + block * k) * width + channel;
            #[unroll]
            for i in 0..bring_weights {
                let at = (unit + comptime!(i * UNITS)) * each;
                let (tap, deep) = (at / comptime!(n * k), at / n % k);
                let is_read = tap < taps && deep < left;
                let at = filters + (tap * ins + deep) * width + at % n;
                #[unroll]
                for j in 0..each {
                    brought_weights[comptime!(i * each + j)] = S::from_int(0);
                }
                if is_read {
                    if comptime!(quads) {
                        read_four(packed, at, &mut brought_weights, comptime!(i * each));
                    } else {
                        brought_weights[i] = packed[at].extract(0usize);
                    }
                }
            }
            block += 1;
            if block == blocks_k {
                block = 0;
                a += 1;
            }
        }
        if step > 0 {
            if comptime!(matrices) {
                #[unroll(taps <= 9)]
                for b in 0..tile.taps_y {
                    #[unroll(taps <= 9)]
                    for c in 0..tile.taps_z {
                        let behind = b * work.apart.y as usize * pitch_z + c * work.apart.z as usize;
                        let filter = (b * tile.taps_z + c) * comptime!(n * k);
                        #[unroll]
                        for deep in 0..comptime!(k / EDGE) {
                            multiply(
                                &inputs,
                                (down * comptime!(tile.rows * EDGE) + behind) * k + comptime!(deep * EDGE),
                                k,
                                MatrixLayout::RowMajor,
                                &weights,
                                filter + comptime!(deep * EDGE * n) + side * comptime!(tile.columns * EDGE),
                                n,
                                &products,
                                tile.rows,
                                tile.columns,
                            );
                        }
                    }
                }
            } else {
                for b in 0..tile.taps_y {
                    for c in 0..comptime!(tile.taps_z / together) {
                        let at = row + b * work.apart.y as usize * pitch_z + c * work.apart.z as usize;
                        let filter = (b * tile.taps_z + c * together) * comptime!(n * k) + slot * four_columns;
                        let mut values = Array::<f32>::new(comptime!(tile.rows.div_ceil(4) * ROW));
                        let mut factors = Array::<f32>::new(tile.columns);
                        #[unroll]
                        for deep in 0..k {
                            #[unroll]
                            for i in 0..comptime!(tile.rows.div_ceil(4)) {
                                #[unroll]
                                for j in 0..comptime!(four + together - 1) {
                                    let ahead = comptime!(deep * spots + spread(i * 4, m, tile.rows) + j);
                                    values[comptime!(i * ROW + j)] =
                                        f32::cast_from(inputs[(at & PLACES) + ahead].extract(0usize));
                                }
                            }
                            #[unroll]
                            for tap in 0..together {
                                let ahead = comptime!((tap * k + deep) * n);
                                bring_out(&weights, filter, ahead, &mut factors, n, tile.columns, quads);
                                #[unroll]
                                for i in 0..tile.rows {
                                    #[unroll]
                                    for j in 0..tile.columns {
                                        sums[comptime!(i * tile.columns + j)] +=
                                            values[comptime!(i / 4 * ROW + i % 4 + tap)] * factors[j];
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    // Some columns at a time are stored where each unit finds its own position.
    let mut results = Shared::<[f32]>::new_aligned_slice(comptime!(if matrices { pitch * slots } else { 1 }), 32usize);
    let mine = unit % m;
    let at = position + mine;
    let line = at / pitch_z;
    let (z, y, x) = (at % pitch_z, line % pitch_y, line / pitch_y % ox);
    let image = line / pitch_y / ox;
    let is_one = image < batch && y < oy && z < oz;
    let volume = ox * oy * oz;
    let at = ((piece * batch + image) * groups + group) * all * volume + (x * oy + y) * oz + z;
    #[unroll]
    for j in 0..tile.columns {
        sync_cube();
        if comptime!(matrices) {
            let at = side * comptime!(EDGE * m) + down * comptime!(tile.rows * EDGE);
            write(&products, &mut results, at, m, tile.rows, tile.columns, j);
        } else {
            #[unroll]
            for i in 0..tile.rows {
                let at = slot * pitch + row + comptime!(spread(i, m, tile.rows));
                inputs[at] = Vector::new(S::cast_from(sums[comptime!(i * tile.columns + j)]));
            }
        }
        sync_cube();
        if is_one {
            #[unroll]
            for i in 0..comptime!(m * slots / UNITS) {
                let slot = unit / m + comptime!(i * UNITS / m);
                let column = if comptime!(matrices) {
                    slot / EDGE * comptime!(tile.columns * EDGE) + comptime!(j * EDGE) + slot % EDGE
                } else {
                    slot * four_columns + comptime!(spread(j, n, tile.columns))
                };
                let mut sum = if comptime!(matrices) {
                    results[slot * pitch + mine]
                } else {
                    f32::cast_from(inputs[slot * pitch + mine].extract(0usize))
                };
                let column = channel + column;
                if column < all {
                    if comptime!(biased) {
                        sum += bias[group * all + column];
                    }
                    output[at + column * volume] = O::cast_from(sum);
                }
            }
        }
    }
}

//! Convolutions and input gradients with packed weights: each unit computes some neighbouring
//! outputs of some channels.

#![allow(clippy::manual_is_multiple_of, reason = "CubeCL supports no other form")]

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::axis::Axis;
use super::three::{Offsets, Three, offsets, three};
use super::{OUTS, Sizes, SizesLaunch, add_pieces, is_read, outs, tiles};
use crate::conv3d::geometry::Geometry;
use crate::gpu::{each, element, empty, ordered};

/// The number of units that a launch should have to keep a large GPU busy.
const MANY: usize = 1 << 16;
/// The maximum number of input rows of a unit, unless a single output needs more.
const LINES: usize = 12;

/// The number of neighbouring outputs along the second axis that a unit computes.
fn rows(axes: &[Axis; 3], others: usize) -> usize {
    let y = axes[1];
    let fits = |rows: &usize| {
        let lines = (rows - 1) * y.stride + (y.taps.max(1) - 1) * y.apart + 1;
        let blocks = y.outputs.div_ceil(*rows);
        let units = others * axes[0].outputs * blocks * axes[2].outputs;
        y.apart == 1 && lines <= LINES && units >= MANY && 3 * blocks * rows <= 4 * y.outputs
    };
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

pub(super) fn forward(x: CubeTensor, weight: CubeTensor, bias: Option<CubeTensor>, g: &Geometry) -> CubeTensor {
    let out = shape(g.batch, g.channels()[1], g.output);
    let g = g.flat_first();
    let axes = [0, 1, 2].map(|axis| Axis::plain(&g, axis));
    run(x, weight, bias, &g, out, &[axes], false)
}

pub(super) fn backward(dy: CubeTensor, weight: CubeTensor, bias: Option<CubeTensor>, g: &Geometry) -> CubeTensor {
    let out = shape(g.batch, g.channels()[0], g.input);
    let g = g.flat_first();
    let [x, y, z] = [0, 1, 2].map(|axis| Axis::remainders(&g, axis));
    let mut launches = Vec::new();
    for x in &x {
        for y in &y {
            launches.extend(z.iter().map(|z| [*x, *y, *z]));
        }
    }
    run(dy, weight, bias, &g, out, &launches, true)
}

/// Runs all launches of a convolution or an input gradient. Where there are too few outputs for a
/// large GPU, the input channels are divided as well, and the sums of the parts are added up.
fn run(
    x: CubeTensor,
    weight: CubeTensor,
    bias: Option<CubeTensor>,
    g: &Geometry,
    out: [usize; 5],
    launches: &[[Axis; 3]],
    transposed: bool,
) -> CubeTensor {
    let [x, weight] = ordered([x, weight]);
    let bias = bias.map(|bias| ordered([bias])).map(|[bias]| bias);
    if tiles::takes(g, transposed) {
        return tiles::run(&x, &weight, bias.as_ref(), g, out, transposed);
    }
    let [ins, outs_] = if transposed { [g.channels_out, g.channels_in] } else { [g.channels_in, g.channels_out] };
    let tiles = outs_.div_ceil(outs(outs_, OUTS));
    let units = |axes: &[Axis; 3]| g.batch * g.groups * tiles * axes.iter().map(|axis| axis.outputs).product::<usize>();
    let most = launches.iter().map(units).max().unwrap_or(1).max(1);
    let span = ins.div_ceil((MANY / most).clamp(1, ins));
    let pieces = ins.div_ceil(span);
    if pieces == 1 {
        let to = empty(&x, out, x.dtype);
        for axes in launches {
            correlate(&x, &weight, bias.as_ref(), &to, g, *axes, span, transposed);
        }
        return to;
    }
    let total: usize = out.iter().product();
    let parts = empty(&x, [pieces, total], DType::F32);
    for axes in launches {
        correlate(&x, &weight, None, &parts, g, *axes, span, transposed);
    }
    add_pieces(&x, parts, bias.as_ref(), pieces, out)
}

fn shape(batch: usize, channels: usize, [x, y, z]: [usize; 3]) -> [usize; 5] {
    [batch, channels, x, y, z]
}

/// The target of a launch.
#[derive(CubeLaunch, CubeType)]
struct Places {
    plane: u32,
    ny: u32,
    nz: u32,
    first: Three,
    step: Three,
}

/// The parameters of the kernel.
#[derive(CubeLaunch, CubeType)]
struct Work {
    sizes: Sizes,
    places: Places,
    /// The number of groups of all images.
    images: u32,
    /// The number of input channels of a piece.
    span: u32,
}

/// The work of a unit: outputs along the second axis and channels, and the parameters of that axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnitTile {
    rows: usize,
    outs: usize,
    taps: usize,
    stride: usize,
    apart: usize,
}

/// The taps to pack.
#[derive(CubeLaunch, CubeType)]
struct Taps {
    channels_in: u32,
    channels_out: u32,
    count: Three,
    tap: Offsets,
    skip: Offsets,
    of_y: u32,
    of_z: u32,
    of_all: u32,
}

/// One launch of a convolution, or of a part of an input gradient: `transposed`. Every `span` input
/// channels have separate sums, which are consecutive in `out`.
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
fn correlate(
    x: &CubeTensor,
    weight: &CubeTensor,
    bias: Option<&CubeTensor>,
    out: &CubeTensor,
    g: &Geometry,
    axes: [Axis; 3],
    span: usize,
    transposed: bool,
) {
    let ([channels_in, channels_out], input, output) = match transposed {
        false => ([g.channels_in, g.channels_out], g.input, g.output),
        true => ([g.channels_out, g.channels_in], g.output, g.input),
    };
    let outs = outs(channels_out, OUTS);
    let tiles = channels_out.div_ceil(outs);
    // A position that no tap reaches becomes 0.
    let [kx, ky, kz] = if axes.iter().any(|axis| axis.taps == 0) { [0, 1, 0] } else { axes.map(|axis| axis.taps) };
    let client = x.client.clone();
    let packed = empty(x, [(g.groups * tiles * channels_in * kx * ky * kz * outs).max(1)], DType::F32);
    let u = |n: usize| n as u32;
    if kx > 0 {
        let taps = TapsLaunch {
            channels_in: u(channels_in),
            channels_out: u(channels_out),
            count: three([kx, ky, kz]),
            tap: offsets(axes.map(|axis| axis.tap)),
            skip: offsets(axes.map(|axis| axis.skip)),
            of_y: u(g.kernel[1]),
            of_z: u(g.kernel[2]),
            of_all: u(g.taps()),
        };
        let (count, dim) = each(&client, packed.meta.num_elements());
        let (from, to) = (weight.clone().into_tensor_arg(), packed.clone().into_tensor_arg());
        pack_kernel::launch(&client, count, dim, from, to, taps, outs, transposed, element(weight));
    }
    let pieces = channels_in.div_ceil(span);
    let images = g.batch * g.groups;
    let rows = rows(&axes, images * tiles);
    let units = pieces * images * tiles * axes[0].outputs * axes[1].outputs.div_ceil(rows) * axes[2].outputs;
    let [stride_x, _, stride_z] = axes.map(|axis| u(axis.stride));
    let [apart_x, _, apart_z] = axes.map(|axis| u(axis.apart));
    let sizes = SizesLaunch {
        units: u(units),
        groups: u(g.groups),
        channels_in: u(channels_in),
        channels_out: u(channels_out),
        input: three(input),
        output: three(axes.map(|axis| axis.outputs)),
        kx: u(kx),
        kz: u(kz),
        stride_x,
        stride_z,
        apart_x,
        apart_z,
        begin: offsets(axes.map(|axis| axis.begin)),
    };
    let places = PlacesLaunch {
        plane: u(output.iter().product()),
        ny: u(output[1]),
        nz: u(output[2]),
        first: three(axes.map(|axis| axis.first)),
        step: three(axes.map(|axis| axis.step)),
    };
    let (count, dim) = each(&client, units);
    // SAFETY: every index is within the sizes: inputs are read at positions within the image, or at
    // 0, packed weights and outputs below their counts.
    unsafe {
        correlate_kernel::launch_unchecked(
            &client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            packed.clone().into_tensor_arg(),
            bias.unwrap_or(&packed).clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            WorkLaunch { sizes, places, images: u(images), span: u(span) },
            UnitTile { rows, outs, taps: ky, stride: axes[1].stride, apart: axes[1].apart },
            bias.is_some(),
            element(x),
            element(out),
        );
    }
}

/// Packs to `[groups, tiles, in, kx, kz, ky, outs]`; padding channels are 0.
#[cube(launch)]
fn pack_kernel<F: Float>(
    weight: &Tensor<F>,
    packed: &mut Tensor<f32>,
    taps: &Taps,
    #[comptime] outs: usize,
    #[comptime] transposed: bool,
    #[define(F)] _of: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= packed.len() {
        terminate!();
    }
    let (kx, ky, kz) = taps.count.axes();
    let (ins, all) = (taps.channels_in as usize, taps.channels_out as usize);
    let tiles = all.div_ceil(outs);
    let rest = at / outs;
    let b = i32::cast_from(rest % ky);
    let c = i32::cast_from(rest / ky % kz);
    let a = i32::cast_from(rest / (ky * kz) % kx);
    let rest = rest / (ky * kz * kx);
    let i = rest % ins;
    let o = rest / ins % tiles * outs + at % outs;
    let group = rest / (ins * tiles);
    let x = usize::cast_from(taps.tap.x + a * taps.skip.x);
    let y = usize::cast_from(taps.tap.y + b * taps.skip.y);
    let z = usize::cast_from(taps.tap.z + c * taps.skip.z);
    let tap = (x * taps.of_y as usize + y) * taps.of_z as usize + z;
    let mut value = 0.0f32;
    if o < all {
        let filter = if comptime!(transposed) { (group * ins + i) * all + o } else { (group * all + o) * ins + i };
        value = f32::cast_from(weight[filter * taps.of_all as usize + tap]);
    }
    packed[at] = value;
}

/// Each unit computes `rows` outputs along the second axis and `outs` channels.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
fn correlate_kernel<F: Float, O: Float>(
    input: &Tensor<F>,
    packed: &Tensor<f32>,
    bias: &Tensor<f32>,
    output: &mut Tensor<O>,
    work: &Work,
    #[comptime] unit_tile: UnitTile,
    #[comptime] biased: bool,
    #[define(F)] _of: ElemType,
    #[define(O)] _to: ElemType,
) {
    let sizes = &work.sizes;
    let places = &work.places;
    let unit = ABSOLUTE_POS;
    if unit >= sizes.units as usize {
        terminate!();
    }
    let (rows, outs, taps) = comptime!((unit_tile.rows, unit_tile.outs, unit_tile.taps));
    let (stride, apart) = comptime!((unit_tile.stride, unit_tile.apart));
    let (ox, oy, oz) = sizes.output.axes();
    let (nx, ny, nz) = sizes.input.axes();
    let (ins, all) = (sizes.channels_in as usize, sizes.channels_out as usize);
    let (blocks, tiles) = (oy.div_ceil(rows), all.div_ceil(outs));
    let z = unit % oz;
    let y = unit / oz % blocks * rows;
    let rest = unit / (oz * blocks);
    let x = rest % ox;
    let rest = rest / ox;
    let tile = rest % tiles;
    // The index among the groups of all images.
    let group = rest / tiles % work.images as usize;
    let piece = rest / (tiles * work.images as usize);
    let from = piece * work.span as usize;
    let to = usize::min(from + work.span as usize, ins);
    let within = group % sizes.groups as usize;
    let lines = comptime!((rows - 1) * stride + (taps - 1) * apart + 1);

    let mut sums = Array::<f32>::new(comptime!(rows * outs));
    #[unroll]
    for i in 0..comptime!(rows * outs) {
        sums[i] = 0.0f32;
    }
    let mut values = Array::<f32>::new(lines);
    let first_y = i32::cast_from(y * stride) + sizes.begin.y;
    let filter = sizes.kx as usize * sizes.kz as usize * comptime!(taps * outs);
    let mut place = ((within * tiles + tile) * ins + from) * filter;
    for i in from..to {
        let plane = (group * ins + i) * (nx * ny * nz);
        for a in 0..sizes.kx {
            let at_x = i32::cast_from(x * sizes.stride_x as usize) + i32::cast_from(a * sizes.apart_x) + sizes.begin.x;
            let in_x = at_x >= 0i32 && at_x < i32::cast_from(nx);
            for c in 0..sizes.kz {
                let at_z =
                    i32::cast_from(z * sizes.stride_z as usize) + i32::cast_from(c * sizes.apart_z) + sizes.begin.z;
                let inside = in_x && at_z >= 0i32 && at_z < i32::cast_from(nz);
                #[unroll]
                for line in 0..lines {
                    if comptime!(is_read(line, rows, taps, stride, apart)) {
                        let at_y = first_y + i32::cast_from(line);
                        let there = inside && at_y >= 0i32 && at_y < i32::cast_from(ny);
                        let at = plane
                            + (usize::cast_from(at_x) * ny + usize::cast_from(at_y)) * nz
                            + usize::cast_from(at_z);
                        let value = f32::cast_from(input[select(there, at, 0usize)]);
                        values[line] = select(there, value, 0.0f32);
                    }
                }
                #[unroll]
                for b in 0..taps {
                    #[unroll]
                    for o in 0..outs {
                        let weight = packed[place + comptime!(b * outs + o)];
                        #[unroll]
                        for row in 0..rows {
                            sums[comptime!(row * outs + o)] += values[comptime!(row * stride + b * apart)] * weight;
                        }
                    }
                }
                place += comptime!(taps * outs);
            }
        }
    }

    let volume = places.plane as usize;
    let row_x = (x * places.step.x as usize + places.first.x as usize) * places.ny as usize;
    let to_z = z * places.step.z as usize + places.first.z as usize;
    #[unroll]
    for row in 0..rows {
        if y + row < oy {
            let to_y = (y + row) * places.step.y as usize + places.first.y as usize;
            let at = (row_x + to_y) * places.nz as usize + to_z;
            #[unroll]
            for o in 0..outs {
                let channel = tile * outs + o;
                if channel < all {
                    let mut sum = sums[comptime!(row * outs + o)];
                    if comptime!(biased) {
                        sum += bias[within * all + channel];
                    }
                    let plane = (piece * work.images as usize + group) * all + channel;
                    output[plane * volume + at] = O::cast_from(sum);
                }
            }
        }
    }
}

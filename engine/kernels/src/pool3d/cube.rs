//! The passes over the windows on GPUs: a unit for each output, and for each input of a gradient.

#![allow(clippy::manual_is_multiple_of, reason = "CubeCL supports no other form")]

use burn::backend::tensor::FloatTensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::ops::PoolOps;
use super::windows::{Axis, Pooling};
use crate::gpu::{each, element, empty, ordered};
use crate::separable::cube::upload;

/// The numbers of entries of a window (start, count, weight), and of an input (the first and last
/// window that may contain it).
const OF_WINDOW: usize = 3;
const OF_INPUT: usize = 2;

impl PoolOps for CubeBackend {
    fn pool_largest(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        forward(x, planes, &pooling, true)
    }

    fn pool_mean(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        forward(x, planes, &pooling, false)
    }

    fn pool_largest_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        planes: [usize; 2],
        pooling: Pooling,
    ) -> FloatTensor<Self> {
        let [x, dy] = ordered([x, dy]);
        backward(x, dy, planes, &pooling, true)
    }

    fn pool_mean_gradient(dy: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        let [dy] = ordered([dy]);
        // The gradient does not depend on the inputs.
        backward(dy.clone(), dy, planes, &pooling, false)
    }
}

fn shape([batch, channels]: [usize; 2], [x, y, z]: [usize; 3]) -> [usize; 5] {
    [batch, channels, x, y, z]
}

/// The numbers of inputs, outputs and steps within a window along each axis, and the factor of an
/// average.
#[derive(CubeLaunch, CubeType)]
struct Sizes {
    nx: u32,
    ny: u32,
    nz: u32,
    ox: u32,
    oy: u32,
    oz: u32,
    sx: u32,
    sy: u32,
    sz: u32,
    scale: f32,
}

fn sizes(pooling: &Pooling) -> SizesLaunch {
    let [nx, ny, nz] = pooling.input().map(|n| n as u32);
    let [ox, oy, oz] = pooling.output().map(|n| n as u32);
    let [sx, sy, sz] = pooling.axes.each_ref().map(|axis| axis.step as u32);
    SizesLaunch { nx, ny, nz, ox, oy, oz, sx, sy, sz, scale: pooling.scale as f32 }
}

/// The windows of the three axes, then for each input of the three axes the first window that may
/// contain it and the one after the last. Indices are exact in f32 up to 2^24.
fn table(pooling: &Pooling) -> Vec<f32> {
    let windows = pooling.axes.iter().flat_map(|axis| &axis.windows);
    let mut table: Vec<f32> = windows.flat_map(|w| [w.start as f32, w.count as f32, w.weight as f32]).collect();
    for axis in &pooling.axes {
        table.extend((0..axis.input).flat_map(|input| holders(axis, input)));
    }
    table
}

/// The range of windows whose span from first to last input includes this input.
fn holders(axis: &Axis, input: usize) -> [f32; OF_INPUT] {
    let holds = |w: &super::windows::Window| w.start <= input && input < w.start + w.count * axis.step;
    let first = axis.windows.iter().position(holds).unwrap_or(0);
    let end = axis.windows.iter().rposition(holds).map_or(first, |last| last + 1);
    [first as f32, end as f32]
}

fn forward(x: CubeTensor, planes: [usize; 2], pooling: &Pooling, largest: bool) -> CubeTensor {
    let [x] = ordered([x]);
    let out = empty(&x, shape(planes, pooling.output()), x.dtype);
    let table = upload(&x, table(pooling));
    let (client, of) = (x.client.clone(), element(&x));
    let (count, dim) = each(&client, out.meta.num_elements());
    let (x, table, places) = (x.into_tensor_arg(), table.into_tensor_arg(), out.clone().into_tensor_arg());
    forward_kernel::launch(&client, count, dim, x, table, places, sizes(pooling), largest, of);
    out
}

fn backward(x: CubeTensor, dy: CubeTensor, planes: [usize; 2], pooling: &Pooling, largest: bool) -> CubeTensor {
    let out = empty(&dy, shape(planes, pooling.input()), dy.dtype);
    let table = upload(&dy, table(pooling));
    let (client, of) = (dy.client.clone(), element(&dy));
    let (count, dim) = each(&client, out.meta.num_elements());
    let [x, dy, table, places] = [x, dy, table, out.clone()].map(|tensor| tensor.into_tensor_arg());
    backward_kernel::launch(&client, count, dim, x, dy, table, places, sizes(pooling), largest, of);
    out
}

/// The larger value; NaN wins, as in PyTorch.
#[cube]
fn wins(value: f32, over: f32) -> bool {
    value > over || value.is_nan()
}

/// The start of a window's records in the table.
#[cube]
fn record(sizes: &Sizes, x: usize, y: usize, z: usize) -> (usize, usize, usize) {
    let (ox, oy) = (sizes.ox as usize, sizes.oy as usize);
    (OF_WINDOW * x, OF_WINDOW * (ox + y), OF_WINDOW * (ox + oy + z))
}

/// The index of the largest input of a window; of equal ones, the first. `start` is the offset of
/// the plane.
#[cube]
fn place_of_largest<F: Float>(
    input: &Tensor<F>,
    table: &Tensor<f32>,
    sizes: &Sizes,
    start: usize,
    window: (usize, usize, usize),
) -> usize {
    let (ny, nz) = (sizes.ny as usize, sizes.nz as usize);
    let (i, j, k) = window;
    let first =
        start + (usize::cast_from(table[i]) * ny + usize::cast_from(table[j])) * nz + usize::cast_from(table[k]);
    let mut place = first;
    let mut best = f32::cast_from(input[first]);
    for a in 0..usize::cast_from(table[i + 1]) {
        for b in 0..usize::cast_from(table[j + 1]) {
            let row = first + (a * sizes.sx as usize * ny + b * sizes.sy as usize) * nz;
            for c in 0..usize::cast_from(table[k + 1]) {
                let at = row + c * sizes.sz as usize;
                let value = f32::cast_from(input[at]);
                let better = wins(value, best);
                place = select(better, at, place);
                best = select(better, value, best);
            }
        }
    }
    place
}

#[cube(launch)]
fn forward_kernel<F: Float>(
    input: &Tensor<F>,
    table: &Tensor<f32>,
    out: &mut Tensor<F>,
    sizes: &Sizes,
    #[comptime] largest: bool,
    #[define(F)] _of: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let (ny, nz) = (sizes.ny as usize, sizes.nz as usize);
    let (ox, oy, oz) = (sizes.ox as usize, sizes.oy as usize, sizes.oz as usize);
    let start = at / (ox * oy * oz) * (sizes.nx as usize * ny * nz);
    let (i, j, k) = record(sizes, at / (oy * oz) % ox, at / oz % oy, at % oz);
    if comptime!(largest) {
        // A window without inputs, entirely in the padding, has no maximum.
        let holds = table[i + 1] > 0.0f32 && table[j + 1] > 0.0f32 && table[k + 1] > 0.0f32;
        if holds {
            out[at] = input[place_of_largest::<F>(input, table, sizes, start, (i, j, k))];
        } else {
            out[at] = F::cast_from(f32::NEG_INFINITY);
        }
    } else {
        let mut sum = 0.0f32;
        for a in 0..usize::cast_from(table[i + 1]) {
            for b in 0..usize::cast_from(table[j + 1]) {
                let x = usize::cast_from(table[i]) + a * sizes.sx as usize;
                let y = usize::cast_from(table[j]) + b * sizes.sy as usize;
                let row = start + (x * ny + y) * nz + usize::cast_from(table[k]);
                for c in 0..usize::cast_from(table[k + 1]) {
                    sum += f32::cast_from(input[row + c * sizes.sz as usize]);
                }
            }
        }
        out[at] = F::cast_from(sum * (sizes.scale * table[i + 2] * table[j + 2] * table[k + 2]));
    }
}

/// Whether a window contains an input, along one axis.
#[cube]
fn holds(table: &Tensor<f32>, record: usize, input: usize, step: usize) -> bool {
    // Starts never decrease: no window of the table starts after the input.
    let apart = input - usize::cast_from(table[record]);
    apart % step == 0 && apart / step < usize::cast_from(table[record + 1])
}

/// The sum over the windows that contain an input, in order.
#[cube(launch)]
fn backward_kernel<F: Float>(
    input: &Tensor<F>,
    dy: &Tensor<F>,
    table: &Tensor<f32>,
    out: &mut Tensor<F>,
    sizes: &Sizes,
    #[comptime] largest: bool,
    #[define(F)] _of: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let (nx, ny, nz) = (sizes.nx as usize, sizes.ny as usize, sizes.nz as usize);
    let (ox, oy, oz) = (sizes.ox as usize, sizes.oy as usize, sizes.oz as usize);
    let (x, y, z) = (at / (ny * nz) % nx, at / nz % ny, at % nz);
    let plane = at / (nx * ny * nz);
    let inputs = OF_WINDOW * (ox + oy + oz);
    let i = inputs + OF_INPUT * x;
    let j = inputs + OF_INPUT * (nx + y);
    let k = inputs + OF_INPUT * (nx + ny + z);
    let mut sum = 0.0f32;
    for a in usize::cast_from(table[i])..usize::cast_from(table[i + 1]) {
        for b in usize::cast_from(table[j])..usize::cast_from(table[j + 1]) {
            for c in usize::cast_from(table[k])..usize::cast_from(table[k + 1]) {
                let (u, v, w) = record(sizes, a, b, c);
                let held = holds(table, u, x, sizes.sx as usize)
                    && holds(table, v, y, sizes.sy as usize)
                    && holds(table, w, z, sizes.sz as usize);
                if held {
                    let given = f32::cast_from(dy[((plane * ox + a) * oy + b) * oz + c]);
                    if comptime!(largest) {
                        let start = plane * (nx * ny * nz);
                        if place_of_largest::<F>(input, table, sizes, start, (u, v, w)) == at {
                            sum += given;
                        }
                    } else {
                        sum += given * (sizes.scale * table[u + 2] * table[v + 2] * table[w + 2]);
                    }
                }
            }
        }
    }
    out[at] = F::cast_from(sum);
}

//! Resampling on GPUs: one thread per output value.
//!
//! The kernel finds the taps itself, in f32: GPUs without f64 are common. (Where the axes are
//! independent, tables are computed on the host, see [`separable`](crate::separable).)

#![allow(clippy::manual_is_multiple_of, clippy::assign_op_pattern, reason = "CubeCL supports no other form")]

use burn::backend::tensor::FloatTensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::ops::ResampleOps;
use super::{Interpolation, Padding, Sampling, Target};
use crate::separable::cube::{prepare, upload};

impl ResampleOps for CubeBackend {
    fn resample_affine(image: FloatTensor<Self>, target: Target, sampling: Sampling) -> FloatTensor<Self> {
        let matrix = target.matrix.as_flattened().iter().map(|v| *v as f32);
        let source = upload(&image, matrix.chain(target.origin.map(|v| v as f32)).collect());
        general(image, source, target.size, sampling, false)
    }

    fn sample_grid(image: FloatTensor<Self>, coordinates: FloatTensor<Self>, sampling: Sampling) -> FloatTensor<Self> {
        let shape = coordinates.meta.shape().clone();
        general(image, coordinates, [shape[1], shape[2], shape[3]], sampling, true)
    }
}

fn general(image: CubeTensor, source: CubeTensor, size: [usize; 3], sampling: Sampling, grid: bool) -> CubeTensor {
    let (output, client, cube_count, cube_dim) = prepare(&image, size);
    general_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        image.into_tensor_arg(),
        source.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        grid,
        match sampling.mode {
            Interpolation::Nearest => NEAREST,
            Interpolation::Linear => LINEAR,
            Interpolation::Cubic => CUBIC,
            Interpolation::Spline(order) => SPLINE + u32::from(order),
        },
        match sampling.padding {
            Padding::Border => 0,
            Padding::Zeros => 1,
            Padding::Reflection => 2,
            Padding::Mirror => 3,
            Padding::Cut => 4,
            Padding::Wrap => 5,
            Padding::GridWrap => 6,
        },
    );
    output
}

const NEAREST: u32 = 0;
const LINEAR: u32 = 1;
const CUBIC: u32 = 2;
/// The code of order 0, an even number; the other orders follow.
const SPLINE: u32 = 10;

fn taps_of(mode: u32) -> usize {
    match mode {
        NEAREST => 1,
        LINEAR => 2,
        CUBIC => 4,
        spline => (spline - SPLINE) as usize + 1,
    }
}

/// Finds the taps of each output's coordinate, and combines them. `source` is the matrix and the
/// origin, or with `grid` the coordinates.
#[cube(launch)]
fn general_kernel(
    input: &Tensor<f32>,
    source: &Tensor<f32>,
    output: &mut Tensor<f32>,
    #[comptime] grid: bool,
    #[comptime] mode: u32,
    #[comptime] padding: u32,
) {
    let place = ABSOLUTE_POS;
    if place >= output.len() {
        terminate!();
    }
    let (sx, sy, sz) = (output.shape(1), output.shape(2), output.shape(3));
    let z = place % sz;
    let y = place / sz % sy;
    let x = place / (sz * sy) % sx;
    let c = place / (sz * sy * sx);
    let taps = comptime!(taps_of(mode));
    let mut index = Array::<f32>::new(comptime!(3 * taps));
    let mut weight = Array::<f32>::new(comptime!(3 * taps));
    // Unrolled, so that every array index is constant and the arrays become registers.
    #[unroll]
    for axis in 0..3 {
        let at = if comptime!(grid) {
            let first = axis * source.stride(0) + x * source.stride(1);
            source[first + y * source.stride(2) + z * source.stride(3)]
        } else {
            source[axis * 4] * (source[12] + f32::cast_from(x))
                + source[axis * 4 + 1] * (source[13] + f32::cast_from(y))
                + source[axis * 4 + 2] * (source[14] + f32::cast_from(z))
                + source[axis * 4 + 3]
        };
        let n = f32::cast_from(input.shape(axis + 1));
        find(at, n, &mut index, &mut weight, axis * taps, mode, padding, taps);
    }
    let mut sum = 0.0f32;
    #[unroll]
    for a in 0..taps {
        let plane = c * input.stride(0) + usize::cast_from(index[a]) * input.stride(1);
        #[unroll]
        for b in 0..taps {
            let row = plane + usize::cast_from(index[taps + b]) * input.stride(2);
            let both = weight[a] * weight[taps + b];
            #[unroll]
            for d in 0..taps {
                let at = row + usize::cast_from(index[taps * 2 + d]) * input.stride(3);
                sum += input[at] * (both * weight[taps * 2 + d]);
            }
        }
    }
    output[place] = sum;
}

/// [`super::taps::find`] for a device, in f32.
#[cube]
#[allow(clippy::too_many_arguments, reason = "a kernel takes its arguments separately")]
fn find(
    at: f32,
    n: f32,
    index: &mut Array<f32>,
    weight: &mut Array<f32>,
    entry: usize,
    #[comptime] mode: u32,
    #[comptime] padding: u32,
    #[comptime] taps: usize,
) {
    let last = n - 1.0;
    let c = fold(at, n, mode, padding);
    let mut first = c.floor();
    if comptime!(mode == NEAREST) {
        // Half-way goes to the even index.
        let fraction = c - first;
        let odd = first - 2.0 * (first * 0.5).floor();
        let up = fraction > 0.5 || (fraction == 0.5 && odd == 1.0);
        first = select(up, first + 1.0, first);
    }
    if comptime!(mode >= SPLINE && mode % 2 == 0) {
        first = (c + 0.5).floor();
    }
    if comptime!(mode == CUBIC || mode == SPLINE + 2 || mode == SPLINE + 3) {
        first = first - 1.0;
    }
    if comptime!(mode == SPLINE + 4 || mode == SPLINE + 5) {
        first = first - 2.0;
    }
    // Paddings without a fade-out read nothing beyond the edge.
    let mut reads = 1.0f32;
    if comptime!(padding == 4) {
        reads = select(at < -0.000001f32 || at > last + 0.000001f32, 0.0f32, 1.0f32);
    }
    let alone = n == 1.0 && at == 0.0;
    #[unroll]
    for t in 0..taps {
        let step = f32::cast_from(t);
        let tap = first + step;
        let mut counts = reads;
        if comptime!(padding == 1) {
            counts = select(tap >= 0.0f32 && tap <= last, 1.0f32, 0.0f32);
        }
        let whole = select(step == 0.0, 1.0f32, 0.0f32);
        index[entry + t] = select(alone || counts == 0.0f32, 0.0f32, place_tap(tap, n, padding));
        weight[entry + t] = select(alone, whole, counts * weigh(c - tap, mode));
    }
}

/// Folds a coordinate into the image, for the modes and paddings that fold coordinates.
#[cube]
fn fold(at: f32, n: f32, #[comptime] mode: u32, #[comptime] padding: u32) -> f32 {
    let last = n - 1.0;
    let simple = comptime!(mode <= LINEAR);
    let mut c = at;
    if comptime!(padding == 2 && simple) {
        c = reflect(c, -0.5, n);
    }
    if comptime!(padding == 3 && simple) {
        c = reflect(c, 0.0, last);
    }
    if comptime!(padding == 5) {
        // A coordinate a whole period below 0 is the last voxel, above it the first.
        let safe = select(last > 0.0, last, 1.0);
        let below = c + safe * ((0.0 - c / safe).floor() + 1.0);
        let above = c - safe * (c / safe).floor();
        c = select(c < 0.0, below, select(c > last, above, c));
        c = select(last > 0.0, c, 0.0);
    }
    if comptime!(
        (padding == 0 && mode != CUBIC) || padding == 4 || (padding == 2 && simple) || (padding == 3 && simple)
    ) {
        c = select(c < 0.0, 0.0, c);
        c = select(c > last, last, c);
    }
    c
}

#[cube]
fn reflect(c: f32, low: f32, span: f32) -> f32 {
    let distance = (c - low).abs();
    let safe = select(span > 0.0, span, 1.0);
    let turns = (distance / safe).floor();
    let rest = distance - turns * safe;
    let odd = turns - 2.0 * (turns * 0.5).floor();
    let folded = select(odd == 1.0, span - rest + low, rest + low);
    select(span > 0.0, folded, 0.0)
}

/// The voxel that a tap reads.
#[cube]
fn place_tap(tap: f32, n: f32, #[comptime] padding: u32) -> f32 {
    let last = n - 1.0;
    let mut i = tap;
    if comptime!(padding == 2) {
        let f = remainder(tap, 2.0 * n);
        i = select(f > last, 2.0 * n - 1.0 - f, f);
    }
    if comptime!(padding == 3 || padding == 4 || padding == 5) {
        let period = select(last > 0.0, 2.0 * last, 1.0);
        let f = remainder(tap, period);
        i = select(f > last, period - f, f);
    }
    if comptime!(padding == 6) {
        i = remainder(tap, n);
    }
    i = select(i < 0.0, 0.0, i);
    select(i > last, last, i)
}

/// `value` modulo `period`, never negative. Division may round, so that the result is corrected.
#[cube]
fn remainder(value: f32, period: f32) -> f32 {
    let r = value - (value / period).floor() * period;
    let r = select(r < 0.0, r + period, r);
    select(r >= period, r - period, r)
}

/// The weight of a voxel at the given distance.
#[cube]
fn weigh(distance: f32, #[comptime] mode: u32) -> f32 {
    let d: f32 = distance.abs();
    let mut weight = 1.0f32;
    if comptime!(mode == LINEAR || mode == SPLINE + 1) {
        weight = 1.0 - d;
    }
    if comptime!(mode == CUBIC) {
        let near = (1.25f32 * d - 2.25f32) * d * d + 1.0f32;
        let far = ((3.75f32 - 0.75f32 * d) * d - 6.0f32) * d + 3.0f32;
        weight = select(d <= 1.0f32, near, far);
    }
    if comptime!(mode == SPLINE + 2) {
        weight = (power(1.5 - d, 2u32) - 3.0 * power(0.5 - d, 2u32)) / 2.0;
    }
    if comptime!(mode == SPLINE + 3) {
        weight = (power(2.0 - d, 3u32) - 4.0 * power(1.0 - d, 3u32)) / 6.0;
    }
    if comptime!(mode == SPLINE + 4) {
        weight = (power(2.5 - d, 4u32) - 5.0 * power(1.5 - d, 4u32) + 10.0 * power(0.5 - d, 4u32)) / 24.0;
    }
    if comptime!(mode == SPLINE + 5) {
        weight = (power(3.0 - d, 5u32) - 6.0 * power(2.0 - d, 5u32) + 15.0 * power(1.0 - d, 5u32)) / 120.0;
    }
    weight
}

/// A power of a positive number, else 0.
#[cube]
fn power(x: f32, #[comptime] order: u32) -> f32 {
    let base = select(x > 0.0, x, 0.0);
    let mut product = base * base;
    if comptime!(order >= 3) {
        product *= base;
    }
    if comptime!(order >= 4) {
        product *= base;
    }
    if comptime!(order >= 5) {
        product *= base;
    }
    product
}

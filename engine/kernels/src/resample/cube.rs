//! Resampling on GPUs: one thread per output value.
//!
//! A diagonal matrix comes as a table of taps per axis, computed on the host in f64, so that every device picks the same voxels. For any
//! other matrix the kernel computes coordinates itself, in f32: GPUs without f64 are common.

use burn::backend::{Cube, ops::FloatTensorOps, tensor::FloatTensor};
use burn::tensor::TensorData;
use burn_cubecl::CubeBackend;
use burn_cubecl::ops::numeric::empty_device_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::ops::ResampleOps;
use super::{Interpolation, Matrix, Padding, Sampling, axis_table, is_separable};

impl ResampleOps for Cube {
    fn resample_affine(
        image: FloatTensor<Self>,
        matrix: Matrix,
        size: [usize; 3],
        sampling: Sampling,
    ) -> FloatTensor<Self> {
        let shape = image.meta.shape().clone();
        let dims = [shape[0], shape[1], shape[2], shape[3]];
        let output = empty_device_dtype(
            image.client.clone(),
            image.device.clone(),
            [dims[0], size[0], size[1], size[2]].into(),
            image.dtype,
        );
        let count = dims[0] * size.iter().product::<usize>();
        let cube_dim = CubeDim::new(&image.client, count);
        let cube_count = cubecl::calculate_cube_count_elemwise(&image.client, count, cube_dim);
        let client = image.client.clone();
        if is_separable(&matrix) {
            let table = upload(&image, tap_table(&matrix, dims, size, sampling));
            separable_kernel::launch(
                &client,
                cube_count,
                cube_dim,
                image.into_tensor_arg(),
                table.into_tensor_arg(),
                output.clone().into_tensor_arg(),
            );
        } else {
            let table = upload(&image, matrix.as_flattened().iter().map(|v| *v as f32).collect());
            general_kernel::launch(
                &client,
                cube_count,
                cube_dim,
                image.into_tensor_arg(),
                table.into_tensor_arg(),
                output.clone().into_tensor_arg(),
                sampling.mode == Interpolation::Nearest,
                match sampling.padding {
                    Padding::Border => 0,
                    Padding::Zeros => 1,
                    Padding::Reflection => 2,
                    Padding::Mirror => 3,
                },
            );
        }
        output
    }
}

/// A line of numbers on the image's device.
fn upload(image: &CubeTensor, values: Vec<f32>) -> CubeTensor {
    let n = values.len();
    CubeBackend::float_from_data(TensorData::new(values, [n]), &image.device)
}

/// Low index, high index, low weight, high weight, for each output index of x, then y, then z. Indices are exact in f32 up to 2^24.
fn tap_table(matrix: &Matrix, dims: [usize; 4], size: [usize; 3], sampling: Sampling) -> Vec<f32> {
    let mut out = Vec::with_capacity(4 * size.iter().sum::<usize>());
    for axis in 0..3 {
        let table = axis_table(matrix, axis, dims[axis + 1], size[axis], sampling);
        for i in 0..size[axis] {
            out.extend([table.low[i] as f32, table.high[i] as f32, table.weight_low[i], table.weight_high[i]]);
        }
    }
    out
}

/// The two voxels one coordinate reads, and their weights.
#[derive(CubeType, Clone, Copy)]
struct Taps {
    low: usize,
    high: usize,
    weight_low: f32,
    weight_high: f32,
}

#[cube(launch)]
fn separable_kernel(input: &Tensor<f32>, table: &Tensor<f32>, output: &mut Tensor<f32>) {
    let place = ABSOLUTE_POS;
    if place >= output.len() {
        terminate!();
    }
    let (sx, sy, sz) = (output.shape(1), output.shape(2), output.shape(3));
    let z = place % sz;
    let y = place / sz % sy;
    let x = place / (sz * sy) % sx;
    let c = place / (sz * sy * sx);
    let i = read_taps(table, x);
    let j = read_taps(table, sx + y);
    let k = read_taps(table, sx + sy + z);
    output[place] = blend(input, c, &i, &j, &k);
}

#[cube]
fn read_taps(table: &Tensor<f32>, entry: usize) -> Taps {
    Taps {
        low: usize::cast_from(table[entry * 4]),
        high: usize::cast_from(table[entry * 4 + 1]),
        weight_low: table[entry * 4 + 2],
        weight_high: table[entry * 4 + 3],
    }
}

#[cube(launch)]
fn general_kernel(
    input: &Tensor<f32>,
    matrix: &Tensor<f32>,
    output: &mut Tensor<f32>,
    #[comptime] nearest: bool,
    #[comptime] padding: u32,
) {
    let place = ABSOLUTE_POS;
    if place >= output.len() {
        terminate!();
    }
    let (sx, sy, sz) = (output.shape(1), output.shape(2), output.shape(3));
    let z = f32::cast_from(place % sz);
    let y = f32::cast_from(place / sz % sy);
    let x = f32::cast_from(place / (sz * sy) % sx);
    let c = place / (sz * sy * sx);
    let cx = matrix[0] * x + matrix[1] * y + matrix[2] * z + matrix[3];
    let cy = matrix[4] * x + matrix[5] * y + matrix[6] * z + matrix[7];
    let cz = matrix[8] * x + matrix[9] * y + matrix[10] * z + matrix[11];
    let i = find_taps(cx, input.shape(1), nearest, padding);
    let j = find_taps(cy, input.shape(2), nearest, padding);
    let k = find_taps(cz, input.shape(3), nearest, padding);
    output[place] = blend(input, c, &i, &j, &k);
}

/// [`super::taps`] for a device.
#[cube]
fn find_taps(coordinate: f32, n: usize, #[comptime] nearest: bool, #[comptime] padding: u32) -> Taps {
    let last = f32::cast_from(n) - 1.0;
    let mut c = coordinate;
    if comptime!(padding == 2) {
        c = reflect(c, -0.5, last + 1.0);
    }
    if comptime!(padding == 3) {
        c = reflect(c, 0.0, last);
    }
    if comptime!(padding != 1) {
        c = select(c < 0.0, 0.0, c);
        c = select(c > last, last, c);
    }
    let mut floor = c.floor();
    let mut fraction = c - floor;
    if comptime!(nearest) {
        // Half-way goes to the even index.
        let odd = floor - 2.0 * (floor * 0.5).floor();
        let up = fraction > 0.5 || (fraction == 0.5 && odd == 1.0);
        floor = select(up, floor + 1.0, floor);
        fraction = 0.0;
    }
    let low_in = floor >= 0.0 && floor <= last;
    let high_in = floor + 1.0 >= 0.0 && floor + 1.0 <= last;
    Taps {
        low: usize::cast_from(select(low_in, floor, 0.0)),
        high: usize::cast_from(select(high_in, floor + 1.0, 0.0)),
        weight_low: select(low_in, 1.0 - fraction, 0.0),
        weight_high: select(high_in, fraction, 0.0),
    }
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

#[cube]
fn blend(input: &Tensor<f32>, c: usize, i: &Taps, j: &Taps, k: &Taps) -> f32 {
    let low = blend_plane(input, c * input.stride(0) + i.low * input.stride(1), j, k);
    let high = blend_plane(input, c * input.stride(0) + i.high * input.stride(1), j, k);
    low * i.weight_low + high * i.weight_high
}

#[cube]
fn blend_plane(input: &Tensor<f32>, start: usize, j: &Taps, k: &Taps) -> f32 {
    let first = start + j.low * input.stride(2);
    let second = start + j.high * input.stride(2);
    let step = input.stride(3);
    let low = input[first + k.low * step] * k.weight_low + input[first + k.high * step] * k.weight_high;
    let high = input[second + k.low * step] * k.weight_low + input[second + k.high * step] * k.weight_high;
    low * j.weight_low + high * j.weight_high
}

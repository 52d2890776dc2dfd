//! Weighted sums on GPUs: one thread computes one output value, with tables computed on the host,
//! so that every device reads the same voxels.

use burn::backend::{ops::FloatTensorOps, tensor::FloatTensor};
use burn::tensor::TensorData;
use burn_cubecl::CubeBackend;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::prelude::*;

use super::AxisTaps;
use super::ops::SeparableOps;

/// The maximum number of taps of tables that are applied together; others are applied one axis
/// after the other.
const TOGETHER: usize = 2;

impl SeparableOps for CubeBackend {
    fn separable(image: FloatTensor<Self>, axes: [AxisTaps; 3]) -> FloatTensor<Self> {
        if axes.iter().all(|table| table.taps() <= TOGETHER) {
            return run(image, &axes);
        }
        let mut image = image;
        for axis in 0..3 {
            let shape = image.meta.shape().clone();
            let alone = std::array::from_fn(|a| if a == axis { axes[a].clone() } else { identity(shape[a + 1]) });
            if !axes[axis].is_identity(shape[axis + 1]) {
                image = run(image, &alone);
            }
        }
        image
    }
}

fn identity(n: usize) -> AxisTaps {
    AxisTaps::new(1, (0..n as u32).collect(), vec![1.0; n])
}

fn run(image: CubeTensor, axes: &[AxisTaps; 3]) -> CubeTensor {
    let mut table = Vec::new();
    for axis in axes {
        for o in 0..axis.len() {
            // Indices are exact in f32 up to 2^24.
            let (index, weight) = axis.of(o);
            table.extend(index.iter().map(|i| *i as f32));
            table.extend(weight);
        }
    }
    let table = upload(&image, table);
    let (output, client, cube_count, cube_dim) = prepare(&image, axes.each_ref().map(AxisTaps::len));
    separable_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        image.into_tensor_arg(),
        table.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        axes[0].taps(),
        axes[1].taps(),
        axes[2].taps(),
    );
    output
}

/// An output of this size, and its launch size.
pub(crate) fn prepare(image: &CubeTensor, size: [usize; 3]) -> (CubeTensor, Client, CubeCount, CubeDim) {
    let channels = image.meta.shape()[0];
    let shape = [channels, size[0], size[1], size[2]];
    // In row-major order without gaps: Burn's own allocations have padded rows on CUDA and ROCm.
    let output = empty_device_contiguous_dtype(image.client.clone(), image.device.clone(), shape.into(), image.dtype);
    let count = shape.iter().product::<usize>();
    let cube_dim = CubeDim::new(&image.client, count);
    let cube_count = cubecl::calculate_cube_count_elemwise(&image.client, count, cube_dim);
    (output, image.client.clone(), cube_count, cube_dim)
}

/// Copies a list of numbers to the image's device.
pub(crate) fn upload(image: &CubeTensor, values: Vec<f32>) -> CubeTensor {
    let n = values.len();
    CubeBackend::float_from_data(TensorData::new(values, [n]), &image.device)
}

/// The table holds, for each output index of x, then y, then z, the indices of its taps, then their
/// weights.
#[cube(launch)]
fn separable_kernel(
    input: &Tensor<f32>,
    table: &Tensor<f32>,
    output: &mut Tensor<f32>,
    #[comptime] taps_x: usize,
    #[comptime] taps_y: usize,
    #[comptime] taps_z: usize,
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
    let i = x * taps_x * 2;
    let j = (sx * taps_x + y * taps_y) * 2;
    let k = (sx * taps_x + sy * taps_y + z * taps_z) * 2;
    let mut sum = 0.0f32;
    for a in 0..taps_x {
        let plane = c * input.stride(0) + usize::cast_from(table[i + a]) * input.stride(1);
        for b in 0..taps_y {
            let row = plane + usize::cast_from(table[j + b]) * input.stride(2);
            let weight = table[i + taps_x + a] * table[j + taps_y + b];
            for d in 0..taps_z {
                let at = row + usize::cast_from(table[k + d]) * input.stride(3);
                sum += input[at] * (weight * table[k + taps_z + d]);
            }
        }
    }
    output[place] = sum;
}

//! Combines the sums of pieces on GPUs.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::gpu::{UNITS, empty, group_sum, groups};

/// Adds up `[rows, pieces, sums]` to `[rows, sums]`, in the given shape.
pub(crate) fn totals<const D: usize>(parts: CubeTensor, shape: [usize; D]) -> CubeTensor {
    let (pieces, sums) = (parts.meta.shape()[1], parts.meta.shape()[2]);
    let client = parts.client.clone();
    let out = empty(&parts, shape, DType::F32);
    let (count, dim) = groups(&client, shape.iter().product());
    let (input, output) = (parts.into_tensor_arg(), out.clone().into_tensor_arg());
    totals_kernel::launch(&client, count, dim, input, output, pieces as u32, sums as u32);
    out
}

#[cube(launch)]
fn totals_kernel(parts: &Tensor<f32>, out: &mut Tensor<f32>, pieces: u32, sums: u32) {
    let place = CUBE_POS;
    if place >= out.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let (pieces, sums) = (pieces as usize, sums as usize);
    let (row, which) = (place / sums, place % sums);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < pieces {
        sum += parts[sums * (row * pieces + i) + which];
        i += UNITS;
    }
    let sum = group_sum(sum, &mut places);
    if UNIT_POS == 0 {
        out[place] = sum;
    }
}

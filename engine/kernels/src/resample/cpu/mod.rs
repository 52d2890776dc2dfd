//! Resampling on the CPU.

mod general;

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::TensorData;

use super::ops::ResampleOps;
use super::{Sampling, Target};
use crate::ranges::kernel;
use general::{by_grid, by_matrix};

/// Calls a function with the number of taps of a mode as a constant.
macro_rules! with_taps {
    ($mode:expr, $function:ident, $($argument:expr),* $(,)?) => {
        match $mode.taps() {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            3 => $function::<3>($($argument),*),
            4 => $function::<4>($($argument),*),
            5 => $function::<5>($($argument),*),
            _ => $function::<6>($($argument),*),
        }
    };
}

impl ResampleOps for Flex {
    fn resample_affine(image: FloatTensor<Self>, target: Target, sampling: Sampling) -> FloatTensor<Self> {
        let _range = kernel!("resample", [image]);
        let (image, dims) = packed(image);
        let source = image.as_slice::<f32>().unwrap_or_default();
        let [sx, sy, sz] = target.size;
        let mut out = vec![0.0_f32; dims[0] * sx * sy * sz];
        let (shape, target) = two_dimensional(dims, target);
        with_taps!(sampling.mode, by_matrix, source, shape, &target, sampling, &mut out);
        tensor(out, [dims[0], sx, sy, sz])
    }

    fn sample_grid(image: FloatTensor<Self>, grid: FloatTensor<Self>, sampling: Sampling) -> FloatTensor<Self> {
        let _range = kernel!("sample grid", [image, grid]);
        let (image, dims) = packed(image);
        let (grid, [_, sx, sy, sz]) = packed(grid);
        let source = image.as_slice::<f32>().unwrap_or_default();
        let grid = grid.as_slice::<f32>().unwrap_or_default();
        let mut out = vec![0.0_f32; dims[0] * sx * sy * sz];
        with_taps!(sampling.mode, by_grid, source, dims, grid, [sx, sy, sz], sampling, &mut out);
        tensor(out, [dims[0], sx, sy, sz])
    }
}

fn packed(image: FloatTensor<Flex>) -> (FloatTensor<Flex>, [usize; 4]) {
    let image = crate::layout::packed(image);
    let shape = image.layout().shape();
    let dims = [shape[0], shape[1], shape[2], shape[3]];
    (image, dims)
}

fn tensor(values: Vec<f32>, shape: [usize; 4]) -> FloatTensor<Flex> {
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape))
}

/// Treats a 2-D image (`Z = 1`) as one with `X = 1`, which has the same memory layout, so that rows
/// are long.
fn two_dimensional(dims: [usize; 4], target: Target) -> ([usize; 4], Target) {
    let [c, x, y, z] = dims;
    if z != 1 || target.size[2] != 1 || !target.reads_zero(2) {
        return (dims, target);
    }
    let Target { matrix: m, origin, size } = target;
    let row = |r: usize| [0.0, m[r][0], m[r][1], m[r][3]];
    let matrix = [[0.0; 4], row(0), row(1)];
    ([c, 1, x, y], Target { matrix, origin: [0, origin[0], origin[1]], size: [1, size[0], size[1]] })
}

//! Operations on gradients on GPUs: up to sixteen gradients per launch.

use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::gpu::{UNITS, each, empty, group_sum, groups, ordered, own, primitive};
use crate::totals::totals;

/// A gradient; within kernels, a tensor is CubeCL's type.
type Values = burn::tensor::Tensor<1>;

/// The maximum number of gradients of a launch.
const AT_ONCE: usize = 16;
/// The number of values that a workgroup adds up.
const PIECE: usize = 8192;

/// Splits the gradients into parts for one launch each: as many as there are bindings for, in
/// addition to two others.
fn parts(all: &[CubeTensor]) -> impl Iterator<Item = &[CubeTensor]> {
    let bindings = all.first().map_or(AT_ONCE, |one| one.client.properties().hardware.max_bindings as usize);
    all.chunks(bindings.saturating_sub(2).clamp(1, AT_ONCE))
}

fn arguments(part: &[CubeTensor]) -> SequenceArg<OwnedTensor<f32>> {
    SequenceArg { values: part.iter().map(|one| one.clone().into_tensor_arg()).collect() }
}

pub(super) fn scaled(gradients: Vec<Values>, factor: &Values) -> Vec<Values> {
    let [factor] = ordered([primitive(factor.clone())]);
    let all: Vec<_> = gradients.into_iter().map(|gradient| own(primitive(gradient))).collect();
    for part in parts(&all) {
        let count = part.iter().map(|one| one.meta.num_elements().div_ceil(UNITS)).sum::<usize>();
        let (cubes, dim) = each(&factor.client, count * UNITS);
        let factor_ = factor.clone().into_tensor_arg();
        scale_kernel::launch(&factor.client, cubes, dim, arguments(part), factor_, part.len());
    }
    all.into_iter().map(Values::from_primitive::<CubeBackend>).collect()
}

pub(super) fn square_sum(gradients: &[&Values]) -> Values {
    let all: Vec<_> = gradients.iter().flat_map(|&gradient| ordered([primitive(gradient.clone())])).collect();
    let pieces = |one: &CubeTensor| one.meta.num_elements().div_ceil(PIECE);
    let count: usize = all.iter().map(pieces).sum();
    let client = all[0].client.clone();
    let sums = empty(&all[0], [1, count, 1], DType::F32);
    let mut before = 0;
    for part in parts(&all) {
        let tasks = part.iter().map(pieces).sum::<usize>();
        let (cubes, dim) = groups(&client, tasks);
        let to = sums.clone().into_tensor_arg();
        squares_kernel::launch(&client, cubes, dim, arguments(part), to, before as u32, tasks as u32, part.len());
        before += tasks;
    }
    Values::from_primitive::<CubeBackend>(totals(sums, [1]))
}

/// Each workgroup scales some values of one of the gradients.
#[cube(launch)]
fn scale_kernel(gradients: &mut Sequence<OwnedTensor<f32>>, factor: &Tensor<f32>, #[comptime] count: usize) {
    let mut begin = 0usize;
    #[unroll]
    for which in 0..count {
        let len = gradients.index(which).len();
        let at = (CUBE_POS - begin) * UNITS + UNIT_POS as usize;
        if CUBE_POS >= begin && at < len {
            let value = gradients.index(which)[at] * factor[0];
            gradients.index_mut(which)[at] = value;
        }
        begin += len.div_ceil(UNITS);
    }
}

/// The sum of the squares of a piece of one of the gradients.
#[cube(launch)]
fn squares_kernel(
    gradients: &Sequence<OwnedTensor<f32>>,
    sums: &mut Tensor<f32>,
    before: u32,
    tasks: u32,
    #[comptime] count: usize,
) {
    if CUBE_POS >= tasks as usize {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let mut sum = 0.0f32;
    let mut begin = 0usize;
    #[unroll]
    for which in 0..count {
        let gradient = gradients.index(which);
        let pieces = gradient.len().div_ceil(PIECE);
        if CUBE_POS >= begin && CUBE_POS < begin + pieces {
            let first = (CUBE_POS - begin) * PIECE;
            let end = usize::min(first + PIECE, gradient.len());
            let mut i = first + UNIT_POS as usize;
            while i < end {
                sum += gradient[i] * gradient[i];
                i += UNITS;
            }
        }
        begin += pieces;
    }
    let sum = group_sum(sum, &mut places);
    if UNIT_POS == 0 {
        sums[before as usize + CUBE_POS] = sum;
    }
}

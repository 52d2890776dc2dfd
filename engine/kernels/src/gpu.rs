//! Helpers of the GPU kernels: values in row-major order, launch sizes, sums over a workgroup.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::{DType, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// The number of units of a workgroup, which every GPU supports.
pub(crate) const UNITS: usize = 1 << LEVELS;

/// The number of halvings of a workgroup until one unit is left.
const LEVELS: usize = 8;

/// The GPU backend's form of a tensor that [`place::of`](crate::place::of) locates on a GPU,
/// outside an autodiff graph.
pub(crate) fn primitive<const D: usize>(tensor: Tensor<D>) -> CubeTensor {
    match tensor.try_into_primitive::<CubeBackend>() {
        Ok(tensor) => tensor,
        Err(e) => panic!("a tensor that should be on a GPU is not: {e:?}"),
    }
}

/// Returns the tensor itself where it has no other owner and is contiguous; otherwise a copy to
/// write to. Its rows may be padded.
pub(crate) fn own(tensor: CubeTensor) -> CubeTensor {
    let tensor = into_contiguous(tensor);
    if tensor.can_mut() { tensor } else { into_contiguous(tensor.copy()) }
}

/// The values in row-major order without gaps.
pub(crate) fn ordered<const N: usize>(tensors: [CubeTensor; N]) -> [CubeTensor; N] {
    tensors.map(into_contiguous)
}

/// Makes a tensor on the device of another one, in row-major order without gaps: Burn's own
/// allocations have padded rows on CUDA and ROCm.
pub(crate) fn empty(beside: &CubeTensor, shape: impl Into<Vec<usize>>, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(beside.client.clone(), beside.device.clone(), shape.into().into(), dtype)
}

/// Makes a tensor of the same shape and type.
pub(crate) fn empty_like(of: &CubeTensor) -> CubeTensor {
    empty(of, of.meta.shape().to_vec(), of.dtype)
}

/// The element type that a kernel is compiled for.
pub(crate) fn element(of: &CubeTensor) -> ElemType {
    dtype_to_storage_type(of.dtype)
}

/// The launch size with a unit for each value.
pub(crate) fn each(client: &Client, values: usize) -> (CubeCount, CubeDim) {
    let dim = CubeDim::new_1d(UNITS as u32);
    (cubecl::calculate_cube_count_elemwise(client, values, dim), dim)
}

/// The launch size with a workgroup for each task.
pub(crate) fn groups(client: &Client, tasks: usize) -> (CubeCount, CubeDim) {
    each(client, tasks * UNITS)
}

/// The sum over all units of the workgroup, deterministic; all units must call it.
#[cube]
pub(crate) fn group_sum(value: f32, places: &mut Shared<[f32]>) -> f32 {
    let unit = UNIT_POS as usize;
    // Units may still be reading the previous sum.
    sync_cube();
    places[unit] = value;
    sync_cube();
    #[unroll]
    for level in 1..=LEVELS {
        let half = comptime!(UNITS >> level);
        if unit < half {
            let sum = places[unit] + places[unit + half];
            places[unit] = sum;
        }
        sync_cube();
    }
    places[0]
}

//! The activation on GPUs: a unit for each value.

use burn::backend::tensor::FloatTensor;
use burn_cubecl::CubeBackend;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::ops::GeluOps;
use crate::gpu::{each, element, empty_like, ordered};

impl GeluOps for CubeBackend {
    fn normal_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let [x] = ordered([x]);
        let out = empty_like(&x);
        let (count, dim) = each(&x.client, out.meta.num_elements());
        let (client, of) = (x.client.clone(), element(&x));
        gate_kernel::launch(&client, count, dim, x.into_tensor_arg(), out.clone().into_tensor_arg(), of);
        out
    }

    fn normal_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        let [x, dy] = ordered([x, dy]);
        let out = empty_like(&x);
        let (count, dim) = each(&x.client, out.meta.num_elements());
        let (client, of) = (x.client.clone(), element(&x));
        let [x, dy, place] = [x, dy, out.clone()].map(|tensor| tensor.into_tensor_arg());
        gradient_kernel::launch(&client, count, dim, x, dy, place, of);
        out
    }
}

/// The normal distribution function at `x`.
#[cube]
fn below(x: f32) -> f32 {
    0.5f32 * (1.0f32 + Erf::erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

#[cube(launch)]
fn gate_kernel<F: Float>(x: &Tensor<F>, out: &mut Tensor<F>, #[define(F)] _of: ElemType) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let value = f32::cast_from(x[at]);
    out[at] = F::cast_from(value * below(value));
}

#[cube(launch)]
fn gradient_kernel<F: Float>(x: &Tensor<F>, dy: &Tensor<F>, out: &mut Tensor<F>, #[define(F)] _of: ElemType) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let value = f32::cast_from(x[at]);
    // One over the root of 2 pi.
    let density = 0.398_942_28_f32 * (-0.5f32 * value * value).exp();
    out[at] = F::cast_from(f32::cast_from(dy[at]) * (below(value) + value * density));
}

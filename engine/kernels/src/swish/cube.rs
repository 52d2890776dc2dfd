//! The activation on GPUs: a unit for each value.

use burn::backend::tensor::FloatTensor;
use burn_cubecl::CubeBackend;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::ops::SwishOps;
use crate::gpu::{each, element, empty_like, ordered};

impl SwishOps for CubeBackend {
    fn logistic_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let [x] = ordered([x]);
        let out = empty_like(&x);
        let (count, dim) = each(&x.client, out.meta.num_elements());
        let (client, of) = (x.client.clone(), element(&x));
        gate_kernel::launch(&client, count, dim, x.into_tensor_arg(), out.clone().into_tensor_arg(), of);
        out
    }

    fn logistic_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        let [x, dy] = ordered([x, dy]);
        let out = empty_like(&x);
        let (count, dim) = each(&x.client, out.meta.num_elements());
        let (client, of) = (x.client.clone(), element(&x));
        let [x, dy, place] = [x, dy, out.clone()].map(|tensor| tensor.into_tensor_arg());
        gradient_kernel::launch(&client, count, dim, x, dy, place, of);
        out
    }
}

#[cube(launch)]
fn gate_kernel<F: Float>(x: &Tensor<F>, out: &mut Tensor<F>, #[define(F)] _of: ElemType) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let value = f32::cast_from(x[at]);
    out[at] = F::cast_from(value / (1.0f32 + (-value).exp()));
}

#[cube(launch)]
fn gradient_kernel<F: Float>(x: &Tensor<F>, dy: &Tensor<F>, out: &mut Tensor<F>, #[define(F)] _of: ElemType) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let value = f32::cast_from(x[at]);
    let share = 1.0f32 / (1.0f32 + (-value).exp());
    out[at] = F::cast_from(f32::cast_from(dy[at]) * share * (1.0f32 + value * (1.0f32 - share)));
}

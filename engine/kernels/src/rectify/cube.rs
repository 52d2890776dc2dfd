//! The activation on GPUs: a unit for each value.

use burn::backend::tensor::FloatTensor;
use burn_cubecl::CubeBackend;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::ops::RectifyOps;
use crate::gpu::{each, element, empty_like, ordered};

impl RectifyOps for CubeBackend {
    fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        Self::rectify_gradient(x.clone(), x, slope)
    }

    fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let [x, y] = ordered([x, y]);
        let out = empty_like(&x);
        let (count, dim) = each(&x.client, out.meta.num_elements());
        let of = element(&x);
        let (client, args) = (x.client.clone(), [x, y, out.clone()].map(|tensor| tensor.into_tensor_arg()));
        let [x, y, place] = args;
        sum_kernel::launch(&client, count, dim, x, y, place, slope, of);
        out
    }

    fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        let [y, dy] = ordered([y, dy]);
        let out = empty_like(&dy);
        let (count, dim) = each(&dy.client, out.meta.num_elements());
        let of = element(&dy);
        let (client, args) = (dy.client.clone(), [y, dy, out.clone()].map(|tensor| tensor.into_tensor_arg()));
        let [sign, values, place] = args;
        select_kernel::launch(&client, count, dim, sign, values, place, slope, of);
        out
    }
}

/// Selects `value` where `sign` is positive, and `slope value` elsewhere. Without a slope it is not
/// a product: minus infinity becomes 0, and NaN stays NaN.
#[cube]
fn chosen(sign: f32, value: f32, slope: f32) -> f32 {
    select(slope == 0.0f32, select(sign <= 0.0f32, 0.0f32, value), value * select(sign > 0.0f32, 1.0f32, slope))
}

#[cube(launch)]
fn select_kernel<F: Float>(
    sign: &Tensor<F>,
    values: &Tensor<F>,
    out: &mut Tensor<F>,
    slope: f32,
    #[define(F)] _of: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    out[at] = F::cast_from(chosen(f32::cast_from(sign[at]), f32::cast_from(values[at]), slope));
}

#[cube(launch)]
fn sum_kernel<F: Float>(x: &Tensor<F>, y: &Tensor<F>, out: &mut Tensor<F>, slope: f32, #[define(F)] _of: ElemType) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let sum = f32::cast_from(x[at]) + f32::cast_from(y[at]);
    out[at] = F::cast_from(chosen(sum, sum, slope));
}

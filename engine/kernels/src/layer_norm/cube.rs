//! The norm on GPUs: a workgroup for each row; for the parameters, a unit for each feature and run
//! of rows.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use cubecl::prelude::*;

use super::ops::LayerNormOps;
use crate::gpu::{UNITS, each, empty, empty_like, group_sum, groups, ordered};

/// The number of rows whose contribution to the parameters' gradients a unit adds up.
const RUN: usize = 64;

impl LayerNormOps for CubeBackend {
    fn normalize_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self> {
        let [x, weight, bias] = ordered([x, weight, bias]);
        let out = empty_like(&x);
        let features = weight.meta.num_elements();
        let (count, dim) = groups(&x.client, out.meta.num_elements() / features);
        let client = x.client.clone();
        let [x, weight, bias, place] = [x, weight, bias, out.clone()].map(|tensor| tensor.into_tensor_arg());
        rows_kernel::launch(&client, count, dim, x, weight, bias, place, eps);
        out
    }

    fn normalize_rows_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        eps: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [x, weight, dy] = ordered([x, weight, dy]);
        let (client, features) = (x.client.clone(), weight.meta.num_elements());
        let rows = x.meta.num_elements() / features;
        let runs = rows.div_ceil(RUN);
        let (dx, moments) = (empty_like(&x), empty(&x, [rows, 2], DType::F32));
        let sums = empty(&x, [2, runs, features], DType::F32);
        let (count, dim) = groups(&client, rows);
        rows_gradient_kernel::launch(
            &client,
            count,
            dim,
            x.clone().into_tensor_arg(),
            weight.into_tensor_arg(),
            dy.clone().into_tensor_arg(),
            dx.clone().into_tensor_arg(),
            moments.clone().into_tensor_arg(),
            eps,
        );
        let (count, dim) = each(&client, runs * features);
        let [x, dy, moments, places] = [x, dy, moments, sums.clone()].map(|tensor| tensor.into_tensor_arg());
        features_kernel::launch(&client, count, dim, x, dy, moments, places, features as u32);
        let sums = Self::float_sum_dim(sums, 1);
        let part = |which: usize| {
            let part = Self::float_slice(sums.clone(), &[(which..which + 1).into()]);
            Self::float_reshape(part, [features].into())
        };
        (dx, part(0), part(1))
    }
}

/// The mean, and the inverse of the deviation, of a row.
#[cube]
fn moments(x: &Tensor<f32>, start: usize, features: usize, eps: f32, places: &mut Shared<[f32]>) -> (f32, f32) {
    let count = f32::cast_from(features);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < features {
        sum += x[start + i];
        i += UNITS;
    }
    let mean = group_sum(sum, places) / count;
    let mut squares = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < features {
        let apart = x[start + i] - mean;
        squares += apart * apart;
        i += UNITS;
    }
    let variance = group_sum(squares, places) / count;
    (mean, 1.0f32 / (variance + eps).sqrt())
}

#[cube(launch)]
fn rows_kernel(x: &Tensor<f32>, weight: &Tensor<f32>, bias: &Tensor<f32>, out: &mut Tensor<f32>, eps: f32) {
    let features = weight.len();
    let start = CUBE_POS * features;
    if start >= out.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let (mean, inverse) = moments(x, start, features, eps, &mut places);
    let mut i = UNIT_POS as usize;
    while i < features {
        out[start + i] = (x[start + i] - mean) * inverse * weight[i] + bias[i];
        i += UNITS;
    }
}

#[cube(launch)]
fn rows_gradient_kernel(
    x: &Tensor<f32>,
    weight: &Tensor<f32>,
    dy: &Tensor<f32>,
    dx: &mut Tensor<f32>,
    of_rows: &mut Tensor<f32>,
    eps: f32,
) {
    let features = weight.len();
    let start = CUBE_POS * features;
    if start >= dx.len() {
        terminate!();
    }
    let mut places = Shared::new_slice(UNITS);
    let (mean, inverse) = moments(x, start, features, eps, &mut places);
    let mut plain = 0.0f32;
    let mut along = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < features {
        let g = dy[start + i] * weight[i];
        plain += g;
        along += g * ((x[start + i] - mean) * inverse);
        i += UNITS;
    }
    let count = f32::cast_from(features);
    let plain = group_sum(plain, &mut places) / count;
    let along = group_sum(along, &mut places) / count;
    let mut i = UNIT_POS as usize;
    while i < features {
        let normalized = (x[start + i] - mean) * inverse;
        dx[start + i] = inverse * (dy[start + i] * weight[i] - plain - normalized * along);
        i += UNITS;
    }
    if UNIT_POS == 0 {
        of_rows[2 * CUBE_POS] = mean;
        of_rows[2 * CUBE_POS + 1] = inverse;
    }
}

/// The gradients of weight and bias, of a run of rows.
#[cube(launch)]
fn features_kernel(x: &Tensor<f32>, dy: &Tensor<f32>, of_rows: &Tensor<f32>, sums: &mut Tensor<f32>, features: u32) {
    let at = ABSOLUTE_POS;
    let half = sums.len() / 2;
    if at >= half {
        terminate!();
    }
    let features = features as usize;
    let (run, feature) = (at / features, at % features);
    let mut weight = 0.0f32;
    let mut bias = 0.0f32;
    let end = usize::min((run + 1) * RUN, of_rows.len() / 2);
    for row in run * RUN..end {
        let g = dy[row * features + feature];
        weight += g * ((x[row * features + feature] - of_rows[2 * row]) * of_rows[2 * row + 1]);
        bias += g;
    }
    sums[at] = weight;
    sums[half + at] = bias;
}

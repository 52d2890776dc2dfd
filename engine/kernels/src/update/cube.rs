//! The steps on GPUs: one kernel for each parameter, in place.

use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{AdamStep, RmsPropStep, SgdStep};
use crate::gpu::{each, empty, ordered, own, primitive};

/// A parameter, its gradient or its state; within kernels a tensor is CubeCL's.
pub(super) type Values = burn::tensor::Tensor<1>;

/// The tensors to write to, and the gradient.
pub(super) fn given<const N: usize>(tensors: [Values; N], g: &Values) -> ([CubeTensor; N], CubeTensor) {
    let [g] = ordered([primitive(g.clone())]);
    let tensors = tensors.map(|tensor| own(primitive(tensor)));
    let len = g.meta.num_elements();
    assert!(tensors.iter().all(|t| t.meta.num_elements() == len), "the tensors of a step have one length");
    (tensors, g)
}

pub(super) fn back(tensor: CubeTensor) -> Values {
    Values::from_primitive::<CubeBackend>(tensor)
}

pub(super) fn sgd(p: Values, g: &Values, direction: Values, step: SgdStep) -> (Values, Values) {
    let ([p, direction], g) = given([p, direction], g);
    let (count, dim) = each(&g.client, g.meta.num_elements());
    sgd_kernel::launch(
        &g.client.clone(),
        count,
        dim,
        p.clone().into_tensor_arg(),
        direction.clone().into_tensor_arg(),
        g.into_tensor_arg(),
        step.lr,
        step.weight_decay,
        step.momentum,
        step.share,
        step.nesterov,
    );
    (back(p), back(direction))
}

pub(super) fn adam(
    p: Values,
    g: &Values,
    [mean, square]: [Values; 2],
    largest: Option<Values>,
    step: AdamStep,
) -> (Values, [Values; 2], Option<Values>) {
    let ([p, mean, square], g) = given([p, mean, square], g);
    let largest = largest.map(|largest| own(primitive(largest)));
    let spare = largest.clone().unwrap_or_else(|| empty(&g, [1], DType::F32));
    let (count, dim) = each(&g.client, g.meta.num_elements());
    let [[_, new], [keep, other]] = step.betas;
    adam_kernel::launch(
        &g.client.clone(),
        count,
        dim,
        p.clone().into_tensor_arg(),
        mean.clone().into_tensor_arg(),
        square.clone().into_tensor_arg(),
        spare.into_tensor_arg(),
        g.into_tensor_arg(),
        step.lr,
        step.shrink,
        step.weight_decay,
        new,
        keep,
        other,
        step.correction,
        step.eps,
        largest.is_some(),
    );
    (back(p), [back(mean), back(square)], largest.map(back))
}

pub(super) fn rms_prop(
    p: Values,
    g: &Values,
    square: Values,
    mean: Option<Values>,
    direction: Option<Values>,
    step: RmsPropStep,
) -> (Values, Values, Option<Values>, Option<Values>) {
    let ([p, square], g) = given([p, square], g);
    let [mean, direction] = [mean, direction].map(|state| state.map(|state| own(primitive(state))));
    let [spare_mean, spare_direction] =
        [&mean, &direction].map(|state| state.clone().unwrap_or_else(|| empty(&g, [1], DType::F32)));
    let (count, dim) = each(&g.client, g.meta.num_elements());
    rms_prop_kernel::launch(
        &g.client.clone(),
        count,
        dim,
        p.clone().into_tensor_arg(),
        square.clone().into_tensor_arg(),
        spare_mean.into_tensor_arg(),
        spare_direction.into_tensor_arg(),
        g.into_tensor_arg(),
        step.lr,
        step.weight_decay,
        step.alpha[0],
        step.alpha[1],
        step.eps,
        step.momentum,
        mean.is_some(),
        direction.is_some(),
    );
    (back(p), back(square), mean.map(back), direction.map(back))
}

/// The gradient with the parameter's decay. Without one the parameter has no part in it, be it infinite.
#[cube]
fn decayed(g: f32, p: f32, weight_decay: f32) -> f32 {
    select(weight_decay == 0.0f32, g, g + p * weight_decay)
}

#[cube(launch)]
#[allow(clippy::too_many_arguments)]
fn sgd_kernel(
    p: &mut Tensor<f32>,
    direction: &mut Tensor<f32>,
    g: &Tensor<f32>,
    lr: f32,
    weight_decay: f32,
    momentum: f32,
    share: f32,
    #[comptime] nesterov: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= g.len() {
        terminate!();
    }
    sgd_at(at, p, direction, g, lr, weight_decay, momentum, share, nesterov);
}

/// The step of one value.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn sgd_at(
    at: usize,
    p: &mut Tensor<f32>,
    direction: &mut Tensor<f32>,
    g: &Tensor<f32>,
    lr: f32,
    weight_decay: f32,
    momentum: f32,
    share: f32,
    #[comptime] nesterov: bool,
) {
    let value = p[at];
    let g = decayed(g[at], value, weight_decay);
    let moved = direction[at] * momentum + g * share;
    direction[at] = moved;
    let along = if comptime!(nesterov) { g + moved * momentum } else { moved };
    p[at] = value - along * lr;
}

#[cube(launch)]
#[allow(clippy::too_many_arguments)]
fn adam_kernel(
    p: &mut Tensor<f32>,
    mean: &mut Tensor<f32>,
    square: &mut Tensor<f32>,
    largest: &mut Tensor<f32>,
    g: &Tensor<f32>,
    lr: f32,
    shrink: f32,
    weight_decay: f32,
    new: f32,
    keep: f32,
    other: f32,
    correction: f32,
    eps: f32,
    #[comptime] amsgrad: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= g.len() {
        terminate!();
    }
    adam_at(at, p, mean, square, largest, g, lr, shrink, weight_decay, new, keep, other, correction, eps, amsgrad);
}

/// The step of one value.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn adam_at(
    at: usize,
    p: &mut Tensor<f32>,
    mean: &mut Tensor<f32>,
    square: &mut Tensor<f32>,
    largest: &mut Tensor<f32>,
    g: &Tensor<f32>,
    lr: f32,
    shrink: f32,
    weight_decay: f32,
    new: f32,
    keep: f32,
    other: f32,
    correction: f32,
    eps: f32,
    #[comptime] amsgrad: bool,
) {
    let value = p[at] * shrink;
    let g = decayed(g[at], value, weight_decay);
    let first = mean[at] + (g - mean[at]) * new;
    let second = square[at] * keep + g * g * other;
    mean[at] = first;
    square[at] = second;
    let under = if comptime!(amsgrad) {
        // What is not a number stays so.
        let most = select(second <= largest[at], largest[at], second);
        largest[at] = most;
        most
    } else {
        second
    };
    p[at] = value - first / (under.sqrt() / correction + eps) * lr;
}

#[cube(launch)]
#[allow(clippy::too_many_arguments)]
fn rms_prop_kernel(
    p: &mut Tensor<f32>,
    square: &mut Tensor<f32>,
    mean: &mut Tensor<f32>,
    direction: &mut Tensor<f32>,
    g: &Tensor<f32>,
    lr: f32,
    weight_decay: f32,
    keep: f32,
    new: f32,
    eps: f32,
    momentum: f32,
    #[comptime] centered: bool,
    #[comptime] moving: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= g.len() {
        terminate!();
    }
    rms_prop_at(at, p, square, mean, direction, g, lr, weight_decay, keep, new, eps, momentum, centered, moving);
}

/// The step of one value.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn rms_prop_at(
    at: usize,
    p: &mut Tensor<f32>,
    square: &mut Tensor<f32>,
    mean: &mut Tensor<f32>,
    direction: &mut Tensor<f32>,
    g: &Tensor<f32>,
    lr: f32,
    weight_decay: f32,
    keep: f32,
    new: f32,
    eps: f32,
    momentum: f32,
    #[comptime] centered: bool,
    #[comptime] moving: bool,
) {
    let value = p[at];
    let g = decayed(g[at], value, weight_decay);
    let second = square[at] * keep + g * g * new;
    square[at] = second;
    let spread = if comptime!(centered) {
        let first = mean[at] * keep + g * new;
        mean[at] = first;
        second - first * first
    } else {
        second
    };
    let step = g / (spread.sqrt() + eps);
    let along = if comptime!(moving) {
        let moved = direction[at] * momentum + step;
        direction[at] = moved;
        moved
    } else {
        step
    };
    p[at] = value - along * lr;
}

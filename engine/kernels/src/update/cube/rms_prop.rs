//! RMSprop, plain, centered and with momentum.

use cubecl::prelude::*;

use super::together::{Rule, Waiting, arguments, size, take};
use super::{Gate, Values, back, decayed, given, left_out, place_after};
use crate::gpu::{UNITS, own, primitive};
use crate::update::RmsPropStep;
use crate::update::decided::Decision;

/// What a launch goes by.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct RmsPropNumbers {
    step: RmsPropStep,
    centered: bool,
    moving: bool,
}

pub(in crate::update) fn rms_prop(
    p: Values,
    g: &Values,
    square: Values,
    mean: Option<Values>,
    direction: Option<Values>,
    step: RmsPropStep,
) -> (Values, Values, Option<Values>, Option<Values>) {
    let (p, square, mean, direction, _) = rms_prop_where(p, g, square, mean, direction, step, None);
    (p, square, mean, direction)
}

pub(in crate::update) fn rms_prop_where(
    p: Values,
    g: &Values,
    square: Values,
    mean: Option<Values>,
    direction: Option<Values>,
    step: RmsPropStep,
    decision: Option<Decision>,
) -> (Values, Values, Option<Values>, Option<Values>, Values) {
    let (tensors, g) = given([p, square], g);
    let [mean, direction] = [mean, direction].map(|state| state.map(|state| own(primitive(state))));
    let gate = Gate::new(decision, &g);
    let [p, square] = tensors.clone().map(back);
    let after = back(gate.after.clone());
    let rule = Rule::RmsProp(RmsPropNumbers { step, centered: mean.is_some(), moving: direction.is_some() });
    let tensors = tensors.into_iter().chain(mean.clone()).chain(direction.clone()).collect();
    take(Waiting { rule, tensors, g, gate });
    (p, square, mean.map(back), direction.map(back), after)
}

pub(super) fn launch(waiting: &[Waiting], RmsPropNumbers { step, centered, moving }: RmsPropNumbers) {
    let Waiting { g, gate, .. } = &waiting[0];
    let (cubes, dim) = size(waiting);
    rms_prop_kernel::launch(
        &g.client.clone(),
        cubes,
        dim,
        arguments(waiting, |one| one.tensors.first()),
        arguments(waiting, |one| one.tensors.get(1)),
        arguments(waiting, |one| one.tensors.get(2).filter(|_| centered)),
        arguments(waiting, |one| one.tensors.last().filter(|_| moving)),
        arguments(waiting, |one| Some(&one.g)),
        gate.taken.clone().into_tensor_arg(),
        arguments(waiting, |one| one.gate.decided.then_some(&one.gate.before)),
        arguments(waiting, |one| one.gate.decided.then_some(&one.gate.after)),
        step.lr,
        step.weight_decay,
        step.alpha[0],
        step.alpha[1],
        step.eps,
        step.momentum,
        waiting.len(),
        centered,
        moving,
        gate.decided,
    );
}

/// A workgroup for some values of one of the parameters.
#[cube(launch)]
#[allow(clippy::too_many_arguments, reason = "a kernel has its arguments apart")]
fn rms_prop_kernel(
    p: &mut Sequence<OwnedTensor<f32>>,
    square: &mut Sequence<OwnedTensor<f32>>,
    mean: &mut Sequence<OwnedTensor<f32>>,
    direction: &mut Sequence<OwnedTensor<f32>>,
    g: &Sequence<OwnedTensor<f32>>,
    taken: &Tensor<f32>,
    before: &Sequence<OwnedTensor<f32>>,
    after: &mut Sequence<OwnedTensor<f32>>,
    lr: f32,
    weight_decay: f32,
    keep: f32,
    new: f32,
    eps: f32,
    momentum: f32,
    #[comptime] count: usize,
    #[comptime] centered: bool,
    #[comptime] moving: bool,
    #[comptime] decided: bool,
) {
    let takes = if comptime!(decided) { taken[0] != 0.0f32 } else { true.runtime() };
    let mut begin = 0usize;
    #[unroll]
    for which in 0..count {
        let g = g.index(which);
        let at = place_after(begin);
        if CUBE_POS >= begin && at < g.len() {
            if comptime!(decided) {
                left_out(before, after, which, at, takes);
            }
            if takes {
                let value = p.index(which)[at];
                let g = decayed(g[at], value, weight_decay);
                let second = square.index(which)[at] * keep + g * g * new;
                square.index_mut(which)[at] = second;
                let spread = if comptime!(centered) {
                    let first = mean.index(which)[at] * keep + g * new;
                    mean.index_mut(which)[at] = first;
                    second - first * first
                } else {
                    second
                };
                let step = g / (spread.sqrt() + eps);
                let along = if comptime!(moving) {
                    let moved = direction.index(which)[at] * momentum + step;
                    direction.index_mut(which)[at] = moved;
                    moved
                } else {
                    step
                };
                p.index_mut(which)[at] = value - along * lr;
            }
        }
        begin += g.len().div_ceil(UNITS);
    }
}

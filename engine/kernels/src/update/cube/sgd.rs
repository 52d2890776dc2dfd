//! Stochastic gradient descent with momentum.

use cubecl::prelude::*;

use super::together::{Rule, Waiting, arguments, size, take};
use super::{Gate, Values, back, decayed, given, left_out, place_after};
use crate::gpu::UNITS;
use crate::update::SgdStep;
use crate::update::decided::Decision;

/// What a launch goes by.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct SgdNumbers {
    step: SgdStep,
    /// Share of the gradient in the first step that is taken.
    first: f32,
}

pub(in crate::update) fn sgd(p: Values, g: &Values, direction: Values, step: SgdStep) -> (Values, Values) {
    let (p, direction, _) = sgd_where(p, g, direction, step, None);
    (p, direction)
}

pub(in crate::update) fn sgd_where(
    p: Values,
    g: &Values,
    direction: Values,
    step: SgdStep,
    decided: Option<(f32, Decision)>,
) -> (Values, Values, Values) {
    let (tensors, g) = given([p, direction], g);
    let (first, decision) = decided.unzip();
    let gate = Gate::new(decision, &g);
    let [p, direction] = tensors.clone().map(back);
    let after = back(gate.after.clone());
    let rule = Rule::Sgd(SgdNumbers { step, first: first.unwrap_or(step.share) });
    take(Waiting { rule, tensors: tensors.into(), g, gate });
    (p, direction, after)
}

pub(super) fn launch(waiting: &[Waiting], SgdNumbers { step, first }: SgdNumbers) {
    let Waiting { g, gate, .. } = &waiting[0];
    let (cubes, dim) = size(waiting);
    sgd_kernel::launch(
        &g.client.clone(),
        cubes,
        dim,
        arguments(waiting, |one| one.tensors.first()),
        arguments(waiting, |one| one.tensors.get(1)),
        arguments(waiting, |one| Some(&one.g)),
        gate.taken.clone().into_tensor_arg(),
        arguments(waiting, |one| one.gate.decided.then_some(&one.gate.before)),
        arguments(waiting, |one| one.gate.decided.then_some(&one.gate.after)),
        step.lr,
        step.weight_decay,
        step.momentum,
        step.share,
        first,
        gate.count,
        waiting.len(),
        step.nesterov,
        gate.decided,
    );
}

/// A workgroup for some values of one of the parameters.
#[cube(launch)]
#[allow(clippy::too_many_arguments, reason = "a kernel has its arguments apart")]
fn sgd_kernel(
    p: &mut Sequence<OwnedTensor<f32>>,
    direction: &mut Sequence<OwnedTensor<f32>>,
    g: &Sequence<OwnedTensor<f32>>,
    taken: &Tensor<f32>,
    before: &Sequence<OwnedTensor<f32>>,
    after: &mut Sequence<OwnedTensor<f32>>,
    lr: f32,
    weight_decay: f32,
    momentum: f32,
    share: f32,
    first: f32,
    number: f32,
    #[comptime] count: usize,
    #[comptime] nesterov: bool,
    #[comptime] decided: bool,
) {
    let takes = if comptime!(decided) { taken[0] != 0.0f32 } else { true.runtime() };
    let mut begin = 0usize;
    #[unroll]
    for which in 0..count {
        let g = g.index(which);
        let at = place_after(begin);
        if CUBE_POS >= begin && at < g.len() {
            let mut share = share;
            if comptime!(decided) {
                let skipped = left_out(before, after, which, at, takes);
                share = select(skipped == number - 1.0f32, first, share);
            }
            if takes {
                let value = p.index(which)[at];
                let g = decayed(g[at], value, weight_decay);
                let moved = direction.index(which)[at] * momentum + g * share;
                direction.index_mut(which)[at] = moved;
                let along = if comptime!(nesterov) { g + moved * momentum } else { moved };
                p.index_mut(which)[at] = value - along * lr;
            }
        }
        begin += g.len().div_ceil(UNITS);
    }
}

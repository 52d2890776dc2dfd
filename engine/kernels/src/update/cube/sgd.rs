//! Stochastic gradient descent with momentum.

use cubecl::prelude::*;

use super::together::{Rule, Waiting, after, arguments, decided, size, take};
use super::{Decided, Gate, Tensors, Values, back, decayed, given, left_out, place_after};
use crate::gpu::UNITS;
use crate::update::SgdStep;
use crate::update::decided::Decision;

/// The parameters of a launch.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct SgdNumbers {
    step: SgdStep,
    /// The weight of the gradient in the first step that is taken.
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
        SgdTensorsLaunch {
            p: arguments(waiting, |one| one.tensors.first()),
            direction: arguments(waiting, |one| one.tensors.get(1)),
        },
        arguments(waiting, |one| Some(&one.g)),
        decided(waiting),
        after(waiting),
        SgdScalarsLaunch {
            lr: step.lr,
            weight_decay: step.weight_decay,
            momentum: step.momentum,
            share: step.share,
            first,
            number: gate.count,
        },
        SgdOptions { count: waiting.len(), nesterov: step.nesterov, decided: gate.decided },
    );
}

/// The parameters and their state, in place.
#[derive(CubeLaunch, CubeType)]
struct SgdTensors {
    p: Tensors,
    direction: Tensors,
}

#[derive(CubeLaunch, CubeType)]
struct SgdScalars {
    lr: f32,
    weight_decay: f32,
    momentum: f32,
    share: f32,
    /// The weight of the gradient in the first step that is taken.
    first: f32,
    /// The number of the step.
    number: f32,
}

/// Compile-time options of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SgdOptions {
    /// The number of parameters.
    count: usize,
    nesterov: bool,
    decided: bool,
}

/// Each workgroup updates some values of one of the parameters.
#[cube(launch)]
fn sgd_kernel(
    tensors: &mut SgdTensors,
    g: &Tensors,
    decision: &Decided,
    after: &mut Tensors,
    by: &SgdScalars,
    #[comptime] options: SgdOptions,
) {
    let decided = comptime!(options.decided);
    let takes = if comptime!(decided) { decision.taken[0] != 0.0f32 } else { true.runtime() };
    let mut begin = 0usize;
    #[unroll]
    for which in 0..options.count {
        let g = g.index(which);
        let at = place_after(begin);
        if CUBE_POS >= begin && at < g.len() {
            let mut share = by.share;
            if comptime!(decided) {
                let skipped = left_out(&decision.before, after, which, at, takes);
                share = select(skipped == by.number - 1.0f32, by.first, share);
            }
            if takes {
                let value = tensors.p.index(which)[at];
                let g = decayed(g[at], value, by.weight_decay);
                let moved = tensors.direction.index(which)[at] * by.momentum + g * share;
                tensors.direction.index_mut(which)[at] = moved;
                let along = if comptime!(options.nesterov) { g + moved * by.momentum } else { moved };
                tensors.p.index_mut(which)[at] = value - along * by.lr;
            }
        }
        begin += g.len().div_ceil(UNITS);
    }
}

//! RMSprop, plain, centered and with momentum.

use cubecl::prelude::*;

use super::together::{Rule, Waiting, after, arguments, decided, size, take};
use super::{Decided, Gate, Tensors, Values, back, decayed, given, left_out, place_after};
use crate::gpu::{UNITS, own, primitive};
use crate::update::RmsPropStep;
use crate::update::decided::Decision;

/// The parameters of a launch.
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
        RmsPropTensorsLaunch {
            p: arguments(waiting, |one| one.tensors.first()),
            square: arguments(waiting, |one| one.tensors.get(1)),
            mean: arguments(waiting, |one| one.tensors.get(2).filter(|_| centered)),
            direction: arguments(waiting, |one| one.tensors.last().filter(|_| moving)),
        },
        arguments(waiting, |one| Some(&one.g)),
        decided(waiting),
        after(waiting),
        RmsPropScalarsLaunch {
            lr: step.lr,
            weight_decay: step.weight_decay,
            keep: step.alpha[0],
            new: step.alpha[1],
            eps: step.eps,
            momentum: step.momentum,
        },
        RmsPropOptions { count: waiting.len(), centered, moving, decided: gate.decided },
    );
}

/// The parameters and their state, in place.
#[derive(CubeLaunch, CubeType)]
struct RmsPropTensors {
    p: Tensors,
    square: Tensors,
    mean: Tensors,
    direction: Tensors,
}

#[derive(CubeLaunch, CubeType)]
struct RmsPropScalars {
    lr: f32,
    weight_decay: f32,
    /// The decay of the means, and its complement.
    keep: f32,
    new: f32,
    eps: f32,
    momentum: f32,
}

/// Compile-time options of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RmsPropOptions {
    /// The number of parameters.
    count: usize,
    centered: bool,
    moving: bool,
    decided: bool,
}

/// Each workgroup updates some values of one of the parameters.
#[cube(launch)]
fn rms_prop_kernel(
    tensors: &mut RmsPropTensors,
    g: &Tensors,
    decision: &Decided,
    after: &mut Tensors,
    by: &RmsPropScalars,
    #[comptime] options: RmsPropOptions,
) {
    let decided = comptime!(options.decided);
    let takes = if comptime!(decided) { decision.taken[0] != 0.0f32 } else { true.runtime() };
    let mut begin = 0usize;
    #[unroll]
    for which in 0..options.count {
        let g = g.index(which);
        let at = place_after(begin);
        if CUBE_POS >= begin && at < g.len() {
            if comptime!(decided) {
                left_out(&decision.before, after, which, at, takes);
            }
            if takes {
                let value = tensors.p.index(which)[at];
                let g = decayed(g[at], value, by.weight_decay);
                let second = tensors.square.index(which)[at] * by.keep + g * g * by.new;
                tensors.square.index_mut(which)[at] = second;
                let spread = if comptime!(options.centered) {
                    let first = tensors.mean.index(which)[at] * by.keep + g * by.new;
                    tensors.mean.index_mut(which)[at] = first;
                    second - first * first
                } else {
                    second
                };
                let step = g / (spread.sqrt() + by.eps);
                let along = if comptime!(options.moving) {
                    let moved = tensors.direction.index(which)[at] * by.momentum + step;
                    tensors.direction.index_mut(which)[at] = moved;
                    moved
                } else {
                    step
                };
                tensors.p.index_mut(which)[at] = value - along * by.lr;
            }
        }
        begin += g.len().div_ceil(UNITS);
    }
}

//! Adam, AdamW and AMSGrad.

use cubecl::prelude::*;

use super::together::{Rule, Waiting, after, arguments, decided, size, take};
use super::{Decided, Gate, Tensors, Values, back, decayed, given, left_out, place_after};
use crate::gpu::{UNITS, own, primitive};
use crate::update::AdamStep;
use crate::update::decided::Decision;

/// The parameters of a launch.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct AdamNumbers {
    step: AdamStep,
    /// The logarithms of the decays, where the device counts the steps that were taken.
    logarithms: [f32; 2],
    amsgrad: bool,
}

pub(in crate::update) fn adam(
    p: Values,
    g: &Values,
    state: [Values; 2],
    largest: Option<Values>,
    step: AdamStep,
) -> (Values, [Values; 2], Option<Values>) {
    let (p, state, largest, _) = adam_where(p, g, state, largest, step, None);
    (p, state, largest)
}

pub(in crate::update) fn adam_where(
    p: Values,
    g: &Values,
    [mean, square]: [Values; 2],
    largest: Option<Values>,
    step: AdamStep,
    decided: Option<([f32; 2], Decision)>,
) -> (Values, [Values; 2], Option<Values>, Values) {
    let (tensors, g) = given([p, mean, square], g);
    let largest = largest.map(|largest| own(primitive(largest)));
    let (logarithms, decision) = decided.unzip();
    // Also for a decay of 0.
    let logarithms = logarithms.unwrap_or_default().map(|logarithm| logarithm.max(-1e30));
    let gate = Gate::new(decision, &g);
    let [p, mean, square] = tensors.clone().map(back);
    let after = back(gate.after.clone());
    let rule = Rule::Adam(AdamNumbers { step, logarithms, amsgrad: largest.is_some() });
    take(Waiting { rule, tensors: tensors.into_iter().chain(largest.clone()).collect(), g, gate });
    (p, [mean, square], largest.map(back), after)
}

pub(super) fn launch(waiting: &[Waiting], AdamNumbers { step, logarithms, amsgrad }: AdamNumbers) {
    let Waiting { g, gate, .. } = &waiting[0];
    let (cubes, dim) = size(waiting);
    let [[_, new], [keep, other]] = step.betas;
    adam_kernel::launch(
        &g.client.clone(),
        cubes,
        dim,
        AdamTensorsLaunch {
            p: arguments(waiting, |one| one.tensors.first()),
            mean: arguments(waiting, |one| one.tensors.get(1)),
            square: arguments(waiting, |one| one.tensors.get(2)),
            largest: arguments(waiting, |one| one.tensors.get(3)),
        },
        arguments(waiting, |one| Some(&one.g)),
        decided(waiting),
        after(waiting),
        AdamScalarsLaunch {
            lr: step.lr,
            shrink: step.shrink,
            weight_decay: step.weight_decay,
            new,
            keep,
            other,
            correction: step.correction,
            eps: step.eps,
            log_first: logarithms[0],
            log_second: logarithms[1],
            number: gate.count,
        },
        AdamOptions { count: waiting.len(), amsgrad, decided: gate.decided },
    );
}

/// `1 - beta^count`, accurate where it is small.
#[cube]
fn corrected(logarithm: f32, count: f32) -> f32 {
    let y = logarithm * count;
    let series = 1.0f32 + y * 0.2f32 * (1.0f32 + y / 6.0f32 * (1.0f32 + y / 7.0f32));
    let series = 1.0f32 + y * 0.5f32 * (1.0f32 + y / 3.0f32 * (1.0f32 + y * 0.25f32 * series));
    select(y > -0.5f32, -y * series, 1.0f32 - y.exp())
}

/// The parameters and their state, in place.
#[derive(CubeLaunch, CubeType)]
struct AdamTensors {
    p: Tensors,
    mean: Tensors,
    square: Tensors,
    largest: Tensors,
}

#[derive(CubeLaunch, CubeType)]
struct AdamScalars {
    lr: f32,
    shrink: f32,
    weight_decay: f32,
    /// The weight of the gradient in the mean.
    new: f32,
    /// The decay of the mean square, and its complement.
    keep: f32,
    other: f32,
    correction: f32,
    eps: f32,
    /// The logarithms of the decays.
    log_first: f32,
    log_second: f32,
    /// The number of the step.
    number: f32,
}

/// Compile-time options of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AdamOptions {
    /// The number of parameters.
    count: usize,
    amsgrad: bool,
    decided: bool,
}

/// Each workgroup updates some values of one of the parameters.
#[cube(launch)]
fn adam_kernel(
    tensors: &mut AdamTensors,
    g: &Tensors,
    decision: &Decided,
    after: &mut Tensors,
    by: &AdamScalars,
    #[comptime] options: AdamOptions,
) {
    let decided = comptime!(options.decided);
    let takes = if comptime!(decided) { decision.taken[0] != 0.0f32 } else { true.runtime() };
    let mut begin = 0usize;
    #[unroll]
    for which in 0..options.count {
        let g = g.index(which);
        let at = place_after(begin);
        if CUBE_POS >= begin && at < g.len() {
            let mut lr = by.lr;
            let mut correction = by.correction;
            if comptime!(decided) {
                let steps = by.number - left_out(&decision.before, after, which, at, takes);
                lr /= corrected(by.log_first, steps);
                correction *= corrected(by.log_second, steps).sqrt();
            }
            if takes {
                let value = tensors.p.index(which)[at] * by.shrink;
                let g = decayed(g[at], value, by.weight_decay);
                let last = tensors.mean.index(which)[at];
                let first = last + (g - last) * by.new;
                let second = tensors.square.index(which)[at] * by.keep + g * g * by.other;
                tensors.mean.index_mut(which)[at] = first;
                tensors.square.index_mut(which)[at] = second;
                let under = if comptime!(options.amsgrad) {
                    let most = tensors.largest.index(which)[at];
                    // NaN stays NaN.
                    let most = select(second <= most, most, second);
                    tensors.largest.index_mut(which)[at] = most;
                    most
                } else {
                    second
                };
                tensors.p.index_mut(which)[at] = value - first / (under.sqrt() / correction + by.eps) * lr;
            }
        }
        begin += g.len().div_ceil(UNITS);
    }
}

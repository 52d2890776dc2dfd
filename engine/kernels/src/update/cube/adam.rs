//! Adam, AdamW and AMSGrad.

use cubecl::prelude::*;

use super::together::{Rule, Waiting, arguments, size, take};
use super::{Gate, Values, back, decayed, given, left_out, place_after};
use crate::gpu::{UNITS, own, primitive};
use crate::update::AdamStep;
use crate::update::decided::Decision;

/// What a launch goes by.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct AdamNumbers {
    step: AdamStep,
    /// Of the decays, where the device knows how many steps were taken.
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
        arguments(waiting, |one| one.tensors.first()),
        arguments(waiting, |one| one.tensors.get(1)),
        arguments(waiting, |one| one.tensors.get(2)),
        arguments(waiting, |one| one.tensors.get(3)),
        arguments(waiting, |one| Some(&one.g)),
        gate.taken.clone().into_tensor_arg(),
        arguments(waiting, |one| one.gate.decided.then_some(&one.gate.before)),
        arguments(waiting, |one| one.gate.decided.then_some(&one.gate.after)),
        step.lr,
        step.shrink,
        step.weight_decay,
        new,
        keep,
        other,
        step.correction,
        step.eps,
        logarithms[0],
        logarithms[1],
        gate.count,
        waiting.len(),
        amsgrad,
        gate.decided,
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

/// A workgroup for some values of one of the parameters.
#[cube(launch)]
#[allow(clippy::too_many_arguments, reason = "a kernel has its arguments apart")]
fn adam_kernel(
    p: &mut Sequence<OwnedTensor<f32>>,
    mean: &mut Sequence<OwnedTensor<f32>>,
    square: &mut Sequence<OwnedTensor<f32>>,
    largest: &mut Sequence<OwnedTensor<f32>>,
    g: &Sequence<OwnedTensor<f32>>,
    taken: &Tensor<f32>,
    before: &Sequence<OwnedTensor<f32>>,
    after: &mut Sequence<OwnedTensor<f32>>,
    lr: f32,
    shrink: f32,
    weight_decay: f32,
    new: f32,
    keep: f32,
    other: f32,
    correction: f32,
    eps: f32,
    log_first: f32,
    log_second: f32,
    number: f32,
    #[comptime] count: usize,
    #[comptime] amsgrad: bool,
    #[comptime] decided: bool,
) {
    let takes = if comptime!(decided) { taken[0] != 0.0f32 } else { true.runtime() };
    let mut begin = 0usize;
    #[unroll]
    for which in 0..count {
        let g = g.index(which);
        let at = place_after(begin);
        if CUBE_POS >= begin && at < g.len() {
            let mut lr = lr;
            let mut correction = correction;
            if comptime!(decided) {
                let steps = number - left_out(before, after, which, at, takes);
                lr /= corrected(log_first, steps);
                correction *= corrected(log_second, steps).sqrt();
            }
            if takes {
                let value = p.index(which)[at] * shrink;
                let g = decayed(g[at], value, weight_decay);
                let last = mean.index(which)[at];
                let first = last + (g - last) * new;
                let second = square.index(which)[at] * keep + g * g * other;
                mean.index_mut(which)[at] = first;
                square.index_mut(which)[at] = second;
                let under = if comptime!(amsgrad) {
                    let most = largest.index(which)[at];
                    // NaN stays NaN.
                    let most = select(second <= most, most, second);
                    largest.index_mut(which)[at] = most;
                    most
                } else {
                    second
                };
                p.index_mut(which)[at] = value - first / (under.sqrt() / correction + eps) * lr;
            }
        }
        begin += g.len().div_ceil(UNITS);
    }
}

//! The steps on GPUs: one kernel for each parameter, or for several with SGD, in place. With a [`Decision`] the device
//! decides whether a step is taken.

use std::cell::RefCell;

use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::decided::Decision;
use super::{AdamStep, RmsPropStep, SgdStep};
use crate::gpu::{UNITS, each, empty, ordered, own, primitive};

/// A parameter, its gradient or its state; within kernels a tensor is CubeCL's.
type Values = burn::tensor::Tensor<1>;

/// The tensors to write to, and the gradient.
fn given<const N: usize>(tensors: [Values; N], g: &Values) -> ([CubeTensor; N], CubeTensor) {
    let [g] = ordered([primitive(g.clone())]);
    let tensors = tensors.map(|tensor| own(primitive(tensor)));
    let len = g.meta.num_elements();
    assert!(tensors.iter().all(|t| t.meta.num_elements() == len), "the tensors of a step have one length");
    (tensors, g)
}

fn back(tensor: CubeTensor) -> Values {
    Values::from_primitive::<CubeBackend>(tensor)
}

/// The tensors of a decision that a kernel reads and writes; unused without one.
struct Gate {
    taken: CubeTensor,
    before: CubeTensor,
    /// The number of skipped steps after this one.
    after: CubeTensor,
    /// The number of this step of the parameter.
    count: f32,
    decided: bool,
}

impl Gate {
    fn new(decision: Option<Decision>, g: &CubeTensor) -> Self {
        let after = empty(g, [1], DType::F32);
        let Some(decision) = decision else {
            return Self { taken: g.clone(), before: g.clone(), after, count: 0.0, decided: false };
        };
        let [taken, before] = ordered([decision.taken, decision.left_out].map(primitive));
        Self { taken, before, after, count: decision.step as f32, decided: true }
    }
}

/// A step that is not taken yet.
struct Waiting {
    p: CubeTensor,
    direction: CubeTensor,
    g: CubeTensor,
    step: SgdStep,
    first: f32,
    gate: Gate,
}

impl Waiting {
    /// Whether both are taken by the same numbers. Steps that a device decides about wait for one decision.
    fn is_like(&self, other: &Self) -> bool {
        let numbers = |one: &Self| (one.step, one.first, one.gate.count, one.gate.decided);
        numbers(self) == numbers(other) && self.g.device == other.g.device
    }
}

thread_local! {
    /// The steps that wait for the end of [`together`]; none outside of it.
    static WAITING: RefCell<Option<Vec<Waiting>>> = const { RefCell::new(None) };
}

/// Parameters that are stepped in one launch at most: as many as bindings are sure to be there for, three each.
const AT_ONCE: usize = 8;

pub(super) fn together<T>(work: impl FnOnce() -> T) -> T {
    /// Takes the steps also where `work` panics: others may have the tensors.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            let waiting = WAITING.take().unwrap_or_default();
            let mut rest = &waiting[..];
            while let Some(first) = rest.first() {
                let each = if first.gate.decided { 5 } else { 3 };
                let bindings = first.g.client.properties().hardware.max_bindings as usize;
                let most = (bindings.saturating_sub(2) / each).clamp(1, AT_ONCE);
                let alike = rest.iter().take(most).take_while(|next| next.is_like(first));
                let (now, later) = rest.split_at(alike.count());
                sgd_of(now);
                rest = later;
            }
        }
    }
    if WAITING.with_borrow(Option::is_some) {
        return work();
    }
    WAITING.set(Some(Vec::new()));
    let _end = End;
    work()
}

/// One launch for several parameters with the same step.
fn sgd_of(waiting: &[Waiting]) {
    let Some(Waiting { g, step, gate, first, .. }) = waiting.first() else { return };
    let arguments = |of: fn(&Waiting) -> &CubeTensor| {
        let values = waiting.iter().map(|one| of(one).clone().into_tensor_arg()).collect();
        SequenceArg::<OwnedTensor<f32>> { values }
    };
    let counts = |of: fn(&Waiting) -> &CubeTensor| if gate.decided { arguments(of) } else { SequenceArg::new() };
    let groups = waiting.iter().map(|one| one.g.meta.num_elements().div_ceil(UNITS)).sum::<usize>();
    let (cubes, dim) = each(&g.client, groups * UNITS);
    sgd_together_kernel::launch(
        &g.client.clone(),
        cubes,
        dim,
        arguments(|one| &one.p),
        arguments(|one| &one.direction),
        arguments(|one| &one.g),
        gate.taken.clone().into_tensor_arg(),
        counts(|one| &one.gate.before),
        counts(|one| &one.gate.after),
        step.lr,
        step.weight_decay,
        step.momentum,
        step.share,
        *first,
        gate.count,
        waiting.len(),
        step.nesterov,
        gate.decided,
    );
}

pub(super) fn sgd(p: Values, g: &Values, direction: Values, step: SgdStep) -> (Values, Values) {
    let (p, direction, _) = sgd_where(p, g, direction, step, None);
    (p, direction)
}

pub(super) fn sgd_where(
    p: Values,
    g: &Values,
    direction: Values,
    step: SgdStep,
    decided: Option<(f32, Decision)>,
) -> (Values, Values, Values) {
    let ([p, direction], g) = given([p, direction], g);
    let (first, decision) = decided.unzip();
    let gate = Gate::new(decision, &g);
    if WAITING.with_borrow(Option::is_some) {
        let after = (back(p.clone()), back(direction.clone()), back(gate.after.clone()));
        let waiting = Waiting { p, direction, g, step, first: first.unwrap_or(step.share), gate };
        WAITING.with_borrow_mut(|all| all.get_or_insert_default().push(waiting));
        return after;
    }
    let (cubes, dim) = each(&g.client, g.meta.num_elements());
    sgd_kernel::launch(
        &g.client.clone(),
        cubes,
        dim,
        p.clone().into_tensor_arg(),
        direction.clone().into_tensor_arg(),
        g.into_tensor_arg(),
        gate.taken.into_tensor_arg(),
        gate.before.into_tensor_arg(),
        gate.after.clone().into_tensor_arg(),
        step.lr,
        step.weight_decay,
        step.momentum,
        step.share,
        first.unwrap_or(step.share),
        gate.count,
        step.nesterov,
        gate.decided,
    );
    (back(p), back(direction), back(gate.after))
}

pub(super) fn adam(
    p: Values,
    g: &Values,
    state: [Values; 2],
    largest: Option<Values>,
    step: AdamStep,
) -> (Values, [Values; 2], Option<Values>) {
    let (p, state, largest, _) = adam_where(p, g, state, largest, step, None);
    (p, state, largest)
}

pub(super) fn adam_where(
    p: Values,
    g: &Values,
    [mean, square]: [Values; 2],
    largest: Option<Values>,
    step: AdamStep,
    decided: Option<([f32; 2], Decision)>,
) -> (Values, [Values; 2], Option<Values>, Values) {
    let ([p, mean, square], g) = given([p, mean, square], g);
    let largest = largest.map(|largest| own(primitive(largest)));
    let spare = largest.clone().unwrap_or_else(|| empty(&g, [1], DType::F32));
    let (logarithms, decision) = decided.unzip();
    // Also for a decay of 0.
    let logarithms = logarithms.unwrap_or_default().map(|logarithm| logarithm.max(-1e30));
    let gate = Gate::new(decision, &g);
    let (cubes, dim) = each(&g.client, g.meta.num_elements());
    let [[_, new], [keep, other]] = step.betas;
    adam_kernel::launch(
        &g.client.clone(),
        cubes,
        dim,
        p.clone().into_tensor_arg(),
        mean.clone().into_tensor_arg(),
        square.clone().into_tensor_arg(),
        spare.into_tensor_arg(),
        g.into_tensor_arg(),
        gate.taken.into_tensor_arg(),
        gate.before.into_tensor_arg(),
        gate.after.clone().into_tensor_arg(),
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
        largest.is_some(),
        gate.decided,
    );
    (back(p), [back(mean), back(square)], largest.map(back), back(gate.after))
}

pub(super) fn rms_prop(
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

pub(super) fn rms_prop_where(
    p: Values,
    g: &Values,
    square: Values,
    mean: Option<Values>,
    direction: Option<Values>,
    step: RmsPropStep,
    decision: Option<Decision>,
) -> (Values, Values, Option<Values>, Option<Values>, Values) {
    let ([p, square], g) = given([p, square], g);
    let [mean, direction] = [mean, direction].map(|state| state.map(|state| own(primitive(state))));
    let [spare_mean, spare_direction] =
        [&mean, &direction].map(|state| state.clone().unwrap_or_else(|| empty(&g, [1], DType::F32)));
    let gate = Gate::new(decision, &g);
    let (cubes, dim) = each(&g.client, g.meta.num_elements());
    rms_prop_kernel::launch(
        &g.client.clone(),
        cubes,
        dim,
        p.clone().into_tensor_arg(),
        square.clone().into_tensor_arg(),
        spare_mean.into_tensor_arg(),
        spare_direction.into_tensor_arg(),
        g.into_tensor_arg(),
        gate.taken.into_tensor_arg(),
        gate.before.into_tensor_arg(),
        gate.after.clone().into_tensor_arg(),
        step.lr,
        step.weight_decay,
        step.alpha[0],
        step.alpha[1],
        step.eps,
        step.momentum,
        mean.is_some(),
        direction.is_some(),
        gate.decided,
    );
    (back(p), back(square), mean.map(back), direction.map(back), back(gate.after))
}

/// Skips a step where the device decides so, and counts it.
#[cube]
fn decide(taken: &Tensor<f32>, before: &Tensor<f32>, after: &mut Tensor<f32>) {
    let takes = taken[0] != 0.0f32;
    if ABSOLUTE_POS == 0 {
        after[0] = before[0] + select(takes, 0.0f32, 1.0f32);
    }
    if !takes {
        terminate!();
    }
}

/// `1 - beta^count`, accurate where it is small.
#[cube]
fn corrected(logarithm: f32, count: f32) -> f32 {
    let y = logarithm * count;
    let series = 1.0f32 + y * 0.2f32 * (1.0f32 + y / 6.0f32 * (1.0f32 + y / 7.0f32));
    let series = 1.0f32 + y * 0.5f32 * (1.0f32 + y / 3.0f32 * (1.0f32 + y * 0.25f32 * series));
    select(y > -0.5f32, -y * series, 1.0f32 - y.exp())
}

/// The gradient with the parameter's decay. Without one the result does not depend on the
/// parameter, even if that is infinite.
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
    taken: &Tensor<f32>,
    before: &Tensor<f32>,
    after: &mut Tensor<f32>,
    lr: f32,
    weight_decay: f32,
    momentum: f32,
    share: f32,
    first: f32,
    count: f32,
    #[comptime] nesterov: bool,
    #[comptime] decided: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= g.len() {
        terminate!();
    }
    let share = if comptime!(decided) {
        decide(taken, before, after);
        select(before[0] == count - 1.0f32, first, share)
    } else {
        share
    };
    let value = p[at];
    let g = decayed(g[at], value, weight_decay);
    let moved = direction[at] * momentum + g * share;
    direction[at] = moved;
    let along = if comptime!(nesterov) { g + moved * momentum } else { moved };
    p[at] = value - along * lr;
}

/// A workgroup for some values of one of the parameters.
#[cube(launch)]
#[allow(clippy::too_many_arguments)]
fn sgd_together_kernel(
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
        let at = (CUBE_POS - begin) * UNITS + UNIT_POS as usize;
        if CUBE_POS >= begin && at < g.len() {
            let mut share = share;
            if comptime!(decided) {
                let left_out = before.index(which)[0];
                if at == 0 {
                    after.index_mut(which)[0] = left_out + select(takes, 0.0f32, 1.0f32);
                }
                share = select(left_out == number - 1.0f32, first, share);
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

#[cube(launch)]
#[allow(clippy::too_many_arguments)]
fn adam_kernel(
    p: &mut Tensor<f32>,
    mean: &mut Tensor<f32>,
    square: &mut Tensor<f32>,
    largest: &mut Tensor<f32>,
    g: &Tensor<f32>,
    taken: &Tensor<f32>,
    before: &Tensor<f32>,
    after: &mut Tensor<f32>,
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
    count: f32,
    #[comptime] amsgrad: bool,
    #[comptime] decided: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= g.len() {
        terminate!();
    }
    let lr = if comptime!(decided) {
        decide(taken, before, after);
        lr / corrected(log_first, count - before[0])
    } else {
        lr
    };
    let correction =
        if comptime!(decided) { correction * corrected(log_second, count - before[0]).sqrt() } else { correction };
    let value = p[at] * shrink;
    let g = decayed(g[at], value, weight_decay);
    let first = mean[at] + (g - mean[at]) * new;
    let second = square[at] * keep + g * g * other;
    mean[at] = first;
    square[at] = second;
    let under = if comptime!(amsgrad) {
        // NaN stays NaN.
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
    taken: &Tensor<f32>,
    before: &Tensor<f32>,
    after: &mut Tensor<f32>,
    lr: f32,
    weight_decay: f32,
    keep: f32,
    new: f32,
    eps: f32,
    momentum: f32,
    #[comptime] centered: bool,
    #[comptime] moving: bool,
    #[comptime] decided: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= g.len() {
        terminate!();
    }
    if comptime!(decided) {
        decide(taken, before, after);
    }
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

//! Collects steps, so that several parameters are updated in one launch.

use std::cell::RefCell;

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::adam::AdamNumbers;
use super::rms_prop::RmsPropNumbers;
use super::sgd::SgdNumbers;
use super::{DecidedLaunch, Gate};
use crate::gpu::{UNITS, each};

/// The rule, and its parameters.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rule {
    Sgd(SgdNumbers),
    Adam(AdamNumbers),
    RmsProp(RmsPropNumbers),
}

/// A pending step.
pub(super) struct Waiting {
    pub rule: Rule,
    /// The parameter and its state, which the step changes.
    pub tensors: Vec<CubeTensor>,
    pub g: CubeTensor,
    pub gate: Gate,
}

impl Waiting {
    /// Whether both steps have the same parameters. Steps that a device decides on share one
    /// decision.
    fn is_like(&self, other: &Self) -> bool {
        let numbers = |one: &Self| (one.rule, one.gate.count, one.gate.decided);
        numbers(self) == numbers(other) && self.g.device == other.g.device
    }

    /// The maximum number of parameters that a launch can update: as many as there are bindings
    /// for, in addition to two.
    fn at_once(&self) -> usize {
        let each = self.tensors.len() + if self.gate.decided { 3 } else { 1 };
        let bindings = self.g.client.properties().hardware.max_bindings as usize;
        (bindings.saturating_sub(2) / each).clamp(1, AT_ONCE)
    }
}

thread_local! {
    /// The pending steps until the end of [`together`]; `None` outside of it.
    static WAITING: RefCell<Option<Vec<Waiting>>> = const { RefCell::new(None) };
}

/// The maximum number of parameters that are updated in one launch.
const AT_ONCE: usize = 8;

pub(in crate::update) fn together<T>(work: impl FnOnce() -> T) -> T {
    /// Takes the pending steps even if `work` panics, since their tensors may be shared.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            let waiting = WAITING.take().unwrap_or_default();
            let mut rest = &waiting[..];
            while let [first, others @ ..] = rest {
                let alike = others.iter().take(first.at_once() - 1).take_while(|next| next.is_like(first));
                let (now, later) = rest.split_at(1 + alike.count());
                launch(now);
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

/// Adds a step to the pending ones, or takes it at once outside of [`together`].
pub(super) fn take(step: Waiting) {
    WAITING.with_borrow_mut(|waiting| match waiting {
        Some(all) => all.push(step),
        None => launch(&[step]),
    });
}

/// One launch for several parameters with the same step.
fn launch(waiting: &[Waiting]) {
    match waiting.first().map(|first| first.rule) {
        Some(Rule::Sgd(numbers)) => super::sgd::launch(waiting, numbers),
        Some(Rule::Adam(numbers)) => super::adam::launch(waiting, numbers),
        Some(Rule::RmsProp(numbers)) => super::rms_prop::launch(waiting, numbers),
        None => {}
    }
}

/// One tensor of each of the steps; empty for steps that do not have it.
pub(super) fn arguments<'a>(
    waiting: &'a [Waiting],
    of: impl Fn(&'a Waiting) -> Option<&'a CubeTensor>,
) -> SequenceArg<OwnedTensor<f32>> {
    SequenceArg { values: waiting.iter().filter_map(of).map(|one| one.clone().into_tensor_arg()).collect() }
}

/// The decision of the steps. Without one, the value passed for `taken` is not read.
pub(super) fn decided(waiting: &[Waiting]) -> DecidedLaunch {
    DecidedLaunch {
        taken: waiting[0].gate.taken.clone().into_tensor_arg(),
        before: arguments(waiting, |one| one.gate.decided.then_some(&one.gate.before)),
    }
}

/// The tensors in which the steps count the skipped ones.
pub(super) fn after(waiting: &[Waiting]) -> SequenceArg<OwnedTensor<f32>> {
    arguments(waiting, |one| one.gate.decided.then_some(&one.gate.after))
}

/// The launch size: workgroups for each of the parameters.
pub(super) fn size(waiting: &[Waiting]) -> (CubeCount, CubeDim) {
    let groups = waiting.iter().map(|one| one.g.meta.num_elements().div_ceil(UNITS)).sum::<usize>();
    each(&waiting[0].g.client, groups * UNITS)
}

//! Steps of which a GPU decides by itself whether they are taken, as a gradient scaler of half precision wants it: one kernel for each parameter, in
//! place, and nothing is read back. A step that is left out changes nothing, whatever the gradient holds.

use burn::tensor::Tensor;

use super::{AdamStep, RmsPropStep, SgdStep};
use crate::place::{self, Place};

/// What there is to decide about a step.
#[derive(Clone, Debug)]
pub struct Decision {
    /// `[1]`: 0 where the step is left out.
    pub taken: Tensor<1>,
    /// `[1]`: how many steps of this parameter were left out before.
    pub left_out: Tensor<1>,
    /// Its steps, this one among them and those that were left out.
    pub step: u64,
}

/// Whether there is a kernel for these: f32, all on a GPU.
pub fn has_kernel<'a>(mut tensors: impl Iterator<Item = &'a Tensor<1>>) -> bool {
    tensors.all(|t| place::of(t) == Some(Place::Gpu) && place::takes_floats(t))
}

/// As [`sgd`](super::sgd), with how many steps have been left out now. The first step that is taken adds `first` of the gradient to the direction.
///
/// # Panics
/// Where a tensor is not on the GPU ([`has_kernel`]), or they differ in length.
pub fn sgd(
    p: Tensor<1>,
    g: &Tensor<1>,
    direction: Tensor<1>,
    step: SgdStep,
    first: f32,
    decision: Decision,
) -> (Tensor<1>, Tensor<1>, Tensor<1>) {
    #[cfg(gpu_kernels)]
    return cube::sgd(p, g, direction, step, first, decision);
    #[cfg(not(gpu_kernels))]
    none((p, g, direction, step, first, decision))
}

/// As [`adam`](super::adam), with how many steps have been left out now. The corrections are made of the number of steps that were taken and of the
/// decays' logarithms; the step has the learning rate itself and a correction of 1.
///
/// # Panics
/// Where a tensor is not on the GPU ([`has_kernel`]), or they differ in length.
pub fn adam(
    p: Tensor<1>,
    g: &Tensor<1>,
    state: [Tensor<1>; 2],
    largest: Option<Tensor<1>>,
    step: AdamStep,
    logarithms: [f32; 2],
    decision: Decision,
) -> (Tensor<1>, [Tensor<1>; 2], Option<Tensor<1>>, Tensor<1>) {
    #[cfg(gpu_kernels)]
    return cube::adam(p, g, state, largest, step, logarithms, decision);
    #[cfg(not(gpu_kernels))]
    none((p, g, state, largest, step, logarithms, decision))
}

/// As [`rms_prop`](super::rms_prop), with how many steps have been left out now.
///
/// # Panics
/// Where a tensor is not on the GPU ([`has_kernel`]), or they differ in length.
pub fn rms_prop(
    p: Tensor<1>,
    g: &Tensor<1>,
    square: Tensor<1>,
    mean: Option<Tensor<1>>,
    direction: Option<Tensor<1>>,
    step: RmsPropStep,
    decision: Decision,
) -> (Tensor<1>, Tensor<1>, Option<Tensor<1>>, Option<Tensor<1>>, Tensor<1>) {
    #[cfg(gpu_kernels)]
    return cube::rms_prop(p, g, square, mean, direction, step, decision);
    #[cfg(not(gpu_kernels))]
    none((p, g, square, mean, direction, step, decision))
}

#[cfg(not(gpu_kernels))]
fn none<T, R>(_: T) -> R {
    panic!("there is no kernel for this parameter; see `has_kernel`")
}

#[cfg(gpu_kernels)]
mod cube {
    use burn::tensor::DType;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::prelude::*;

    use super::super::cube::{Values, adam_at, back, given, rms_prop_at, sgd_at};
    use super::{AdamStep, Decision, RmsPropStep, SgdStep};
    use crate::gpu::{each, empty, ordered, own, primitive};

    /// Whether it is taken, how many were left out before, and a place for how many are after it.
    fn primitives(decision: Decision) -> [CubeTensor; 3] {
        let [taken, before] = ordered([decision.taken, decision.left_out].map(primitive));
        let after = empty(&before, [1], DType::F32);
        [taken, before, after]
    }

    pub fn sgd(
        p: Values,
        g: &Values,
        direction: Values,
        step: SgdStep,
        first: f32,
        decision: Decision,
    ) -> (Values, Values, Values) {
        let ([p, direction], g) = given([p, direction], g);
        let count = decision.step as f32;
        let [taken, before, after] = primitives(decision);
        let (cubes, dim) = each(&g.client, g.meta.num_elements());
        sgd_kernel::launch(
            &g.client.clone(),
            cubes,
            dim,
            p.clone().into_tensor_arg(),
            direction.clone().into_tensor_arg(),
            g.into_tensor_arg(),
            taken.into_tensor_arg(),
            before.into_tensor_arg(),
            after.clone().into_tensor_arg(),
            step.lr,
            step.weight_decay,
            step.momentum,
            step.share,
            first,
            count,
            step.nesterov,
        );
        (back(p), back(direction), back(after))
    }

    pub fn adam(
        p: Values,
        g: &Values,
        [mean, square]: [Values; 2],
        largest: Option<Values>,
        step: AdamStep,
        logarithms: [f32; 2],
        decision: Decision,
    ) -> (Values, [Values; 2], Option<Values>, Values) {
        let ([p, mean, square], g) = given([p, mean, square], g);
        let largest = largest.map(|largest| own(primitive(largest)));
        let spare = largest.clone().unwrap_or_else(|| empty(&g, [1], DType::F32));
        let count = decision.step as f32;
        let [taken, before, after] = primitives(decision);
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
            taken.into_tensor_arg(),
            before.into_tensor_arg(),
            after.clone().into_tensor_arg(),
            step.lr,
            step.shrink,
            step.weight_decay,
            new,
            keep,
            other,
            step.correction,
            step.eps,
            // Of a decay of 0 too.
            logarithms[0].max(-1e30),
            logarithms[1].max(-1e30),
            count,
            largest.is_some(),
        );
        (back(p), [back(mean), back(square)], largest.map(back), back(after))
    }

    pub fn rms_prop(
        p: Values,
        g: &Values,
        square: Values,
        mean: Option<Values>,
        direction: Option<Values>,
        step: RmsPropStep,
        decision: Decision,
    ) -> (Values, Values, Option<Values>, Option<Values>, Values) {
        let ([p, square], g) = given([p, square], g);
        let [mean, direction] = [mean, direction].map(|state| state.map(|state| own(primitive(state))));
        let [spare_mean, spare_direction] =
            [&mean, &direction].map(|state| state.clone().unwrap_or_else(|| empty(&g, [1], DType::F32)));
        let [taken, before, after] = primitives(decision);
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
            taken.into_tensor_arg(),
            before.into_tensor_arg(),
            after.clone().into_tensor_arg(),
            step.lr,
            step.weight_decay,
            step.alpha[0],
            step.alpha[1],
            step.eps,
            step.momentum,
            mean.is_some(),
            direction.is_some(),
        );
        (back(p), back(square), mean.map(back), direction.map(back), back(after))
    }

    /// Whether the step is taken; counts it where it is not.
    #[cube]
    fn decide(taken: &Tensor<f32>, before: &Tensor<f32>, after: &mut Tensor<f32>) -> bool {
        let takes = taken[0] != 0.0f32;
        if ABSOLUTE_POS == 0 {
            after[0] = before[0] + select(takes, 0.0f32, 1.0f32);
        }
        takes
    }

    /// `1 - beta^count`, with its digits where it is small.
    #[cube]
    fn corrected(logarithm: f32, count: f32) -> f32 {
        let y = logarithm * count;
        let series = 1.0f32 + y * 0.2f32 * (1.0f32 + y / 6.0f32 * (1.0f32 + y / 7.0f32));
        let series = 1.0f32 + y * 0.5f32 * (1.0f32 + y / 3.0f32 * (1.0f32 + y * 0.25f32 * series));
        select(y > -0.5f32, -y * series, 1.0f32 - y.exp())
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
    ) {
        let at = ABSOLUTE_POS;
        let takes = decide(taken, before, after);
        if at >= g.len() || !takes {
            terminate!();
        }
        let share = select(before[0] == count - 1.0f32, first, share);
        sgd_at(at, p, direction, g, lr, weight_decay, momentum, share, nesterov);
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
    ) {
        let at = ABSOLUTE_POS;
        let takes = decide(taken, before, after);
        if at >= g.len() || !takes {
            terminate!();
        }
        let count = count - before[0];
        let lr = lr / corrected(log_first, count);
        let correction = correction * corrected(log_second, count).sqrt();
        adam_at(at, p, mean, square, largest, g, lr, shrink, weight_decay, new, keep, other, correction, eps, amsgrad);
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
    ) {
        let at = ABSOLUTE_POS;
        let takes = decide(taken, before, after);
        if at >= g.len() || !takes {
            terminate!();
        }
        rms_prop_at(at, p, square, mean, direction, g, lr, weight_decay, keep, new, eps, momentum, centered, moving);
    }
}

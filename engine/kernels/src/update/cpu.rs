//! The steps on the CPU, on all threads.

use burn::backend::Flex;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{AdamStep, NovogradStep, RmsPropStep, SgdStep};
use crate::host;
use crate::simd::{sum, widest};

/// The number of values of a task.
pub(super) const TASK: usize = 1 << 15;

pub(super) fn sgd(p: Tensor<1>, g: &Tensor<1>, direction: Tensor<1>, step: SgdStep) -> (Tensor<1>, Tensor<1>) {
    let [p, direction] = in_place([p, direction], g, |[p, direction], g| sgd_run(p, direction, g, step));
    (p, direction)
}

pub(super) fn novograd(
    p: Tensor<1>,
    g: &Tensor<1>,
    direction: Tensor<1>,
    step: NovogradStep,
) -> (Tensor<1>, Tensor<1>) {
    let [p, direction] = in_place([p, direction], g, |[p, direction], g| novograd_run(p, direction, g, step));
    (p, direction)
}

pub(super) fn adam(
    p: Tensor<1>,
    g: &Tensor<1>,
    [mean, square]: [Tensor<1>; 2],
    largest: Option<Tensor<1>>,
    step: AdamStep,
) -> (Tensor<1>, [Tensor<1>; 2], Option<Tensor<1>>) {
    match largest {
        None => {
            let run = |[p, mean, square]: [&mut [f32]; 3], g: &[f32]| adam_run(p, mean, square, g, step);
            let [p, mean, square] = in_place([p, mean, square], g, run);
            (p, [mean, square], None)
        }
        Some(largest) => {
            let run = |all: [&mut [f32]; 4], g: &[f32]| amsgrad_run(all, g, step);
            let [p, mean, square, largest] = in_place([p, mean, square, largest], g, run);
            (p, [mean, square], Some(largest))
        }
    }
}

pub(super) fn rms_prop(
    p: Tensor<1>,
    g: &Tensor<1>,
    square: Tensor<1>,
    mean: Option<Tensor<1>>,
    direction: Option<Tensor<1>>,
    step: RmsPropStep,
) -> (Tensor<1>, Tensor<1>, Option<Tensor<1>>, Option<Tensor<1>>) {
    match (mean, direction) {
        (None, None) => {
            let run = |[p, square]: [&mut [f32]; 2], g: &[f32]| {
                widest(
                    #[inline(always)]
                    move || {
                        for ((p, square), g) in p.iter_mut().zip(square).zip(g) {
                            step.take(p, square, None, None, *g);
                        }
                    },
                );
            };
            let [p, square] = in_place([p, square], g, run);
            (p, square, None, None)
        }
        (None, Some(direction)) => {
            let run = |[p, square, direction]: [&mut [f32]; 3], g: &[f32]| {
                widest(
                    #[inline(always)]
                    move || {
                        for (((p, square), direction), g) in p.iter_mut().zip(square).zip(direction).zip(g) {
                            step.take(p, square, None, Some(direction), *g);
                        }
                    },
                );
            };
            let [p, square, direction] = in_place([p, square, direction], g, run);
            (p, square, None, Some(direction))
        }
        (Some(mean), None) => {
            let run = |[p, square, mean]: [&mut [f32]; 3], g: &[f32]| {
                widest(
                    #[inline(always)]
                    move || {
                        for (((p, square), mean), g) in p.iter_mut().zip(square).zip(mean).zip(g) {
                            step.take(p, square, Some(mean), None, *g);
                        }
                    },
                );
            };
            let [p, square, mean] = in_place([p, square, mean], g, run);
            (p, square, Some(mean), None)
        }
        (Some(mean), Some(direction)) => {
            let run = |[p, square, mean, direction]: [&mut [f32]; 4], g: &[f32]| {
                widest(
                    #[inline(always)]
                    move || {
                        let state = p.iter_mut().zip(square).zip(mean).zip(direction);
                        for ((((p, square), mean), direction), g) in state.zip(g) {
                            step.take(p, square, Some(mean), Some(direction), *g);
                        }
                    },
                );
            };
            let [p, square, mean, direction] = in_place([p, square, mean, direction], g, run);
            (p, square, Some(mean), Some(direction))
        }
    }
}

pub(super) fn square_sum(g: &Tensor<1>) -> f32 {
    let part = |values: &[f32]| {
        widest(
            #[inline(always)]
            || sum(values, values, |a, b| a * b),
        )
    };
    let sums: Option<Vec<f32>> = host::read(g, |g| g.par_chunks(TASK).map(part).collect());
    match sums {
        Some(sums) => sums.into_iter().sum(),
        None => panic!("the gradient is not on the CPU"),
    }
}

fn novograd_run(p: &mut [f32], direction: &mut [f32], g: &[f32], step: NovogradStep) {
    let NovogradStep { lr, norm, weight_decay, share, momentum } = step;
    widest(
        #[inline(always)]
        move || {
            for ((p, direction), g) in p.iter_mut().zip(direction).zip(g) {
                let g = *g / norm;
                let g = if weight_decay == 0.0 { g } else { g + *p * weight_decay };
                *direction = *direction * momentum + g * share;
                *p -= *direction * lr;
            }
        },
    );
}

impl RmsPropStep {
    #[inline(always)]
    fn take(&self, p: &mut f32, square: &mut f32, mean: Option<&mut f32>, direction: Option<&mut f32>, g: f32) {
        let [keep, new] = self.alpha;
        let g = if self.weight_decay == 0.0 { g } else { g + *p * self.weight_decay };
        *square = *square * keep + g * g * new;
        let spread = match mean {
            None => *square,
            Some(mean) => {
                *mean = *mean * keep + g * new;
                *square - *mean * *mean
            }
        };
        let step = g / (spread.sqrt() + self.eps);
        let step = match direction {
            None => step,
            Some(direction) => {
                *direction = *direction * self.momentum + step;
                *direction
            }
        };
        *p -= step * self.lr;
    }
}

fn sgd_run(p: &mut [f32], direction: &mut [f32], g: &[f32], step: SgdStep) {
    let SgdStep { lr, weight_decay, momentum, share, nesterov } = step;
    widest(
        #[inline(always)]
        move || {
            for ((p, direction), g) in p.iter_mut().zip(direction).zip(g) {
                let g = if weight_decay == 0.0 { *g } else { *g + *p * weight_decay };
                *direction = *direction * momentum + g * share;
                let along = if nesterov { g + *direction * momentum } else { *direction };
                *p -= along * lr;
            }
        },
    );
}

impl AdamStep {
    /// Updates the mean and the mean square with the gradient.
    #[inline(always)]
    fn gather(&self, p: &mut f32, mean: &mut f32, square: &mut f32, g: f32) {
        let [[_, new], [keep, other]] = self.betas;
        *p *= self.shrink;
        let g = if self.weight_decay == 0.0 { g } else { g + *p * self.weight_decay };
        *mean += (g - *mean) * new;
        *square = *square * keep + g * g * other;
    }

    #[inline(always)]
    fn moved(&self, p: f32, mean: f32, square: f32) -> f32 {
        p - mean / (square.sqrt() / self.correction + self.eps) * self.lr
    }
}

fn adam_run(p: &mut [f32], mean: &mut [f32], square: &mut [f32], g: &[f32], step: AdamStep) {
    widest(
        #[inline(always)]
        move || {
            for (((p, mean), square), g) in p.iter_mut().zip(mean).zip(square).zip(g) {
                step.gather(p, mean, square, *g);
                *p = step.moved(*p, *mean, *square);
            }
        },
    );
}

/// Same as the plain run, divided by the largest mean square so far.
fn amsgrad_run([p, mean, square, largest]: [&mut [f32]; 4], g: &[f32], step: AdamStep) {
    widest(
        #[inline(always)]
        move || {
            for ((((p, mean), square), largest), g) in p.iter_mut().zip(mean).zip(square).zip(largest).zip(g) {
                step.gather(p, mean, square, *g);
                // NaN stays NaN.
                *largest = if *square <= *largest { *largest } else { *square };
                *p = step.moved(*p, *mean, *largest);
            }
        },
    );
}

/// Calls `run` for runs of the tensors' values, on all threads where there are many. A tensor
/// without another owner is changed in place.
fn in_place<const N: usize>(
    tensors: [Tensor<1>; N],
    g: &Tensor<1>,
    run: impl Fn([&mut [f32]; N], &[f32]) + Sync,
) -> [Tensor<1>; N] {
    let flex = |tensor: Tensor<1>| match host::compact(tensor).try_into_primitive::<Flex>() {
        Ok(flex) => flex,
        Err(_) => panic!("a tensor of a step is not on the CPU"),
    };
    let mut all = tensors.map(flex);
    let whole = host::read(g, |g| {
        let parts = all.each_mut().map(|tensor| tensor.storage_mut::<f32>());
        assert!(parts.iter().all(|part| part.len() == g.len()), "the tensors of a step have one length");
        let mut tasks = Vec::with_capacity(g.len().div_ceil(TASK));
        let mut parts = parts.map(|part| part.chunks_mut(TASK));
        for g in g.chunks(TASK) {
            // As many runs as the gradient has, as checked above.
            tasks.push((parts.each_mut().map(|part| part.next().unwrap_or_default()), g));
        }
        if tasks.len() == 1 {
            tasks.into_iter().for_each(|(parts, g)| run(parts, g));
        } else {
            tasks.into_par_iter().for_each(|(parts, g)| run(parts, g));
        }
    });
    assert!(whole.is_some(), "the gradient is not on the CPU");
    all.map(Tensor::from_primitive::<Flex>)
}

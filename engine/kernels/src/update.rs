//! Steps of optimizers over one parameter, in one pass over it, its gradient and its state, in place.
//!
//! Operation by operation each step walks the memory of the parameter five to fifteen times and takes as many new buffers; for networks of tens of
//! millions of parameters on small patches that is a good part of the time.

use burn::tensor::{DType, Tensor};

use crate::simd::{sum, widest};
use crate::{host, uses_cpu_kernels};

/// Values of a task.
const TASK: usize = 1 << 15;

/// A step of stochastic gradient descent with momentum, as `torch.optim.SGD` takes it.
#[derive(Clone, Copy, Debug)]
pub struct SgdStep {
    /// Learning rate.
    pub lr: f32,
    /// Times the parameter, added to the gradient.
    pub weight_decay: f32,
    /// Share of the last direction that is kept.
    pub momentum: f32,
    /// Share of the gradient that is added to it.
    pub share: f32,
    /// Looks one step ahead along the direction.
    pub nesterov: bool,
}

/// A step of Adam, as `torch.optim.Adam` and `AdamW` take it.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// Learning rate over the mean's correction.
    pub lr: f32,
    /// What the parameter is multiplied with first (AdamW's decay; 1 for none).
    pub shrink: f32,
    /// Times the parameter, added to the gradient (Adam's decay).
    pub weight_decay: f32,
    /// Decay of the mean and of the mean square, and one less each.
    pub betas: [[f32; 2]; 2],
    /// Root of the mean square's correction.
    pub correction: f32,
    /// Added to the denominator.
    pub eps: f32,
}

/// A step of Novograd, as `monai.optimizers.Novograd` takes it, with the norm of the gradient taken in already.
#[derive(Clone, Copy, Debug)]
pub struct NovogradStep {
    /// Learning rate.
    pub lr: f32,
    /// What the gradient is divided by.
    pub norm: f32,
    /// Times the parameter, added to the gradient after it.
    pub weight_decay: f32,
    /// Share of that which is added to the direction.
    pub share: f32,
    /// Share of the last direction that is kept.
    pub momentum: f32,
}

/// A step of RMSprop, as `torch.optim.RMSprop` takes it.
#[derive(Clone, Copy, Debug)]
pub struct RmsPropStep {
    /// Learning rate.
    pub lr: f32,
    /// Times the parameter, added to the gradient.
    pub weight_decay: f32,
    /// Decay of the mean square (and of the mean), and one less.
    pub alpha: [f32; 2],
    /// Added to the denominator.
    pub eps: f32,
    /// Share of the last direction that is kept.
    pub momentum: f32,
}

/// Whether there is a kernel for these: f32 on the CPU.
pub fn has_kernel<'a>(mut tensors: impl Iterator<Item = &'a Tensor<1>>) -> bool {
    uses_cpu_kernels() && tensors.all(|t| t.dtype() == DType::F32 && host::is_host(&t.device()))
}

/// The parameter and the direction after a step; all of one length, with [`has_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn sgd(p: Tensor<1>, g: &Tensor<1>, direction: Tensor<1>, step: SgdStep) -> (Tensor<1>, Tensor<1>) {
    let [p, direction] = in_place([p, direction], g, |[p, direction], g| sgd_run(p, direction, g, step));
    (p, direction)
}

/// The parameter and its state (mean, mean square and, where there is one, the largest mean square) after a step; all of one length,
/// with [`has_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn adam(
    p: Tensor<1>,
    g: &Tensor<1>,
    state: [Tensor<1>; 2],
    largest: Option<Tensor<1>>,
    step: AdamStep,
) -> (Tensor<1>, [Tensor<1>; 2], Option<Tensor<1>>) {
    let [mean, square] = state;
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

/// The parameter and the direction after a step; both of the gradient's length, with [`has_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn novograd(p: Tensor<1>, g: &Tensor<1>, direction: Tensor<1>, step: NovogradStep) -> (Tensor<1>, Tensor<1>) {
    let [p, direction] = in_place([p, direction], g, |[p, direction], g| novograd_run(p, direction, g, step));
    (p, direction)
}

/// The parameter and its state (mean square, and where there are such the mean and the direction) after a step; all of one length, with
/// [`has_kernel`].
///
/// # Panics
/// Where a tensor is on another device, or they differ in length.
pub fn rms_prop(
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

/// The sum of a tensor's squares, the same for any number of threads; with [`has_kernel`].
///
/// # Panics
/// Where the tensor is on another device.
pub fn square_sum(g: &Tensor<1>) -> f32 {
    use rayon::prelude::*;
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
    /// Takes the gradient into the mean and the mean square.
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

/// The same, divided by the largest mean square so far.
fn amsgrad_run([p, mean, square, largest]: [&mut [f32]; 4], g: &[f32], step: AdamStep) {
    widest(
        #[inline(always)]
        move || {
            for ((((p, mean), square), largest), g) in p.iter_mut().zip(mean).zip(square).zip(largest).zip(g) {
                step.gather(p, mean, square, *g);
                // What is not a number stays so.
                *largest = if *square <= *largest { *largest } else { *square };
                *p = step.moved(*p, *mean, *largest);
            }
        },
    );
}

/// Calls `run` for runs of the tensors' values, on all threads where there are many. A tensor that nobody else has is changed where it is.
#[cfg(feature = "cpu")]
fn in_place<const N: usize>(
    tensors: [Tensor<1>; N],
    g: &Tensor<1>,
    run: impl Fn([&mut [f32]; N], &[f32]) + Sync,
) -> [Tensor<1>; N] {
    use burn::backend::Flex;
    use rayon::prelude::*;

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
            // As many runs as the gradient has: just looked.
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

#[cfg(not(feature = "cpu"))]
fn in_place<const N: usize>(
    _: [Tensor<1>; N],
    _: &Tensor<1>,
    _: impl Fn([&mut [f32]; N], &[f32]) + Sync,
) -> [Tensor<1>; N] {
    panic!("this build has no CPU kernels; see `has_kernel`")
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn tensor(count: usize, of: impl Fn(usize) -> f32) -> Tensor<1> {
        let values: Vec<f32> = (0..count).map(of).collect();
        Tensor::from_data(burn::tensor::TensorData::new(values, [count]), &Device::flex())
    }

    fn values(tensor: Tensor<1>) -> Vec<f32> {
        tensor.into_data().try_to_vec().expect("f32")
    }

    /// In f64, one value at a time, by PyTorch's formula; more values than one task has.
    #[test]
    fn a_step_is_the_formula_s_and_leaves_copies_alone() {
        let count = 2 * TASK + 37;
        let p = |i: usize| (i % 101) as f32 * 0.01 - 0.5;
        let g = |i: usize| (i % 37) as f32 * 0.1 - 1.8;
        let m = |i: usize| (i % 11) as f32 * 0.02 - 0.1;
        let step = SgdStep { lr: 0.1, weight_decay: 0.01, momentum: 0.9, share: 1.0, nesterov: true };
        let kept = tensor(count, p);
        let (moved, direction) = sgd(kept.clone(), &tensor(count, g), tensor(count, m), step);
        let (moved, direction) = (values(moved), values(direction));
        assert_eq!(values(kept)[7], p(7));
        for i in (0..count).step_by(97).chain([count - 1]) {
            let [p, g, m] = [p(i), g(i), m(i)].map(f64::from);
            let g = g + 0.01 * p;
            let d = 0.9 * m + g;
            assert!((f64::from(direction[i]) - d).abs() < 1e-6, "{i}");
            assert!((f64::from(moved[i]) - (p - 0.1 * (g + 0.9 * d))).abs() < 1e-6, "{i}");
        }
        let square = |i: usize| (i % 7) as f32 * 0.3;
        let betas = [[0.9, 0.1], [0.99, 0.01]];
        let step = AdamStep { lr: 0.02, shrink: 0.99, weight_decay: 0.0, betas, correction: 0.5, eps: 1e-8 };
        for largest in [None, Some(tensor(count, |i| (i % 5) as f32 * 0.4))] {
            let state = [tensor(count, m), tensor(count, square)];
            let (moved, [mean, squares], largest) =
                adam(tensor(count, p), &tensor(count, g), state, largest.clone(), step);
            let (moved, mean, squares) = (values(moved), values(mean), values(squares));
            let largest = largest.map(values);
            for i in (0..count).step_by(89) {
                let [p, g, m, s] = [p(i), g(i), m(i), square(i)].map(f64::from);
                let (m, mut s) = (m + 0.1 * (g - m), 0.99 * s + 0.01 * g * g);
                assert!((f64::from(mean[i]) - m).abs() < 1e-6 && (f64::from(squares[i]) - s).abs() < 1e-6, "{i}");
                if let Some(largest) = &largest {
                    s = s.max((i % 5) as f64 * 0.4);
                    assert!((f64::from(largest[i]) - s).abs() < 1e-6, "{i}");
                }
                let expected = 0.99 * p - 0.02 * m / (s.sqrt() / 0.5 + 1e-8);
                assert!((f64::from(moved[i]) - expected).abs() < 1e-5 * expected.abs().max(1.0), "{i}");
            }
        }
    }

    /// As above, for Novograd and every kind of RMSprop.
    #[test]
    fn steps_by_norms_and_by_mean_squares_are_the_formulas() {
        let count = 2 * TASK + 37;
        let p = |i: usize| (i % 101) as f32 * 0.01 - 0.5;
        let g = |i: usize| (i % 37) as f32 * 0.1 - 1.8;
        let m = |i: usize| (i % 11) as f32 * 0.02 - 0.1;
        let squares: f64 = (0..count).map(|i| f64::from(g(i)).powi(2)).sum();
        assert!((f64::from(square_sum(&tensor(count, g))) / squares - 1.0).abs() < 1e-5);
        let step = NovogradStep { lr: 0.1, norm: 3.0, weight_decay: 0.01, share: 0.05, momentum: 0.95 };
        let (moved, direction) = novograd(tensor(count, p), &tensor(count, g), tensor(count, m), step);
        let (moved, direction) = (values(moved), values(direction));
        for i in (0..count).step_by(97).chain([count - 1]) {
            let [p, g, m] = [p(i), g(i), m(i)].map(f64::from);
            let d = 0.95 * m + 0.05 * (g / 3.0 + 0.01 * p);
            assert!((f64::from(direction[i]) - d).abs() < 1e-6, "{i}");
            assert!((f64::from(moved[i]) - (p - 0.1 * d)).abs() < 1e-6, "{i}");
        }
        let square = |i: usize| (i % 7) as f32 * 0.3 + 0.1;
        let step = RmsPropStep { lr: 0.02, weight_decay: 0.01, alpha: [0.99, 0.01], eps: 1e-8, momentum: 0.9 };
        for (centered, momentum) in [(false, false), (false, true), (true, false), (true, true)] {
            let mean = centered.then(|| tensor(count, m));
            let direction = momentum.then(|| tensor(count, m));
            let (moved, squares, mean, direction) =
                rms_prop(tensor(count, p), &tensor(count, g), tensor(count, square), mean, direction, step);
            let (moved, squares) = (values(moved), values(squares));
            let (mean, direction) = (mean.map(values), direction.map(values));
            assert_eq!((mean.is_some(), direction.is_some()), (centered, momentum));
            for i in (0..count).step_by(89) {
                let [p, g, m, s] = [p(i), g(i), m(i), square(i)].map(f64::from);
                let g = g + 0.01 * p;
                let s = 0.99 * s + 0.01 * g * g;
                assert!((f64::from(squares[i]) - s).abs() < 1e-6, "{i}");
                let mut spread = s;
                if let Some(mean) = &mean {
                    let m = 0.99 * m + 0.01 * g;
                    assert!((f64::from(mean[i]) - m).abs() < 1e-6, "{i}");
                    spread -= m * m;
                }
                let mut along = g / (spread.sqrt() + 1e-8);
                if let Some(direction) = &direction {
                    along += 0.9 * m;
                    assert!((f64::from(direction[i]) - along).abs() < 1e-5, "{i}");
                }
                assert!((f64::from(moved[i]) - (p - 0.02 * along)).abs() < 1e-5, "{i}");
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_not_hidden() {
        let step = SgdStep { lr: 0.1, weight_decay: 0.0, momentum: 0.9, share: 1.0, nesterov: false };
        let g = tensor(3, |i| if i == 1 { f32::NAN } else { 1.0 });
        let (moved, direction) = sgd(tensor(3, |_| 0.0), &g, tensor(3, |_| 0.0), step);
        let nan = |t: Tensor<1>| values(t).iter().map(|v| v.is_nan()).collect::<Vec<_>>();
        assert_eq!((nan(moved), nan(direction)), (vec![false, true, false], vec![false, true, false]));
        let betas = [[0.9, 0.1], [0.99, 0.01]];
        let step = AdamStep { lr: 0.1, shrink: 1.0, weight_decay: 0.0, betas, correction: 1.0, eps: 1e-8 };
        let state = [tensor(3, |_| 0.0), tensor(3, |_| 0.0)];
        let (moved, _, largest) = adam(tensor(3, |_| 0.0), &g, state, Some(tensor(3, |_| 1.0)), step);
        assert_eq!(nan(moved), [false, true, false]);
        assert_eq!(nan(largest.expect("given")), [false, true, false]);
    }
}

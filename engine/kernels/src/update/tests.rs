//! Compares with PyTorch's formulas in f64.

use super::cpu::TASK;
use super::*;
use burn::tensor::Device;

fn tensor(count: usize, of: impl Fn(usize) -> f32) -> Tensor<1> {
    let values: Vec<f32> = (0..count).map(of).collect();
    Tensor::from_data(burn::tensor::TensorData::new(values, [count]), &Device::flex())
}

fn values(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

/// Compares with PyTorch's formula in f64, one value at a time, with more values than one task.
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
        let (moved, [mean, squares], largest) = adam(tensor(count, p), &tensor(count, g), state, largest.clone(), step);
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

/// The same for Novograd and every kind of RMSprop.
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

/// Every rule in each of its variants.
#[cfg(feature = "vulkan")]
const RULES: [&str; 7] =
    ["sgd", "adam", "amsgrad", "rmsprop", "rmsprop centered", "rmsprop moving", "rmsprop centered, moving"];

/// The result of a rule's step for a parameter, its gradient and up to three tensors of state, the
/// last two of which are not negative. `other` steps have other parameters.
#[cfg(feature = "vulkan")]
fn stepped(
    rule: &str,
    [p, g, moved, square, largest]: [Tensor<1>; 5],
    other: bool,
    decision: Option<decided::Decision>,
) -> Vec<Tensor<1>> {
    let lr = if other { 0.2 } else { 0.1 };
    if rule == "sgd" {
        let step = SgdStep { lr, weight_decay: 0.01, momentum: 0.9, share: 0.8, nesterov: !other };
        return match decision {
            None => <[_; 2]>::from(sgd(p, &g, moved, step)).into(),
            Some(decision) => <[_; 3]>::from(decided::sgd(p, &g, moved, step, 1.0, decision)).into(),
        };
    }
    if let "adam" | "amsgrad" = rule {
        let betas = [[0.9, 0.1], [0.99, 0.01]];
        let correction = if decision.is_some() { 1.0 } else { 0.5 };
        let step = AdamStep { lr, shrink: 0.99, weight_decay: 0.01, betas, correction, eps: 1e-8 };
        let largest = (rule == "amsgrad").then_some(largest);
        let state = [moved, square];
        let (p, state, largest, left_out) = match decision {
            None => {
                let (p, state, largest) = adam(p, &g, state, largest, step);
                (p, state, largest, None)
            }
            Some(decision) => {
                let logarithms = [0.9_f32.ln(), 0.99_f32.ln()];
                let (p, state, largest, left_out) = decided::adam(p, &g, state, largest, step, logarithms, decision);
                (p, state, largest, Some(left_out))
            }
        };
        return [p].into_iter().chain(state).chain(largest).chain(left_out).collect();
    }
    let step = RmsPropStep { lr, weight_decay: 0.01, alpha: [0.99, 0.01], eps: 1e-8, momentum: 0.9 };
    let mean = rule.contains("centered").then(|| moved.clone() * 0.01);
    let direction = rule.contains("moving").then_some(moved);
    let (p, square, mean, direction, left_out) = match decision {
        None => {
            let (p, square, mean, direction) = rms_prop(p, &g, square, mean, direction, step);
            (p, square, mean, direction, None)
        }
        Some(decision) => {
            let (p, square, mean, direction, left_out) =
                decided::rms_prop(p, &g, square, mean, direction, step, decision);
            (p, square, mean, direction, Some(left_out))
        }
    };
    [p, square].into_iter().chain(mean).chain(direction).chain(left_out).collect()
}

/// More parameters than a launch supports, of lengths below and above a workgroup's, in two groups
/// with different numbers, interleaved: equal bit by bit to individual steps.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn steps_taken_together_on_vulkan_are_those_taken_one_by_one() {
    let device = Device::vulkan(burn::tensor::DeviceKind::DefaultDevice);
    let given: Vec<_> = [1, 5, 256, 257, 1000, 3, 2, 70_001, 9, 512, 31, 8, 64, 7]
        .into_iter()
        .enumerate()
        .map(|(which, count)| {
            let of = |salt: usize| tensor(count, move |i| ((i * 7 + salt + which) % 23) as f32 * 0.1 - 1.0);
            ([of(0), of(5), of(11), of(3).abs() + 0.5, of(9).abs()], (4..7).contains(&which))
        })
        .collect();
    for rule in RULES {
        let all = |device: &Device| -> Vec<_> {
            let step = |(tensors, other): &([Tensor<1>; 5], bool)| {
                stepped(rule, tensors.clone().map(|t| t.to_device(device)), *other, None)
            };
            given.iter().map(step).collect()
        };
        let read = |all: Vec<Vec<Tensor<1>>>| -> Vec<Vec<Vec<f32>>> {
            all.into_iter().map(|one| one.into_iter().map(values).collect()).collect()
        };
        let together = read(super::together(|| all(&device)));
        assert!(together == read(all(&device)), "{rule}");
        let alone = read(all(&Device::flex()));
        for (here, there) in together.iter().flatten().flatten().zip(alone.iter().flatten().flatten()) {
            assert!((here - there).abs() < 1e-5 * there.abs().max(1.0), "{rule}: {here} and {there}");
        }

        // The device decides: a step that is taken, the first one and a later one; one that is
        // skipped.
        for (taken, number) in [(1.0, 1), (1.0, 3), (0.0, 3)] {
            let decided = |device: &Device| -> Vec<_> {
                let taken = Tensor::from_floats([taken], device);
                let step = |(tensors, other): &([Tensor<1>; 5], bool)| {
                    let skipped = if number > 2 && tensors[0].dims()[0] % 2 == 0 { 2.0 } else { 0.0 };
                    let left_out = Tensor::from_floats([skipped], device);
                    let decision = decided::Decision { taken: taken.clone(), left_out, step: number };
                    stepped(rule, tensors.clone().map(|t| t.to_device(device)), *other, Some(decision))
                };
                given.iter().map(step).collect()
            };
            let together = read(super::together(|| decided(&device)));
            assert!(together == read(decided(&device)), "{rule}, {taken}, {number}");
            for (one, (tensors, _)) in together.iter().zip(&given) {
                let skipped = if number > 2 && tensors[0].dims()[0] % 2 == 0 { 2.0 } else { 0.0 };
                assert_eq!(one.last(), Some(&vec![skipped + 1.0 - taken]), "{rule}, {taken}, {number}");
                assert!(one.iter().flatten().all(|value| value.is_finite()), "{rule}, {taken}, {number}");
                if taken == 0.0 {
                    assert_eq!(one[0], values(tensors[0].clone()), "{rule}");
                }
            }
        }
    }
}

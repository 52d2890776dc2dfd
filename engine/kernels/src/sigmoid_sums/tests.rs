//! Compares with the same sums by Burn's operations, through the graph, and gradients with
//! differences in f64.

use burn::tensor::{DType, Device, Distribution, Tensor, TensorData, activation};

use super::{Focal, SigmoidSums, sigmoid_sums};

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32 values")
}

#[track_caller]
fn close(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = b.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 3e-6 * scale, "{what} at {i}: {a} for {b}");
    }
}

const FOCALS: [Option<Focal>; 4] = [
    None,
    Some(Focal { gamma: 0.0, pos_weight: 1.0, present: 1.0, absent: 1.0 }),
    Some(Focal { gamma: 2.0, pos_weight: 1.0, present: 0.25, absent: 0.75 }),
    Some(Focal { gamma: 0.7, pos_weight: 3.0, present: 1.0, absent: 1.0 }),
];

fn random(shape: [usize; 5], spread: f64, device: &Device) -> Tensor<5> {
    let values = Tensor::<5>::random(shape, Distribution::Normal(0.0, spread), &Device::flex());
    Tensor::from_data(values.into_data(), device)
}

#[test]
fn sums_and_gradients_are_those_of_the_parts() {
    let device = Device::flex().autodiff();
    for (channels, edge) in [(1, 5_usize), (2, 33), (3, 9)] {
        for (focal, squared) in FOCALS.into_iter().zip([true, false, true, false]) {
            for indices in [false, true] {
                if indices && channels == 1 {
                    continue;
                }
                let shape = [2, channels, edge, edge, edge];
                let logits = random(shape, 3.0, &device).require_grad();
                let soft = activation::sigmoid(random(shape, 2.0, &device)).without_autodiff();
                let soft = Tensor::<5>::from_data(soft.into_data(), &device).require_grad();
                let count = 2 * edge.pow(3);
                let labels: Vec<f32> = (0..count).map(|i| (i * 7 % 11 % channels) as f32).collect();
                let labels = Tensor::<5>::from_data(TensorData::new(labels, [2, 1, edge, edge, edge]), &device);
                let range: Vec<f32> = (0..channels).map(|c| c as f32).collect();
                let range = Tensor::<1>::from_floats(range.as_slice(), &device).reshape([1, channels, 1, 1, 1]);
                let hot = labels.clone().expand(shape).equal(range.expand(shape)).float().cast(DType::F32);
                let (given, t) = if indices { (labels, hot) } else { (soft.clone(), soft.clone()) };
                let factors = |seed: usize| {
                    let values: Vec<f32> = (0..2 * channels).map(|i| ((i + seed * 5) as f32 * 1.3).sin()).collect();
                    Tensor::<2>::from_data(TensorData::new(values, [2, channels]), &device)
                };
                let all = |parts: [Tensor<2>; 4]| {
                    let weighted = |i: usize| (parts[i].clone() * factors(i)).sum();
                    let gradients = (weighted(0) + weighted(1) + weighted(2) + weighted(3)).backward();
                    let mut found = vec![values(logits.grad(&gradients).expect("a gradient"))];
                    if !indices {
                        found.push(values(soft.grad(&gradients).expect("a gradient of the target")));
                    }
                    found.extend(parts.map(values));
                    found
                };
                let ours = sigmoid_sums(logits.clone(), given, squared, focal, true).expect("a CPU tensor");
                assert!(!ours.odd);
                let ours = all([ours.both, ours.prediction, ours.target, ours.focal]);
                let x = logits.clone();
                let s = activation::sigmoid(x.clone());
                let own = |v: Tensor<5>| if squared { v.clone() * v } else { v };
                let sum = |x: Tensor<5>| x.reshape([2, channels, edge.pow(3)]).sum_dim(2).reshape([2, channels]);
                let term = match focal {
                    None => x.zeros_like(),
                    Some(Focal { gamma, pos_weight, present, absent }) => {
                        let within = (-t.clone() + 1.0) * activation::log_sigmoid(-x.clone());
                        let entropy = -(t.clone() * activation::log_sigmoid(x.clone()) * pos_weight + within);
                        let off = activation::log_sigmoid(x * (-t.clone() * 2.0 + 1.0));
                        (t.clone() * present + (-t.clone() + 1.0) * absent) * (off * gamma).exp() * entropy
                    }
                };
                let theirs = all([sum(s.clone() * t.clone()), sum(own(s)), sum(own(t)), sum(term)]);
                for (i, (a, b)) in ours.iter().zip(&theirs).enumerate() {
                    close(&format!("part {i}, {channels} channels, {focal:?}, indices {indices}"), a, b);
                }
            }
        }
    }
}

/// The focal term in f64, directly from its formula.
fn focal_of(focal: Focal, x: f64, t: f64) -> f64 {
    let Focal { gamma, pos_weight, present, absent } = focal;
    let [gamma, pos_weight, present, absent] = [gamma, pos_weight, present, absent].map(f64::from);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let entropy = pos_weight * t * softplus(-x) + (1.0 - t) * softplus(x);
    (present * t + absent * (1.0 - t)) * (-gamma * softplus(-x * (1.0 - 2.0 * t))).exp() * entropy
}

#[test]
fn the_focal_term_is_that_of_its_formula_where_predictions_are_sure_too() {
    let device = Device::flex().autodiff();
    let logits = [-80.0_f32, -20.0, -8.0, -1.0, -1e-3, 0.0, 0.3, 5.0, 15.0, 60.0];
    for focal in FOCALS.into_iter().flatten() {
        for t in [0.0_f32, 0.3, 1.0] {
            for x in logits {
                let one = |value: f32| Tensor::<5>::from_data(TensorData::new(vec![value], [1; 5]), &device);
                let (leaf, target) = (one(x).require_grad(), one(t).require_grad());
                let sums = sigmoid_sums(leaf.clone(), target.clone(), false, Some(focal), true).expect("a CPU tensor");
                let gradients = sums.focal.clone().backward();
                let found = [
                    values(sums.focal)[0],
                    values(leaf.grad(&gradients).expect("a gradient"))[0],
                    values(target.grad(&gradients).expect("a gradient"))[0],
                ];
                let (x, t, h) = (f64::from(x), f64::from(t), 1e-4);
                let expected = [
                    focal_of(focal, x, t),
                    (focal_of(focal, x + h, t) - focal_of(focal, x - h, t)) / (2.0 * h),
                    (focal_of(focal, x, t + h) - focal_of(focal, x, t - h)) / (2.0 * h),
                ];
                for (part, (found, expected)) in found.into_iter().zip(expected).enumerate() {
                    let error = (f64::from(found) - expected).abs();
                    assert!(
                        error <= 2e-5 * expected.abs() + 1e-10 * (1.0 + focal_of(focal, x, t)),
                        "part {part} of {focal:?} at {x}, {t}: {found} for {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn targets_and_logits_that_are_odd_are_told() {
    let device = Device::flex();
    let tensor = |odd: f32| Tensor::<5>::from_data(TensorData::new(vec![1.0, 0.0, odd, 0.4], [1, 2, 2, 1, 1]), &device);
    let label = |odd: f32| Tensor::<5>::from_data(TensorData::new(vec![1.0, odd], [1, 1, 2, 1, 1]), &device);
    let sums = |x: Tensor<5>, t: Tensor<5>| -> SigmoidSums { sigmoid_sums(x, t, false, None, true).expect("sums") };
    assert!(!sums(tensor(0.3), tensor(0.3)).odd && !sums(tensor(0.3), label(0.0)).odd);
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(sums(tensor(odd), tensor(0.3)).odd && sums(tensor(0.3), tensor(odd)).odd, "{odd}");
        assert!(sums(tensor(odd), label(0.0)).odd, "{odd}");
    }
    for odd in [f32::NAN, -1.0, 2.0, 0.5] {
        assert!(sums(tensor(0.3), label(odd)).odd, "label {odd}");
    }
    // Two channels do not match three, and one channel has no classes.
    let three = Tensor::<5>::zeros([1, 3, 2, 1, 1], &device);
    assert!(sigmoid_sums(tensor(0.3), three, false, None, true).is_none());
}

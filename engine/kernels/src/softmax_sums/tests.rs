//! Compares with the same sums by Burn's operations, through the graph.

use burn::tensor::{DType, Device, Distribution, Tensor, TensorData, activation};

use super::softmax_sums;

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32 values")
}

#[track_caller]
fn close(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = b.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 2e-6 * scale, "{what} at {i}: {a} for {b}");
    }
}

#[test]
fn sums_and_gradients_are_those_of_the_parts() {
    let (plain, device) = (Device::flex(), Device::flex().autodiff());
    for (classes, edge) in [(1, 5_usize), (2, 33), (5, 9), (14, 7)] {
        for squared in [false, true] {
            let shape = [2, classes, edge, edge, edge];
            let logits = Tensor::<5>::random(shape, Distribution::Normal(0.0, 3.0), &plain);
            let logits = Tensor::<5>::from_data(logits.into_data(), &device).require_grad();
            let count = 2 * edge.pow(3);
            let labels: Vec<f32> = (0..count).map(|i| (i * 7 % 11 % classes) as f32).collect();
            let labels = Tensor::<5>::from_data(TensorData::new(labels, [2, 1, edge, edge, edge]), &device);
            let factors = |seed: usize| {
                let values: Vec<f32> = (0..2 * classes).map(|i| ((i + seed * 5) as f32 * 1.3).sin()).collect();
                Tensor::<2>::from_data(TensorData::new(values, [2, classes]), &device)
            };
            let all = |parts: [Tensor<2>; 4]| {
                let weighted = |i: usize| (parts[i].clone() * factors(i)).sum();
                let gradients = (weighted(0) + weighted(1) + weighted(3)).backward();
                let gradient = logits.grad(&gradients).expect("a gradient");
                (parts.map(values), values(gradient))
            };
            let ours = softmax_sums(logits.clone(), labels.clone(), squared, true).expect("a CPU tensor");
            assert!(!ours.odd);
            let ours = all([ours.both, ours.prediction, ours.target, ours.entropy]);
            let log = activation::log_softmax(logits.clone(), 1);
            let p = log.clone().exp();
            let range: Vec<f32> = (0..classes).map(|c| c as f32).collect();
            let range = Tensor::<1>::from_floats(range.as_slice(), &device).reshape([1, classes, 1, 1, 1]);
            let y = labels.clone().expand(shape).equal(range.expand(shape)).float().cast(DType::F32);
            let sum = |x: Tensor<5>| x.reshape([2, classes, edge.pow(3)]).sum_dim(2).reshape([2, classes]);
            let prediction = if squared { p.clone() * p.clone() } else { p.clone() };
            let theirs = all([sum(p * y.clone()), sum(prediction), sum(y.clone()), sum(-log * y)]);
            for (i, (a, b)) in ours.0.iter().zip(&theirs.0).enumerate() {
                close(&format!("sum {i} of {classes} classes"), a, b);
            }
            close(&format!("gradient of {classes} classes"), &ours.1, &theirs.1);
        }
    }
}

#[test]
fn labels_and_logits_that_are_odd_are_told() {
    let device = Device::flex();
    let logits = |odd: f32| Tensor::<5>::from_data(TensorData::new(vec![0.1, 0.2, odd, 0.4], [1, 2, 2, 1, 1]), &device);
    let labels = |odd: f32| Tensor::<5>::from_data(TensorData::new(vec![1.0, odd], [1, 1, 2, 1, 1]), &device);
    let sums = |logit: f32, label: f32| softmax_sums(logits(logit), labels(label), false, true).expect("a CPU tensor");
    assert!(!sums(0.3, 0.0).odd);
    for (logit, label) in [(f32::NAN, 0.0), (f32::INFINITY, 0.0), (0.3, 2.0), (0.3, -1.0), (0.3, 0.5), (0.3, f32::NAN)]
    {
        assert!(sums(logit, label).odd, "logit {logit}, label {label}");
    }
    // Fractions are truncated, and a label outside the classes belongs to none.
    assert_eq!(values(sums(0.3, 0.5).target), [1.0, 1.0]);
    assert_eq!(values(sums(0.3, -0.5).target), [1.0, 1.0]);
    assert_eq!(values(sums(0.3, 7.0).target), [0.0, 1.0]);
    assert_eq!(values(sums(0.3, -1.0).target), [0.0, 1.0]);
}

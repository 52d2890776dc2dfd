//! Compares with Burn's own layer norm, through the graph.

use burn::tensor::{Device, Tensor, TensorData, module};
use proptest::prelude::*;

use super::layer_norm;
use crate::counter_rng::Key;

fn draw<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let key = Key::new(seed);
    let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64).map(|i| key.normal(i) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn values_and_gradients_are_burns(rows in 1_usize..300, features in 8_usize..400, offset in -5.0_f64..5.0) {
        let device = Device::flex().autodiff();
        let x = (draw([1, rows, features], 1, &device) + offset).require_grad();
        let [weight, bias] = [2, 3].map(|seed| draw([features], seed, &device).require_grad());
        let toward = draw([1, rows, features], 4, &device);
        let of = |y: Tensor<3>| {
            let gradients = (y.clone() * toward.clone()).sum().backward();
            let small = [&weight, &bias].map(|t| t.grad(&gradients).expect("a gradient").into_data());
            [[y.into_data(), x.grad(&gradients).expect("a gradient").into_data()], small].concat()
        };
        let ours = of(layer_norm(x.clone(), weight.clone(), bias.clone(), 1e-5));
        let theirs = of(module::layer_norm(x.clone(), weight.clone(), Some(bias.clone()), 1e-5));
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let [ours, theirs] = [ours, theirs].map(|t| t.try_to_vec::<f32>().expect("f32"));
            let most = theirs.iter().fold(1.0_f32, |most, v| most.max(v.abs()));
            let apart = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            prop_assert!(apart <= 1e-4 * most, "{apart} of {most}");
        }
    }
}

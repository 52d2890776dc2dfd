//! Compares with individual draws, and through the graph with a product with a mask.

use burn::tensor::{Device, Tensor, TensorData};

use super::{Drops, dropout};
use crate::counter_rng::Key;

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32 values")
}

#[test]
fn values_and_gradients_are_dropped_as_the_draws_say() {
    let device = Device::flex().autodiff();
    let shape = [3, 5, 37, 23, 11];
    let count: usize = shape.iter().product();
    let given: Vec<f32> = (0..count).map(|i| (i as f32 * 0.37).sin()).collect();
    let plain = [0.0; 2];
    for (p, run, offsets) in [(0.3, 1, plain), (0.9, 37 * 23 * 11, plain), (0.1, 1, [0.25, -1.5]), (0.0, 1, plain)] {
        let key = Key::new(4).with_text("layer");
        let x = Tensor::<5>::from_data(TensorData::new(given.clone(), shape), &device).require_grad();
        let y = dropout(x.clone(), Drops { key, p, run, scale: 1.25, offsets });
        let gradient = values(x.grad(&(y.clone() * 2.0).sum().backward()).expect("a gradient"));
        for (i, ((x, y), gradient)) in given.iter().zip(values(y)).zip(gradient).enumerate() {
            let drops = key.uniform((i / run) as u64) < p;
            let (factor, offset) = if drops { (0.0, offsets[1]) } else { (1.25, offsets[0]) };
            assert!((y - (x * factor + offset)).abs() < 1e-6 && gradient == 2.0 * factor, "{i} with {p}");
        }
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    let x = Tensor::<1>::from_floats([f32::NAN; 64], &Device::flex());
    let drops = Drops { key: Key::new(1), p: 0.5, run: 1, scale: 2.0, offsets: [0.0; 2] };
    assert!(values(dropout(x, drops)).iter().all(|v| v.is_nan()));
}

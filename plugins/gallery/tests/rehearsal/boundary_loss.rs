//! Calls the component, without a host.

use hearth_gallery::boundary_loss::{Boundary, BoundaryOptions};
use hearth_plugin::PluginOptions;
use hearth_plugin::component::{Array, Loss};

/// Numbers in [0, 1) of a linear congruential generator.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = (state * 1_103_515_245 + 12_345) % (1 << 31);
        state as f64 / f64::from(1_u32 << 31)
    };
    (0..count).map(|_| next()).collect()
}

fn loss(weight: f64) -> Boundary {
    Boundary::new(BoundaryOptions::from_toml(&format!("weight = {weight:?}")).expect("valid")).expect("valid")
}

/// Two items of three classes, 5 x 4 x 3 voxels. The second item has no voxel of class 2.
fn batch() -> (Vec<f32>, Array<'static>) {
    let pred = numbers(360, 1).into_iter().map(|value| (value * 4.0 - 2.0) as f32).collect();
    let mut label: Vec<f32> = numbers(120, 2).into_iter().map(|value| (value * value * 3.0).floor() as f32).collect();
    label[60..].iter_mut().filter(|class| **class == 2.0).for_each(|class| *class = 0.0);
    (pred, Array::new(vec![2, 1, 5, 4, 3], label).expect("120 values"))
}

fn pred(values: &[f32]) -> Array<'_> {
    Array::new(vec![2, 3, 5, 4, 3], values).expect("360 values")
}

/// NumPy 2.4, with the distances of `scipy.ndimage.distance_transform_edt` (SciPy 1.17) as in the code of the paper:
/// `edt(~label) * ~label - (edt(label) - 1) * label`.
#[test]
fn the_value_is_that_of_scipy() {
    let (values, label) = batch();
    for (weight, expected) in [(0.0, 1.365_095_929_002_418_7), (0.5, 1.465_690_293_817_583_3)] {
        let found = loss(weight).loss(pred(&values), label.clone()).expect("no error").loss;
        assert!((found - expected).abs() < 1e-6, "{found}, SciPy has {expected}");
    }
}

#[test]
fn the_gradient_is_that_of_differences() {
    let (values, label) = batch();
    let loss = loss(0.5);
    let gradient = loss.loss(pred(&values), label.clone()).expect("no error").gradient;
    assert_eq!(gradient.shape, [2, 3, 5, 4, 3]);
    for at in (0..360).step_by(7) {
        let moved = |by: f32| {
            let mut values = values.clone();
            values[at] += by;
            (loss.loss(pred(&values), label.clone()).expect("no error").loss, f64::from(values[at]))
        };
        let ((high, right), (low, left)) = (moved(0.01), moved(-0.01));
        let slope = (high - low) / (right - left);
        assert!((f64::from(gradient.values[at]) - slope).abs() < 1e-6, "{at}: {} {slope}", gradient.values[at]);
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let (values, label) = batch();
    let one = Array::new(vec![6, 1, 5, 4, 3], values.clone()).expect("360 values");
    let why = |pred, label| loss(1.0).loss(pred, label).expect_err("no loss").to_string();
    assert!(why(one, label.clone()).contains("a channel for each class"));
    let unknown = Array::new(label.shape.clone(), vec![3.0; 120]).expect("120 values");
    assert!(why(pred(&values), unknown).contains("numbers below 3"));
    assert!(why(pred(&values), Array::new(vec![1], vec![0.0]).expect("a value")).contains("one channel"));
    let fault = Boundary::new(BoundaryOptions::from_toml("weight = -1.0").expect("a number")).err().expect("negative");
    assert_eq!(fault.path, "weight");
}

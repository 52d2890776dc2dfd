//! Compares with closed forms and differences.

use burn::tensor::{Device, Tensor, TensorData};

use super::gelu;

/// The error function by its series, and for large values by its continued fraction: both exact to
/// f64.
fn below(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let tail = if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for n in 1..200 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        1.0 - sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..200).rev().fold(z, |below, n| z + f64::from(n) / 2.0 / below);
        (-z * z).exp() / fraction / std::f64::consts::PI.sqrt()
    };
    if x < 0.0 { tail / 2.0 } else { 1.0 - tail / 2.0 }
}

#[test]
fn values_and_gradients_are_exact_far_out_too() {
    let device = Device::flex().autodiff();
    let inputs: Vec<f32> = (-9000..9001).map(|i| i as f32 / 1000.0).collect();
    let x = Tensor::<1>::from_data(TensorData::from(inputs.as_slice()), &device).require_grad();
    let y = gelu(x.clone());
    let gradients = y.clone().sum().backward();
    let list = |t: TensorData| t.try_to_vec::<f32>().expect("f32");
    let (y, dx) = (list(y.into_data()), list(x.grad(&gradients).expect("a gradient").into_data()));
    for ((x, y), dx) in inputs.iter().map(|x| f64::from(*x)).zip(y).zip(dx) {
        let (value, slope) = (x * below(x), below(x) + x * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt());
        assert!((f64::from(y) - value).abs() <= 5e-6 * value.abs() + 1e-12, "{y} for {value} at {x}");
        assert!((f64::from(dx) - slope).abs() <= 1e-6 + 5e-6 * slope.abs(), "{dx} for {slope} at {x}");
    }
}

#[test]
fn what_is_not_a_number_stays() {
    let x = Tensor::<1>::from_floats([f32::NAN, f32::INFINITY, -40.0, 0.0], &Device::flex());
    let y = gelu(x).into_data().try_to_vec::<f32>().expect("f32");
    assert!(y[0].is_nan() && y[1] == f32::INFINITY && y[2].abs() < 1e-30 && y[3] == 0.0, "{y:?}");
}

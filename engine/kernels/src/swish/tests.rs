//! Compares with the closed form.

use burn::tensor::{Device, Tensor, TensorData};

use super::swish;

#[test]
fn values_and_gradients_are_exact_far_out_too() {
    let device = Device::flex().autodiff();
    let inputs: Vec<f32> = (-9000..9001).map(|i| i as f32 / 200.0).collect();
    let x = Tensor::<1>::from_data(TensorData::from(inputs.as_slice()), &device).require_grad();
    let y = swish(x.clone());
    let gradients = y.clone().sum().backward();
    let list = |t: TensorData| t.try_to_vec::<f32>().expect("f32");
    let (y, dx) = (list(y.into_data()), list(x.grad(&gradients).expect("a gradient").into_data()));
    for ((x, y), dx) in inputs.iter().map(|x| f64::from(*x)).zip(y).zip(dx) {
        let share = 1.0 / (1.0 + (-x).exp());
        let (value, slope) = (x * share, share * (1.0 + x * (1.0 - share)));
        assert!((f64::from(y) - value).abs() <= 2e-6 * value.abs() + 1e-18, "{y} for {value} at {x}");
        assert!((f64::from(dx) - slope).abs() <= 1e-6 + 2e-6 * slope.abs(), "{dx} for {slope} at {x}");
    }
}

#[test]
fn what_is_not_a_number_stays() {
    let x = Tensor::<1>::from_floats([f32::NAN, f32::INFINITY, -200.0, 0.0], &Device::flex());
    let y = swish(x).into_data().try_to_vec::<f32>().expect("f32");
    assert!(y[0].is_nan() && y[1] == f32::INFINITY && y[2].abs() < 1e-30 && y[3] == 0.0, "{y:?}");
}

//! Running statistics of batch norm: PyTorch's formula, owned by each clone, visible immediately,
//! unchanged when frozen.

use burn::module::Module;
use burn::tensor::Device;
use hearth_nn::layers::{BatchNorm, Scope};

use crate::{assert_close, draw, values};

fn norm() -> BatchNorm {
    BatchNorm::new(&Scope::new(&Device::default().autodiff(), 0), 3, 1e-5, 0.1, true)
}

#[test]
fn the_running_variance_takes_the_unbiased_one() {
    let x = draw([2, 3, 2, 3, 2], 1, &Device::default().autodiff());
    let layer = norm();
    layer.forward(x.clone());
    let data = values(x);
    for c in 0..3 {
        let of_channel: Vec<f64> =
            (0..2).flat_map(|b| data[(b * 3 + c) * 12..][..12].iter().map(|v| f64::from(*v))).collect();
        let n = of_channel.len() as f64;
        let mean = of_channel.iter().sum::<f64>() / n;
        let variance = of_channel.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
        let (running_mean, running_var) = (values(layer.running_mean.value())[c], values(layer.running_var.value())[c]);
        assert_close(&[running_mean, running_var], &[(0.1 * mean) as f32, (0.9 + 0.1 * variance) as f32], 1e-6);
    }
    assert_eq!(layer.num_batches_tracked.get(), 1);
}

#[test]
fn evaluation_uses_them_and_leaves_them() {
    let layer = norm();
    layer.forward(draw([2, 3, 2, 3, 2], 1, &Device::default().autodiff()));
    let (mean, variance) = (values(layer.running_mean.value()), values(layer.running_var.value()));
    let evaluated = layer.valid();
    let x = draw([1, 3, 2, 1, 1], 2, &Device::default());
    let expected: Vec<f32> = values(x.clone())
        .iter()
        .enumerate()
        .map(|(i, v)| (v - mean[i / 2]) / (variance[i / 2] + 1e-5).sqrt())
        .collect();
    assert_close(&values(evaluated.forward(x)), &expected, 1e-6);
    assert_eq!(values(evaluated.running_mean.value()), mean);
}

#[test]
fn a_clone_has_statistics_of_its_own() {
    let layer = norm();
    let copy = layer.clone();
    layer.forward(draw([2, 3, 2, 3, 2], 1, &Device::default().autodiff()));
    assert_eq!(values(copy.running_mean.value()), [0.0; 3]);
    assert_eq!(copy.num_batches_tracked.get(), 0);
}

#[test]
fn a_frozen_layer_keeps_them() {
    let layer = norm().freeze();
    let x = draw([2, 3, 2, 3, 2], 1, &Device::default().autodiff());
    layer.forward(x.clone());
    assert_eq!(values(layer.running_var.value()), [1.0; 3]);
    let layer = layer.unfreeze();
    layer.forward(x);
    assert_ne!(values(layer.running_var.value()), [1.0; 3]);
}

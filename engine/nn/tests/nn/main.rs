//! Tests of the crate's public interface against closed forms, finite differences, recorded values
//! and MONAI.

mod absurd;
mod bundle_networks;
mod checkpointing;
mod classification;
#[path = "../../../../tests/clients.rs"]
mod clients;
mod conv_networks;
mod cost;
mod diffusion;
mod dropout;
mod freeze;
mod gradients;
mod inferers;
mod losses;
mod metrics;
mod monai;
mod monai_metrics;
mod monai_networks;
mod monai_record;
mod nnunet;
mod of_plugins;
mod optim;
mod overfit;
mod precision;
mod pytorch;
mod registry;
mod running;
mod unest;
mod unet;
mod visualize;
mod weights;

use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;

/// Values drawn from U(-1, 1).
fn draw(shape: [usize; 5], seed: u64, device: &Device) -> Tensor<5> {
    let key = Key::new(seed);
    let count = shape.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..count).map(|i| (2.0 * key.uniform(i) - 1.0) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Class indices.
fn labels(shape: [usize; 5], classes: u64, seed: u64, device: &Device) -> Tensor<5> {
    let key = Key::new(seed);
    let count = shape.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..count).map(|i| key.below(i, classes) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// A batch with the given values.
fn batch(values: &[f32], shape: [usize; 5]) -> Tensor<5> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::default())
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{got:?} for {expected:?}");
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance || (a.is_nan() && b.is_nan()), "value {i}: {a} for {b}");
    }
}

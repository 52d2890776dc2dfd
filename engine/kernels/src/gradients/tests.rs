//! Compares a GPU with the CPU.

use burn::tensor::{Device, DeviceKind, TensorData};

use super::*;

/// More gradients than a launch supports, of lengths below and above those of a workgroup and a
/// piece.
fn gradients() -> Vec<Tensor<1>> {
    let lengths = [1, 5, 256, 257, 8192, 8193, 3, 2, 70_001, 9, 512, 31, 8, 64, 7, 20_000, 1, 300, 4];
    let values = |which: usize, count: usize| (0..count).map(move |i| ((i * 7 + which) % 23) as f32 * 0.01 - 0.1);
    let one = |(which, count): (usize, usize)| {
        Tensor::from_data(TensorData::new(values(which, count).collect(), [count]), &Device::flex())
    };
    lengths.into_iter().enumerate().map(one).collect()
}

fn read(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn norms_and_scaled_gradients_on_vulkan_are_the_cpu_s() {
    let device = Device::vulkan(DeviceKind::DefaultDevice);
    let there: Vec<_> = gradients().into_iter().map(|gradient| gradient.to_device(&device)).collect();
    let exact: f64 = gradients().into_iter().flat_map(read).map(|value| f64::from(value).powi(2)).sum();
    let sum = |all: &[Tensor<1>]| f64::from(read(square_sum(&all.iter().collect::<Vec<_>>()).expect("some"))[0]);
    assert!((sum(&there) - exact).abs() < 1e-5 * exact);

    let factor = Tensor::from_floats([0.37], &device);
    let kept = there.clone();
    let scaled = scaled(there, &factor);
    for ((scaled, kept), expected) in scaled.into_iter().zip(&kept).zip(gradients()) {
        assert_eq!(read(scaled), read(expected.clone() * 0.37));
        assert_eq!(read(kept.clone()), read(expected), "others have the tensor");
    }

    // Each of them in turn is not finite.
    for which in 0..kept.len() {
        let mut broken = kept.clone();
        let last = broken[which].dims()[0] - 1;
        broken[which] = broken[which].clone().slice_fill([last..last + 1], f32::INFINITY);
        assert!(!sum(&broken).is_finite(), "{which}");
    }
}

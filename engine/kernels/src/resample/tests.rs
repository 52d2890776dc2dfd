//! The CPU kernel and (where there is a GPU) the CubeCL kernel against plain tensor operations, and against sums written out.

use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;

use super::*;

fn volume(shape: [usize; 4], device: &Device) -> Tensor<4> {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n).map(|i| ((i * 7919 % 1009) as f32) / 100.0 - 4.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.try_into_vec_as().expect("values")
}

const PADDINGS: [Padding; 4] = [Padding::Border, Padding::Zeros, Padding::Reflection, Padding::Mirror];

/// The definition, one value at a time in f64.
fn written_out(image: &[f32], n: [usize; 4], matrix: &Matrix, size: [usize; 3], sampling: Sampling) -> Vec<f32> {
    let mut out = Vec::new();
    for c in 0..n[0] {
        for x in 0..size[0] {
            for y in 0..size[1] {
                for z in 0..size[2] {
                    let o = [x as f64, y as f64, z as f64];
                    let t: Vec<_> = (0..3)
                        .map(|r| {
                            let at = (0..3).map(|k| matrix[r][k] * o[k]).sum::<f64>() + matrix[r][3];
                            taps(at, n[r + 1], sampling)
                        })
                        .collect();
                    let mut sum = 0.0_f64;
                    for corner in 0..8 {
                        let pick = |a: usize| {
                            if corner >> a & 1 == 0 {
                                (t[a].low, f64::from(t[a].weight_low))
                            } else {
                                (t[a].high, f64::from(t[a].weight_high))
                            }
                        };
                        let ((i, wi), (j, wj), (k, wk)) = (pick(0), pick(1), pick(2));
                        sum += wi * wj * wk * f64::from(image[((c * n[1] + i) * n[2] + j) * n[3] + k]);
                    }
                    out.push(sum as f32);
                }
            }
        }
    }
    out
}

fn check(device: &Device, tolerance: f32, matrix: &Matrix, shape: [usize; 4], size: [usize; 3], sampling: Sampling) {
    let image = volume(shape, device);
    let expected = written_out(&values(image.clone()), shape, matrix, size, sampling);
    for (name, got) in [
        ("kernel", values(resample(image.clone(), matrix, size, sampling))),
        ("tensor operations", values(resample_with_tensor_ops(image, matrix, size, sampling))),
    ] {
        for (i, (a, b)) in got.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() <= tolerance, "{name}, value {i}: {a} for {b}; {matrix:?} {sampling:?}");
        }
        assert_eq!(got.len(), expected.len(), "{name}");
    }
}

fn mode(nearest: bool) -> Interpolation {
    if nearest { Interpolation::Nearest } else { Interpolation::Linear }
}

#[cfg(feature = "cpu")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_matrix_is_sampled_as_defined(
        rows in prop::array::uniform12(-1.5f64..1.5), diagonal: bool, nearest: bool, padding in 0usize..4,
        shape in (1usize..3, 1usize..6, 1usize..6, 1usize..6), size in (1usize..7, 1usize..7, 1usize..7),
    ) {
        let mut matrix: Matrix = std::array::from_fn(|r| std::array::from_fn(|c| rows[r * 4 + c]));
        if diagonal {
            (0..3).for_each(|r| (0..3).filter(|c| *c != r).for_each(|c| matrix[r][c] = 0.0));
        }
        let sampling = Sampling { mode: mode(nearest), padding: PADDINGS[padding] };
        let shape = [shape.0, shape.1, shape.2, shape.3];
        check(&Device::flex(), 2e-5, &matrix, shape, [size.0, size.1, size.2], sampling);
    }
}

#[cfg(feature = "cpu")]
#[test]
fn the_identity_changes_nothing_even_in_a_view() {
    let image = volume([2, 5, 4, 6], &Device::flex());
    let view = image.clone().slice([0..2, 1..4, 0..4, 2..6]).flip([2]);
    let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    let out = resample(view.clone(), &identity, [3, 4, 4], Sampling::default());
    assert_eq!(values(out), values(view));
}

#[cfg(feature = "cpu")]
#[test]
fn nothing_gives_zeros() {
    let empty = Tensor::<4>::zeros([1, 0, 2, 2], &Device::flex());
    let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    assert_eq!(values(resample(empty, &identity, [2, 1, 1], Sampling::default())), [0.0, 0.0]);
}

/// The same on a Vulkan device, software or not. Coordinates of a general matrix are f32 there, so none lies half-way between voxels
/// here.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver (Mesa's software driver will do)"]
fn vulkan_samples_as_defined() {
    let device = Device::vulkan(burn::tensor::DeviceKind::DefaultDevice);
    let scaling = [[0.63, 0.0, 0.0, -0.4], [0.0, 1.37, 0.0, 0.25], [0.0, 0.0, 0.81, 0.1]];
    let turned = [[0.8, -0.31, 0.1, 0.7013], [0.27, 0.9, -0.2, -0.6037], [0.05, 0.15, 1.1, 0.3319]];
    for padding in PADDINGS {
        for nearest in [false, true] {
            let sampling = Sampling { mode: mode(nearest), padding };
            check(&device, 1e-4, &scaling, [2, 5, 6, 4], [8, 4, 5], sampling);
            check(&device, 1e-4, &turned, [2, 5, 6, 4], [5, 7, 4], sampling);
        }
    }
}

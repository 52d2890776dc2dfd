//! Compares the CPU loops and plain tensor operations with explicit sums in f64.

use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;

use super::*;
use crate::separable::separable_with_tensor_ops;

const MODES: [InterpolateMode; 5] = [
    InterpolateMode::Area,
    InterpolateMode::Nearest,
    InterpolateMode::NearestExact,
    InterpolateMode::Linear,
    InterpolateMode::Cubic,
];

fn volume(shape: [usize; 4], device: &Device) -> Tensor<4> {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n).map(|i| ((i * 7919 % 1009) as f32) / 100.0 - 4.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.try_into_vec_as().expect("values")
}

/// Values of one axis by the definition of each mode, in f64.
fn resized(line: &[f64], size: usize, mode: InterpolateMode, align_corners: bool) -> Vec<f64> {
    let n = line.len();
    let at = |i: i64| line[i.clamp(0, n as i64 - 1) as usize];
    (0..size)
        .map(|o| {
            let place = match (align_corners, size) {
                (true, 1) => 0.0,
                (true, _) => o as f64 * (n - 1) as f64 / (size - 1) as f64,
                (false, _) => (o as f64 + 0.5) * n as f64 / size as f64 - 0.5,
            };
            let (floor, t) = (place.floor() as i64, place - place.floor());
            match mode {
                InterpolateMode::Area => {
                    let window = &line[o * n / size..((o + 1) * n).div_ceil(size)];
                    window.iter().sum::<f64>() / window.len() as f64
                }
                InterpolateMode::Nearest => at((o * n / size) as i64),
                InterpolateMode::NearestExact => at(((2 * o + 1) * n / (2 * size)) as i64),
                InterpolateMode::Linear => {
                    let place = place.max(0.0);
                    let (floor, t) = (place.floor() as i64, place - place.floor());
                    at(floor) * (1.0 - t) + at(floor + 1) * t
                }
                InterpolateMode::Cubic => (-1..=2)
                    .map(|k| {
                        let d = (t - k as f64).abs();
                        let weight = if d <= 1.0 {
                            1.25 * d.powi(3) - 2.25 * d.powi(2) + 1.0
                        } else {
                            -0.75 * d.powi(3) + 3.75 * d.powi(2) - 6.0 * d + 3.0
                        };
                        at(floor + k) * weight
                    })
                    .sum(),
            }
        })
        .collect()
}

/// Resizes one axis after the other, each line by its definition.
fn written_out(image: &[f32], shape: [usize; 4], size: [usize; 3], mode: InterpolateMode, align: bool) -> Vec<f64> {
    let mut data: Vec<f64> = image.iter().map(|v| f64::from(*v)).collect();
    let mut dims = shape;
    for axis in 1..4 {
        let inner: usize = dims[axis + 1..].iter().product();
        let (n, to) = (dims[axis], size[axis - 1]);
        let outer = data.len() / (n * inner);
        let mut next = vec![0.0; outer * to * inner];
        for a in 0..outer {
            for b in 0..inner {
                let line: Vec<f64> = (0..n).map(|i| data[(a * n + i) * inner + b]).collect();
                for (o, v) in resized(&line, to, mode, align).into_iter().enumerate() {
                    next[(a * to + o) * inner + b] = v;
                }
            }
        }
        data = next;
        dims[axis] = to;
    }
    data
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_mode_is_its_definition(
        shape in (1usize..3, 1usize..9, 1usize..9, 1usize..9), size in (1usize..13, 1usize..13, 1usize..13),
        mode in 0usize..5, align_corners: bool,
    ) {
        let (shape, size) = ([shape.0, shape.1, shape.2, shape.3], [size.0, size.1, size.2]);
        let image = volume(shape, &Device::flex());
        let expected = written_out(&values(image.clone()), shape, size, MODES[mode], align_corners);
        let axes = std::array::from_fn(|a| AxisTaps::resize(shape[a + 1], size[a], MODES[mode], align_corners));
        for got in [
            values(interpolate(image.clone(), size, MODES[mode], align_corners)),
            values(separable_with_tensor_ops(image, &axes)),
        ] {
            prop_assert_eq!(got.len(), expected.len());
            for (a, b) in got.iter().zip(&expected) {
                prop_assert!((f64::from(*a) - b).abs() < 2e-5, "{} for {}", a, b);
            }
        }
    }
}

#[test]
fn views_are_resized_as_they_look() {
    let image = volume([2, 5, 4, 6], &Device::flex());
    let view = image.slice([0..2, 1..4, 0..4, 2..6]).flip([2]);
    let copy = Tensor::from_data(view.to_data(), &Device::flex());
    let resize = |t| values(interpolate(t, [4, 3, 5], InterpolateMode::Linear, false));
    assert_eq!(resize(view), resize(copy));
}

#[test]
fn nothing_gives_zeros() {
    let empty = Tensor::<4>::zeros([1, 0, 2, 2], &Device::flex());
    assert_eq!(values(interpolate(empty, [2, 1, 1], InterpolateMode::Area, false)), [0.0, 0.0]);
}

#[test]
#[should_panic(expected = "reads beyond")]
fn a_table_beyond_the_image_is_refused() {
    let one = AxisTaps::new(1, vec![0], vec![1.0]);
    separable(volume([1, 1, 1, 2], &Device::flex()), &[one.clone(), one, AxisTaps::new(1, vec![2], vec![1.0])]);
}

/// The same on a Vulkan device, physical or software.
#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver (Mesa's software driver will do)"]
fn vulkan_resizes_as_defined() {
    let device = Device::vulkan(burn::tensor::DeviceKind::DefaultDevice);
    let (shape, size) = ([2, 7, 6, 9], [4, 9, 5]);
    for mode in MODES {
        let image = volume(shape, &device);
        let expected = written_out(&values(image.clone()), shape, size, mode, false);
        for (a, b) in values(interpolate(image, size, mode, false)).iter().zip(&expected) {
            assert!((f64::from(*a) - b).abs() < 1e-4, "{mode:?}: {a} for {b}");
        }
    }
}

/// The gradient of the kernels equals that of plain tensor operations, and both are the transpose
/// of the resizing.
#[test]
fn gradients_are_those_of_tensor_operations() {
    let device = Device::default().autodiff();
    let shape = [2, 5, 4, 3];
    for mode in MODES {
        for size in [[10, 8, 6], [3, 7, 3], [5, 4, 9]] {
            let table = |axis: usize| AxisTaps::resize(shape[axis + 1], size[axis], mode, false);
            let axes = [table(0), table(1), table(2)];
            let cot = volume([2, size[0], size[1], size[2]], &device).sin();
            let gradient = |run: fn(Tensor<4>, &[AxisTaps; 3]) -> Tensor<4>| {
                let image = volume(shape, &device).require_grad();
                let source = (run(image.clone(), &axes) * cot.clone()).sum().backward();
                values(image.grad(&source).expect("the image has a gradient"))
            };
            let (own, plain) = (gradient(crate::separable), gradient(separable_with_tensor_ops));
            for (a, b) in own.iter().zip(&plain) {
                assert!((a - b).abs() < 1e-4, "{mode:?} to {size:?}: {a} for {b}");
            }
        }
    }
}

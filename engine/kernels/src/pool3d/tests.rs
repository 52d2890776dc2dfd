//! Compares both poolings with straightforward sums and maxima in f64 over the padded input and
//! with Burn's own in 2-D, and their gradients with finite differences.

use burn::tensor::{Device, Tensor, TensorData, module, ops::MaxPoolOptions};

use super::windows::{Axis, Pooling};
use super::{Divisor, PoolShape, adaptive_avg_pool3d, adaptive_max_pool3d, avg_pool3d, fallback, fixed, max_pool3d};
use crate::counter_rng::Key;

/// Values in [-1, 1), of `levels` different ones, so that some are equal.
fn draw(key: u64, shape: [usize; 5], levels: u64) -> Tensor<5> {
    let key = Key::new(key);
    let count = shape.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..count).map(|i| key.below(i, levels) as f32 * 2.0 / levels as f32 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

fn tracked(x: Tensor<5>) -> Tensor<5> {
    Tensor::from_inner(x)
}

fn values(x: Tensor<5>) -> Vec<f32> {
    x.into_data().iter::<f32>().collect()
}

fn shapes() -> Vec<(PoolShape, [usize; 5])> {
    let key = Key::new(3);
    let mut at = 0;
    let mut below = |n: u64| {
        at += 1;
        key.below(at, n) as usize
    };
    let mut found = Vec::new();
    while found.len() < 80 {
        let kernel = [0; 3].map(|_| 1 + below(4));
        let mut shape = PoolShape {
            kernel,
            stride: [0; 3].map(|_| 1 + below(3)),
            padding: kernel.map(|k| below(k as u64 / 2 + 1)),
            dilation: [0; 3].map(|_| 1 + below(4) / 3),
            ceil_mode: below(2) == 1,
        };
        let mut dims = [1 + below(2), 1 + below(3), 1 + below(9), 1 + below(9), 1 + below(9)];
        if below(4) == 0 {
            (shape.kernel[2], shape.stride[2], shape.padding[2], shape.dilation[2], dims[4]) = (1, 1, 0, 1, 1);
        }
        if shape.output([dims[2], dims[3], dims[4]]).is_some() {
            found.push((shape, dims));
        }
    }
    found
}

/// For every output: the values of its window inside the input, and the number of its positions
/// within the padded input.
fn plain(x: &[f32], dims: [usize; 5], shape: &PoolShape) -> Vec<(Vec<f32>, usize)> {
    let n = [dims[2], dims[3], dims[4]];
    let out = shape.output(n).expect("a window fits");
    let mut found = Vec::new();
    for plane in 0..dims[0] * dims[1] {
        for index in 0..out.iter().product() {
            let o = [index / (out[1] * out[2]), index / out[2] % out[1], index % out[2]];
            let (mut inside, mut padded) = (Vec::new(), 0);
            for tap in 0..shape.kernel.iter().product() {
                let k = [
                    tap / (shape.kernel[1] * shape.kernel[2]),
                    tap / shape.kernel[2] % shape.kernel[1],
                    tap % shape.kernel[2],
                ];
                let at: [usize; 3] = std::array::from_fn(|a| o[a] * shape.stride[a] + k[a] * shape.dilation[a]);
                if (0..3).all(|a| at[a] < n[a] + 2 * shape.padding[a]) {
                    padded += 1;
                }
                if (0..3).all(|a| (shape.padding[a]..n[a] + shape.padding[a]).contains(&at[a])) {
                    let i: [usize; 3] = std::array::from_fn(|a| at[a] - shape.padding[a]);
                    inside.push(x[((plane * n[0] + i[0]) * n[1] + i[1]) * n[2] + i[2]]);
                }
            }
            found.push((inside, padded));
        }
    }
    found
}

#[track_caller]
fn close(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!(a == b || (a - b).abs() < 2e-6, "{what} at {i}: {a} for {b}");
    }
}

#[test]
fn windows_hold_what_the_plain_loops_find() {
    for (key, (shape, dims)) in shapes().into_iter().enumerate() {
        let x = draw(key as u64, dims, 1000);
        let what = format!("{shape:?} of {dims:?}");
        let windows = plain(&values(x.clone()), dims, &shape);
        let largest: Vec<f32> =
            windows.iter().map(|(inside, _)| inside.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v))).collect();
        close(&values(max_pool3d(x.clone(), shape)), &largest, &what);
        let flat = PoolShape { dilation: [1; 3], ..shape };
        let windows = plain(&values(x.clone()), dims, &flat);
        let sum = |inside: &[f32]| inside.iter().map(|v| f64::from(*v)).sum::<f64>();
        for divisor in [Divisor::Window, Divisor::Inside, Divisor::Given(7)] {
            let means: Vec<f32> = windows
                .iter()
                .map(|(inside, padded)| {
                    let by = match divisor {
                        Divisor::Window => *padded,
                        Divisor::Inside => inside.len(),
                        Divisor::Given(n) => n,
                    };
                    (sum(inside) / by as f64) as f32
                })
                .collect();
            close(&values(avg_pool3d(x.clone(), flat, divisor)), &means, &format!("{divisor:?} {what}"));
        }
    }
}

#[test]
fn tensor_operations_give_the_same() {
    for (key, (shape, dims)) in shapes().into_iter().enumerate() {
        let windows = |x: &Tensor<5>| fixed(x, &shape, Divisor::Inside);
        let both = [0, 1].map(|which| {
            let x = tracked(draw(key as u64, dims, 100_000)).require_grad();
            let axes = windows(&x);
            if axes.iter().flat_map(|axis| &axis.windows).any(|w| w.count == 0) {
                return None;
            }
            let pooling = Pooling { axes: axes.clone(), scale: 0.5 };
            let (largest, mean) = match which {
                0 => (super::largest(x.clone(), axes), super::mean(x.clone(), pooling.axes, 0.5)),
                _ => (fallback::largest(x.clone(), &axes), fallback::mean(x.clone(), &pooling)),
            };
            let weight = tracked(draw(key as u64 + 500, largest.dims(), 1000));
            let gradients = ((largest.clone() + mean.clone() * 2.0) * weight).sum().backward();
            Some([values(largest), values(mean), values(x.grad(&gradients).expect("a gradient"))])
        });
        if let [Some(kernel), Some(operations)] = both {
            kernel.iter().zip(&operations).for_each(|(a, b)| close(a, b, &format!("{shape:?} of {dims:?}")));
        }
    }
}

/// Burn's own maximum in 2-D, gradient of equal values included.
#[test]
fn equal_values_give_the_gradient_to_the_first() {
    let x = tracked(draw(4, [2, 3, 9, 8, 1], 4)).require_grad();
    let shape = PoolShape { stride: [2, 2, 1], padding: [1, 1, 0], ..PoolShape::new([3, 3, 1]) };
    let ours = max_pool3d(x.clone(), shape);
    let weight = tracked(draw(5, ours.dims(), 1000));
    let gradients = (ours.clone() * weight.clone()).sum().backward();
    let our_gradient = values(x.grad(&gradients).expect("a gradient"));
    let options = MaxPoolOptions::new([3, 3]).with_stride([2, 2]).with_padding([1, 1]);
    let theirs = module::max_pool2d(x.clone().reshape([2, 3, 9, 8]), options).reshape(ours.dims());
    let gradients = (theirs.clone() * weight).sum().backward();
    close(&values(ours), &values(theirs), "values");
    close(&our_gradient, &values(x.grad(&gradients).expect("a gradient")), "gradients");
}

/// The derivative along a random direction, by a central difference.
fn check_gradient(dims: [usize; 5], key: u64, pool: impl Fn(Tensor<5>) -> Tensor<5>) {
    let (x, direction) = (draw(key, dims, 10_000), draw(key + 1, dims, 1000));
    let weight = draw(key + 2, pool(x.clone()).dims(), 1000);
    let along = |step: f32| -> f64 {
        let y = pool(x.clone() + direction.clone() * step);
        values(y * weight.clone()).iter().map(|v| f64::from(*v)).sum()
    };
    let step = 1e-4;
    let expected = (along(step) - along(-step)) / (2.0 * f64::from(step));
    let leaf = tracked(x.clone()).require_grad();
    let gradients = (pool(leaf.clone()) * tracked(weight.clone())).sum().backward();
    let gradient = leaf.grad(&gradients).expect("a gradient");
    let got: f64 = values(gradient * direction.clone()).iter().map(|v| f64::from(*v)).sum();
    assert!((got - expected).abs() < 5e-3 * (1.0 + expected.abs()), "{got} for {expected}");
}

#[test]
fn gradients_are_finite_differences() {
    let shape = PoolShape { stride: [2, 1, 2], padding: [1, 0, 1], ceil_mode: true, ..PoolShape::new([3, 2, 3]) };
    check_gradient([2, 2, 7, 6, 5], 1, |x| avg_pool3d(x, shape, Divisor::Window));
    check_gradient([2, 2, 7, 6, 5], 2, |x| avg_pool3d(x, shape, Divisor::Inside));
    check_gradient([2, 2, 7, 6, 5], 3, |x| max_pool3d(x, PoolShape::new([2; 3])));
    check_gradient([1, 2, 7, 6, 5], 5, |x| adaptive_avg_pool3d(x, [3, 6, 2]));
    check_gradient([1, 2, 7, 6, 5], 6, |x| adaptive_max_pool3d(x, [3, 1, 2]));
}

#[test]
fn adaptive_windows_are_pytorchs() {
    // torch.nn.AdaptiveAvgPool1d(3) of 0..7 gives 1, 3, 5: windows 0..3, 2..5, 4..7.
    let x = Tensor::<5>::from_data([[[[[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]]]], &Device::flex());
    assert_eq!(values(adaptive_avg_pool3d(x.clone(), [1, 1, 3])), [1.0, 3.0, 5.0]);
    assert_eq!(values(adaptive_max_pool3d(x.clone(), [1, 1, 3])), [2.0, 4.0, 6.0]);
    assert_eq!(values(adaptive_avg_pool3d(x.clone(), [1, 1, 1])), [3.0]);
    assert_eq!(adaptive_avg_pool3d(x, [2, 1, 10]).dims(), [1, 1, 2, 1, 10]);
}

#[test]
fn sizes_are_pytorchs() {
    let size = |input: usize, kernel, stride, padding, ceil_mode| {
        let shape =
            PoolShape { stride: [stride, 1, 1], padding: [padding, 0, 0], ceil_mode, ..PoolShape::new([kernel, 1, 1]) };
        shape.output([input, 1, 1]).map(|output| output[0])
    };
    assert_eq!(size(32, 3, 2, 0, true), Some(16));
    assert_eq!(size(32, 3, 2, 0, false), Some(15));
    assert_eq!(size(5, 2, 2, 1, true), Some(3));
    assert_eq!(size(2, 3, 1, 0, false), None);
    assert_eq!(size(2, 3, 2, 0, true), Some(1));
    assert_eq!(size(1, 3, 2, 0, true), None);
    assert_eq!(size(0, 1, 1, 0, false), None);
    let axis =
        Axis::fixed(&PoolShape { ceil_mode: true, stride: [2; 3], ..PoolShape::new([3; 3]) }, 0, 6, Divisor::Window);
    let weights: Vec<f64> = axis.expect("it fits").windows.iter().map(|w| w.weight).collect();
    assert_eq!(weights, [1.0 / 3.0, 1.0 / 3.0, 0.5]);
}

#[test]
fn a_value_that_is_not_a_number_is_the_largest() {
    let x = Tensor::<5>::from_data([[[[[0.0_f32, f32::NAN, 2.0, 3.0]]]]], &Device::flex());
    let y = values(max_pool3d(x, PoolShape::new([1, 1, 2])));
    assert!(y[0].is_nan() && y[1] == 3.0);
}

#[test]
fn an_empty_batch_stays_empty_and_other_types_keep_theirs() {
    let empty = Tensor::<5>::zeros([0, 2, 4, 4, 4], &Device::flex());
    assert_eq!(max_pool3d(empty, PoolShape::new([2; 3])).dims(), [0, 2, 2, 2, 2]);
    let half = draw(1, [1, 1, 4, 4, 4], 100).cast(burn::tensor::DType::BF16);
    assert_eq!(max_pool3d(half.clone(), PoolShape::new([2; 3])).dtype(), burn::tensor::DType::BF16);
    assert_eq!(avg_pool3d(half, PoolShape::new([2; 3]), Divisor::Window).dtype(), burn::tensor::DType::BF16);
}

//! Compares with Burn's own activations, through the graph.

use burn::tensor::{DType, Device, Tensor, TensorData, activation};

use crate::cast;

use super::{rectified_sum, rectify};

#[test]
fn values_and_gradients_are_burns() {
    let device = Device::flex().autodiff();
    let mut v: Vec<f32> = (0..2 * 3 * 4).map(|i| (i as f32 * 1.7).sin()).collect();
    v[3] = f32::NAN;
    v[5] = f32::NEG_INFINITY;
    let x = Tensor::<5>::from_data(TensorData::new(v, [1, 2, 3, 4, 1]), &device).require_grad();
    for slope in [0.0, 0.01, 0.5, -0.5] {
        let all = |y: Tensor<5>| {
            let gradients = (y.clone() * y.clone().powi_scalar(2)).sum().backward();
            let bits = |t: Tensor<5>| {
                t.into_data().iter::<f32>().map(|v| if v.is_nan() { None } else { Some(v) }).collect::<Vec<_>>()
            };
            (bits(y), bits(Tensor::from_data(x.grad(&gradients).expect("a gradient").into_data(), &Device::flex())))
        };
        let theirs = if slope == 0.0 { activation::relu(x.clone()) } else { activation::leaky_relu(x.clone(), slope) };
        let (ours, theirs) = (all(rectify(x.clone(), slope)), all(theirs));
        // Where the input is NaN the gradient is NaN, too; the two may differ in its bits.
        assert_eq!(ours.0[4..], theirs.0[4..], "slope {slope}");
        assert_eq!(ours.1[6..], theirs.1[6..], "slope {slope}");
        assert!(ours.0[3].is_none(), "slope {slope}");
    }
}

#[test]
fn sums_and_their_gradients_are_burns() {
    let device = Device::flex().autodiff();
    let leaf = |seed: f32| {
        let mut v: Vec<f32> = (0..2 * 3 * 4).map(|i| (i as f32 * 1.7 + seed).sin()).collect();
        v[3] = f32::NAN;
        Tensor::<5>::from_data(TensorData::new(v, [1, 2, 3, 4, 1]), &device).require_grad()
    };
    for slope in [0.0, 0.01, 1.0, -0.5] {
        // The second one is a view.
        let all = |sum: &dyn Fn(Tensor<5>, Tensor<5>) -> Tensor<5>| {
            let (x, y) = (leaf(0.3), leaf(1.9));
            let out = sum(x.clone(), y.clone().reshape([1, 4, 2, 3, 1]).permute([0, 2, 3, 1, 4]));
            let gradients = (out.clone() * out.clone().powi_scalar(2)).sum().backward();
            let of = |leaf: &Tensor<5>| leaf.grad(&gradients).expect("a gradient").into_data();
            [out.into_data(), of(&x), of(&y)]
                .map(|data| data.iter::<f32>().map(|v| if v.is_nan() { None } else { Some(v) }).collect::<Vec<_>>())
        };
        let theirs = all(&|x, y| match slope {
            0.0 => activation::relu(x + y),
            1.0 => x + y,
            _ => activation::leaky_relu(x + y, slope),
        });
        assert_eq!(all(&|x, y| rectified_sum(x, y, slope)), theirs, "slope {slope}");
    }
}

#[test]
fn half_precision_is_rounded_once() {
    let device = Device::flex();
    for dtype in [DType::BF16, DType::F16] {
        let draw = |seed: f32| {
            // More than one conversion piece, with a partial last one.
            let v: Vec<f32> = (0..2 * 3 * 1019).map(|i| (i as f32 * 1.7 + seed).sin() * 3.0).collect();
            cast(Tensor::<5>::from_data(TensorData::new(v, [1, 2, 3, 1019, 1]), &device), dtype)
        };
        let (x, y) = (draw(0.0), draw(0.4));
        let wide = |x: &Tensor<5>| cast(x.clone(), DType::F32);
        let bits = |x: Tensor<5>| cast(x, DType::F32).into_data().iter::<f32>().collect::<Vec<_>>();
        for slope in [0.0, 0.01, 1.0] {
            let found = [rectify(x.clone(), slope), rectified_sum(x.clone(), y.clone(), slope)];
            let expected = [rectify(wide(&x), slope), rectified_sum(wide(&x), wide(&y), slope)];
            for (found, expected) in found.into_iter().zip(expected) {
                assert_eq!(found.dtype(), dtype);
                assert!(bits(found) == bits(cast(expected, dtype)), "{dtype:?}, slope {slope}");
            }
        }
    }
}

//! Compares with the same formula in tensor operations, whose gradients are Burn's.

use burn::tensor::{DType, Device, Tensor, TensorData, activation};
use proptest::prelude::*;

use super::{APART, attention};
use crate::counter_rng::Key;

fn draw<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let key = Key::new(seed);
    let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64).map(|i| key.normal(i) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn by_formula(
    qkv: Tensor<3>,
    heads: usize,
    scale: f64,
    bias: Option<&Tensor<3>>,
    regions: Option<&Tensor<2>>,
) -> Tensor<3> {
    let [b, n, features] = qkv.dims();
    let d = features / (3 * heads);
    let split = qkv.reshape([b, n, 3, heads, d]).permute([2, 0, 3, 1, 4]);
    let [q, k, v] = [0, 1, 2].map(|i| split.clone().narrow(0, i, 1).reshape([b, heads, n, d]));
    let mut scores = q.matmul(k.transpose()) * scale;
    if let Some(bias) = bias {
        scores = scores + bias.clone().reshape([1, heads, n, n]);
    }
    if let Some(regions) = regions {
        let w = regions.dims()[0];
        let pairs = |shape: [usize; 3]| regions.clone().reshape(shape).expand([w, n, n]);
        let apart = pairs([w, n, 1]).not_equal(pairs([w, 1, n])).float() * APART;
        let mask = apart.reshape([1, w, 1, n, n]);
        scores = (scores.reshape([b / w, w, heads, n, n]) + mask).reshape([b, heads, n, n]);
    }
    activation::softmax(scores, 3).matmul(v).swap_dims(1, 2).reshape([b, n, heads * d])
}

fn close<const D: usize>(name: &str, ours: Tensor<D>, theirs: Tensor<D>) {
    let most = theirs.clone().abs().max().into_scalar::<f32>().max(1e-3);
    let apart = (ours - theirs).abs().max().into_scalar::<f32>();
    assert!(apart <= 5e-5 * most, "{name}: {apart} of {most}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn values_and_gradients_are_those_of_the_formula(
        batch in 1_usize..5, places in 1_usize..90, heads in 1_usize..4, depth in 1_usize..40, biased: bool,
        masked: bool, seed: u64,
    ) {
        let device = Device::flex().autodiff();
        let qkv = draw([2 * batch, places, 3 * heads * depth], seed, &device).require_grad();
        let bias = biased.then(|| draw([heads, places, places], seed ^ 1, &device).require_grad());
        // As in shifted windows: some pairs are practically excluded.
        let regions = masked.then(|| draw([2, places], seed ^ 2, &Device::flex()).greater_elem(0.7).float());
        let toward = draw([2 * batch, places, heads * depth], seed ^ 3, &device);
        let scale = (depth as f64).powf(-0.5);
        let of = |y: Tensor<3>| {
            let gradients = (y.clone() * toward.clone()).sum().backward();
            let bias = bias.as_ref().map(|bias| bias.grad(&gradients).expect("a gradient of the bias"));
            (y.inner(), qkv.grad(&gradients).expect("a gradient"), bias)
        };
        let ours = of(attention(qkv.clone(), heads, scale, bias.as_ref(), regions.as_ref()).expect("f32 on the CPU"));
        let tracked = regions.clone().map(Tensor::from_inner);
        let theirs = of(by_formula(qkv.clone(), heads, scale, bias.as_ref(), tracked.as_ref()));
        close("output", ours.0, theirs.0);
        close("gradient", ours.1, theirs.1);
        if let (Some(ours), Some(theirs)) = (ours.2, theirs.2) {
            close("gradient of the bias", ours, theirs);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let device = Device::flex().autodiff();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| {
            let qkv = draw([40, 27, 3 * 2 * 12], 5, &device).require_grad();
            let bias = draw([2, 27, 27], 6, &device).require_grad();
            let y = attention(qkv.clone(), 2, 0.3, Some(&bias), None).expect("f32 on the CPU");
            let gradients = y.clone().powi_scalar(2).sum().backward();
            let [a, b] = [qkv, bias].map(|t| t.grad(&gradients).expect("a gradient").into_data());
            [y.into_data(), a, b]
        })
    };
    assert_eq!(run(1), run(3));
}

/// A NaN position affects only the positions that attend to it.
#[test]
fn what_is_not_a_number_stays_with_its_item() {
    let mut values = vec![0.25_f32; 2 * 5 * 6];
    values[3] = f32::NAN;
    let qkv = Tensor::<3>::from_data(TensorData::new(values, [2, 5, 6]), &Device::flex());
    let y = attention(qkv, 1, 1.0, None, None).expect("f32 on the CPU").into_data().try_to_vec::<f32>().expect("f32");
    assert!(y[..10].iter().all(|v| v.is_nan()) && y[10..].iter().all(|v| (v - 0.25).abs() < 1e-6), "{y:?}");
}

#[test]
fn half_precision_is_that_of_the_same_values_in_f32() {
    let device = Device::flex();
    for dtype in [DType::F16, DType::BF16] {
        let qkv = draw([2, 7, 36], 1, &device).cast(dtype);
        let bias = draw([3, 7, 7], 2, &device).cast(dtype);
        let half = attention(qkv.clone(), 3, 0.5, Some(&bias), None).expect("a kernel");
        assert_eq!(half.dtype(), dtype);
        let (qkv, bias) = (qkv.cast(DType::F32), bias.cast(DType::F32));
        let full = attention(qkv, 3, 0.5, Some(&bias), None).expect("a kernel");
        let apart = (half.cast(DType::F32) - full.clone()).abs().max().into_scalar::<f32>();
        // The result is rounded once, to eight bits or eleven.
        let scale = full.abs().max().into_scalar::<f32>();
        assert!(apart <= scale / 256.0, "{dtype:?}: {apart} of {scale}");
    }
}

#[test]
fn other_types_are_given_back() {
    let qkv = draw([1, 4, 6], 1, &Device::flex()).cast(DType::F64);
    assert!(attention(qkv, 1, 1.0, None, None).is_err());
}

//! Compares with explicit sums, scipy's values, and the tensor operations.

use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;

use super::{Approximation, Edge, FilterError, gaussian, gaussian_taps, separable, shifted};

fn volume(dims: [usize; 4]) -> Tensor<4> {
    let values: Vec<f32> =
        (0..dims.iter().product::<usize>()).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, dims), &Device::default())
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().expect("f32")
}

/// The definition, one axis after the other, in f64.
fn by_definition(image: &[f32], dims: [usize; 4], taps: [&[f32]; 3], edge: Edge) -> Vec<f64> {
    let strides = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
    let mut image: Vec<f64> = image.iter().map(|v| f64::from(*v)).collect();
    for (axis, taps) in taps.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
        let (n, stride) = (dims[axis + 1] as isize, strides[axis + 1]);
        let padded = |flat: usize, offset: isize| {
            let at = (flat / stride) as isize % n;
            let start = flat as isize - at * stride as isize;
            let mut to = at + offset;
            if !(0..n).contains(&to) {
                to = match edge {
                    Edge::Zeros => return 0.0,
                    Edge::Replicate => to.max(0).min(n - 1),
                    Edge::Reflect => (n - 1) - ((n - 1) - to.abs()).abs(),
                    Edge::Circular => (to + n) % n,
                };
            }
            image[(start + to * stride as isize) as usize]
        };
        let half = (taps.len() / 2) as isize;
        image = (0..image.len())
            .map(|flat| taps.iter().enumerate().map(|(k, t)| f64::from(*t) * padded(flat, k as isize - half)).sum())
            .collect();
    }
    image
}

proptest! {
    #[test]
    fn every_way_is_the_definition(
        shape in [1usize..3, 3usize..9, 3usize..9, 1usize..80],
        lengths in [0usize..3, 0usize..3, 0usize..3],
        edge in prop::sample::select(vec![Edge::Zeros, Edge::Reflect, Edge::Replicate, Edge::Circular]),
    ) {
        let taps: Vec<Vec<f32>> = lengths
            .iter()
            .enumerate()
            .map(|(axis, half)| {
                // Even the last axis must be long enough to be padded.
                let half = (*half).min(shape[axis + 1] - 1);
                if half == 0 { Vec::new() } else { (0..=2 * half).map(|k| (k * k + axis) as f32 / 4.0 - 1.0).collect() }
            })
            .collect();
        let taps = [&taps[0][..], &taps[1][..], &taps[2][..]];
        let image = volume(shape);
        let expected = by_definition(&values(image.clone()), shape, taps, edge);
        let cpu = values(separable(image.clone(), taps, edge).expect("sound"));
        let tensors = values(shifted::separable(image, taps, edge));
        for ((a, b), e) in cpu.iter().zip(&tensors).zip(&expected) {
            prop_assert!((f64::from(*a) - e).abs() < 2e-4 && (f64::from(*b) - e).abs() < 2e-4, "{a}, {b} for {e}");
        }
    }
}

/// `monai.networks.layers.convutils.gaussian_1d` of MONAI 1.6.1; `scipy.special.ive(n, sigma**2)`
/// for the last.
#[test]
fn taps_are_monais() {
    let expected: [(f64, Approximation, &[f32]); 5] = [
        (0.4, Approximation::Erf, &[8.842349e-05, 1.055_613_5e-1, 7.887_004_6e-1]),
        (
            1.2,
            Approximation::Erf,
            &[8.612_871e-5, 1.680_553e-3, 1.684_144_1e-2, 8.703_935e-2, 2.328_113_6e-1, 3.230_777_4e-1],
        ),
        (0.4, Approximation::Sampled, &[3.716_802_4e-6, 4.382_076_1e-2, 9.973_557e-1]),
        (0.9, Approximation::Scalespace, &[5.152_744_9e-4, 5.130_641e-3, 3.852_003e-2, 1.953_530_1e-1, 5.208_731_4e-1]),
        (
            3.0,
            Approximation::Scalespace,
            &[
                7.813_372_6e-5,
                2.328_965e-4,
                6.474_364_3e-4,
                1.671_643_9e-3,
                3.990_724e-3,
                8.766_264e-3,
                1.762_713_5e-2,
                3.226_911e-2,
                5.348_17e-2,
                7.980_84e-2,
                1.066_873e-1,
                1.272_249_8e-1,
                1.349_595_2e-1,
            ],
        ),
    ];
    for (sigma, approximation, half) in expected {
        let taps = gaussian_taps(sigma, 4.0, approximation).expect("sound");
        assert_eq!(taps.len(), 2 * half.len() - 1, "{approximation:?} {sigma}");
        for (i, value) in half.iter().enumerate() {
            let (a, b) = (taps[i], taps[taps.len() - 1 - i]);
            assert!(a == b && (a - value).abs() < 1e-7, "{approximation:?} {sigma}: {a} for {value}");
        }
    }
}

/// MONAI's own recurrence overflows here; the sum of all taps is known.
#[test]
fn wide_gaussians_are_finite() {
    for approximation in [Approximation::Erf, Approximation::Sampled, Approximation::Scalespace] {
        for sigma in [0.02, 15.0, 400.0] {
            let taps = gaussian_taps(sigma, 4.0, approximation).expect("sound");
            let sum: f64 = taps.iter().map(|v| f64::from(*v)).sum();
            let wanted =
                if sigma < 1.0 && approximation == Approximation::Sampled { 1.0 / (0.02 * 2.506_628) } else { 1.0 };
            assert!((sum - wanted).abs() < 1e-3 * wanted, "{approximation:?} {sigma}: {sum}");
        }
    }
}

#[test]
fn a_point_becomes_the_taps() {
    let mut point = vec![0.0; 7 * 7 * 7];
    point[(3 * 7 + 3) * 7 + 3] = 1.0;
    let image = Tensor::from_data(TensorData::new(point, [1, 7, 7, 7]), &Device::default());
    let smooth = values(gaussian(image, [0.5, 0.0, 0.7], 4.0, Approximation::Erf).expect("sound"));
    let (x, z) = (gaussian_taps(0.5, 4.0, Approximation::Erf), gaussian_taps(0.7, 4.0, Approximation::Erf));
    let (x, z) = (x.expect("sound"), z.expect("sound"));
    for (i, a) in x.iter().enumerate() {
        for (k, b) in z.iter().enumerate() {
            let (i, k) = (3 + i - x.len() / 2, 3 + k - z.len() / 2);
            assert!((smooth[(i * 7 + 3) * 7 + k] - a * b).abs() < 1e-7);
        }
    }
    assert!((smooth.iter().sum::<f32>() - 1.0).abs() < 1e-4);
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let image = || volume([1, 3, 4, 5]);
    let even = separable(image(), [&[0.5, 0.5], &[], &[]], Edge::Zeros);
    assert_eq!(even.expect_err("even"), FilterError::EvenTaps { axis: 0, taps: 2 });
    let long = [0.2_f32; 7];
    let reflected = separable(image(), [&[], &[], &long], Edge::Reflect);
    assert!(reflected.is_ok());
    let short = separable(image(), [&long, &[], &[]], Edge::Reflect).expect_err("too short");
    assert!(short.to_string().contains("axis 0"), "{short}");
    assert!(separable(image(), [&long, &[], &[]], Edge::Circular).is_ok());
    for sigma in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(gaussian_taps(sigma, 4.0, Approximation::Erf).is_err(), "{sigma}");
    }
    assert!(gaussian_taps(1.0, 0.0, Approximation::Erf).is_err());
    assert!(gaussian_taps(1e30, 4.0, Approximation::Erf).is_err());
    let empty = Tensor::<4>::zeros([1, 0, 4, 5], &Device::default());
    assert_eq!(
        separable(empty, [&[1.0, 1.0, 1.0], &[], &[]], Edge::Reflect).expect("nothing to do").dims(),
        [1, 0, 4, 5]
    );
}

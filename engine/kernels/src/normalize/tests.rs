//! Compares with Burn's own operations, through the graph, and tests a constant and an extreme
//! input.

use burn::tensor::{DType, Device, Distribution, Tensor, TensorData, activation, module};

use crate::cast;

use super::{Normalized, Over, Slope, normalize};

fn random(shape: [usize; 5], device: &Device) -> Tensor<5> {
    Tensor::random(shape, Distribution::Normal(0.7, 2.0), device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32 values")
}

#[track_caller]
fn close(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = b.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 3e-5 * scale, "{what} at {i}: {a} for {b}");
    }
}

/// The same with tensor operations that Burn differentiates.
fn composed(x: Tensor<5>, weight: Tensor<1>, bias: Tensor<1>, slope: Tensor<1>, over: Over, eps: f64) -> Tensor<5> {
    let [b, c, dx, dy, dz] = x.dims();
    let device = x.device();
    let normalized = match over {
        Over::Batch => module::batch_norm_train(x, Tensor::ones([c], &device), Tensor::zeros([c], &device), eps).output,
        Over::Groups(groups) => {
            let rows = x.reshape([b * groups, c / groups * dx * dy * dz]);
            let apart = rows.clone() - rows.mean_dim(1);
            let variance = (apart.clone() * apart.clone()).mean_dim(1);
            (apart / (variance + eps).sqrt()).reshape([b, c, dx, dy, dz])
        }
    };
    let z = normalized * weight.reshape([1, c, 1, 1, 1]) + bias.reshape([1, c, 1, 1, 1]);
    activation::prelu(z, slope)
}

#[test]
fn values_and_gradients_are_those_of_the_parts() {
    let device = Device::flex().autodiff();
    for (over, slopes) in
        [(Over::Batch, 1), (Over::Batch, 6), (Over::Groups(2), 1), (Over::Groups(6), 6), (Over::Groups(1), 1)]
    {
        let shape = [3, 6, 5, 7, 4];
        let x = Tensor::<5>::from_data(random(shape, &Device::flex()).into_data(), &device).require_grad();
        let tracked = |values: &[f32]| Tensor::<1>::from_floats(values, &device).require_grad();
        let weight = tracked(&[0.5, 1.5, -1.0, 2.0, 1.0, 0.1]);
        let bias = tracked(&[0.1, -0.2, 0.3, 0.0, -1.0, 0.5]);
        let slope = tracked(&[0.25, 0.1, -0.3, 0.0, 1.0, 2.0][..slopes]);
        let upstream = Tensor::<5>::from_data(random(shape, &Device::flex()).into_data(), &device);
        let all = |y: Tensor<5>| {
            let gradients = (y.clone() * upstream.clone()).sum().backward();
            let small = [&weight, &bias, &slope].map(|t| values(t.grad(&gradients).expect("a gradient")));
            (values(y), values(x.grad(&gradients).expect("a gradient")), small)
        };
        let affine = Some((weight.clone(), bias.clone()));
        let ours = all(normalize(x.clone(), affine, &Slope::Learned(slope.clone()), over, 1e-5).output);
        let theirs = all(composed(x.clone(), weight.clone(), bias.clone(), slope.clone(), over, 1e-5));
        close("output", &ours.0, &theirs.0);
        close("dx", &ours.1, &theirs.1);
        for ((name, a), b) in ["weight", "bias", "slope"].iter().zip(&ours.2).zip(&theirs.2) {
            close(name, a, b);
        }
    }
}

/// In place, from a shared tensor row by row, and where there are too few rows for the threads.
#[test]
fn all_ways_to_compute_give_the_same_bits() {
    let device = Device::flex();
    let of_threads = |count: usize, work: &(dyn Fn() -> Vec<f32> + Sync)| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().expect("threads");
        pool.install(work)
    };
    for (over, batch) in [(Over::Groups(6), 3), (Over::Groups(2), 3), (Over::Batch, 1), (Over::Batch, 3)] {
        let x = random([batch, 6, 5, 17, 31], &device);
        let small = |first: f32| Tensor::<1>::from_floats([0, 1, 2, 3, 4, 5].map(|i| first + i as f32 * 0.3), &device);
        let (affine, slope) = ((small(-0.5), small(0.2)), Slope::Learned(small(-0.1)));
        let run = |x: Tensor<5>| {
            let Normalized { output, mean, variance } = normalize(x, Some(affine.clone()), &slope, over, 1e-5);
            [values(output), values(mean), values(variance)].concat()
        };
        let fresh = || Tensor::<5>::from_data(x.to_data(), &device);
        let in_place = of_threads(1, &|| run(fresh()));
        assert_eq!(in_place, of_threads(1, &|| run(x.clone())), "{over:?}");
        assert_eq!(in_place, of_threads(20, &|| run(x.clone())), "{over:?}");
        assert_eq!(in_place, of_threads(20, &|| run(fresh())), "{over:?}");
    }
}

#[test]
fn a_gradient_is_the_slope_of_the_value() {
    let device = Device::flex().autodiff();
    let values_at = |shift: f32| {
        let mut x: Vec<f32> = (0..2 * 2 * 8).map(|i| ((i * 37 % 19) as f32 - 9.0) / 5.0).collect();
        x[5] += shift;
        Tensor::<5>::from_data(TensorData::new(x, [2, 2, 2, 2, 2]), &device).require_grad()
    };
    let weights = Tensor::<5>::from_data(
        TensorData::new((0..32).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<f32>>(), [2, 2, 2, 2, 2]),
        &device,
    );
    let value =
        |x: Tensor<5>| (normalize(x, None, &Slope::Fixed(0.01), Over::Groups(2), 1e-5).output * weights.clone()).sum();
    let x = values_at(0.0);
    let gradient = values(x.grad(&value(x.clone()).backward()).expect("a gradient"))[5];
    let step = 1e-2;
    let difference =
        (value(values_at(step)).into_scalar::<f32>() - value(values_at(-step)).into_scalar::<f32>()) / (2.0 * step);
    assert!((gradient - difference).abs() < 2e-3, "{gradient} for {difference}");
}

#[test]
fn means_and_variances_of_values_far_from_zero_are_exact() {
    // A sum of squares in f32 would lose all digits here.
    let values_far: Vec<f32> = (0..4096).map(|i| 10_000.0 + (i % 2) as f32).collect();
    let x = Tensor::<5>::from_data(TensorData::new(values_far, [1, 1, 16, 16, 16]), &Device::flex());
    let result = normalize(x, None, &Slope::Fixed(1.0), Over::Batch, 0.0);
    assert_eq!(values(result.mean), [10_000.5]);
    assert_eq!(values(result.variance), [0.25]);
    assert_eq!(values(result.output)[..2], [-1.0, 1.0]);
}

#[test]
fn what_is_not_a_number_stays_in_its_channel() {
    let mut v: Vec<f32> = (0..16).map(|i| i as f32).collect();
    v[3] = f32::NAN;
    let x = Tensor::<5>::from_data(TensorData::new(v, [1, 2, 2, 2, 2]), &Device::flex());
    let y = values(normalize(x, None, &Slope::Fixed(0.0), Over::Groups(2), 1e-5).output);
    assert!(y[..8].iter().all(|v| v.is_nan()) && y[8..].iter().all(|v| v.is_finite()), "{y:?}");
}

#[test]
fn half_precision_is_read_and_written_as_it_is_stored() {
    let device = Device::flex().autodiff();
    // Planes longer than what is converted at a time, and one of a single value.
    for (shape, over) in
        [([2, 4, 21, 20, 11], Over::Batch), ([2, 4, 21, 20, 11], Over::Groups(2)), ([3, 4, 1, 1, 1], Over::Groups(1))]
    {
        for (dtype, unit) in [(DType::BF16, 1.0 / 256.0), (DType::F16, 1.0 / 2048.0)] {
            let draw = || cast(Tensor::<5>::from_data(random(shape, &Device::flex()).into_data(), &device), dtype);
            let (x, upstream) = (draw(), draw());
            let small: Vec<f32> = vec![0.5, 1.5, -1.0, 2.0];
            let all = |wide: bool| {
                let in_type = |x: &Tensor<5>| if wide { cast(x.clone(), DType::F32) } else { x.clone() };
                let x = Tensor::<5>::from_data(in_type(&x).into_data(), (&device, in_type(&x).dtype())).require_grad();
                let [weight, bias] = [0, 1].map(|_| Tensor::<1>::from_floats(small.as_slice(), &device).require_grad());
                let affine = Some((weight.clone(), bias.clone()));
                let y = normalize(x.clone(), affine, &Slope::Fixed(0.1), over, 1e-5).output;
                let gradients = (y.clone() * in_type(&upstream)).backward();
                let dx = x.grad(&gradients).expect("a gradient");
                assert_eq!([y.dtype(), dx.dtype()], [x.dtype(); 2]);
                let five =
                    [cast(y, DType::F32), Tensor::from_data(cast(dx, DType::F32).into_data(), &device)].map(values);
                let one = [weight, bias].map(|t| values(t.grad(&gradients).expect("a gradient")));
                (five, one)
            };
            let (half, full) = (all(false), all(true));
            for (half, full) in half.0.iter().zip(&full.0) {
                for (half, full) in half.iter().zip(full) {
                    // A rounding of the output, and of the factors of the gradient.
                    assert!((half - full).abs() <= unit * full.abs() + 1e-6, "{dtype:?} {over:?}: {half} for {full}");
                }
            }
            for (half, full) in half.1.iter().zip(&full.1) {
                close("a sum", half, full);
            }
        }
    }
}

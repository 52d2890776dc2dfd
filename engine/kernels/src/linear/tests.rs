//! Compares with sums in f64, and with Burn's own layer in a graph.

use burn::tensor::{Device, Distribution, Tensor, Tolerance, module};

use super::{cpu, linear};

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i + 31 * seed) as f32 * 12.9898).sin()).collect()
}

fn assert_close(what: &str, got: &[f32], expected: impl Fn(usize) -> f64) {
    for (i, got) in got.iter().enumerate() {
        let expected = expected(i);
        assert!(
            (f64::from(*got) - expected).abs() < 2e-4 * expected.abs().max(1.0),
            "{what} at {i}: {got} for {expected}"
        );
    }
}

#[test]
fn products_are_sums_in_f64() {
    // Partial tiles of rows, partial registers of columns, one of each, sums in several panels, and
    // a long sum in parts.
    for sizes in [[1, 1, 1], [3, 5, 7], [65, 300, 33], [8, 16, 16], [130, 40, 200], [2100, 19, 24], [9, 600, 410]] {
        let [rows, input, output] = sizes;
        let (x, w, dy) = (values(rows * input, 1), values(output * input, 2), values(rows * output, 3));
        let bias = values(output, 4);
        let f = f64::from;
        let dot = |n: usize, of: &dyn Fn(usize) -> f64| (0..n).map(of).sum::<f64>();
        assert_close(&format!("forward of {sizes:?}"), &cpu::forward(&x, &w, Some(&bias), sizes), |i| {
            let (r, o) = (i / output, i % output);
            f(bias[o]) + dot(input, &|k| f(x[r * input + k]) * f(w[o * input + k]))
        });
        assert_close(&format!("input gradient of {sizes:?}"), &cpu::input_gradient(&dy, &w, sizes), |i| {
            let (r, k) = (i / input, i % input);
            dot(output, &|o| f(dy[r * output + o]) * f(w[o * input + k]))
        });
        assert_close(&format!("weight gradient of {sizes:?}"), &cpu::weight_gradient(&x, &dy, sizes), |i| {
            let (o, k) = (i / input, i % input);
            dot(rows, &|r| f(dy[r * output + o]) * f(x[r * input + k]))
        });
        assert_close(&format!("bias gradient of {sizes:?}"), &cpu::bias_gradient(&dy, output), |o| {
            dot(rows, &|r| f(dy[r * output + o]))
        });
    }
}

#[test]
fn gradients_through_the_graph_are_those_of_burns_layer() {
    let plain = Device::flex();
    let device = plain.clone().autodiff();
    let random = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Default, &plain);
    let (x, w) = (random([6 * 11, 20]).reshape([6, 11, 20]), random([13, 20]));
    let b = Tensor::<1>::random([13], Distribution::Default, &plain);
    let dy = random([6 * 11, 13]).reshape([6, 11, 13]);
    let run = |ours: bool| {
        let x = Tensor::<3>::from_data(x.to_data(), &device).require_grad();
        let w = Tensor::<2>::from_data(w.to_data(), &device).require_grad();
        let b = Tensor::<1>::from_data(b.to_data(), &device).require_grad();
        // A view that is not in memory order.
        let seen = x.clone().swap_dims(0, 1);
        let y = if ours {
            linear(seen, w.clone(), Some(b.clone()))
        } else {
            module::linear(seen, w.clone().transpose(), Some(b.clone()))
        };
        let gradients = (y.clone() * Tensor::from_data(dy.to_data(), &device).swap_dims(0, 1)).sum().backward();
        let of = |t: Option<Tensor<2>>| t.expect("a gradient").into_data();
        [
            y.inner().into_data(),
            of(x.grad(&gradients).map(|g| g.reshape([66, 20]))),
            of(w.grad(&gradients)),
            of(b.grad(&gradients).map(|g| g.reshape([1, 13]))),
        ]
    };
    for (ours, theirs) in run(true).into_iter().zip(run(false)) {
        ours.assert_approx_eq::<f32>(&theirs, Tolerance::rel_abs(1e-4, 1e-4));
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let sizes = [5000, 24, 40];
    let (x, dy) = (values(5000 * 24, 1), values(5000 * 40, 2));
    let all = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        pool.install(|| (cpu::weight_gradient(&x, &dy, sizes), cpu::bias_gradient(&dy, 40)))
    };
    assert_eq!(all(1), all(3));
}

#[test]
fn what_is_not_a_number_stays_in_its_row() {
    let sizes = [9, 20, 18];
    let (mut x, w) = (values(9 * 20, 1), values(18 * 20, 2));
    x[8 * 20 + 3] = f32::NAN;
    let y = cpu::forward(&x, &w, None, sizes);
    assert!(y[..8 * 18].iter().all(|v| v.is_finite()) && y[8 * 18..].iter().all(|v| v.is_nan()));
}

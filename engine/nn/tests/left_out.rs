//! Optimizer steps that the device skips, as with the gradient scaler of half precision.

#[cfg(feature = "vulkan")]
#[path = "../../../tests/src/gpu.rs"]
mod gpu;

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use hearth_nn::optim::{Gradients, OptimizerConfig};

#[derive(Module, Debug)]
struct Weights {
    w: Param<Tensor<1>>,
}

fn values(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{got:?} for {expected:?}");
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "value {i}: {a} for {b}");
    }
}

#[test]
fn steps_left_out_leave_no_trace() {
    leave_no_trace(&Device::default());
}

#[cfg(feature = "vulkan")]
#[test]
#[ignore = "needs a Vulkan driver"]
fn steps_left_out_leave_no_trace_on_vulkan() {
    leave_no_trace(&gpu::device());
}

/// Skipped steps have no effect, at any position.
fn leave_no_trace(plain: &Device) {
    let device = plain.clone().autodiff();
    let bad = [f32::INFINITY, f32::NAN, 1.0];
    for config in [
        "name = \"SGD\"\nmomentum = 0.9\ndampening = 0.5\nweight_decay = 1e-2",
        "name = \"SGD\"\nmomentum = 0.9\nnesterov = true",
        "name = \"SGD\"",
        "name = \"Adam\"\namsgrad = true\nweight_decay = 1e-2",
        "name = \"Adam\"\nbetas = [0.0, 0.9]",
        "name = \"AdamW\"\nweight_decay = 1e-2",
        "name = \"Novograd\"\namsgrad = true",
        "name = \"RMSprop\"\nmomentum = 0.9\ncentered = true",
    ] {
        let config: OptimizerConfig = toml::from_str(config).expect("known options");
        let run = |gradients: &[[f32; 3]], decided: bool| {
            let mut optimizer = config.build().expect("consistent options");
            let mut net = Weights { w: Param::from_tensor(Tensor::from_floats([1.0, -2.0, 3.0], &device)) };
            for gradient in gradients {
                let gradient = Tensor::<1>::from_floats(*gradient, plain);
                let gradients = Gradients::from_map(BTreeMap::from([("w".to_owned(), gradient)]));
                net = if decided {
                    let finite = gradients.norm().expect("a gradient").is_finite();
                    optimizer.step_where(net, gradients, 0.1, &finite).expect("one gradient for one parameter")
                } else {
                    optimizer.step(net, gradients, 0.1).expect("one gradient for one parameter")
                };
            }
            (values(net.w.val()), optimizer.state())
        };
        let good = [[1.0, 2.0, 2.0], [0.5, -0.5, 1.0], [2.0, 0.0, -1.0]];
        let (expected, state) = run(&good, false);
        for mixed in [
            vec![good[0], good[1], good[2]],
            vec![bad, bad, good[0], good[1], good[2]],
            vec![good[0], bad, good[1], bad, bad, good[2], bad],
        ] {
            let (got, theirs) = run(&mixed, true);
            assert_close(&got, &expected, 3e-6);
            assert_eq!(theirs.keys().collect::<Vec<_>>(), state.keys().collect::<Vec<_>>(), "{config:?}");
            for (key, data) in &theirs {
                let numbers = |data: &burn::tensor::TensorData| data.iter::<f32>().collect::<Vec<_>>();
                assert_close(&numbers(data), &numbers(&state[key]), 3e-6);
            }
        }
        // With skipped steps only, nothing changes.
        assert_eq!(run(&[bad, bad], true).0, [1.0, -2.0, 3.0], "{config:?}");
    }
}

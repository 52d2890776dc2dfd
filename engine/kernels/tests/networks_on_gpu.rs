//! Compares the operations of networks other than convolutions on software Vulkan with the CPU,
//! whose kernels have their own tests: values and gradients, odd sizes, views, half precision.

#![cfg(feature = "vulkan")]

#[path = "../../../tests/src/gpu.rs"]
mod gpu;

use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;
use hearth_kernels::dropout::{Drops, dropout};
use hearth_kernels::normalize::{Over, Slope, normalize, scale};
use hearth_kernels::pool3d::{Divisor, PoolShape, adaptive_avg_pool3d, adaptive_max_pool3d, avg_pool3d, max_pool3d};
use hearth_kernels::sigmoid_sums::{Focal, sigmoid_sums};
use hearth_kernels::softmax_sums::softmax_sums;
use hearth_kernels::update::decided::{self, Decision};
use hearth_kernels::update::{self, AdamStep, RmsPropStep, SgdStep};
use hearth_kernels::{gelu, layer_norm, rectified_sum, rectify};

/// Random values that are the same on both devices.
fn draw<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
    let key = Key::new(seed);
    let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64).map(|i| key.normal(i) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().try_to_vec().expect("f32 values")
}

/// Compares the lists of values that a case returns on each device.
#[track_caller]
fn same(what: &str, tolerance: f32, case: impl Fn(&Device) -> Vec<Vec<f32>>) {
    let [cpu, gpu] = [Device::flex(), gpu::device()].map(|device| case(&device));
    assert_eq!(cpu.len(), gpu.len(), "{what}");
    for (part, (cpu, gpu)) in cpu.iter().zip(&gpu).enumerate() {
        assert_eq!(cpu.len(), gpu.len(), "{what}, part {part}");
        let scale = cpu.iter().filter(|v| v.is_finite()).fold(1.0_f32, |most, v| most.max(v.abs()));
        for (i, (cpu, gpu)) in cpu.iter().zip(gpu).enumerate() {
            let near = (cpu - gpu).abs() <= tolerance * scale || (cpu.is_nan() && gpu.is_nan()) || cpu == gpu;
            assert!(near, "{what}, part {part} at {i}: {gpu} on the GPU, {cpu} on the CPU");
        }
    }
}

/// A gradient.
fn gradient<const D: usize>(leaf: &Tensor<D>, all: &Gradients) -> Vec<f32> {
    values(leaf.grad(all).expect("a gradient"))
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn norms_on_vulkan() {
    // A plane of several workgroups, planes of one value, many planes.
    for (shape, groups) in
        [([2, 6, 21, 20, 22], 3), ([3, 4, 1, 1, 1], 2), ([1, 1, 5, 7, 3], 1), ([2, 300, 2, 3, 2], 300)]
    {
        for over in [Over::Batch, Over::Groups(groups)] {
            for slopes in [1, shape[1]] {
                same(&format!("{over:?} of {shape:?}, {slopes} slopes"), 1e-4, |device| {
                    let device = device.clone().autodiff();
                    // A view: the last axis comes first in memory.
                    let [b, c, x, y, z] = shape;
                    let leaf = (draw([z, b, c, x, y], 1, &device) * 2.0 + 0.7).require_grad();
                    let [weight, bias, slope] =
                        [(c, 2), (c, 3), (slopes, 4)].map(|(n, seed)| draw([n], seed, &device).require_grad());
                    let affine = Some((weight.clone(), bias.clone()));
                    let x = leaf.clone().permute([1, 2, 3, 4, 0]);
                    let done = normalize(x, affine, &Slope::Learned(slope.clone()), over, 1e-3);
                    let all = (done.output.clone() * draw(shape, 5, &device)).sum().backward();
                    let small = [&weight, &bias, &slope].map(|leaf| gradient(leaf, &all));
                    let mut parts =
                        vec![values(done.output), values(done.mean), values(done.variance), gradient(&leaf, &all)];
                    parts.extend(small);
                    parts
                });
            }
        }
    }
    same("values far from zero", 0.0, |device| {
        let far: Vec<f32> = (0..4096 * 5).map(|i| 10_000.0 + (i % 2) as f32).collect();
        let x = Tensor::<5>::from_data(TensorData::new(far, [1, 1, 64, 64, 5]), device);
        let done = normalize(x, None, &Slope::Fixed(1.0), Over::Batch, 0.0);
        vec![values(done.mean), values(done.variance)]
    });
    same("what is not a number", 1e-5, |device| {
        let odd: Vec<f32> = (0..16).map(|i| if i == 3 { f32::NAN } else { i as f32 }).collect();
        let x = Tensor::<5>::from_data(TensorData::new(odd, [1, 2, 2, 2, 2]), device);
        vec![values(normalize(x, None, &Slope::Fixed(0.0), Over::Groups(2), 1e-5).output)]
    });
    same("given statistics", 1e-5, |device| {
        let x = draw([2, 3, 4, 5, 6], 1, device);
        let [by, offset, slope] = [2, 3, 4].map(|seed| draw([3], seed, device));
        let kept = x.clone();
        let fixed = scale(x, by.clone(), offset.clone(), &Slope::Fixed(0.1));
        let learned = scale(kept.clone().swap_dims(3, 4), by, offset, &Slope::Learned(slope));
        vec![values(fixed), values(learned), values(kept)]
    });
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn norms_in_half_precision_on_vulkan() {
    same("f16", 4e-3, |device| {
        let device = device.clone().autodiff();
        let leaf = draw([2, 4, 9, 8, 7], 1, &device).require_grad();
        let done = normalize(leaf.clone().cast(DType::F16), None, &Slope::Fixed(0.01), Over::Groups(4), 1e-5);
        assert_eq!(done.output.dtype(), DType::F16);
        let up = draw([2, 4, 9, 8, 7], 2, &device).cast(DType::F16);
        let all = (done.output.clone() * up).cast(DType::F32).sum().backward();
        vec![values(done.output), values(done.variance), gradient(&leaf, &all)]
    });
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn activations_and_sums_on_vulkan() {
    let shape = [2, 3, 5, 7, 4];
    for slope in [0.0, 0.01, 1.0] {
        same(&format!("slope {slope}"), 1e-6, |device| {
            let device = device.clone().autodiff();
            let [x, y] = [1, 2].map(|seed| draw(shape, seed, &device).require_grad());
            let alone = rectify(x.clone(), slope);
            let turned = y.clone().reshape([2, 4, 3, 5, 7]).permute([0, 2, 3, 4, 1]);
            let sum = rectified_sum(x.clone(), turned, slope);
            let all = ((alone.clone() + sum.clone()) * draw(shape, 3, &device)).sum().backward();
            vec![values(alone), values(sum), gradient(&x, &all), gradient(&y, &all)]
        });
    }
    same("what is not finite", 0.0, |device| {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.0];
        let x = Tensor::<5>::from_data(TensorData::new(odd.to_vec(), [1, 2, 2, 2, 1]), device);
        vec![values(rectify(x.clone(), 0.0)), values(rectified_sum(x.clone(), x, 0.0))]
    });
    same("GELU", 2e-6, |device| {
        let device = device.clone().autodiff();
        let x = (draw(shape, 1, &device) * 3.0).require_grad();
        let y = gelu(x.clone());
        let all = (y.clone() * draw(shape, 2, &device)).sum().backward();
        vec![values(y), gradient(&x, &all)]
    });
    same("f16", 2e-3, |device| {
        let device = device.clone().autodiff();
        let x = draw(shape, 1, &device).require_grad();
        let half = x.clone().cast(DType::F16);
        let y = gelu(rectified_sum(rectify(half.clone(), 0.1), half, 0.01));
        assert_eq!(y.dtype(), DType::F16);
        let all = y.clone().cast(DType::F32).sum().backward();
        vec![values(y), gradient(&x, &all)]
    });
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn layer_norms_on_vulkan() {
    for (rows, features) in [(1, 1), (131, 48), (70, 768), (3, 1000)] {
        same(&format!("{rows} rows of {features}"), 2e-5, |device| {
            let device = device.clone().autodiff();
            let leaf = (draw([features, 1, rows], 1, &device) + 0.5).require_grad();
            let [weight, bias] = [2, 3].map(|seed| draw([features], seed, &device).require_grad());
            let y = layer_norm(leaf.clone().permute([1, 2, 0]), weight.clone(), bias.clone(), 1e-3);
            let all = (y.clone() * draw([1, rows, features], 4, &device)).sum().backward();
            vec![values(y), gradient(&leaf, &all), gradient(&weight, &all), gradient(&bias, &all)]
        });
    }
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn dropout_on_vulkan_drops_what_the_cpu_drops() {
    let shape = [3, 5, 7, 6, 11];
    for (p, run, offsets) in
        [(0.3, 1, [0.0; 2]), (0.5, 7 * 6 * 11, [0.0; 2]), (0.1, 1, [0.25, -1.5]), (1.0 / 3.0, 1, [0.0; 2])]
    {
        for seed in 0..5 {
            same(&format!("{p} of runs of {run}"), 1e-6, |device| {
                let device = device.clone().autodiff();
                let x = draw(shape, 1, &device).require_grad();
                let key = Key::new(seed).with_text("layer");
                let y = dropout(x.clone(), Drops { key, p, run, scale: 1.25, offsets });
                let all = (y.clone() * draw(shape, 2, &device)).sum().backward();
                vec![values(y), gradient(&x, &all)]
            });
        }
    }
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn poolings_on_vulkan() {
    let shape =
        PoolShape { kernel: [3, 2, 3], stride: [2, 2, 1], padding: [1, 0, 1], dilation: [1, 1, 2], ceil_mode: false };
    let ceil = PoolShape { kernel: [2; 3], stride: [2; 3], padding: [0; 3], dilation: [1; 3], ceil_mode: true };
    type Pool<'a> = (&'a str, &'a dyn Fn(Tensor<5>) -> Tensor<5>);
    let kinds: [Pool; 8] = [
        ("largest", &|x| max_pool3d(x, PoolShape::new([2; 3]))),
        ("largest of windows that lie over each other", &|x| max_pool3d(x, shape)),
        ("largest, the last one cut off", &|x| max_pool3d(x, ceil)),
        ("mean", &|x| avg_pool3d(x, shape, Divisor::Window)),
        ("mean of what is inside", &|x| avg_pool3d(x, ceil, Divisor::Inside)),
        ("mean by 5", &|x| avg_pool3d(x, shape, Divisor::Given(5))),
        ("adaptive largest", &|x| adaptive_max_pool3d(x, [2, 3, 5])),
        ("adaptive mean", &|x| adaptive_avg_pool3d(x, [2, 3, 5])),
    ];
    for (name, pool) in kinds {
        same(name, 2e-6, |device| {
            let device = device.clone().autodiff();
            // With equal values, too.
            let x = (draw([2, 3, 7, 6, 9], 1, &device) * 4.0).round().require_grad();
            let y = pool(x.clone());
            let all = (y.clone() * draw(y.dims(), 2, &device)).sum().backward();
            vec![values(y), gradient(&x, &all)]
        });
    }
    same("what is not a number", 0.0, |device| {
        let x = (0..8).map(|i| if i == 2 { f32::NAN } else { i as f32 }).collect::<Vec<_>>();
        vec![values(max_pool3d(
            Tensor::from_data(TensorData::new(x, [1, 1, 4, 2, 1]), device),
            PoolShape::new([2, 1, 1]),
        ))]
    });
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn sums_of_losses_on_vulkan() {
    for (classes, edge) in [(1, 5), (2, 21), (5, 9), (33, 4)] {
        for squared in [false, true] {
            same(&format!("{classes} classes"), 1e-5, |device| {
                let device = device.clone().autodiff();
                let logits = (draw([2, classes, edge, edge, edge], 1, &device) * 3.0).require_grad();
                let labels: Vec<f32> = (0..2 * edge.pow(3)).map(|i| (i * 7 % 11 % classes) as f32).collect();
                let labels = Tensor::<5>::from_data(TensorData::new(labels, [2, 1, edge, edge, edge]), &device);
                let sums = softmax_sums(logits.clone(), labels, squared, true).expect("a kernel");
                assert!(!sums.odd);
                let parts = [sums.both, sums.prediction, sums.target, sums.entropy];
                let of = |part: usize| (parts[part].clone() * draw([2, classes], part as u64, &device)).sum();
                let all = (of(0) + of(1) + of(3)).backward();
                let mut found = vec![gradient(&logits, &all)];
                found.extend(parts.map(values));
                found
            });
        }
    }
    for (logit, label, odd) in
        [(0.3, 0.0, false), (f32::NAN, 0.0, true), (f32::INFINITY, 1.0, true), (0.3, 2.0, true), (0.3, 0.5, true)]
    {
        let device = gpu::device();
        let logits = Tensor::<5>::from_data(TensorData::new(vec![0.1, 0.2, logit, 0.4], [1, 2, 2, 1, 1]), &device);
        let labels = Tensor::<5>::from_data(TensorData::new(vec![1.0, label], [1, 1, 2, 1, 1]), &device);
        let sums = softmax_sums(logits, labels, false, true).expect("a kernel");
        assert_eq!(sums.odd, odd, "logit {logit}, label {label}");
    }
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn sums_of_losses_of_a_sigmoid_on_vulkan() {
    let focals = [
        None,
        Some(Focal::default()),
        Some(Focal { gamma: 2.0, pos_weight: 1.0, present: 0.25, absent: 0.75 }),
        Some(Focal { gamma: 0.7, pos_weight: 3.0, present: 1.0, absent: 1.0 }),
    ];
    for (channels, edge) in [(1, 5), (2, 21), (3, 9)] {
        for (focal, squared) in focals.into_iter().zip([true, false, true, false]) {
            for indices in [false, true] {
                if indices && channels == 1 {
                    continue;
                }
                same(&format!("{channels} channels, {focal:?}, indices {indices}"), 1e-5, |device| {
                    let device = device.clone().autodiff();
                    let logits = (draw([2, channels, edge, edge, edge], 1, &device) * 3.0).require_grad();
                    let soft = (draw([2, channels, edge, edge, edge], 2, &device) * 0.1 + 0.5).require_grad();
                    let labels: Vec<f32> = (0..2 * edge.pow(3)).map(|i| (i * 7 % 11 % channels) as f32).collect();
                    let labels = Tensor::<5>::from_data(TensorData::new(labels, [2, 1, edge, edge, edge]), &device);
                    let given = if indices { labels } else { soft.clone() };
                    let sums = sigmoid_sums(logits.clone(), given, squared, focal, true).expect("a kernel");
                    assert!(!sums.odd);
                    let parts = [sums.both, sums.prediction, sums.target, sums.focal];
                    let of = |part: usize| (parts[part].clone() * draw([2, channels], part as u64, &device)).sum();
                    let all = (of(0) + of(1) + of(2) + of(3)).backward();
                    let mut found = vec![gradient(&logits, &all)];
                    found.extend((!indices).then(|| gradient(&soft, &all)));
                    found.extend(parts.map(values));
                    found
                });
            }
        }
    }
    // Where predictions are certain.
    same("sure predictions", 1e-6, |device| {
        let device = device.clone().autodiff();
        let x = [-80.0, -20.0, -8.0, -1e-3, 0.0, 5.0, 15.0, 60.0];
        let logits = Tensor::<5>::from_data(TensorData::new(x.to_vec(), [1, 1, 8, 1, 1]), &device).require_grad();
        let sums = sigmoid_sums(logits.clone(), logits.ones_like(), false, Some(Focal::default()), true).expect("sums");
        let all = sums.focal.clone().backward();
        vec![values(sums.focal), gradient(&logits, &all)]
    });
    for (logit, target, odd) in
        [(0.3, 0.0, false), (f32::NAN, 0.0, true), (f32::INFINITY, 1.0, true), (0.3, f32::NAN, true)]
    {
        let device = gpu::device();
        let of = |value| Tensor::<5>::from_data(TensorData::new(vec![0.1, 0.2, value, 0.4], [1, 2, 2, 1, 1]), &device);
        let sums = sigmoid_sums(of(logit), of(target), false, None, true).expect("a kernel");
        assert_eq!(sums.odd, odd, "logit {logit}, target {target}");
    }
}

#[test]
#[ignore = "needs a Vulkan driver"]
fn steps_of_optimizers_on_vulkan() {
    let count = 1037;
    let positive = |seed: u64, device: &Device| draw([count], seed, device).abs() + 0.1;
    for nesterov in [false, true] {
        same("SGD", 1e-6, |device| {
            let step = SgdStep { lr: 0.1, weight_decay: 0.01, momentum: 0.9, share: 0.8, nesterov };
            let [p, g, direction] = [1, 2, 3].map(|seed| draw([count], seed, device));
            let kept = p.clone();
            assert!(update::has_kernel([&p, &g, &direction].into_iter()));
            let (moved, direction) = update::sgd(p, &g, direction, step);
            vec![values(moved), values(direction), values(kept), values(g)]
        });
    }
    let betas = [[0.9, 0.1], [0.99, 0.01]];
    for (amsgrad, shrink, weight_decay) in [(false, 0.99, 0.0), (true, 1.0, 0.02)] {
        same("Adam", 1e-6, |device| {
            let step = AdamStep { lr: 0.02, shrink, weight_decay, betas, correction: 0.5, eps: 1e-8 };
            let [p, g, mean] = [1, 2, 3].map(|seed| draw([count], seed, device));
            let largest = amsgrad.then(|| positive(5, device));
            let (moved, state, largest) = update::adam(p, &g, [mean, positive(4, device)], largest, step);
            let mut parts = vec![values(moved)];
            parts.extend(state.into_iter().chain(largest).map(values));
            parts
        });
    }
    for (centered, moving) in [(false, false), (false, true), (true, false), (true, true)] {
        same("RMSprop", 1e-5, |device| {
            let step = RmsPropStep { lr: 0.02, weight_decay: 0.01, alpha: [0.99, 0.01], eps: 1e-3, momentum: 0.9 };
            let [p, g] = [1, 2].map(|seed| draw([count], seed, device));
            let mean = centered.then(|| draw([count], 3, device) * 0.1);
            let direction = moving.then(|| draw([count], 4, device));
            let (moved, square, mean, direction) = update::rms_prop(p, &g, positive(5, device), mean, direction, step);
            let mut parts = vec![values(moved), values(square)];
            parts.extend(mean.into_iter().chain(direction).map(values));
            parts
        });
    }
}

/// Steps decided on the device equal the taken steps on the CPU; the gradient of a skipped step may
/// hold any values.
#[test]
#[ignore = "needs a Vulkan driver"]
fn steps_that_the_device_decides_about_on_vulkan() {
    const COUNT: usize = 1037;
    let taken = [false, true, true, false, false, true, true];
    let [cpu, gpu] = [Device::flex(), gpu::device()];
    let number = |value: f32, device: &Device| Tensor::<1>::from_floats([value], device);
    let g = |step: usize, device: &Device| {
        let g = draw([COUNT], 10 + step as u64, device);
        if taken[step] { g } else { g * f32::NAN }
    };
    let start = |device: &Device| (draw([COUNT], 1, device), Tensor::<1>::zeros([COUNT], device));
    let close = |what: &str, ours: Tensor<1>, expected: Tensor<1>| {
        for (i, (a, b)) in values(ours).iter().zip(values(expected)).enumerate() {
            assert!((a - b).abs() <= 3e-6 * b.abs().max(1.0), "{what} at {i}: {a} for {b}");
        }
    };
    /// A parameter and the state of its rule.
    type State = Vec<Tensor<1>>;
    // Each rule: a step on the GPU with a decision, and one on the CPU by the number of steps
    // taken.
    let all = |what: &str,
               on_gpu: &dyn Fn(State, &Tensor<1>, Decision) -> (State, Tensor<1>),
               on_cpu: &dyn Fn(State, &Tensor<1>, u64) -> State,
               states: usize| {
        let state = |device: &Device| {
            let (p, zeros) = start(device);
            let mut all = vec![p];
            all.extend((0..states).map(|_| zeros.clone()));
            all
        };
        let (mut ours, mut theirs, mut left_out, mut count) = (state(&gpu), state(&cpu), number(0.0, &gpu), 0);
        for (step, taken) in taken.into_iter().enumerate() {
            let decision =
                Decision { taken: number(f32::from(u8::from(taken)), &gpu), left_out, step: step as u64 + 1 };
            assert!(decided::has_kernel(ours.iter()) && !decided::has_kernel(theirs.iter()));
            (ours, left_out) = on_gpu(ours, &g(step, &gpu), decision);
            if taken {
                count += 1;
                theirs = on_cpu(theirs, &g(step, &cpu), count);
            }
            assert_eq!(values(left_out.clone()), [(step as u64 + 1 - count) as f32], "{what}");
            for (part, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                close(&format!("{what}, part {part}, step {step}"), ours.clone(), theirs.clone());
            }
        }
    };
    let two = |state: Vec<Tensor<1>>| <[Tensor<1>; 2]>::try_from(state).expect("two");
    for nesterov in [false, true] {
        let step = SgdStep { lr: 0.1, weight_decay: 0.01, momentum: 0.9, share: 0.3, nesterov };
        all(
            "SGD",
            &|state, g, decision| {
                let [p, direction] = two(state);
                let (p, direction, left_out) = decided::sgd(p, g, direction, step, 1.0, decision);
                (vec![p, direction], left_out)
            },
            &|state, g, count| {
                let [p, direction] = two(state);
                let step = SgdStep { share: if count == 1 { 1.0 } else { step.share }, ..step };
                let (p, direction) = update::sgd(p, g, direction, step);
                vec![p, direction]
            },
            1,
        );
    }
    for (amsgrad, shrink, weight_decay, decays) in
        [(false, 0.99, 0.0, [0.9_f64, 0.999]), (true, 1.0, 0.02, [0.9, 0.999]), (false, 1.0, 0.0, [0.0, 0.3])]
    {
        let betas = decays.map(|beta| [beta as f32, (1.0 - beta) as f32]);
        let raw = AdamStep { lr: 0.02, shrink, weight_decay, betas, correction: 1.0, eps: 1e-8 };
        let parts = |state: Vec<Tensor<1>>| {
            let mut state = state.into_iter();
            let mut next = || state.next().expect("a state");
            let (p, both) = (next(), [next(), next()]);
            (p, both, amsgrad.then(next))
        };
        let list = |p, both: [Tensor<1>; 2], largest: Option<Tensor<1>>| {
            [p].into_iter().chain(both).chain(largest).collect::<Vec<_>>()
        };
        all(
            "Adam",
            &|state, g, decision| {
                let (p, both, largest) = parts(state);
                let logarithms = decays.map(|beta| beta.ln() as f32);
                let (p, both, largest, left_out) = decided::adam(p, g, both, largest, raw, logarithms, decision);
                (list(p, both, largest), left_out)
            },
            &|state, g, count| {
                let (p, both, largest) = parts(state);
                let [first, second] = decays.map(|beta| 1.0 - beta.powi(count as i32));
                let step = AdamStep { lr: (0.02 / first) as f32, correction: second.sqrt() as f32, ..raw };
                let (p, both, largest) = update::adam(p, g, both, largest, step);
                list(p, both, largest)
            },
            if amsgrad { 3 } else { 2 },
        );
    }
    let step = RmsPropStep { lr: 0.01, weight_decay: 0.01, alpha: [0.9, 0.1], eps: 1e-3, momentum: 0.9 };
    let parts = |state: Vec<Tensor<1>>| <[Tensor<1>; 4]>::try_from(state).expect("four");
    all(
        "RMSprop",
        &|state, g, decision| {
            let [p, square, mean, direction] = parts(state);
            let (p, square, mean, direction, left_out) =
                decided::rms_prop(p, g, square, Some(mean), Some(direction), step, decision);
            ([p, square].into_iter().chain(mean).chain(direction).collect(), left_out)
        },
        &|state, g, _| {
            let [p, square, mean, direction] = parts(state);
            let (p, square, mean, direction) = update::rms_prop(p, g, square, Some(mean), Some(direction), step);
            [p, square].into_iter().chain(mean).chain(direction).collect()
        },
        3,
    );
}

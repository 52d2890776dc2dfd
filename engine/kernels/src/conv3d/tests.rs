//! Compares every inner loop with straightforward sums in f64, over random shapes, and the
//! operation in Burn's autodiff graph with Burn's own convolution.

use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{DType, Device, Tensor, TensorData, module};
use half::bf16;

use super::blocked::{Behind, Loops, channel_tile, position_tile};
use super::cpu;
use super::few_positions::Few;
use super::geometry::Geometry;
use super::pairs;
use super::winograd;
use super::winograd::tests::{of_fewer_products, of_fewer_products_at_stride_two};
use super::{
    Channels, ConvShape, NormAct, NormBehind, Then, conv_transpose3d, conv_transpose3d_then, conv3d, conv3d_then,
};
use crate::counter_rng::Key;
use crate::normalize::{Over, Slope, normalize, scale};

/// Values in [-1, 1) that depend on the key only, equal on every machine.
pub fn values(key: u64, count: usize) -> Vec<f32> {
    let key = Key::new(key);
    (0..count as u64).map(|i| (key.uniform(i) * 2.0 - 1.0) as f32).collect()
}

/// Draws whole numbers below a bound.
struct Draws(Key, u64);

impl Draws {
    fn below(&mut self, n: u64) -> usize {
        self.1 += 1;
        self.0.below(self.1, n) as usize
    }
}

/// Odd sizes, one channel, strides, padding, dilation, kernels of 1 and more, two-dimensional work.
fn geometries() -> Vec<Geometry> {
    let mut rng = Draws(Key::new(7), 0);
    let mut found = Vec::new();
    while found.len() < 60 {
        let mut kernel = [0; 3].map(|_| [1, 2, 3, 3, 5][rng.below(5)]);
        let mut stride = [0; 3].map(|_| 1 + rng.below(3));
        let mut dilation = [0; 3].map(|_| 1 + rng.below(2));
        let mut padding = [0; 3].map(|_| rng.below(3));
        let mut input = [0; 3].map(|_| 1 + rng.below(11));
        if rng.below(4) == 0 {
            (kernel[2], stride[2], dilation[2], padding[2], input[2]) = (1, 1, 1, 0, 1);
        }
        if rng.below(3) == 0 {
            (kernel, stride, dilation, padding) = ([3; 3], [2; 3], [1; 3], [1; 3]);
            input = [0; 3].map(|_| 1 + rng.below(40));
        }
        let output: [Option<usize>; 3] = std::array::from_fn(|a| {
            let reach = dilation[a] * (kernel[a] - 1) + 1;
            (input[a] + 2 * padding[a]).checked_sub(reach).map(|span| span / stride[a] + 1)
        });
        if let [Some(x), Some(y), Some(z)] = output {
            found.push(Geometry {
                batch: 1 + rng.below(3),
                groups: [1, 1, 1, 1 + rng.below(4)][rng.below(4)],
                channels_in: [1 + rng.below(10), 1 + rng.below(40)][rng.below(2)],
                channels_out: [1 + rng.below(18), 1 + rng.below(70)][rng.below(2)],
                input,
                output: [x, y, z],
                kernel,
                stride,
                padding,
                dilation,
            });
        }
    }
    found.extend(of_fewer_products().into_iter().chain(of_fewer_products_at_stride_two()));
    // Many weights and few outputs.
    for (input, kernel, stride, padding, dilation, [channels_in, channels_out], batch) in [
        ([2, 3, 4], [3; 3], 1, 1, 1, [48, 48], 2),
        ([5, 4, 3], [3; 3], 2, 1, 1, [16, 80], 3),
        ([1, 1, 1], [1; 3], 1, 0, 1, [256, 144], 5),
        ([1, 1, 1], [3; 3], 1, 1, 1, [16, 96], 1),
        ([5, 5, 5], [3; 3], 1, 1, 2, [64, 32], 1),
        ([4, 6, 1], [3, 3, 1], 2, 0, 1, [64, 64], 4),
        // Rows of more than sixteen pairs.
        ([3, 5, 67], [3; 3], 2, 1, 1, [6, 20], 2),
        ([3, 5, 96], [2; 3], 2, 0, 1, [9, 20], 1),
    ] {
        let (stride, padding, dilation) = ([stride; 3], [padding; 3], [dilation; 3]);
        let reach = |a: usize| dilation[a] * (kernel[a] - 1) + 1;
        let output = std::array::from_fn(|a| (input[a] + 2 * padding[a] - reach(a)) / stride[a] + 1);
        let g =
            Geometry { batch, groups: 1, channels_in, channels_out, input, output, kernel, stride, padding, dilation };
        found.push(g);
    }
    assert!(found.iter().filter(|g| Few::new(&g.flat_first()).is_some()).count() >= 5);
    // Kernels of 1, whose rows are joined; and one with a smaller output, as in a transposed
    // convolution with padded output.
    for (input, output) in [([6, 5, 7], [6, 5, 7]), ([4, 12, 16], [4, 12, 16]), ([3, 4, 6], [3, 4, 5])] {
        let (kernel, stride, dilation, padding) = ([1; 3], [1; 3], [1; 3], [0; 3]);
        for channels_out in [5, 40] {
            found.push(Geometry {
                batch: 2,
                groups: 1,
                channels_in: 19,
                channels_out,
                input,
                output,
                kernel,
                stride,
                padding,
                dilation,
            });
        }
    }
    found
}

/// Calls `visit(input index, output index, weight index)` for every product of the convolution.
pub fn products(g: &Geometry, mut visit: impl FnMut(usize, usize, usize)) {
    let ([id, ih, iw], [od, oh, ow], [kd, kh, kw]) = (g.input, g.output, g.kernel);
    let source = |o: usize, k: usize, a: usize, n: usize| {
        (o * g.stride[a] + k * g.dilation[a]).checked_sub(g.padding[a]).filter(|i| *i < n)
    };
    // Each group of each image, and the offset of its weights.
    for (b, w) in (0..g.batch * g.groups).map(|b| (b, b % g.groups * g.weight_len())) {
        for co in 0..g.channels_out {
            for ci in 0..g.channels_in {
                for (d, e) in (0..od).flat_map(|d| (0..kd).map(move |e| (d, e))) {
                    let Some(x) = source(d, e, 0, id) else { continue };
                    for (h, f) in (0..oh).flat_map(|h| (0..kh).map(move |f| (h, f))) {
                        let Some(y) = source(h, f, 1, ih) else { continue };
                        for (v, i) in (0..ow).flat_map(|v| (0..kw).map(move |i| (v, i))) {
                            let Some(z) = source(v, i, 2, iw) else { continue };
                            visit(
                                (((b * g.channels_in + ci) * id + x) * ih + y) * iw + z,
                                (((b * g.channels_out + co) * od + d) * oh + h) * ow + v,
                                w + (((co * g.channels_in + ci) * kd + e) * kh + f) * kw + i,
                            );
                        }
                    }
                }
            }
        }
    }
}

fn assert_close(what: &str, g: &Geometry, got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what} of {g:?}");
    let scale = expected.iter().fold(1.0_f64, |m, v| m.max(v.abs()));
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(*a) - b).abs() <= 2e-5 * scale, "{what} of {g:?} at {i}: {a} for {b}");
    }
}

#[test]
fn every_inner_loop_agrees_with_sums_in_f64() {
    let transforms = winograd::transform::every::runnable();
    let loops = channel_tile::every::runnable();
    for (((name, channels), positions), transforms) in
        loops.iter().zip(&position_tile::every::runnable()).zip(&transforms)
    {
        let loops = Loops { channels, positions, transforms, of_pairs: false };
        for (key, g) in geometries().iter().enumerate() {
            let key = key as u64;
            let (x, w) = (values(key, g.input_len()), values(key + 1000, g.groups * g.weight_len()));
            let (dy, bias) = (values(key + 2000, g.output_len()), values(key + 3000, g.channels()[1]));
            let in_bias = values(key + 4000, g.channels()[0]);
            let mut y = vec![0.0_f64; g.output_len()];
            let mut dx = vec![0.0_f64; g.input_len()];
            let mut dw = vec![0.0_f64; g.groups * g.weight_len()];
            products(g, |i, o, k| {
                y[o] += f64::from(x[i]) * f64::from(w[k]);
                dx[i] += f64::from(dy[o]) * f64::from(w[k]);
                dw[k] += f64::from(dy[o]) * f64::from(x[i]);
            });
            let out_each = g.output.iter().product::<usize>();
            let in_each = g.input.iter().product::<usize>();
            y.iter_mut().enumerate().for_each(|(i, v)| *v += f64::from(bias[i / out_each % g.channels()[1]]));
            dx.iter_mut().enumerate().for_each(|(i, v)| *v += f64::from(in_bias[i / in_each % g.channels()[0]]));
            let forward = cpu::forward(loops, &x[..], &w, Behind { bias: Some(&bias), ..Behind::default() }, g);
            assert_close(&format!("{name} forward"), g, &forward, &y);
            let spread =
                cpu::input_gradient(loops, &dy[..], &w, Behind { bias: Some(&in_bias), ..Behind::default() }, g);
            assert_close(&format!("{name} input gradient"), g, &spread, &dx);
            let gradient = cpu::weight_gradient(loops, &x, &dy, g);
            assert_close(&format!("{name} weight gradient"), g, &gradient, &dw);
        }
    }
}

/// Values that bf16 holds exactly.
fn halves(key: u64, count: usize) -> Vec<bf16> {
    values(key, count).into_iter().map(bf16::from_f32).collect()
}

#[test]
fn pairs_of_bf16_agree_with_sums_in_f64() {
    let mut seen = [0; 3];
    for (key, g) in geometries().iter().enumerate() {
        let key = key as u64;
        let (x, w) = (halves(key, g.input_len()), halves(key + 1000, g.groups * g.weight_len()));
        let (dy, bias) = (halves(key + 2000, g.output_len()), values(key + 3000, g.channels()[1]));
        let behind = Behind { bias: Some(&bias), ..Behind::default() };
        let found = [
            pairs::forward(&x, &w, behind, g),
            pairs::input_gradient(&dy, &w, Behind::default(), g),
            pairs::weight_gradient(&x, &dy, g),
        ];
        if found.iter().all(Option::is_none) {
            continue;
        }
        let mut expected = [vec![0.0_f64; dy.len()], vec![0.0; x.len()], vec![0.0; w.len()]];
        products(g, |i, o, k| {
            expected[0][o] += x[i].to_f64() * w[k].to_f64();
            expected[1][i] += dy[o].to_f64() * w[k].to_f64();
            expected[2][k] += dy[o].to_f64() * x[i].to_f64();
        });
        let each = g.output.iter().product::<usize>();
        expected[0].iter_mut().enumerate().for_each(|(i, v)| *v += f64::from(bias[i / each % g.channels()[1]]));
        for (which, what) in ["forward", "input gradient", "weight gradient"].into_iter().enumerate() {
            if let Some(found) = &found[which] {
                assert_close(what, g, found, &expected[which]);
                seen[which] += 1;
            }
        }
    }
    let some = seen.iter().all(|count| *count > 10);
    assert_eq!(some, Loops::of_pairs().is_some(), "{seen:?} geometries were summed in pairs");
}

#[test]
fn what_bf16_stores_has_the_gradients_of_the_same_values_in_f32() {
    let device = Device::flex().autodiff();
    for dtype in [DType::BF16, DType::F16] {
        for (channels, stride, transposed) in
            [([8, 12], 2, false), ([16, 24], 1, false), ([12, 9], 2, true), ([3, 4], 1, false)]
        {
            let shape = ConvShape { stride: [stride; 3], padding: [1; 3], ..ConvShape::default() };
            let weights = if transposed { [channels[0], channels[1]] } else { [channels[1], channels[0]] };
            let stored = tensor::<5>(1, [2, channels[0], 6, 7, 9], &device).cast(dtype);
            let stored_w = tensor::<5>(2, [weights[0], weights[1], 3, 3, 3], &device).cast(dtype);
            let bias = tensor::<1>(3, [channels[1]], &device);
            let run = |dtype: DType| {
                let (x, w) = (stored.clone().cast(dtype).require_grad(), stored_w.clone().cast(dtype).require_grad());
                let b = bias.clone().require_grad();
                let y = if transposed {
                    conv_transpose3d(x.clone(), w.clone(), Some(b.clone()), shape, [stride - 1; 3])
                } else {
                    conv3d(x.clone(), w.clone(), Some(b.clone()), shape)
                };
                assert_eq!(y.dtype(), dtype);
                let gradients = (y.clone().cast(DType::F32) * tensor(4, y.dims(), &device)).sum().backward();
                let gradient_b = b.grad(&gradients).expect("of the bias");
                assert_eq!(gradient_b.dtype(), DType::F32);
                let of = |t: &Tensor<5>| t.grad(&gradients).expect("a gradient").cast(DType::F32);
                (y.inner().cast(DType::F32), of(&x), of(&w), gradient_b)
            };
            let (half, full) = (run(dtype), run(DType::F32));
            let near = |what: &str, a: Tensor<5>, b: Tensor<5>| {
                let apart = (a - b.clone()).abs().max().into_scalar::<f32>();
                // Inputs are rounded once and sums once more, both to eight bits.
                let scale = b.abs().max().into_scalar::<f32>();
                assert!(
                    apart <= scale / 120.0,
                    "{what} of {dtype:?}, {channels:?}, transposed {transposed}: {apart} of {scale}"
                );
            };
            near("output", half.0, full.0);
            near("input gradient", half.1, full.1);
            near("weight gradient", half.2, full.2);
            near("bias gradient", half.3.reshape([1, 1, 1, 1, -1]), full.3.reshape([1, 1, 1, 1, -1]));
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for g in of_fewer_products() {
        same_with_any_number_of_threads(&g);
    }
    same_with_any_number_of_threads(&Geometry {
        batch: 2,
        groups: 3,
        channels_in: 5,
        channels_out: 11,
        input: [17, 19, 23],
        output: [9, 10, 12],
        kernel: [3; 3],
        stride: [2; 3],
        padding: [1; 3],
        dilation: [1; 3],
    });
}

fn same_with_any_number_of_threads(g: &Geometry) {
    let (x, w, dy) = (values(1, g.input_len()), values(2, g.groups * g.weight_len()), values(3, g.output_len()));
    let half = [&x, &w, &dy].map(|values| values.iter().map(|v| bf16::from_f32(*v)).collect::<Vec<_>>());
    let all = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        pool.install(|| {
            (
                cpu::forward(Loops::here(), &x[..], &w, Behind::default(), g),
                cpu::input_gradient(Loops::here(), &dy[..], &w, Behind::default(), g),
                cpu::weight_gradient(Loops::here(), &x, &dy, g),
                pairs::forward(&half[0], &half[1], Behind::default(), g),
                pairs::input_gradient(&half[2], &half[1], Behind::default(), g),
                pairs::weight_gradient(&half[0], &half[2], g),
            )
        })
    };
    let one = all(1);
    assert!(one == all(2) && one == all(5));
}

fn tensor<const D: usize>(key: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values(key, shape.iter().product()), shape), device)
}

fn close<const D: usize>(a: Tensor<D>, b: Tensor<D>) {
    assert_eq!(a.dims(), b.dims());
    let largest = (a - b).abs().max().into_scalar::<f32>();
    assert!(largest < 1e-4, "differs by {largest}");
}

#[test]
fn gradients_through_the_graph_are_those_of_burns_convolution() {
    let device = Device::flex().autodiff();
    let x = tensor(1, [2, 3, 7, 6, 5], &device).require_grad();
    let w = tensor(2, [4, 3, 3, 3, 3], &device).require_grad();
    let b = tensor(3, [4], &device).require_grad();
    let shape = ConvShape { stride: [2, 1, 2], padding: [1; 3], ..ConvShape::default() };
    let ours = conv3d(x.clone(), w.clone(), Some(b.clone()), shape);
    let weight = tensor(9, ours.dims(), &device);
    let grads = (ours.clone() * weight.clone()).sum().backward();
    let (gx, gw, gb) = (x.grad(&grads), w.grad(&grads), b.grad(&grads));
    let options = ConvOptions::new(shape.stride, shape.padding, shape.dilation, 1);
    let theirs = module::conv3d(x.clone(), w.clone(), Some(b.clone()), options);
    let grads = (theirs.clone() * weight).sum().backward();
    close(ours, theirs);
    close(gx.expect("x"), x.grad(&grads).expect("x"));
    close(gw.expect("w"), w.grad(&grads).expect("w"));
    close(gb.expect("b"), b.grad(&grads).expect("b"));
}

#[test]
fn transposed_gradients_are_those_of_burns_transposed_convolution() {
    let device = Device::flex().autodiff();
    let x = tensor(1, [2, 5, 4, 3, 6], &device).require_grad();
    let w = tensor(2, [5, 3, 3, 3, 3], &device).require_grad();
    let b = tensor(3, [3], &device).require_grad();
    let shape = ConvShape { stride: [2; 3], padding: [1; 3], ..ConvShape::default() };
    let ours = conv_transpose3d(x.clone(), w.clone(), Some(b.clone()), shape, [1; 3]);
    assert_eq!(ours.dims(), [2, 3, 8, 6, 12]);
    let weight = tensor(9, ours.dims(), &device);
    let grads = (ours.clone() * weight.clone()).sum().backward();
    let (gx, gw, gb) = (x.grad(&grads), w.grad(&grads), b.grad(&grads));
    let options = ConvTransposeOptions::new([2; 3], [1; 3], [1; 3], [1; 3], 1);
    let theirs = module::conv_transpose3d(x.clone(), w.clone(), Some(b.clone()), options);
    let grads = (theirs.clone() * weight).sum().backward();
    close(ours, theirs);
    close(gx.expect("x"), x.grad(&grads).expect("x"));
    close(gw.expect("w"), w.grad(&grads).expect("w"));
    close(gb.expect("b"), b.grad(&grads).expect("b"));
}

#[test]
fn a_value_that_is_not_a_number_reaches_what_it_touches_and_nothing_else() {
    let device = Device::flex();
    let mut x = values(1, 5 * 5 * 5);
    x[0] = f32::NAN;
    let x = Tensor::<5>::from_data(TensorData::new(x, [1, 1, 5, 5, 5]), &device);
    let shape = ConvShape { padding: [1; 3], ..ConvShape::default() };
    let y = conv3d(x, tensor(2, [1, 1, 3, 3, 3], &device), None, shape);
    let nan: Vec<bool> = y.into_data().try_to_vec::<f32>().expect("f32").iter().map(|v| v.is_nan()).collect();
    for (i, nan) in nan.iter().enumerate() {
        let (d, h, w) = (i / 25, i / 5 % 5, i % 5);
        assert_eq!(*nan, d < 2 && h < 2 && w < 2, "at {d} {h} {w}");
    }
}

#[test]
fn groups_and_half_types_are_those_of_burns_convolution() {
    let device = Device::flex();
    let shape = ConvShape { groups: 2, padding: [1; 3], stride: [1, 2, 1], ..ConvShape::default() };
    let x = tensor(1, [2, 4, 5, 6, 7], &device);
    let (weight, bias) =
        (tensor(2, [6, 2, 3, 3, 3], &device), Some(Tensor::from_floats([0.1, -0.2, 0.3, 1.0, 2.0, -1.0], &device)));
    let close = |what: &str, a: Tensor<5>, b: Tensor<5>, tolerance: f32| {
        assert_eq!(a.dims(), b.dims(), "{what}");
        let apart = (a.cast(DType::F32) - b.cast(DType::F32)).abs().max().into_scalar::<f32>();
        assert!(apart < tolerance, "{what}: {apart} apart");
    };
    let options = ConvOptions::new(shape.stride, shape.padding, shape.dilation, shape.groups);
    let theirs = module::conv3d(x.clone(), weight.clone(), bias.clone(), options);
    close("groups", conv3d(x.clone(), weight.clone(), bias.clone(), shape), theirs.clone(), 1e-5);
    for dtype in [DType::F16, DType::BF16] {
        let half =
            conv3d(x.clone().cast(dtype), weight.clone().cast(dtype), bias.clone().map(|b| b.cast(dtype)), shape);
        assert_eq!(half.dtype(), dtype);
        close("half", half, theirs.clone(), 0.1);
    }
    let weight = tensor(3, [4, 3, 3, 3, 3], &device);
    let options = ConvTransposeOptions::new(shape.stride, shape.padding, [0, 1, 0], shape.dilation, shape.groups);
    let theirs = module::conv_transpose3d(x.clone(), weight.clone(), bias.clone(), options);
    close("transposed groups", conv_transpose3d(x, weight, bias, shape, [0, 1, 0]), theirs, 1e-5);
}

#[test]
fn an_empty_batch_gives_an_empty_output() {
    let device = Device::flex();
    let x = Tensor::zeros([0, 4, 3, 3, 3], &device);
    let shape = ConvShape { padding: [1; 3], ..ConvShape::default() };
    let y = std::panic::catch_unwind(|| conv3d(x, tensor(1, [2, 4, 3, 3, 3], &device), None, shape).dims());
    assert_eq!(y.expect("no panic"), [0, 2, 3, 3, 3]);
}

/// A norm after a convolution.
#[derive(Debug)]
enum Norm {
    Given,
    /// The number of groups, and whether it has a weight and a bias.
    Groups(Option<usize>, bool),
}

#[test]
fn what_is_around_a_convolution_is_as_its_parts_are() {
    let device = Device::flex();
    let small = |values: &[f32]| Tensor::<1>::from_floats(values, &device);
    let close = |what: &str, a: Tensor<5>, b: Tensor<5>| {
        assert_eq!(a.dims(), b.dims(), "{what}");
        let apart = (a - b).abs().max().into_scalar::<f32>();
        assert!(apart < 1e-5, "{what}: {apart} apart");
    };
    for (input, output, groups, stride) in [
        ([3, 0], 2, 1, 2),
        ([2, 0], 20, 1, 2),
        ([2, 3], 3, 1, 2),
        ([17, 2], 18, 1, 2),
        ([4, 2], 6, 2, 2),
        ([8, 0], 7, 1, 1),
        ([5, 3], 8, 1, 1),
        ([16, 4], 18, 1, 1),
        ([16, 4], 32, 1, 1),
        ([1, 0], 16, 1, 1),
        ([6, 0], 16, 1, 2),
    ] {
        let per_channel = |seed: usize| -> Vec<f32> { (0..output).map(|i| ((i + seed) as f32 * 1.7).sin()).collect() };
        let [scales, offsets] = [1, 2].map(|seed| small(&per_channel(seed)));
        let slope = Slope::Learned(small(&per_channel(3)));
        let behind = |norm: &Norm| match norm {
            Norm::Given => NormBehind::Given { scale: scales.clone(), offset: offsets.clone() },
            Norm::Groups(groups, affine) => {
                let affine = affine.then(|| (scales.clone(), offsets.clone()));
                NormBehind::OfGroups { groups: *groups, affine, eps: 1e-5 }
            }
        };
        let shape = ConvShape { padding: [1; 3], stride: [stride; 3], groups, ..ConvShape::default() };
        let bias = Some(small(&per_channel(4)));
        // Rows of whole registers, too.
        let width = if output % 16 == 0 { 16 * stride } else { 9 };
        let [first, second] =
            [tensor(1, [2, input[0], 7, 6, width], &device), tensor(5, [2, input[1], 7, 6, width], &device)];
        let x = match input {
            [_, 0] => Channels::One(first),
            // The second one is a view.
            _ => Channels::Two(first, second.swap_dims(2, 3).clone().swap_dims(2, 3)),
        };
        let channels = input[0] + input[1];
        let half = (output % 2 == 0).then_some(Norm::Groups(Some(2), true));
        let norms = [None, Some(Norm::Given), Some(Norm::Groups(None, true)), Some(Norm::Groups(None, false)), half];
        for (norm, sum) in norms.iter().flat_map(|norm| [(norm, false), (norm, true)]) {
            let what = format!("{input:?} to {output} in {groups}, stride {stride}, norm {norm:?}, sum {sum}");
            let then = |shape: [usize; 5]| Then {
                norm_act: norm.as_ref().map(|norm| NormAct { norm: behind(norm), slope: slope.clone() }),
                plus: sum.then(|| tensor(6, shape, &device)),
            };
            let after = |mut y: Tensor<5>| {
                let plus = tensor(6, y.dims(), &device);
                y = match norm.as_ref().map(&behind) {
                    Some(NormBehind::Given { scale: by, offset }) => scale(y, by, offset, &slope),
                    Some(NormBehind::OfGroups { groups, affine, eps }) => {
                        normalize(y, affine, &slope, Over::Groups(groups.unwrap_or(output)), eps).output
                    }
                    None => y,
                };
                if sum { y + plus } else { y }
            };
            let weight = tensor(2, [output, channels / groups, 3, 3, 3], &device);
            let parts = after(conv3d(x.clone().joined(), weight.clone(), bias.clone(), shape));
            let then_of = then(parts.dims());
            close(&what, conv3d_then(x.clone(), weight, bias.clone(), shape, then_of), parts);
            let weight = tensor(3, [channels, output / groups, 3, 3, 3], &device);
            let parts =
                after(conv_transpose3d(x.clone().joined(), weight.clone(), bias.clone(), shape, [stride - 1; 3]));
            let then_of = then(parts.dims());
            close(
                &what,
                conv_transpose3d_then(x.clone(), weight, bias.clone(), shape, [stride - 1; 3], then_of),
                parts,
            );
        }
    }
}

#[test]
fn the_outputs_own_statistics_are_those_of_all_values_also_far_from_zero() {
    let device = Device::flex();
    // Tiles that reach beyond the output, rows of whole registers and others, one and several parts
    // of rows.
    for (output, size) in [(16, [9, 10, 16]), (24, [8, 8, 21]), (40, [5, 7, 150])] {
        for centre in [0.0_f32, 300.0] {
            let [dx, dy, dz] = size;
            let (x, weight) = (tensor(1, [2, 8, dx, dy, dz], &device), tensor(2, [output, 8, 3, 3, 3], &device));
            let bias = Some(Tensor::full([output], centre, &device));
            let shape = ConvShape { padding: [1; 3], ..ConvShape::default() };
            let plain = conv3d(x.clone(), weight.clone(), bias.clone(), shape).into_data();
            let norm = NormBehind::OfGroups { groups: None, affine: None, eps: 1e-5 };
            let then = Then { norm_act: Some(NormAct { norm, slope: Slope::Fixed(0.5) }), plus: None };
            let normed = conv3d_then(Channels::One(x), weight, bias, shape, then).into_data();
            let (plain, normed) = (plain.as_slice::<f32>().expect("f32"), normed.as_slice::<f32>().expect("f32"));
            for (plane, (plain, normed)) in plain.chunks(dx * dy * dz).zip(normed.chunks(dx * dy * dz)).enumerate() {
                let count = plain.len() as f64;
                let mean = plain.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
                let variance = plain.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / count;
                for (plain, normed) in plain.iter().zip(normed) {
                    let z = (f64::from(*plain) - mean) / (variance + 1e-5).sqrt();
                    let expected = if z > 0.0 { z } else { 0.5 * z };
                    // Values near 300 are 3e-5 apart.
                    let allowed = if centre == 0.0 { 5e-6 } else { 5e-5 };
                    let apart = (f64::from(*normed) - expected).abs();
                    assert!(apart < allowed, "{output} {size:?} {centre}, plane {plane}: {normed} for {expected}");
                }
            }
        }
    }
}

#[test]
fn in_a_graph_the_parts_have_their_gradients() {
    let device = Device::flex().autodiff();
    let [x, y] = [1, 2].map(|key| tensor(key, [1, 2, 4, 5, 6], &device).require_grad());
    let weight = tensor(3, [3, 4, 3, 3, 3], &device);
    let shape = ConvShape { padding: [1; 3], ..ConvShape::default() };
    let plus = tensor(4, [1, 3, 4, 5, 6], &device).require_grad();
    let then = Then { norm_act: None, plus: Some(plus.clone()) };
    let gradients =
        conv3d_then(Channels::Two(x.clone(), y.clone()), weight.clone(), None, shape, then).sum().backward();
    let both = Tensor::cat(vec![x.clone(), y.clone()], 1);
    let parts = (conv3d(both, weight, None, shape) + plus.clone()).sum().backward();
    for leaf in [x, y, plus] {
        close(leaf.grad(&gradients).expect("a gradient"), leaf.grad(&parts).expect("a gradient"));
    }
}

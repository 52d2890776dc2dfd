//! The layers around the convolutions of a network: norms with their activations, sums of residual
//! blocks, dropout, pooling, the sums of Dice and cross-entropy; forward and backward, in values of
//! the input per second.
//!
//! ```text
//! cargo bench -p hearth-kernels --bench layers
//! ```

#![allow(missing_docs, reason = "`criterion_group!` makes a public function without any")]

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Distribution, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_kernels::counter_rng::Key;
use hearth_kernels::dropout::{Drops, dropout};
use hearth_kernels::normalize::{Over, Slope, normalize};
use hearth_kernels::pool3d::{Divisor, PoolShape, avg_pool3d, max_pool3d};
use hearth_kernels::sigmoid_sums::{Focal, sigmoid_sums};
use hearth_kernels::softmax_sums::softmax_sums;
use hearth_kernels::{rectified_sum, rectify};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

/// Shapes of the levels of a UNet at a batch of 4 x 96^3.
const SHAPES: [[usize; 5]; 3] = [[4, 16, 48, 48, 48], [4, 64, 12, 12, 12], [1, 32, 96, 96, 96]];

type Layer = (&'static str, fn(Tensor<5>) -> Tensor<5>);

fn affine(x: &Tensor<5>) -> Option<(Tensor<1>, Tensor<1>)> {
    let (channels, device) = (x.dims()[1], x.device());
    Some((Tensor::ones([channels], &device).require_grad(), Tensor::zeros([channels], &device).require_grad()))
}

fn prelu(x: &Tensor<5>) -> Slope {
    Slope::Learned(Tensor::full([1], 0.25, &x.device()).require_grad())
}

const LAYERS: [Layer; 8] = [
    ("batch norm and PReLU", |x| normalize(x.clone(), affine(&x), &prelu(&x), Over::Batch, 1e-5).output),
    ("instance norm and leaky ReLU", |x| {
        normalize(x.clone(), affine(&x), &Slope::Fixed(0.01), Over::Groups(x.dims()[1]), 1e-5).output
    }),
    ("group norm and ReLU", |x| normalize(x.clone(), affine(&x), &Slope::Fixed(0.0), Over::Groups(8), 1e-5).output),
    ("ReLU", |x| rectify(x, 0.0)),
    ("sum and ReLU", |x| rectified_sum(x.clone(), x, 0.0)),
    ("dropout", |x| dropout(x, Drops { key: Key::new(1), p: 0.1, run: 1, scale: 1.0 / 0.9, offsets: [0.0; 2] })),
    ("maximum pooling", |x| max_pool3d(x, PoolShape::new([2; 3]))),
    ("average pooling", |x| avg_pool3d(x, PoolShape::new([2; 3]), Divisor::Window)),
];

fn layers(c: &mut Criterion) {
    let device = Device::default().autodiff();
    for shape in SHAPES {
        let mut group = c.benchmark_group(format!("{shape:?}"));
        group.throughput(Throughput::Elements(shape.iter().product::<usize>() as u64));
        let x = Tensor::<5>::random(shape, Distribution::Default, &device).require_grad();
        for (name, layer) in LAYERS {
            // The gradient of the output: computed once, not measured.
            let dy = layer(x.clone()).without_autodiff().autodiff();
            group.bench_function(BenchmarkId::from_parameter(name), |b| {
                b.iter(|| black_box((layer(x.clone()) * dy.clone()).sum().backward()));
            });
        }
        group.finish();
    }
}

fn losses(c: &mut Criterion) {
    let device = Device::default().autodiff();
    let mut group = c.benchmark_group("sums of Dice and cross-entropy");
    for classes in [2, 14] {
        let shape = [2, classes, 64, 64, 64];
        group.throughput(Throughput::Elements(shape.iter().product::<usize>() as u64));
        let logits = Tensor::<5>::random(shape, Distribution::Default, &device).require_grad();
        let range = Distribution::Uniform(0.0, classes as f64);
        let labels = Tensor::<5>::random([2, 1, 64, 64, 64], range, &device.clone().inner());
        group.bench_function(BenchmarkId::from_parameter(format!("{classes} classes")), |b| {
            b.iter(|| {
                let Some(sums) = softmax_sums(logits.clone(), labels.clone(), false, true) else {
                    unreachable!("f32 on the CPU")
                };
                black_box((sums.both + sums.prediction + sums.entropy).sum().backward())
            });
        });
    }
    group.finish();

    let mut group = c.benchmark_group("sums of Dice and focal loss");
    let shape = [1, 3, 64, 64, 64];
    group.throughput(Throughput::Elements(shape.iter().product::<usize>() as u64));
    let logits = Tensor::<5>::random(shape, Distribution::Normal(0.0, 2.0), &device).require_grad();
    let targets = Tensor::<5>::random(shape, Distribution::Bernoulli(0.3), &device.clone().inner());
    let focal = Focal { gamma: 2.0, ..Focal::default() };
    group.bench_function("3 channels", |b| {
        b.iter(|| {
            let Some(sums) = sigmoid_sums(logits.clone(), targets.clone(), true, Some(focal), true) else {
                unreachable!("f32 on the CPU")
            };
            black_box((sums.both + sums.prediction + sums.focal).sum().backward())
        });
    });
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
}

criterion_group! { name = benches; config = short(); targets = layers, losses }
criterion_main!(benches);

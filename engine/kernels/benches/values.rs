//! Operations that read many values once: optimizer steps, random numbers, smoothing; in values per
//! second.
//!
//! ```text
//! cargo bench -p hearth-kernels --bench values
//! ```

#![allow(missing_docs, reason = "`criterion_group!` makes a public function without any")]

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Distribution, Tensor};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use hearth_kernels::filter::{Approximation, gaussian};
use hearth_kernels::math;
use hearth_kernels::philox::Stream;
use hearth_kernels::update::{AdamStep, NovogradStep, RmsPropStep, SgdStep, adam, novograd, rms_prop, sgd, square_sum};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

/// Parameters of the UNet 16..256.
const COUNT: usize = 4_800_000;

fn updates(c: &mut Criterion) {
    let device = Device::default();
    let random = || Tensor::<1>::random([COUNT], Distribution::Default, &device);
    let g = random();
    let mut group = c.benchmark_group("a step over 4.8 million parameters");
    group.throughput(Throughput::Elements(COUNT as u64));
    let betas = [[0.9, 0.1], [0.999, 0.001]];
    // The step takes ownership of the tensors, as in training: no copy is measured.
    group.bench_function("SGD with momentum", |b| {
        let step = SgdStep { lr: 0.1, weight_decay: 1e-4, momentum: 0.9, share: 1.0, nesterov: true };
        b.iter_batched(|| (random(), random()), |(p, d)| black_box(sgd(p, &g, d, step)), BatchSize::LargeInput);
    });
    group.bench_function("Adam", |b| {
        let step = AdamStep { lr: 1e-3, shrink: 1.0, weight_decay: 0.0, betas, correction: 0.5, eps: 1e-8 };
        let run = |(p, m, s)| black_box(adam(p, &g, [m, s], None, step));
        b.iter_batched(|| (random(), random(), random()), run, BatchSize::LargeInput);
    });
    group.bench_function("Novograd", |b| {
        let run = |(p, d)| {
            let norm = square_sum(&g).sqrt();
            let step = NovogradStep { lr: 1e-3, norm, weight_decay: 0.0, share: 1.0, momentum: 0.95 };
            black_box(novograd(p, &g, d, step))
        };
        b.iter_batched(|| (random(), random()), run, BatchSize::LargeInput);
    });
    group.bench_function("RMSprop with momentum", |b| {
        let step = RmsPropStep { lr: 1e-3, weight_decay: 0.0, alpha: [0.99, 0.01], eps: 1e-8, momentum: 0.9 };
        let run = |(p, s, d)| black_box(rms_prop(p, &g, s, None, Some(d), step));
        b.iter_batched(|| (random(), random(), random()), run, BatchSize::LargeInput);
    });
    group.finish();
}

fn values(c: &mut Criterion) {
    let count = 96 * 96 * 96;
    let mut group = c.benchmark_group("96^3 values");
    group.throughput(Throughput::Elements(count as u64));
    let stream = Stream { key: [1, 2], stream: [3, 4] };
    let mut values = vec![0.5_f32; count];
    group.bench_function("normal numbers added", |b| b.iter(|| stream.add_normal(black_box(&mut values), 0.0, 0.1)));
    group.bench_function("uniform numbers", |b| b.iter(|| stream.fill_uniform(black_box(&mut values), 0.1, 1.0)));
    group.bench_function("exponentials", |b| {
        b.iter_batched_ref(|| vec![0.5_f32; count], |v| math::exp(black_box(v)), BatchSize::LargeInput);
    });
    group.bench_function("powers", |b| {
        b.iter_batched_ref(|| vec![0.5_f32; count], |v| math::power(black_box(v), 1.7), BatchSize::LargeInput);
    });
    let image = Tensor::<4>::random([1, 96, 96, 96], Distribution::Default, &Device::default());
    group.bench_function("Gaussian of sigma 1", |b| {
        b.iter(|| black_box(gaussian(image.clone(), [1.0; 3], 4.0, Approximation::Erf)));
    });
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
}

criterion_group! { name = benches; config = short(); targets = updates, values }
criterion_main!(benches);

//! The operations that dominate the transformer blocks of SwinUNETR (feature size 48, a batch of
//! 64^3) and UNETR (96^3), forward and backward.
//!
//! ```text
//! cargo bench -p hearth-kernels --bench transformer
//! ```

#![allow(missing_docs, reason = "`criterion_group!` makes a public function without any")]

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Distribution, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_kernels::attention::attention;
use hearth_kernels::linear::linear;
use hearth_kernels::{gelu, layer_norm};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

/// Windows, positions, heads, features of a head, and whether there is a bias.
const ATTENTIONS: [([usize; 4], bool); 4] =
    [([125, 343, 3, 16], true), ([27, 343, 6, 16], true), ([8, 343, 12, 16], true), ([1, 216, 12, 64], false)];

fn attentions(c: &mut Criterion) {
    for (shape, biased) in ATTENTIONS {
        let [windows, places, heads, depth] = shape;
        let inputs = |device: &Device| {
            let random = |shape: [usize; 3]| Tensor::<3>::random(shape, Distribution::Default, device);
            let learnt = |shape| if device.is_autodiff() { random(shape).require_grad() } else { random(shape) };
            let bias = biased.then(|| learnt([heads, places, places]));
            (learnt([windows, places, 3 * heads * depth]), bias, random([windows, places, heads * depth]))
        };
        // Products of the scores and of the weighted sums; backward needs two of each, the scores
        // once more, and the weights again.
        let product = 2 * windows * heads * places * places * depth;
        let mut group =
            c.benchmark_group(format!("attention of {windows} x {places} places, {heads} heads of {depth}"));
        for (name, products, device) in
            [("forward", 2, Device::default()), ("forward and backward", 7, Device::default().autodiff())]
        {
            group.throughput(Throughput::Elements((products * product) as u64));
            let (x, bias, dy) = inputs(&device);
            group.bench_function(BenchmarkId::from_parameter(name), |b| {
                b.iter(|| {
                    let y = attention(x.clone(), heads, (depth as f64).powf(-0.5), bias.as_ref(), None);
                    let y = y.unwrap_or_else(|_| unreachable!("f32 on the CPU"));
                    if products == 2 {
                        black_box(y);
                    } else {
                        black_box((y * dy.clone()).sum().backward());
                    }
                });
            });
        }
        group.finish();
    }
}

fn rows(c: &mut Criterion) {
    let device = Device::default().autodiff();
    let shape = [32 * 32 * 32, 192];
    let x = Tensor::<2>::random(shape, Distribution::Default, &device).require_grad();
    let [one, zero] = [1.0, 0.0].map(|v| Tensor::<1>::full([shape[1]], v, &device));
    let mut group = c.benchmark_group(format!("{} rows of {}, forward and backward", shape[0], shape[1]));
    group.throughput(Throughput::Elements((shape[0] * shape[1]) as u64));
    group.bench_function("gelu", |b| b.iter(|| black_box(gelu(x.clone()).sum().backward())));
    group.bench_function("layer norm", |b| {
        b.iter(|| black_box(layer_norm(x.clone(), one.clone(), zero.clone(), 1e-5).sum().backward()));
    });
    group.finish();
}

/// Rows, inputs and outputs: a ViT of 64^3 (patches of 16), UNETR's of 96^3, SwinUNETR's first and
/// last stage.
const MATRICES: [[usize; 3]; 4] = [[65, 768, 3072], [216, 768, 3072], [32768, 48, 144], [64, 1536, 384]];

fn matrices(c: &mut Criterion) {
    for sizes in MATRICES {
        let [rows, input, output] = sizes;
        let mut group = c.benchmark_group(format!("linear layer, {rows} rows, {input} to {output}"));
        let product = 2 * rows * input * output;
        for (name, products, device) in
            [("forward", 1, Device::default()), ("forward and backward", 3, Device::default().autodiff())]
        {
            group.throughput(Throughput::Elements((products * product) as u64));
            let random = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Default, &device);
            let (x, w, dy) = (random([rows, input]), random([output, input]), random([rows, output]));
            let (x, w) = if products == 3 { (x.require_grad(), w.require_grad()) } else { (x, w) };
            group.bench_function(BenchmarkId::from_parameter(name), |b| {
                b.iter(|| {
                    let y = linear(x.clone(), w.clone(), None);
                    if products == 1 {
                        black_box(y);
                    } else {
                        black_box((y * dy.clone()).sum().backward());
                    }
                });
            });
        }
        group.finish();
    }
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! { name = benches; config = short(); targets = attentions, matrices, rows }
criterion_main!(benches);

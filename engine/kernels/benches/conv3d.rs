//! Every distinct convolution of MONAI's UNet (channels 16 to 256, two residual units) at a batch
//! of 4 x 96^3, and of narrower and wider ones: forward, input gradient and weight gradient, in
//! floating-point operations per second.
//!
//! ```text
//! cargo bench -p hearth-kernels --bench conv3d
//! ```

#![allow(missing_docs, reason = "`criterion_group!` makes a public function without any")]

use std::hint::black_box;

use std::time::Duration;

use burn::tensor::{DType, Device, Distribution, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_kernels::cast;
use hearth_kernels::conv3d::{ConvShape, conv_transpose3d, conv3d, conv3d_weight};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

/// Batch, channels in and out, edge of the input, kernel, stride.
const LAYERS: [[usize; 6]; 24] = [
    [4, 1, 16, 96, 3, 2],
    [4, 16, 16, 48, 3, 1],
    [4, 16, 32, 48, 3, 2],
    [4, 32, 32, 24, 3, 1],
    [4, 32, 64, 24, 3, 2],
    [4, 64, 64, 12, 3, 1],
    [4, 64, 128, 12, 3, 2],
    [4, 128, 128, 6, 3, 1],
    [4, 128, 256, 6, 3, 1],
    [4, 256, 256, 6, 3, 1],
    [4, 128, 256, 6, 1, 1],
    // Many weights and few outputs: a patch of 32^3, and one of 64^3.
    [1, 256, 256, 2, 3, 1],
    [1, 256, 256, 4, 3, 1],
    // The transposed convolutions, as the convolutions whose gradients they are.
    [4, 64, 384, 12, 3, 2],
    [4, 32, 128, 24, 3, 2],
    [4, 16, 64, 48, 3, 2],
    [4, 2, 32, 96, 3, 2],
    [4, 2, 2, 96, 3, 1],
    // Layers of the UNet with channels 32 to 512.
    [4, 32, 32, 48, 3, 1],
    [4, 64, 64, 24, 3, 1],
    [4, 128, 128, 12, 3, 1],
    // Layers of VNet.
    [1, 32, 32, 64, 5, 1],
    [1, 64, 64, 32, 5, 1],
    [1, 128, 128, 16, 5, 1],
];

fn layers(c: &mut Criterion) {
    let plain = Device::default();
    for layer in LAYERS {
        let [batch, input, output, edge, kernel, stride] = layer;
        let shape = ConvShape { stride: [stride; 3], padding: [kernel / 2; 3], ..ConvShape::default() };
        let small = edge / stride;
        let random = |shape: [usize; 5]| Tensor::<5>::random(shape, Distribution::Default, &plain);
        let x = random([batch, input, edge, edge, edge]);
        let dy = random([batch, output, small, small, small]);
        let weight = random([output, input, kernel, kernel, kernel]);
        let flops = 2 * batch * input * output * kernel.pow(3) * small.pow(3);
        let mut group = c.benchmark_group(format!("{input} to {output} at {edge}, kernel {kernel}, stride {stride}"));
        group.throughput(Throughput::Elements(flops as u64));
        group.bench_function(BenchmarkId::from_parameter("forward"), |b| {
            b.iter(|| black_box(conv3d(x.clone(), weight.clone(), None, shape)));
        });
        let padding = [stride - 1; 3];
        group.bench_function(BenchmarkId::from_parameter("input gradient"), |b| {
            b.iter(|| black_box(conv_transpose3d(dy.clone(), weight.clone(), None, shape, padding)));
        });
        group.bench_function(BenchmarkId::from_parameter("weight gradient"), |b| {
            b.iter(|| black_box(conv3d_weight(x.clone(), dy.clone(), [kernel; 3], shape)));
        });
        // The same in bf16, as in mixed precision.
        let [x, dy, weight] = [x, dy, weight].map(|t| cast(t, DType::BF16));
        group.bench_function(BenchmarkId::from_parameter("forward, bf16"), |b| {
            b.iter(|| black_box(conv3d(x.clone(), weight.clone(), None, shape)));
        });
        group.bench_function(BenchmarkId::from_parameter("input gradient, bf16"), |b| {
            b.iter(|| black_box(conv_transpose3d(dy.clone(), weight.clone(), None, shape, padding)));
        });
        group.bench_function(BenchmarkId::from_parameter("weight gradient, bf16"), |b| {
            b.iter(|| black_box(conv3d_weight(x.clone(), dy.clone(), [kernel; 3], shape)));
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(800));
    targets = layers
}
criterion_main!(benches);

//! Resizes a volume with every mode, up and down:
//! `cargo bench -p hearth-kernels -p build-once --bench interpolate`.

use burn::tensor::{Device, Tensor, TensorData};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_kernels::{InterpolateMode, interpolate};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

fn volume(edge: usize) -> Tensor<4> {
    let values: Vec<f32> = (0..edge.pow(3)).map(|i| (i * 7919 % 1009) as f32).collect();
    Tensor::from_data(TensorData::new(values, [1, edge, edge, edge]), &Device::flex())
}

fn resizing(c: &mut Criterion) {
    let modes = [
        ("area", InterpolateMode::Area),
        ("nearest", InterpolateMode::Nearest),
        ("linear", InterpolateMode::Linear),
        ("cubic", InterpolateMode::Cubic),
    ];
    for (from, to) in [(96, 86), (96, 105), (64, 128), (128, 64), (256, 230)] {
        let image = volume(from);
        let mut group = c.benchmark_group(format!("{from} to {to}"));
        // Time per voxel of the result should not depend on the size.
        group.throughput(Throughput::Elements((to as u64).pow(3)));
        group.sample_size(20);
        for (name, mode) in modes {
            group.bench_function(BenchmarkId::from_parameter(name), |b| {
                b.iter(|| interpolate(image.clone(), [to; 3], mode, false));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, resizing);
criterion_main!(benches);

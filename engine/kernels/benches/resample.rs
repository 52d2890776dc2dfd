//! Resampling: time per output voxel for each mode and kind of matrix, from 64^3 to 512^3.
//!
//! ```sh
//! cargo bench -p hearth-kernels --bench resample -- Linear
//! ```
//!
//! Sizes that would not fit into memory are skipped. The time per voxel should not grow with the
//! size.

use std::hint::black_box;

use burn::tensor::{Device, Tensor, TensorData};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use hearth_kernels::{Interpolation, Matrix, Padding, Sampling, resample, sample_grid};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

const SIDES: [usize; 4] = [64, 128, 256, 512];

const MODES: [Interpolation; 5] = [
    Interpolation::Nearest,
    Interpolation::Linear,
    Interpolation::Cubic,
    Interpolation::Spline(3),
    Interpolation::Spline(5),
];

fn volume(n: usize) -> Tensor<4> {
    let values: Vec<f32> = (0..n * n * n).map(|i| (i * 7919 % 1009) as f32).collect();
    Tensor::from_data(TensorData::new(values, [1, n, n, n]), &Device::flex())
}

/// A change of spacing, one with exchanged axes, and an oblique grid about the centre.
fn matrices(n: usize) -> [(&'static str, Matrix); 3] {
    let scaling = [[0.9, 0.0, 0.0, 0.3], [0.0, 0.9, 0.0, 0.2], [0.0, 0.0, 0.9, 0.1]];
    let exchanged = [[0.0, 0.0, 0.9, 0.3], [0.9, 0.0, 0.0, 0.2], [0.0, 0.9, 0.0, 0.1]];
    // Columns of a rotation by about 30 degrees about an oblique axis.
    let turn = [[0.87, -0.42, 0.26], [0.45, 0.89, -0.07], [-0.20, 0.18, 0.96]];
    let centre = (n as f64 - 1.0) / 2.0;
    let oblique = turn.map(|r: [f64; 3]| [r[0], r[1], r[2], centre * (1.0 - r[0] - r[1] - r[2])]);
    [("scaling", scaling), ("exchanged", exchanged), ("oblique", oblique)]
}

/// Whether four volumes of this size fit into free memory.
fn fits(n: usize) -> bool {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    system.available_memory() > 4 * (n * n * n * size_of::<f32>()) as u64 + (1 << 30)
}

fn by_matrix(c: &mut Criterion) {
    for mode in MODES {
        let mut group = c.benchmark_group(format!("{mode:?}"));
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        for n in SIDES.into_iter().filter(|n| fits(*n)) {
            let image = volume(n);
            group.throughput(Throughput::Elements((n * n * n) as u64));
            for (name, matrix) in matrices(n) {
                let sampling = Sampling { mode, padding: Padding::Border };
                group.bench_with_input(BenchmarkId::new(name, n), &matrix, |b, matrix| {
                    b.iter(|| black_box(resample(image.clone(), matrix, [n; 3], sampling)));
                });
            }
        }
    }
}

fn by_grid(c: &mut Criterion) {
    let mut group = c.benchmark_group("grid");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for n in SIDES.into_iter().filter(|n| fits(2 * n)) {
        let image = volume(n);
        let place = |axis: usize, i: usize| [i / (n * n), i / n % n, i % n][axis] as f32 + (i % 13) as f32 * 0.1;
        let places: Vec<f32> = (0..3).flat_map(|axis| (0..n * n * n).map(move |i| place(axis, i))).collect();
        let grid = Tensor::<4>::from_data(TensorData::new(places, [3, n, n, n]), &Device::flex());
        group.throughput(Throughput::Elements((n * n * n) as u64));
        group.bench_function(BenchmarkId::new("Linear", n), |b| {
            b.iter(|| black_box(sample_grid(image.clone(), grid.clone(), Sampling::default())));
        });
    }
}

criterion_group!(benches, by_matrix, by_grid);
criterion_main!(benches);

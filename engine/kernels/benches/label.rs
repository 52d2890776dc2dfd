//! Labelling and distances: `cargo bench -p hearth-kernels -p build-once --bench label`.

#![allow(missing_docs, reason = "`criterion_group!` makes a public function without any")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_kernels::label::{self, To};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

/// Balls of many sizes on a grid, and a little noise, similar to a network's output.
fn mask(size: usize) -> Vec<bool> {
    let mut out = Vec::with_capacity(size * size * size);
    let cell = (size / 4) as f64;
    let mut noise = 1_u32;
    for x in 0..size {
        for y in 0..size {
            for z in 0..size {
                let place = [x, y, z].map(|v| v as f64);
                let radius = cell * (0.2 + 0.06 * (place[0] / cell).floor());
                let from_centre: f64 = place.iter().map(|v| (v % cell - cell / 2.0).powi(2)).sum();
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                out.push((from_centre < radius * radius) != (noise >> 25 == 0));
            }
        }
    }
    out
}

fn label_volumes(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("label");
    group.sample_size(10);
    for size in [64, 128, 256] {
        let (mask, shape) = (mask(size), [size; 3]);
        group.throughput(Throughput::Elements(mask.len() as u64));
        for connectivity in [1, 3] {
            group.bench_function(BenchmarkId::new(format!("components, connectivity {connectivity}"), size), |b| {
                b.iter(|| label::components(black_box(&mask), &shape, connectivity).map(|c| c.labels()))
            });
        }
        group.bench_function(BenchmarkId::new("distances, 1 mm", size), |b| {
            b.iter(|| label::distances(black_box(&mask), &shape, &[1.0; 3], To::Unset))
        });
        group.bench_function(BenchmarkId::new("distances, 0.7 x 0.7 x 5 mm", size), |b| {
            b.iter(|| label::distances(black_box(&mask), &shape, &[0.7, 0.7, 5.0], To::Set))
        });
        group.bench_function(BenchmarkId::new("erosion", size), |b| {
            b.iter(|| label::erode(black_box(&mask), &shape, 1, false))
        });
        group.bench_function(BenchmarkId::new("holes", size), |b| {
            b.iter_batched(
                || mask.clone(),
                |mut mask| label::fill_holes(black_box(&mut mask), &shape, 1, true),
                criterion::BatchSize::LargeInput,
            )
        });
    }
    group.finish();
}

criterion_group!(benches, label_volumes);
criterion_main!(benches);

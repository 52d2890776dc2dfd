//! Measures the most common intensity transforms on 96^3 and 256^3 voxels of one channel:
//! `cargo bench -p hearth-transforms --bench intensity`.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hearth_image::{Image, affine, host_device};
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Sample, Transform};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

fn transforms() -> Vec<Box<dyn Transform>> {
    let key = "image";
    vec![
        Box::new(ScaleIntensityRange::new(key, 0.1, 0.9).b_min(Some(0.0)).b_max(Some(1.0)).clip(true)),
        Box::new(ScaleIntensityRangePercentiles::new(key, 1.0, 99.0).b_min(Some(0.0)).b_max(Some(1.0)).clip(true)),
        Box::new(NormalizeIntensity::new(key).nonzero(true)),
        Box::new(GaussianSmooth::new(key)),
        Box::new(MedianSmooth::new(key)),
        Box::new(GibbsNoise::new(key)),
        Box::new(HistogramNormalize::new(key)),
        Box::new(RandAdjustContrast::new(key).prob(1.0)),
        Box::new(RandBiasField::new(key).prob(1.0)),
        Box::new(RandGaussianNoise::new(key).prob(1.0)),
        Box::new(RandHistogramShift::new(key).prob(1.0)),
        Box::new(RandCoarseDropout::new(key, 8, 32).prob(1.0)),
    ]
}

fn image(n: usize) -> Image {
    let mut values = vec![0.0; n * n * n];
    DrawKey::new(1, 0, 0).draw("bench", 0, 0).add_normal(&mut values, 0.5, 0.2);
    Image::from_values(values, [1, n, n, n], affine::IDENTITY, &host_device())
}

fn intensity(c: &mut Criterion) {
    for n in [96, 256] {
        let mut group = c.benchmark_group(format!("intensity {n}^3"));
        group.sample_size(10).throughput(Throughput::Elements((n * n * n) as u64));
        let image = image(n);
        for transform in transforms() {
            let draw = DrawKey::new(1, 0, 0).draw("bench", 0, 0);
            // A new sample each time: transforms change it in place.
            let fresh = || {
                let own = Image::from_values(image.to_vec(), [1, n, n, n], image.affine, &host_device());
                Sample::new("bench").with_image("image", own)
            };
            group.bench_function(BenchmarkId::from_parameter(transform.name()), |b| {
                b.iter_batched(fresh, |sample| black_box(transform.apply(sample, &draw)), BatchSize::PerIteration);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, intensity);
criterion_main!(benches);

//! Measures a random 64^3 crop of a case for each kind of cache, and the overhead of a loader:
//! `cargo bench -p hearth-datasets --bench datasets`.
//!
//! The case is a phantom of 256 x 256 x 160 voxels, or a CT and its label given by
//! `HEARTH_BENCH_CT` and `HEARTH_BENCH_LABEL`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, criterion_group, criterion_main};
use hearth_datasets::{
    CacheDataset, CacheOptions, DataError, DataLoader, Dataset, DecathlonDataset, Item, LmdbDataset, LoaderOptions,
    PersistentDataset, Progress, Storage, StoreOptions, TransformDataset,
};
use hearth_image::{Image, affine, host_device};
use hearth_phantom::{self as phantom, SpleenOptions};
use hearth_transforms::transforms::{FgBgToIndices, LoadImage, RandCropByPosNegLabel, ScaleIntensityRange};
use hearth_transforms::{Pipeline, Sample, Transform};

// As in the programs: large blocks are kept, on huge pages.
#[global_allocator]
static ALLOCATOR: hearth_kernels::memory::KeepLarge = hearth_kernels::memory::KeepLarge::new();

const KEYS: [&str; 2] = ["image", "label"];

fn pipeline() -> Arc<Pipeline> {
    let crop = RandCropByPosNegLabel::new(KEYS, "label", 64)
        .fg_indices_key(Some("label_fg".to_owned()))
        .bg_indices_key(Some("label_bg".to_owned()));
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new(KEYS)),
        Box::new(ScaleIntensityRange::new("image", -57.0, 164.0).b_min(Some(0.0)).b_max(Some(1.0)).clip(true)),
        Box::new(FgBgToIndices::new("label")),
        Box::new(crop),
    ];
    Arc::new(Pipeline::new(steps).expect("sound"))
}

fn case(dir: &std::path::Path) -> Vec<Item> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let (Some(image), Some(label)) = (given("HEARTH_BENCH_CT"), given("HEARTH_BENCH_LABEL")) {
        return vec![Item::new("given").with("image", image).with("label", label)];
    }
    let mut options = SpleenOptions::default();
    options.size = 256;
    phantom::spleen(dir, 1, &options).expect("written");
    DecathlonDataset::open(dir).expect("a data set").training
}

fn crops(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let items = case(dir.path());
    let mut group = criterion.benchmark_group("crop of 64^3");
    group.sample_size(20);
    let epoch = AtomicU64::new(0);
    let mut measure = |name: &str, dataset: &dyn Dataset| {
        group.bench_function(name, |bencher| {
            bencher.iter(|| dataset.get(0, epoch.fetch_add(1, Ordering::Relaxed)).expect("a crop"));
        });
    };
    measure("from the files", &TransformDataset::new(items.clone(), pipeline()).expect("sound"));
    let kept = PersistentDataset::new(items.clone(), pipeline(), dir.path().join("files"), StoreOptions::default());
    let kept = kept.expect("a folder");
    kept.fill(1, Progress::None).expect("filled");
    measure("PersistentDataset", &kept);
    let kept = LmdbDataset::new(items.clone(), pipeline(), dir.path().join("db"), StoreOptions::default());
    let kept = kept.expect("opened");
    kept.fill(1, Progress::None).expect("filled");
    measure("LmdbDataset", &kept);
    for storage in [Storage::F32, Storage::Exact, Storage::F16] {
        let options = CacheOptions { storage, ..CacheOptions::default() };
        let kept = CacheDataset::new(items.clone(), pipeline(), options).expect("it fits");
        measure(&format!("CacheDataset, {storage:?}"), &kept);
    }
    group.finish();
}

/// Cases without content.
struct Empty;

impl Dataset for Empty {
    fn len(&self) -> usize {
        1000
    }

    fn case(&self, _: usize) -> &str {
        "empty"
    }

    fn get(&self, _: usize, _: u64) -> Result<Vec<Sample>, DataError> {
        let image = Image::from_values(vec![0.0; 8], [1, 2, 2, 2], affine::IDENTITY, &host_device());
        Ok(vec![Sample::new("empty").with_image("image", image)])
    }
}

fn loader(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("an epoch of 1000 empty cases");
    group.sample_size(20);
    for workers in [0, 1, 2] {
        let options = LoaderOptions { workers, shuffle: true, ..LoaderOptions::default() };
        let loader = DataLoader::new(Arc::new(Empty), options).expect("sound");
        let mut epoch = 0;
        group.bench_function(format!("{workers} workers"), |bencher| {
            bencher.iter(|| {
                epoch += 1;
                loader.epoch(epoch, 0).map(|batch| batch.expect("a batch").len()).sum::<usize>()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, crops, loader);
criterion_main!(benches);

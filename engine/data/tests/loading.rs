//! Data sets, caches and loaders: order, bounds, errors, no hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hearth_data::phantom::{self, SpleenOptions};
use hearth_data::transforms::*;
use hearth_data::{
    Batch, CacheDataset, CacheOptions, DataError, DataLoader, Dataset, DecathlonDataset, Image, Item, LoaderOptions,
    Pipeline, Sample, ThreadDataLoader, Transform, TransformDataset, affine, collate, decollate, host_device,
};

fn phantom(cases: usize) -> (tempfile::TempDir, Vec<Item>) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut options = SpleenOptions::default();
    options.size = 20;
    phantom::spleen(dir.path(), cases, &options).expect("written");
    let items = DecathlonDataset::open(dir.path()).expect("a data set").training;
    (dir, items)
}

fn pipeline() -> Arc<Pipeline> {
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new(["image", "label"])),
        Box::new(Orientation::new(["image", "label"], "RAS")),
        Box::new(ScaleIntensityRange::new("image", -57.0, 164.0).b_min(Some(0.0)).b_max(Some(1.0)).clip(true)),
        Box::new(FgBgToIndices::new("label")),
        Box::new(
            RandCropByPosNegLabel::new(["image", "label"], "label", 8)
                .num_samples(2_usize)
                .fg_indices_key(Some("label_fg".to_owned()))
                .bg_indices_key(Some("label_bg".to_owned())),
        ),
        Box::new(RandFlip::new(["image", "label"]).prob(0.5)),
        Box::new(RandGaussianNoise::new("image").prob(0.5)),
    ];
    Arc::new(Pipeline::new(steps).expect("sound"))
}

fn options(workers: usize) -> LoaderOptions {
    LoaderOptions { batch_size: 2, shuffle: true, workers, seed: 5, ..LoaderOptions::default() }
}

fn contents(batches: impl Iterator<Item = Result<Batch, DataError>>) -> Vec<(Vec<String>, Vec<f32>)> {
    batches
        .map(|batch| {
            let batch = batch.expect("a batch");
            let values = batch.tensor("image").expect("an image").clone().try_into_vec_as().expect("values");
            (batch.cases, values)
        })
        .collect()
}

#[test]
fn workers_cache_and_resume_do_not_change_a_batch() {
    let (_dir, items) = phantom(5);
    let plain: Arc<dyn Dataset> = Arc::new(TransformDataset::new(items.clone(), pipeline(), 7, 0).expect("sound"));
    let cache = CacheOptions { rate: 0.7, workers: 3, ..CacheOptions::default() };
    let cached = CacheDataset::new(items, pipeline(), 7, 0, cache).expect("it fits");
    assert_eq!(cached.cached(), 3);
    assert!(cached.bytes() > 0);
    let cached: Arc<dyn Dataset> = Arc::new(cached);
    let reference = contents(DataLoader::new(plain.clone(), options(0)).expect("sound").epoch(2, 0));
    assert_eq!(reference.len(), 3);
    assert_eq!(reference[0].0.len(), 4, "two cases of two crops");
    for workers in [1, 2, 5] {
        let loader = DataLoader::new(plain.clone(), options(workers)).expect("sound");
        assert_eq!(contents(loader.epoch(2, 0)), reference, "{workers} workers");
    }
    let loader = ThreadDataLoader::new(cached, options(0)).expect("sound");
    assert_eq!(contents(loader.epoch(2, 0)), reference, "cached");
    assert_eq!(contents(loader.epoch(2, 1)), reference[1..], "resumed after one batch");
    assert_eq!(contents(loader.epoch(2, 9)), []);
    assert_ne!(contents(loader.epoch(3, 0)), reference, "another epoch");
}

/// Counts how many items were begun; fails or panics at one of them.
struct Probe {
    begun: AtomicUsize,
    trouble: Option<(usize, bool)>,
}

impl Dataset for Probe {
    fn len(&self) -> usize {
        40
    }

    fn case(&self, _: usize) -> &str {
        "probe"
    }

    fn get(&self, index: usize, _: u64) -> Result<Vec<Sample>, DataError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        match self.trouble {
            Some((at, true)) if at == index => panic!("a decoder gave up"),
            Some((at, false)) if at == index => Err(DataError::Option(format!("case {index} is broken"))),
            _ => Ok(vec![sample(index)]),
        }
    }
}

fn sample(index: usize) -> Sample {
    let image = Image::from_values(vec![index as f32; 8], [1, 2, 2, 2], affine::IDENTITY, &host_device());
    Sample::new(format!("case {index}")).with_image("image", image)
}

fn probe(trouble: Option<(usize, bool)>) -> Arc<Probe> {
    Arc::new(Probe { begun: AtomicUsize::new(0), trouble })
}

#[test]
fn no_more_is_made_than_the_buffer_holds() {
    let dataset = probe(None);
    let loader = DataLoader::new(dataset.clone(), LoaderOptions { workers: 4, buffer: 3, ..LoaderOptions::default() });
    let mut batches = loader.expect("sound").epoch(0, 0);
    batches.next().expect("a batch").expect("sound");
    std::thread::sleep(Duration::from_millis(100));
    assert!(dataset.begun.load(Ordering::SeqCst) <= 4, "{} begun", dataset.begun.load(Ordering::SeqCst));
    let start = Instant::now();
    drop(batches);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn dropping_an_untouched_loader_does_not_hang() {
    for workers in 0..4 {
        let options = LoaderOptions { workers, buffer: 1, ..LoaderOptions::default() };
        drop(DataLoader::new(probe(None), options).expect("sound").epoch(0, 0));
    }
}

#[test]
fn errors_and_panics_come_in_their_place_and_the_rest_follows() {
    for panics in [false, true] {
        let options = LoaderOptions { workers: 3, buffer: 4, ..LoaderOptions::default() };
        let loader = DataLoader::new(probe(Some((5, panics))), options).expect("sound");
        let all: Vec<_> = loader.epoch(0, 0).collect();
        assert_eq!(all.len(), 40);
        for (i, batch) in all.iter().enumerate() {
            match batch {
                Ok(batch) => assert_eq!(batch.cases, [format!("case {i}")]),
                Err(error) => {
                    assert_eq!(i, 5);
                    let text = error.to_string();
                    assert!(text.contains(if panics { "probe" } else { "case 5" }), "{text}");
                }
            }
        }
        assert_eq!(all.iter().filter(|b| b.is_err()).count(), 1);
    }
}

#[test]
fn a_broken_file_is_named_with_its_case() {
    let (_dir, items) = phantom(3);
    std::fs::write(&items[1].files["image"], b"not a nifti").expect("written");
    let dataset: Arc<dyn Dataset> = Arc::new(TransformDataset::new(items.clone(), pipeline(), 0, 0).expect("sound"));
    let loader = DataLoader::new(dataset, LoaderOptions { workers: 2, ..LoaderOptions::default() }).expect("sound");
    let errors: Vec<String> = loader.epoch(0, 0).filter_map(|b| b.err().map(|e| e.to_string())).collect();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains(&items[1].case) && errors[0].contains("step 1") && errors[0].contains(".nii"),
        "{errors:?}"
    );
    let cache = CacheDataset::new(items, pipeline(), 0, 0, CacheOptions { workers: 2, ..CacheOptions::default() });
    assert!(cache.expect_err("a broken file").to_string().contains("step 1"));
}

#[test]
fn a_cache_that_does_not_fit_is_refused_with_advice() {
    let (_dir, items) = phantom(4);
    let options = CacheOptions { limit: Some(100_000), ..CacheOptions::default() };
    let error = CacheDataset::new(items, pipeline(), 0, 0, options).expect_err("too large").to_string();
    assert!(error.contains("4 cases") && error.contains("cache rate"), "{error}");
}

#[test]
fn a_case_without_a_file_is_refused() {
    let items = vec![Item::new("a").with("image", "a.nii")];
    let error = TransformDataset::new(items, pipeline(), 0, 0).expect_err("no label").to_string();
    assert!(error.contains("case a") && error.contains("label"), "{error}");
}

#[test]
fn sizes_that_differ_name_both_cases() {
    let other = Image::from_values(vec![0.0; 12], [1, 2, 2, 3], affine::IDENTITY, &host_device());
    let samples = vec![sample(1), Sample::new("case 2").with_image("image", other)];
    let error = collate(samples).expect_err("two sizes").to_string();
    assert!(error.contains("case 1") && error.contains("case 2") && error.contains("SpatialPad"), "{error}");
}

#[test]
fn a_batch_comes_apart_as_it_was_put_together() {
    let samples: Vec<Sample> = (0..3).map(sample).collect();
    let back = decollate(collate(samples.clone()).expect("one size")).expect("sound");
    for (a, b) in samples.iter().zip(&back) {
        assert_eq!(a.case, b.case);
        assert_eq!(a.image("image").expect("an image").to_vec(), b.image("image").expect("an image").to_vec());
    }
}

#[test]
fn the_last_batch_may_be_dropped_and_none_is_empty() {
    let len = |drop_last| {
        let options = LoaderOptions { batch_size: 12, drop_last, ..LoaderOptions::default() };
        let loader = DataLoader::new(probe(None), options).expect("sound");
        (loader.len(), loader.epoch(0, 0).count())
    };
    assert_eq!((len(false), len(true)), ((4, 4), (3, 3)));
    assert!(DataLoader::new(probe(None), LoaderOptions { batch_size: 0, ..LoaderOptions::default() }).is_err());
}

#[test]
fn a_list_that_leaves_its_folder_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = |text: &str| {
        std::fs::write(dir.path().join("dataset.json"), text).expect("written");
        DecathlonDataset::open(dir.path()).expect_err("refused").to_string()
    };
    assert!(open(r#"{"training": [{"image": "../secret.nii", "label": "a"}]}"#).contains("leaves"));
    assert!(open(r#"{"training": [{"image": "/etc/passwd", "label": "a"}]}"#).contains("leaves"));
    assert!(open(r#"{"training": [{"image": "none.nii.gz", "label": "a"}]}"#).contains("does not exist"));
    assert!(open(r#"{"training": 3}"#).contains("not a list"));
    assert!(open("{").contains("not JSON"));
    assert!(open("{}").contains("no case"));
}

#[test]
fn splits_are_monais() {
    let (_dir, items) = phantom(10);
    let set = DecathlonDataset::open(_dir.path()).expect("a data set");
    let (train, validate) = set.split_fraction(0.2, 0).expect("a fraction");
    // numpy's RandomState(0).shuffle(range(10)) is 2 8 4 9 1 6 7 3 0 5.
    assert_eq!(validate, [items[2].clone(), items[8].clone()]);
    assert_eq!(train[0], items[4]);
    assert!(set.split_fraction(1.0, 0).is_err() && set.split_last(10).is_err());
}

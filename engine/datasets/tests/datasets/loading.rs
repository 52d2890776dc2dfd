//! Tests of data sets, caches and loaders: order, bounds, errors, no deadlock.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hearth_datasets::{
    Batch, CacheDataset, CacheOptions, Collate, DataError, DataLoader, Dataset, DecathlonDataset, DistributedSampler,
    Item, LoaderOptions, PatchLoader, SmartCacheDataset, SmartCacheOptions, ThreadDataLoader, TransformDataset,
    WeightedRandomSampler, collate, decollate,
};
use hearth_image::spatial::PadMode;
use hearth_image::{Image, affine, host_device};
use hearth_phantom::{self as phantom, SpleenOptions};
use hearth_transforms::transforms::*;
use hearth_transforms::{Pipeline, Sample, Transform, Value};

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

fn options_of(workers: usize) -> LoaderOptions {
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
    let plain: Arc<dyn Dataset> =
        Arc::new(TransformDataset::new(items.clone(), Pipeline::clone(&pipeline()).seed(7)).expect("sound"));
    let cache = CacheOptions { rate: 0.7, workers: 3, ..CacheOptions::default() };
    let cached = CacheDataset::new(items, Pipeline::clone(&pipeline()).seed(7), cache).expect("it fits");
    assert_eq!(cached.cached(), 3);
    assert!(cached.bytes() > 0);
    let cached: Arc<dyn Dataset> = Arc::new(cached);
    let reference = contents(DataLoader::new(plain.clone(), options_of(0)).expect("sound").epoch(2, 0));
    assert_eq!(reference.len(), 3);
    assert_eq!(reference[0].0.len(), 4, "two cases of two crops");
    for workers in [1, 2, 5] {
        let loader = DataLoader::new(plain.clone(), options_of(workers)).expect("sound");
        assert_eq!(contents(loader.epoch(2, 0)), reference, "{workers} workers");
    }
    let loader = ThreadDataLoader::new(cached, options_of(0)).expect("sound");
    assert_eq!(contents(loader.epoch(2, 0)), reference, "cached");
    assert_eq!(contents(loader.epoch(2, 1)), reference[1..], "resumed after one batch");
    assert_eq!(contents(loader.epoch(2, 9)), []);
    assert_ne!(contents(loader.epoch(3, 0)), reference, "another epoch");
}

/// Counts the items that were started; fails or panics at one of them.
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
    let dataset: Arc<dyn Dataset> = Arc::new(TransformDataset::new(items.clone(), pipeline()).expect("sound"));
    let loader = DataLoader::new(dataset, LoaderOptions { workers: 2, ..LoaderOptions::default() }).expect("sound");
    let errors: Vec<String> = loader.epoch(0, 0).filter_map(|b| b.err().map(|e| e.to_string())).collect();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains(&items[1].case) && errors[0].contains("step 1") && errors[0].contains(".nii"),
        "{errors:?}"
    );
    let cache = CacheDataset::new(items, pipeline(), CacheOptions { workers: 2, ..CacheOptions::default() });
    assert!(cache.expect_err("a broken file").to_string().contains("step 1"));
}

#[test]
fn a_cache_that_does_not_fit_is_refused_with_advice() {
    let (_dir, items) = phantom(4);
    let options = CacheOptions { limit: Some(100_000), ..CacheOptions::default() };
    let error = CacheDataset::new(items, pipeline(), options).expect_err("too large").to_string();
    assert!(error.contains("4 cases") && error.contains("cache rate"), "{error}");
}

#[test]
fn a_case_without_a_file_is_refused() {
    let items = vec![Item::new("a").with("image", "a.nii")];
    let error = TransformDataset::new(items, pipeline()).expect_err("no label").to_string();
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

/// A data set that records which threads process it.
struct Threads(Mutex<Vec<(u64, std::thread::ThreadId)>>, Duration);

impl Dataset for Threads {
    fn len(&self) -> usize {
        30
    }

    fn case(&self, _: usize) -> &str {
        "threads"
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        std::thread::sleep(self.1);
        self.0.lock().expect("no panic").push((epoch, std::thread::current().id()));
        // The number of samples equals the case's number, which each sample holds.
        Ok((0..index % 4).map(|_| sample(index).with("number", Value::Number(index as f64))).collect())
    }
}

fn threads(pause: Duration) -> Arc<Threads> {
    Arc::new(Threads(Mutex::default(), pause))
}

#[test]
fn threads_live_as_long_as_the_loader() {
    let dataset = threads(Duration::from_millis(1));
    let loader = DataLoader::new(dataset.clone(), LoaderOptions { workers: 3, ..LoaderOptions::default() });
    let loader = loader.expect("sound");
    for epoch in 0..20 {
        assert_eq!(loader.clone().epoch(epoch, 0).count(), 30);
    }
    let worked: HashSet<_> = dataset.0.lock().expect("no panic").iter().map(|(_, thread)| *thread).collect();
    assert!(worked.len() <= 3 && !worked.contains(&std::thread::current().id()), "{} threads", worked.len());
    // Two epochs at once share the threads, and each is complete and in order.
    let (mut first, mut second) = (loader.epoch(0, 0), loader.epoch(1, 0));
    for _ in 0..30 {
        assert_eq!(
            first.next().expect("a batch").expect("sound").cases,
            second.next().expect("a batch").expect("sound").cases
        );
    }
    assert!(first.next().is_none() && second.next().is_none());
    drop(loader);
    assert!(first.next().is_none());
}

#[test]
fn dropping_in_mid_epoch_never_hangs_and_leaves_nothing_at_work() {
    for workers in [1, 2, 5] {
        for taken in 0..4 {
            let dataset = threads(Duration::from_millis(3));
            let options = LoaderOptions { workers, buffer: 4, batch_size: 5, ..LoaderOptions::default() };
            let loader = DataLoader::new(dataset.clone(), options).expect("sound");
            let start = Instant::now();
            let mut batches = loader.epoch(0, 0);
            for _ in 0..taken {
                batches.next().expect("a batch").expect("sound");
            }
            drop(batches);
            let worked = dataset.0.lock().expect("no panic").len();
            std::thread::sleep(Duration::from_millis(15));
            assert_eq!(dataset.0.lock().expect("no panic").len(), worked, "no thread works on it any more");
            assert_eq!(loader.epoch(1, 0).count(), 6, "the next epoch comes whole");
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }
}

#[test]
fn batches_are_repeated_in_a_row() {
    for workers in [0, 2] {
        let options = LoaderOptions { workers, repeats: 3, batch_size: 10, ..LoaderOptions::default() };
        let loader = DataLoader::new(probe(None), options.clone()).expect("sound");
        assert_eq!(loader.len(), 12);
        let first = |batches: hearth_datasets::Batches| -> Vec<String> {
            batches.map(|b| b.expect("a batch").cases[0].trim_start_matches("case ").to_owned()).collect()
        };
        let all = ["0", "0", "0", "10", "10", "10", "20", "20", "20", "30", "30", "30"];
        assert_eq!(first(loader.epoch(0, 0)), all);
        for skip in 0..=12 {
            assert_eq!(first(loader.epoch(0, skip as u64)), all[skip..], "resumed after {skip}");
        }
        // An error is reported once, with the count of its repeats.
        let loader = DataLoader::new(probe(Some((15, false))), options).expect("sound");
        let told: Vec<bool> = loader.epoch(0, 0).map(|b| b.is_ok()).collect();
        assert_eq!(told, [true, true, true, false, true, true, true, true, true, true]);
    }
    assert!(DataLoader::new(probe(None), LoaderOptions { repeats: 0, ..LoaderOptions::default() }).is_err());
}

#[test]
fn patches_flow_over_from_case_to_case() {
    for workers in [0, 3] {
        let options = LoaderOptions { workers, batch_size: 4, ..LoaderOptions::default() };
        let loader = PatchLoader::new(threads(Duration::ZERO), options.clone()).expect("sound");
        let numbers = |skip| -> Vec<Vec<f64>> {
            loader.epoch(0, skip).map(|b| b.expect("a batch").numbers["number"].clone()).collect()
        };
        // Cases 0, 4, 8, ... give none, 1, 5, ... one, and so on: 43 in 30 cases.
        let expected: Vec<f64> = (0..30).flat_map(|i| vec![i as f64; i % 4]).collect();
        let expected: Vec<Vec<f64>> = expected.chunks(4).map(<[f64]>::to_vec).collect();
        assert_eq!(numbers(0), expected);
        assert_eq!(numbers(3), expected[3..]);
        let full = PatchLoader::new(threads(Duration::ZERO), LoaderOptions { drop_last: true, ..options });
        assert_eq!(full.expect("sound").epoch(0, 0).count(), 43 / 4);
    }
}

#[test]
fn a_sampler_gives_the_order() {
    let share = DistributedSampler::new(40, 4, 1).expect("a rank").shuffle(false);
    let options = LoaderOptions { batch_size: 3, workers: 2, ..LoaderOptions::default() };
    let loader = DataLoader::new(probe(None), options.clone()).expect("sound").with_sampler(share);
    assert_eq!(loader.len(), 4);
    let cases: Vec<String> = loader.epoch(0, 0).flat_map(|b| b.expect("a batch").cases).collect();
    assert_eq!(cases, (0..10).map(|i| format!("case {}", i * 4 + 1)).collect::<Vec<_>>());
    let weights = (0..40).map(|i| if i == 7 { 1.0 } else { 0.0 }).collect();
    let heavy = WeightedRandomSampler::new(weights, 5, true, 0).expect("sound");
    let loader = DataLoader::new(probe(None), options).expect("sound").with_sampler(heavy);
    let cases: Vec<String> = loader.epoch(0, 0).flat_map(|b| b.expect("a batch").cases).collect();
    assert_eq!(cases, ["case 7"; 5]);
}

/// A case that is drawn again in an epoch gets other draws, the same in every run.
#[test]
fn a_case_that_comes_again_is_augmented_anew() {
    let (_dir, items) = phantom(1);
    let made = |workers: usize| {
        let sampler = WeightedRandomSampler::new(vec![1.0], 4, true, 0).expect("sound");
        let dataset = CacheDataset::new(items.clone(), Pipeline::clone(&pipeline()).seed(7), CacheOptions::default());
        let options = LoaderOptions { batch_size: 1, workers, ..LoaderOptions::default() };
        let loader = DataLoader::new(dataset.expect("sound"), options).expect("sound").with_sampler(sampler);
        contents(loader.epoch(1, 0))
    };
    let all = made(0);
    assert_eq!(all, made(2));
    let bits = |values: &Vec<f32>| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
    let distinct: HashSet<Vec<u32>> = all.iter().map(|(_, values)| bits(values)).collect();
    assert_eq!(distinct.len(), 4);
}

#[test]
fn a_window_moves_with_the_loader_and_no_worker_changes_it() {
    let (_dir, items) = phantom(5);
    let window = |workers| {
        let options = SmartCacheOptions { num: Some(2), replace_rate: 0.5, ..SmartCacheOptions::default() };
        let dataset =
            SmartCacheDataset::new(items.clone(), Pipeline::clone(&pipeline()).seed(7), options).expect("sound");
        let options = LoaderOptions { workers, batch_size: 1, shuffle: true, ..LoaderOptions::default() };
        let loader = DataLoader::new(Arc::new(dataset), options).expect("sound");
        (1..7).map(|epoch| contents(loader.epoch(epoch, 0))).collect::<Vec<_>>()
    };
    let reference = window(0);
    for workers in [1, 3] {
        assert_eq!(window(workers), reference, "{workers} workers");
    }
    let seen: HashSet<&String> = reference.iter().flatten().flat_map(|(cases, _)| cases).collect();
    assert_eq!(seen.len(), 5, "every case had its turn");
}

#[test]
fn smaller_images_are_padded_where_that_is_asked_for() {
    let pad = Collate::Pad { method: PadMethod::End, mode: PadMode::Constant, value: -1.0 };
    struct Sizes;
    impl Dataset for Sizes {
        fn len(&self) -> usize {
            2
        }
        fn case(&self, _: usize) -> &str {
            "sizes"
        }
        fn get(&self, index: usize, _: u64) -> Result<Vec<Sample>, DataError> {
            let image = Image::from_values(
                vec![index as f32; 2 + index],
                [1, 1, 1, 2 + index],
                affine::IDENTITY,
                &host_device(),
            );
            Ok(vec![Sample::new("sizes").with_image("image", image)])
        }
    }
    let options = LoaderOptions { batch_size: 2, collate: pad, ..LoaderOptions::default() };
    let batch = DataLoader::new(Arc::new(Sizes), options).expect("sound").epoch(0, 0).next().expect("a batch");
    let batch = batch.expect("padded");
    let values: Vec<f32> = batch.tensor("image").expect("an image").clone().try_into_vec_as().expect("values");
    assert_eq!(values, [0.0, 0.0, -1.0, 1.0, 1.0, 1.0]);
    // After the inverse each sample has its own size again.
    let samples = decollate(batch).expect("sound");
    let back = samples[0].image("image").expect("an image").clone().undo_last(false).expect("it can be undone");
    assert_eq!(back.to_vec(), [0.0, 0.0]);
}

/// Run in a separate process, because the memory of a whole process is measured.
#[test]
fn memory_stays_flat_over_200_epochs() {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program)
        .args(["--exact", "loading::two_hundred_epochs", "--ignored", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("a process");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && said[0].contains("\"epoch\": 200"), "{}: {}", output.status, said.join("\n"));
}

/// Set if `two_hundred_epochs` runs in its own process.
const ALONE: &str = "HEARTH_TEST_ALONE";

#[test]
#[ignore = "what the tests above start, in a process of its own"]
fn two_hundred_epochs() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let (_dir, items) = phantom(8);
    let options = CacheOptions { storage: hearth_datasets::Storage::Exact, ..CacheOptions::default() };
    let dataset = CacheDataset::new(items, Pipeline::clone(&pipeline()).seed(7), options).expect("it fits");
    let loader = ThreadDataLoader::new(Arc::new(dataset), options_of(2)).expect("sound");
    let process = sysinfo::get_current_pid().expect("a process");
    let mut system = sysinfo::System::new();
    let mut resident = || {
        system.refresh_processes(sysinfo::ProcessesToUpdate::Some(&[process]), true);
        system.process(process).map_or(0, sysinfo::Process::memory)
    };
    let mut figures = Vec::new();
    for epoch in 1..=200 {
        assert_eq!(loader.epoch(epoch, 0).map(|b| b.expect("a batch").len()).sum::<usize>(), 16);
        if [1, 20, 50, 100, 150, 200].contains(&epoch) {
            figures.push((epoch, resident() as f64 / 1048576.0));
        }
    }
    for (epoch, mib) in &figures {
        println!("{{\"bench\": \"rss\", \"epoch\": {epoch}, \"mib\": {mib:.1}}}");
    }
    let (early, late) = (figures[1].1, figures[5].1);
    assert!(late < early * 1.1 + 4.0, "from {early:.1} MiB after 20 epochs to {late:.1} after 200");
}

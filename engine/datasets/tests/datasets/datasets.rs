//! Tests of data sets and caches in memory: every cache returns the same samples as no cache, and
//! keeps no more than fits.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hearth_datasets::{
    CacheDataset, CacheNTransDataset, CacheOptions, CachePool, DataError, Dataset, Field, Identity, Item, LmdbDataset,
    PatchDataset, PersistentDataset, SmartCacheDataset, SmartCacheOptions, Storage, StoreOptions, TransformDataset,
    ZipDataset,
};
use hearth_image::TransformError;
use hearth_registry::Fault;
use hearth_transforms::transforms::*;
use hearth_transforms::{Draw, Pipeline, Sample, Transform};

use crate::cases::{KEYS, contents, counting, persistent, phantom, pipeline, seeded};

#[test]
fn no_cache_changes_a_sample() {
    let (dir, items) = phantom(4);
    let plain = TransformDataset::new(items.clone(), seeded(pipeline(), 7)).expect("sound");
    let expected = contents(&plain, 1..4);
    assert_ne!(expected[..8], expected[8..16], "epochs differ");
    for storage in [Storage::F32, Storage::Exact] {
        for runtime in [false, true] {
            let options = CacheOptions { storage, runtime, workers: 2, rate: 0.8, ..CacheOptions::default() };
            let cached = CacheDataset::new(items.clone(), seeded(pipeline(), 7), options).expect("it fits");
            assert_eq!(contents(&cached, 1..4), expected, "{storage:?} runtime {runtime}");
            assert_eq!(cached.cached(), 3);
        }
        let options = StoreOptions { storage, ..StoreOptions::default() };
        for identity in [Identity::Content, Identity::Stat] {
            let options = StoreOptions { identity, ..options.clone() };
            let folder = dir.path().join("files");
            let kept =
                PersistentDataset::new(items.clone(), seeded(pipeline(), 7), &folder, options).expect("a folder");
            assert_eq!(contents(&kept, 1..4), expected, "files, {storage:?}");
        }
        let kept =
            LmdbDataset::new(items.clone(), seeded(pipeline(), 7), dir.path().join("db"), options).expect("opened");
        assert_eq!(contents(&kept, 1..4), expected, "database, {storage:?}");
    }
    let kept =
        CacheNTransDataset::new(items.clone(), seeded(pipeline(), 7), 2, dir.path().join("n"), StoreOptions::default());
    assert_eq!(contents(&kept.expect("a folder"), 1..4), expected, "the first two steps");
    let smart = SmartCacheOptions { rate: 0.5, shuffle: false, replace_rate: 1.0, ..SmartCacheOptions::default() };
    let smart = SmartCacheDataset::new(items, seeded(pipeline(), 7), smart).expect("sound");
    // Cases 0 and 1 in epoch 1, 2 and 3 in epoch 2, 0 and 1 in epoch 3; two samples each.
    let windows = [&expected[0..4], &expected[12..16], &expected[16..20]].concat();
    assert_eq!(contents(&smart, 1..4), windows, "a moving window");
}

#[test]
fn a_window_that_does_not_fit_says_what_would() {
    let (_dir, items) = phantom(4);
    let window = |limit| {
        let options =
            SmartCacheOptions { rate: 0.5, replace_rate: 0.5, shuffle: false, ..SmartCacheOptions::default() };
        SmartCacheDataset::new(items.clone(), pipeline(), SmartCacheOptions { limit, ..options }).expect("sound")
    };
    let roomy = window(None);
    roomy.get(0, 1).expect("samples");
    let tight = window(Some(1000));
    for index in [0, 1] {
        let told = tight.get(index, 1).expect_err("no room").to_string();
        assert!(told.contains("for 3 cases") && told.contains("1000") | told.contains("1.0 KiB"), "{told}");
        assert!(told.contains("0 cases fit") && told.contains("device = \"host\""), "{told}");
    }
    assert!(tight.cached() <= 1, "nothing more is tried");
    let wide = window(Some(1 << 30));
    assert_eq!(contents(&wide, 1..3), contents(&roomy, 1..3));
}

#[test]
fn errors_are_those_without_a_cache() {
    let (dir, mut items) = phantom(2);
    fs::write(&items[0].files["image"], b"not an image").expect("written");
    items[1].files.insert("label".to_owned(), dir.path().join("nowhere.nii"));
    let plain = TransformDataset::new(items.clone(), pipeline()).expect("sound");
    let told = |dataset: &dyn Dataset, index| dataset.get(index, 0).expect_err("broken").to_string();
    let kept = persistent(&items, pipeline(), &dir.path().join("cache"));
    let database = LmdbDataset::new(items.clone(), pipeline(), dir.path().join("db"), StoreOptions::default());
    let database = database.expect("opened");
    let options = SmartCacheOptions { rate: 0.5, shuffle: false, ..SmartCacheOptions::default() };
    let smart = SmartCacheDataset::new(items.clone(), pipeline(), options).expect("sound");
    assert_eq!(told(&smart, 0), told(&plain, 0));
    for index in 0..2 {
        assert_eq!(told(&kept, index), told(&plain, index));
        assert_eq!(told(&database, index), told(&plain, index));
    }
    assert!(told(&kept, 2).contains("no case 2") && told(&smart, 1).contains("no case 1"));
    let panics: Vec<Box<dyn Transform>> = vec![Box::new(LoadImage::new("image")), Box::new(Panics)];
    let panics = Arc::new(Pipeline::new(panics).expect("sound"));
    let (_dir, items) = phantom(1);
    assert!(told(&persistent(&items, panics, &dir.path().join("cache")), 0).contains("gave up"));
}

#[derive(Debug)]
struct Panics;

impl Transform for Panics {
    fn name(&self) -> &'static str {
        "Panics"
    }

    fn apply(&self, _: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        panic!("a decoder gave up")
    }

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), Fault> {
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "name": "Panics" })
    }
}

#[test]
fn equal_cases_are_kept_once() {
    let (dir, mut items) = phantom(2);
    for i in 0..3 {
        let mut copy = Item::new(format!("copy {i}"));
        for (key, file) in &items[0].files {
            let path = dir.path().join(format!("copy_{i}_{key}.nii.gz"));
            fs::copy(file, &path).expect("copied");
            copy = copy.with(key, path);
        }
        items.push(copy);
    }
    let (pipeline, count) = counting(164.0);
    let pool = CachePool::new();
    let options = CacheOptions { pool: pool.clone(), workers: 3, ..CacheOptions::default() };
    let first = CacheDataset::new(items.clone(), seeded(pipeline.clone(), 7), options.clone()).expect("it fits");
    assert_eq!((count.load(Ordering::SeqCst), first.cached(), pool.len()), (2, 5, 2));
    let alone = CacheOptions { identity: None, ..CacheOptions::default() };
    let apart = CacheDataset::new(items.clone(), seeded(pipeline.clone(), 7), alone).expect("it fits");
    assert!(apart.bytes() > first.bytes() * 2);
    assert_eq!(contents(&first, 0..2), contents(&apart, 0..2));
    // A second data set, for example another fold of a cross-validation, computes nothing.
    count.store(0, Ordering::SeqCst);
    let second =
        CacheDataset::new(items[1..3].to_vec(), seeded(pipeline.clone(), 8), options.clone()).expect("it fits");
    assert_eq!((count.load(Ordering::SeqCst), second.cached()), (0, 2));
    drop(first);
    assert_eq!(pool.len(), 2);
    drop(second);
    assert!(pool.is_empty(), "dropped with the last that has it");
    // Cases with other steps or options are not shared.
    let field = items[0].clone().with_field("age", Field::Number(3.0));
    let both = CacheDataset::new(vec![items[0].clone(), field], seeded(pipeline, 7), options).expect("it fits");
    assert_eq!((both.cached(), pool.len()), (2, 2));
}

#[test]
fn as_many_as_fit_are_kept_and_the_rest_streamed() {
    let (_dir, items) = phantom(5);
    let all = CacheDataset::new(items.clone(), seeded(pipeline(), 7), CacheOptions::default()).expect("it fits");
    let limit = all.bytes() as u64 / 5 * 3 + 50_000;
    for (runtime, workers) in [(false, 1), (false, 3), (true, 1)] {
        let options = CacheOptions { auto: true, limit: Some(limit), runtime, workers, ..CacheOptions::default() };
        let some = CacheDataset::new(items.clone(), seeded(pipeline(), 7), options).expect("some fit");
        assert_eq!(contents(&some, 0..2), contents(&all, 0..2));
        assert!((1..5).contains(&some.cached()), "{} cached", some.cached());
        assert!(some.bytes() as u64 <= limit);
    }
    let none = CacheOptions { auto: true, limit: Some(10), ..CacheOptions::default() };
    let none = CacheDataset::new(items.clone(), seeded(pipeline(), 7), none).expect("none fits");
    assert_eq!((none.cached(), none.bytes()), (0, 0));
    // The memory that the training needs stays free: here all of it.
    for runtime in [false, true] {
        let none = CacheOptions { auto: true, beside: u64::MAX, runtime, ..CacheOptions::default() };
        let none = CacheDataset::new(items.clone(), seeded(pipeline(), 7), none).expect("none fits");
        assert_eq!(contents(&none, 0..2), contents(&all, 0..2));
        assert_eq!((none.cached(), none.bytes()), (0, 0));
    }
    let narrow = CacheOptions { storage: Storage::Exact, ..CacheOptions::default() };
    let narrow = CacheDataset::new(items, seeded(pipeline(), 7), narrow).expect("it fits");
    assert!(narrow.bytes() * 2 < all.bytes(), "{} of {} bytes", narrow.bytes(), all.bytes());
}

#[test]
fn a_runtime_cache_is_filled_by_use() {
    let (_dir, items) = phantom(3);
    let (pipeline, count) = counting(164.0);
    let options = CacheOptions { runtime: true, ..CacheOptions::default() };
    let dataset = CacheDataset::new(items, seeded(pipeline, 7), options).expect("sound");
    assert_eq!((count.load(Ordering::SeqCst), dataset.cached()), (0, 0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| dataset.get(1, 0).expect("samples"));
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 1, "four threads, made once");
    assert!(dataset.is_cached(1) && !dataset.is_cached(0));
}

/// Records the cases that are processed, in order.
#[derive(Debug)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Transform for Log {
    fn name(&self) -> &'static str {
        "Log"
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        self.0.lock().expect("no panic").push(sample.case.clone());
        Ok(vec![sample])
    }

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), Fault> {
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "name": "Log" })
    }
}

fn smart(options: SmartCacheOptions) -> (SmartCacheDataset, Arc<Mutex<Vec<String>>>) {
    let log = Arc::new(Mutex::default());
    let steps: Vec<Box<dyn Transform>> = vec![Box::new(Log(log.clone()))];
    let items = (1..=5).map(|i| Item::new(i.to_string())).collect();
    let dataset = SmartCacheDataset::new(items, Arc::new(Pipeline::new(steps).expect("sound")), options);
    (dataset.expect("sound"), log)
}

fn epoch_of(dataset: &SmartCacheDataset, epoch: u64) -> String {
    dataset.begin_epoch(epoch);
    (0..dataset.len()).map(|i| dataset.get(i, epoch).expect("a sample").remove(0).case).collect()
}

#[test]
fn the_window_moves_as_monais() {
    let options =
        |shuffle| SmartCacheOptions { num: Some(4), replace_rate: 0.25, shuffle, ..SmartCacheOptions::default() };
    // MONAI's documentation, and MONAI's result with its default shuffle.
    for (shuffle, expected) in [
        (false, ["1234", "2345", "3451", "4512", "5123", "1234"]),
        (true, ["3124", "1245", "2453", "4531", "5312", "3124"]),
    ] {
        let (dataset, log) = smart(options(shuffle));
        let epochs: Vec<String> = (1..=6).map(|epoch| epoch_of(&dataset, epoch)).collect();
        assert_eq!(epochs, expected);
        // The window of four and the next case are all cases: each is prepared once, and none is
        // dropped.
        let made = log.lock().expect("no panic").len();
        assert_eq!(made, 5);
        assert!(dataset.cached() <= 5);
    }
    // A run that starts later has the window of its epoch, and no case twice.
    let (resumed, _) = smart(options(false));
    assert_eq!(epoch_of(&resumed, 4), "4512");
    assert_eq!(epoch_of(&resumed, 2), "2345", "and back");
    assert_eq!(resumed.window(3), [2, 3, 4, 0]);
    assert!(
        SmartCacheDataset::new(Vec::new(), pipeline(), SmartCacheOptions { replace_rate: 0.0, ..options(true) })
            .is_err()
    );
}

#[test]
fn the_next_window_is_made_meanwhile() {
    let options = SmartCacheOptions { num: Some(3), replace_rate: 0.5, shuffle: false, ..SmartCacheOptions::default() };
    let (dataset, log) = smart(options);
    dataset.begin_epoch(1);
    let start = std::time::Instant::now();
    while log.lock().expect("no panic").len() < 5 && start.elapsed().as_secs() < 10 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let mut made = log.lock().expect("no panic").clone();
    made.sort();
    assert_eq!(made, ["1", "2", "3", "4", "5"], "the window and what replaces two of it");
    assert_eq!(epoch_of(&dataset, 2), "345");
    drop(dataset);
}

#[test]
fn data_sets_side_by_side() {
    let (_dir, items) = phantom(3);
    let only = |key: &str| -> Arc<dyn Dataset> {
        let items = items.iter().map(|item| Item::new(&item.case).with(key, &item.files[key])).collect();
        let steps: Vec<Box<dyn Transform>> = vec![
            Box::new(LoadImage::new(key)),
            Box::new(RandFlip::new(key).prob(0.5)),
            Box::new(RandRotate90::new(key).prob(0.5)),
        ];
        Arc::new(
            TransformDataset::new(items, seeded(Arc::new(Pipeline::new(steps).expect("sound")), 3)).expect("sound"),
        )
    };
    let both = ZipDataset::new(vec![only("image"), only("label")]).expect("the same cases");
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new(KEYS)),
        Box::new(RandFlip::new(KEYS).prob(0.5)),
        Box::new(RandRotate90::new(KEYS).prob(0.5)),
    ];
    let together = TransformDataset::new(items.clone(), seeded(Arc::new(Pipeline::new(steps).expect("sound")), 3));
    assert_eq!(contents(&both, 0..3), contents(&together.expect("sound"), 0..3), "image and label draw alike");
    let twice = ZipDataset::new(vec![only("image"), only("image")]).expect("the same cases");
    assert!(twice.get(0, 0).expect_err("one key twice").to_string().contains("`image`"));
    let other: Arc<dyn Dataset> =
        Arc::new(TransformDataset::new(vec![Item::new("other")], Arc::new(Pipeline::default())).expect("sound"));
    assert!(ZipDataset::new(vec![only("image"), other]).is_err() && ZipDataset::new(Vec::new()).is_err());
}

#[test]
fn patches_of_another_data_set() {
    let (_dir, items) = phantom(2);
    let load: Vec<Box<dyn Transform>> = vec![Box::new(LoadImage::new(KEYS))];
    let images: Arc<dyn Dataset> =
        Arc::new(TransformDataset::new(items, Arc::new(Pipeline::new(load).expect("sound"))).expect("sound"));
    let patches = |seed| {
        let cut: Vec<Box<dyn Transform>> =
            vec![Box::new(RandCropByPosNegLabel::new(KEYS, "label", 6).num_samples(3_usize))];
        PatchDataset::new(images.clone(), Pipeline::new(cut).expect("sound").seed(seed))
    };
    let dataset = patches(1).with_samples_per_image(3);
    assert_eq!(dataset.get(1, 0).expect("patches").len(), 3);
    assert_eq!(contents(&dataset, 0..2), contents(&patches(1), 0..2));
    assert_ne!(contents(&dataset, 0..2), contents(&patches(2), 0..2));
    let error = patches(1).with_samples_per_image(4).get(0, 0).expect_err("three").to_string();
    assert!(error.contains("3 patches, expected 4"), "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (_dir, items) = phantom(1);
    let cache = |options| CacheDataset::new(items.clone(), pipeline(), options).map(drop);
    let message = |result: Result<(), DataError>| result.expect_err("refused").to_string();
    assert!(message(cache(CacheOptions { rate: 1.5, ..CacheOptions::default() })).contains("1.5"));
    let n = CacheNTransDataset::new(items.clone(), pipeline(), 7, "unused", StoreOptions::default());
    assert!(message(n.map(drop)).contains("has 6"));
    assert!(!Path::new("unused").exists());
    let none = SmartCacheOptions { num: Some(0), ..SmartCacheOptions::default() };
    assert!(message(SmartCacheDataset::new(items.clone(), pipeline(), none).map(drop)).contains("none of 1"));
}

//! Caches in memory and on disk: whatever keeps a case gives the samples that no cache gives, survives damage, and reads no more
//! than it needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hearth_data::phantom::{self, SpleenOptions};
use hearth_data::transforms::*;
use hearth_data::{
    CacheDataset, CacheNTransDataset, CacheOptions, CachePool, CheckError, DataError, Dataset, DecathlonDataset, Draw,
    DrawKey, Field, Identity, Image, Item, LmdbDataset, NiftiOptions, PatchDataset, PersistentDataset, Pipeline,
    Sample, SmartCacheDataset, SmartCacheOptions, Storage, StoreOptions, Transform, TransformDataset, TransformError,
    Value, ZipDataset, affine, host_device, write_nifti,
};

const KEYS: [&str; 2] = ["image", "label"];

fn phantom(cases: usize) -> (tempfile::TempDir, Vec<Item>) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut options = SpleenOptions::default();
    options.size = 24;
    phantom::spleen(dir.path(), cases, &options).expect("written");
    let items = DecathlonDataset::open(dir.path()).expect("a data set").training;
    (dir, items)
}

fn crop(size: i64) -> RandCropByPosNegLabel {
    RandCropByPosNegLabel::new(KEYS, "label", size)
        .num_samples(2_usize)
        .fg_indices_key(Some("label_fg".to_owned()))
        .bg_indices_key(Some("label_bg".to_owned()))
}

fn steps(a_max: f64) -> Vec<Box<dyn Transform>> {
    vec![
        Box::new(LoadImage::new(KEYS)),
        Box::new(Orientation::new(KEYS, "RAS")),
        Box::new(ScaleIntensityRange::new("image", -57.0, a_max).b_min(Some(0.0)).b_max(Some(1.0)).clip(true)),
        Box::new(FgBgToIndices::new("label")),
        Box::new(crop(8)),
        Box::new(RandFlip::new(KEYS).prob(0.5)),
    ]
}

fn pipeline() -> Arc<Pipeline> {
    Arc::new(Pipeline::new(steps(164.0)).expect("sound"))
}

/// Everything a sample holds, for comparison.
fn contents(dataset: &dyn Dataset, epochs: std::ops::Range<u64>) -> Vec<String> {
    let mut out = Vec::new();
    for epoch in epochs {
        for index in 0..dataset.len() {
            out.extend(dataset.get(index, epoch).expect("samples").iter().map(describe));
        }
    }
    out
}

fn describe(sample: &Sample) -> String {
    let mut out = sample.case.clone();
    for (key, value) in &sample.values {
        match value {
            Value::Image(image) => {
                let bits: Vec<u8> = image.to_vec().iter().flat_map(|v| v.to_bits().to_le_bytes()).collect();
                let hash = blake3::hash(&bits);
                out += &format!(" {key}: {:?} {:?} {:?} {hash}", image.data.dims(), image.affine, image.meta);
            }
            other => out += &format!(" {key}: {other:?}"),
        }
    }
    out
}

fn persistent(items: &[Item], pipeline: Arc<Pipeline>, dir: &Path) -> PersistentDataset {
    PersistentDataset::new(items.to_vec(), pipeline, 7, 0, dir, StoreOptions::default()).expect("a folder")
}

#[test]
fn no_cache_changes_a_sample() {
    let (dir, items) = phantom(4);
    let plain = TransformDataset::new(items.clone(), pipeline(), 7, 0).expect("sound");
    let expected = contents(&plain, 1..4);
    assert_ne!(expected[..8], expected[8..16], "epochs differ");
    for storage in [Storage::F32, Storage::Exact] {
        for runtime in [false, true] {
            let options = CacheOptions { storage, runtime, workers: 2, rate: 0.8, ..CacheOptions::default() };
            let cached = CacheDataset::new(items.clone(), pipeline(), 7, 0, options).expect("it fits");
            assert_eq!(contents(&cached, 1..4), expected, "{storage:?} runtime {runtime}");
            assert_eq!(cached.cached(), 3);
        }
        let options = StoreOptions { storage, ..StoreOptions::default() };
        for identity in [Identity::Content, Identity::Stat] {
            let options = StoreOptions { identity, ..options.clone() };
            let folder = dir.path().join("files");
            let kept = PersistentDataset::new(items.clone(), pipeline(), 7, 0, &folder, options).expect("a folder");
            assert_eq!(contents(&kept, 1..4), expected, "files, {storage:?}");
        }
        let kept = LmdbDataset::new(items.clone(), pipeline(), 7, 0, dir.path().join("db"), options).expect("opened");
        assert_eq!(contents(&kept, 1..4), expected, "database, {storage:?}");
    }
    let kept =
        CacheNTransDataset::new(items.clone(), pipeline(), 7, 0, 2, dir.path().join("n"), StoreOptions::default());
    assert_eq!(contents(&kept.expect("a folder"), 1..4), expected, "the first two steps");
    let smart = SmartCacheOptions { rate: 0.5, shuffle: false, replace_rate: 1.0, ..SmartCacheOptions::default() };
    let smart = SmartCacheDataset::new(items, pipeline(), 7, 0, smart).expect("sound");
    // Cases 0 and 1 in epoch 1, 2 and 3 in epoch 2, 0 and 1 in epoch 3; two samples each.
    let windows = [&expected[0..4], &expected[12..16], &expected[16..20]].concat();
    assert_eq!(contents(&smart, 1..4), windows, "a moving window");
}

/// A step that does nothing but count, before the random ones.
#[derive(Debug)]
struct Count(Arc<AtomicUsize>);

impl Transform for Count {
    fn name(&self) -> &'static str {
        "Count"
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(vec![sample])
    }

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), CheckError> {
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "name": "Count" })
    }
}

/// A pipeline that counts how many cases it has worked at.
fn counting(a_max: f64) -> (Arc<Pipeline>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let mut steps = steps(a_max);
    steps.insert(1, Box::new(Count(count.clone())));
    (Arc::new(Pipeline::new(steps).expect("sound")), count)
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    out.sort();
    out
}

#[test]
fn an_entry_is_made_once_and_again_when_something_changed() {
    let (dir, items) = phantom(2);
    let cache = dir.path().join("cache");
    let (pipeline, count) = counting(164.0);
    let made = |pipeline: &Arc<Pipeline>, items: &[Item]| {
        count.store(0, Ordering::SeqCst);
        contents(&persistent(items, pipeline.clone(), &cache), 0..3);
        count.load(Ordering::SeqCst)
    };
    assert_eq!(made(&pipeline, &items), 2);
    assert_eq!(made(&pipeline, &items), 0, "another run");
    // A copy elsewhere is the same case.
    let copy = dir.path().join("copy.nii.gz");
    fs::copy(&items[0].files["image"], &copy).expect("copied");
    let moved = items[0].clone().with("image", &copy);
    assert_eq!(made(&pipeline, std::slice::from_ref(&moved)), 0, "a copy");
    let sample = persistent(&[moved], pipeline.clone(), &cache).get(0, 0).expect("samples").remove(0);
    assert_eq!(sample.image("image").expect("an image").meta.path.as_ref(), Some(&copy), "messages name the copy");
    // Another content is another case, even while a data set is in use.
    let dataset = persistent(&items, pipeline.clone(), &cache);
    let before = contents(&dataset, 0..1);
    count.store(0, Ordering::SeqCst);
    fs::copy(&items[0].files["image"], dir.path().join("old.nii.gz")).expect("copied");
    fs::copy(&items[1].files["image"], &items[0].files["image"]).expect("copied");
    fs::copy(&items[1].files["label"], &items[0].files["label"]).expect("copied");
    assert_ne!(contents(&dataset, 0..1), before);
    assert_eq!(count.load(Ordering::SeqCst), 0, "it is now the same as case 1, which is there");
    // Other parameters, other entries; the old ones are not touched.
    let (other, counted) = counting(165.0);
    contents(&persistent(&items[..1], other.clone(), &cache), 0..1);
    assert_eq!((counted.load(Ordering::SeqCst), entries(&cache).len()), (1, 3));
    let options = StoreOptions { version: "2".to_owned(), ..StoreOptions::default() };
    let versioned =
        PersistentDataset::new(items[..1].to_vec(), other.clone(), 7, 0, &cache, options).expect("a folder");
    contents(&versioned, 0..1);
    assert_eq!((counted.load(Ordering::SeqCst), entries(&cache).len()), (2, 4));
    assert!(versioned.remove_others().expect("removed") > 0);
    assert_eq!(entries(&cache).len(), 1);
    contents(&versioned, 0..1);
    assert_eq!(counted.load(Ordering::SeqCst), 2, "its own is still there");
}

#[test]
fn a_damaged_entry_is_made_anew() {
    let (dir, items) = phantom(2);
    let cache = dir.path().join("cache");
    let (pipeline, count) = counting(164.0);
    let dataset = persistent(&items[..1], pipeline.clone(), &cache);
    let expected = contents(&dataset, 0..2);
    let path = entries(&cache).remove(0);
    let sound = fs::read(&path).expect("an entry");
    contents(&persistent(&items[1..], pipeline, &cache), 0..1);
    let other = entries(&cache).into_iter().find(|p| *p != path).expect("of the other case");
    let mut damages: Vec<(String, Vec<u8>)> = vec![
        ("empty".to_owned(), Vec::new()),
        ("text".to_owned(), b"not an entry, however long it may be, and with no head of any kind".to_vec()),
        ("of another case".to_owned(), fs::read(other).expect("an entry")),
        ("longer".to_owned(), [sound.as_slice(), b"x"].concat()),
    ];
    for cut in [1, 7, 8, 20, 51, 52, 300, sound.len() / 2, sound.len() - 1] {
        damages.push((format!("cut at {cut}"), sound[..cut].to_vec()));
    }
    let draw = DrawKey::new(0, 0, 0).draw("damage", 0, 0);
    for _ in 0..60 {
        // Everywhere, and often within the head.
        let limit = if draw.happens(0.5) { sound.len() } else { 700 };
        let at = draw.below(limit as u64) as usize;
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << draw.below(8);
        damages.push((format!("byte {at}"), bytes));
    }
    let mut rebuilt = 0;
    for (what, bytes) in damages {
        fs::write(&path, bytes).expect("written");
        count.store(0, Ordering::SeqCst);
        assert_eq!(contents(&dataset, 0..2), expected, "{what}");
        rebuilt += count.load(Ordering::SeqCst);
        // A chunk that no crop touched may still be damaged; whatever was found is mended.
        if count.load(Ordering::SeqCst) > 0 {
            assert_eq!(fs::read(&path).expect("an entry"), sound, "{what}");
        }
    }
    assert!(rebuilt > 40, "{rebuilt} of 73 damages were found");
}

#[test]
fn a_folder_that_takes_no_file_costs_time_only() {
    let (dir, items) = phantom(1);
    let cache = dir.path().join("cache");
    let plain = contents(&TransformDataset::new(items.clone(), pipeline(), 7, 0).expect("sound"), 0..2);
    let dataset = persistent(&items, pipeline(), &cache);
    fs::remove_dir_all(&cache).expect("removed");
    fs::write(&cache, "in the way").expect("written");
    assert_eq!(contents(&dataset, 0..2), plain);
    let refused = PersistentDataset::new(items, pipeline(), 7, 0, cache.join("below"), StoreOptions::default());
    assert!(refused.expect_err("no folder").to_string().contains("below"));
}

#[test]
fn errors_are_those_without_a_cache() {
    let (dir, mut items) = phantom(2);
    fs::write(&items[0].files["image"], b"not an image").expect("written");
    items[1].files.insert("label".to_owned(), dir.path().join("nowhere.nii"));
    let plain = TransformDataset::new(items.clone(), pipeline(), 0, 0).expect("sound");
    let told = |dataset: &dyn Dataset, index| dataset.get(index, 0).expect_err("broken").to_string();
    let kept = persistent(&items, pipeline(), &dir.path().join("cache"));
    let database = LmdbDataset::new(items.clone(), pipeline(), 0, 0, dir.path().join("db"), StoreOptions::default());
    let database = database.expect("opened");
    let options = SmartCacheOptions { rate: 0.5, shuffle: false, ..SmartCacheOptions::default() };
    let smart = SmartCacheDataset::new(items.clone(), pipeline(), 0, 0, options).expect("sound");
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

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), CheckError> {
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "name": "Panics" })
    }
}

/// A case of noise, which no compression makes smaller, with a label of one voxel in eight.
fn noise(dir: &Path, name: &str, size: usize) -> Item {
    let count = size * size * size;
    let mut values = vec![0.0_f32; count];
    DrawKey::new(1, 0, 0).draw(name, 0, 0).add_normal(&mut values, 0.0, 1.0);
    let label = (0..count).map(|i| f32::from(u8::from(i % 8 == 0))).collect();
    let item = [("image", values, NiftiOptions::image()), ("label", label, NiftiOptions::label())];
    item.into_iter().fold(Item::new(name), |item, (key, values, options)| {
        let path = dir.join(format!("{name}_{key}.nii"));
        let image = Image::from_values(values, [1, size, size, size], affine::IDENTITY, &host_device());
        write_nifti(&path, &image, options).expect("written");
        item.with(key, path)
    })
}

fn crop_of_noise(size: i64) -> Arc<Pipeline> {
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new(KEYS)),
        Box::new(FgBgToIndices::new("label")),
        Box::new(crop(size).num_samples(1_usize)),
    ];
    Arc::new(Pipeline::new(steps).expect("sound"))
}

#[test]
fn a_crop_reads_the_chunks_it_touches() {
    let dir = tempfile::tempdir().expect("a folder");
    let items = vec![noise(dir.path(), "a", 160)];
    let plain = TransformDataset::new(items.clone(), crop_of_noise(64), 7, 0).expect("sound");
    let cache = dir.path().join("cache");
    persistent(&items, crop_of_noise(64), &cache).fill(1, hearth_data::Progress::None).expect("filled");
    let size = fs::metadata(&entries(&cache)[0]).expect("an entry").len();
    assert!(size > 160 * 160 * 160 * 3, "noise stays about as large as it is");
    let kept = persistent(&items, crop_of_noise(64), &cache);
    let database = LmdbDataset::new(items, crop_of_noise(64), 7, 0, dir.path().join("db"), StoreOptions::default());
    let database = database.expect("opened");
    database.fill(1, hearth_data::Progress::None).expect("filled");
    let (mut last, mut last_database) = (kept.bytes_read(), database.bytes_read());
    for epoch in 0..30 {
        let samples = kept.get(0, epoch).expect("a crop");
        let expected = plain.get(0, epoch).expect("a crop");
        assert_eq!(samples.iter().map(describe).collect::<Vec<_>>(), expected.iter().map(describe).collect::<Vec<_>>());
        assert_eq!(describe(&database.get(0, epoch).expect("a crop")[0]), describe(&expected[0]));
        // 64 voxels touch two chunks of 32 where they begin with one, else three.
        let Some(hearth_data::Applied::Crop { start, .. }) =
            samples[0].image("image").expect("an image").meta.applied.last()
        else {
            panic!("a crop is recorded")
        };
        let chunks: u64 = start.iter().map(|s| if s % 32 == 0 { 2 } else { 3 }).product();
        let (now, now_database) = (kept.bytes_read(), database.bytes_read());
        // f32 voxels, u8 labels, and less than 64 KiB for the head and one block of a list.
        let most = chunks * 32 * 32 * 32 * 5 + (64 << 10);
        for read in [now - last, now_database - last_database] {
            assert!(
                read <= most && read >= chunks * 32 * 32 * 32 * 3,
                "{read} bytes for {chunks} chunks, {most} at most"
            );
            assert!(read * 4 < size, "{read} of {size} bytes");
        }
        (last, last_database) = (now, now_database);
    }
}

#[test]
fn the_database_grows_and_is_shared() {
    let dir = tempfile::tempdir().expect("a folder");
    // Five of 17 MB and two of 4 MB: more than the 64 MiB that the map has at first.
    let large: Vec<Item> = (0..5).map(|i| noise(dir.path(), &format!("large {i}"), 160)).collect();
    let small: Vec<Item> = (0..2).map(|i| noise(dir.path(), &format!("small {i}"), 96)).collect();
    let open = |items: &[Item]| {
        LmdbDataset::new(items.to_vec(), crop_of_noise(16), 0, 0, dir.path().join("db"), StoreOptions::default())
            .expect("opened")
    };
    let (first, second) = (open(&large), open(&small));
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| first.fill(2, hearth_data::Progress::None));
        // Readers while the map grows.
        for epoch in 0..200 {
            second.get(epoch as usize % 2, epoch).expect("a crop");
        }
        filling.join().expect("no panic").expect("filled");
    });
    assert!(fs::metadata(dir.path().join("db/hearth.lmdb")).expect("a file").len() > 64 << 20);
    let expected = contents(&first, 0..1);
    drop((first, second));
    let reopened = open(&large);
    for item in &large {
        item.files.values().for_each(|file| assert!(file.exists()));
    }
    assert_eq!(contents(&reopened, 0..1), expected);
    let plain = TransformDataset::new(large.clone(), crop_of_noise(16), 0, 0).expect("sound");
    assert_eq!(contents(&plain, 0..1), expected);
}

#[test]
fn halves_are_near_and_the_same_each_time() {
    let (dir, items) = phantom(1);
    let steps = || {
        let mut steps = steps(164.0);
        steps.truncate(4);
        Arc::new(Pipeline::new(steps).expect("sound"))
    };
    let plain = TransformDataset::new(items.clone(), steps(), 0, 0).expect("sound").get(0, 0).expect("a sample");
    let options = StoreOptions { storage: Storage::F16, ..StoreOptions::default() };
    let open = || PersistentDataset::new(items.clone(), steps(), 0, 0, dir.path().join("c"), options.clone());
    let first = contents(&open().expect("a folder"), 0..1);
    assert_eq!(contents(&open().expect("a folder"), 0..2)[..], [first.clone(), first.clone()].concat());
    let options = CacheOptions { storage: Storage::F16, ..CacheOptions::default() };
    let cached = CacheDataset::new(items.clone(), steps(), 0, 0, options).expect("it fits");
    assert_eq!(contents(&cached, 0..1), first, "in memory as in a file");
    let sample = cached.get(0, 0).expect("a sample").remove(0);
    let (a, b) =
        (sample.image("image").expect("an image").to_vec(), plain[0].image("image").expect("an image").to_vec());
    assert_ne!(a, b);
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= b.abs() / 2048.0 + 1e-6), "11 bits");
    let label = |sample: &Sample| sample.image("label").expect("a label").to_vec();
    assert_eq!(label(&sample), label(&plain[0]), "labels are exact");
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
    let first = CacheDataset::new(items.clone(), pipeline.clone(), 7, 0, options.clone()).expect("it fits");
    assert_eq!((count.load(Ordering::SeqCst), first.cached(), pool.len()), (2, 5, 2));
    let alone = CacheOptions { identity: None, ..CacheOptions::default() };
    let apart = CacheDataset::new(items.clone(), pipeline.clone(), 7, 0, alone).expect("it fits");
    assert!(apart.bytes() > first.bytes() * 2);
    assert_eq!(contents(&first, 0..2), contents(&apart, 0..2));
    // A second data set, the folds of a cross-validation say, makes nothing.
    count.store(0, Ordering::SeqCst);
    let second = CacheDataset::new(items[1..3].to_vec(), pipeline.clone(), 8, 0, options.clone()).expect("it fits");
    assert_eq!((count.load(Ordering::SeqCst), second.cached()), (0, 2));
    drop(first);
    assert_eq!(pool.len(), 2);
    drop(second);
    assert!(pool.is_empty(), "dropped with the last that has it");
    // What differs is not shared.
    let field = items[0].clone().with_field("age", Field::Number(3.0));
    let both = CacheDataset::new(vec![items[0].clone(), field], pipeline, 7, 0, options).expect("it fits");
    assert_eq!((both.cached(), pool.len()), (2, 2));
}

#[test]
fn as_many_as_fit_are_kept_and_the_rest_streamed() {
    let (_dir, items) = phantom(5);
    let all = CacheDataset::new(items.clone(), pipeline(), 7, 0, CacheOptions::default()).expect("it fits");
    let limit = all.bytes() as u64 / 5 * 3 + 50_000;
    for (runtime, workers) in [(false, 1), (false, 3), (true, 1)] {
        let options = CacheOptions { auto: true, limit: Some(limit), runtime, workers, ..CacheOptions::default() };
        let some = CacheDataset::new(items.clone(), pipeline(), 7, 0, options).expect("some fit");
        assert_eq!(contents(&some, 0..2), contents(&all, 0..2));
        assert!((1..5).contains(&some.cached()), "{} cached", some.cached());
        assert!(some.bytes() as u64 <= limit);
    }
    let none = CacheOptions { auto: true, limit: Some(10), ..CacheOptions::default() };
    let none = CacheDataset::new(items.clone(), pipeline(), 7, 0, none).expect("none fits");
    assert_eq!((none.cached(), none.bytes()), (0, 0));
    let narrow = CacheOptions { storage: Storage::Exact, ..CacheOptions::default() };
    let narrow = CacheDataset::new(items, pipeline(), 7, 0, narrow).expect("it fits");
    assert!(narrow.bytes() * 2 < all.bytes(), "{} of {} bytes", narrow.bytes(), all.bytes());
}

#[test]
fn a_runtime_cache_is_filled_by_use() {
    let (_dir, items) = phantom(3);
    let (pipeline, count) = counting(164.0);
    let options = CacheOptions { runtime: true, ..CacheOptions::default() };
    let dataset = CacheDataset::new(items, pipeline, 7, 0, options).expect("sound");
    assert_eq!((count.load(Ordering::SeqCst), dataset.cached()), (0, 0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| dataset.get(1, 0).expect("samples"));
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 1, "four threads, made once");
    assert!(dataset.is_cached(1) && !dataset.is_cached(0));
}

/// Which cases are worked at, in order.
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

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), CheckError> {
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
    let dataset = SmartCacheDataset::new(items, Arc::new(Pipeline::new(steps).expect("sound")), 0, 0, options);
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
    // MONAI's documentation, and what MONAI does with its default shuffle.
    for (shuffle, expected) in [
        (false, ["1234", "2345", "3451", "4512", "5123", "1234"]),
        (true, ["3124", "1245", "2453", "4531", "5312", "3124"]),
    ] {
        let (dataset, log) = smart(options(shuffle));
        let epochs: Vec<String> = (1..=6).map(|epoch| epoch_of(&dataset, epoch)).collect();
        assert_eq!(epochs, expected);
        // The window of four and the one case that comes next are all there are: each is made once, and none is dropped.
        let made = log.lock().expect("no panic").len();
        assert_eq!(made, 5);
        assert!(dataset.cached() <= 5);
    }
    // A run that begins later has the window it would have had, and no case twice.
    let (resumed, _) = smart(options(false));
    assert_eq!(epoch_of(&resumed, 4), "4512");
    assert_eq!(epoch_of(&resumed, 2), "2345", "and back");
    assert_eq!(resumed.window(3), [2, 3, 4, 0]);
    assert!(
        SmartCacheDataset::new(Vec::new(), pipeline(), 0, 0, SmartCacheOptions { replace_rate: 0.0, ..options(true) })
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
        Arc::new(TransformDataset::new(items, Arc::new(Pipeline::new(steps).expect("sound")), 3, 0).expect("sound"))
    };
    let both = ZipDataset::new(vec![only("image"), only("label")]).expect("the same cases");
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new(KEYS)),
        Box::new(RandFlip::new(KEYS).prob(0.5)),
        Box::new(RandRotate90::new(KEYS).prob(0.5)),
    ];
    let together = TransformDataset::new(items.clone(), Arc::new(Pipeline::new(steps).expect("sound")), 3, 0);
    assert_eq!(contents(&both, 0..3), contents(&together.expect("sound"), 0..3), "image and label draw alike");
    let twice = ZipDataset::new(vec![only("image"), only("image")]).expect("the same cases");
    assert!(twice.get(0, 0).expect_err("one key twice").to_string().contains("`image`"));
    let other: Arc<dyn Dataset> =
        Arc::new(TransformDataset::new(vec![Item::new("other")], Arc::new(Pipeline::default()), 0, 0).expect("sound"));
    assert!(ZipDataset::new(vec![only("image"), other]).is_err() && ZipDataset::new(Vec::new()).is_err());
}

#[test]
fn patches_of_another_data_set() {
    let (_dir, items) = phantom(2);
    let load: Vec<Box<dyn Transform>> = vec![Box::new(LoadImage::new(KEYS))];
    let images: Arc<dyn Dataset> =
        Arc::new(TransformDataset::new(items, Arc::new(Pipeline::new(load).expect("sound")), 0, 0).expect("sound"));
    let patches = |seed| {
        let cut: Vec<Box<dyn Transform>> =
            vec![Box::new(RandCropByPosNegLabel::new(KEYS, "label", 6).num_samples(3_usize))];
        PatchDataset::new(images.clone(), Pipeline::new(cut).expect("sound"), seed, 0)
    };
    let dataset = patches(1).with_samples_per_image(3);
    assert_eq!(dataset.get(1, 0).expect("patches").len(), 3);
    assert_eq!(contents(&dataset, 0..2), contents(&patches(1), 0..2));
    assert_ne!(contents(&dataset, 0..2), contents(&patches(2), 0..2));
    let error = patches(1).with_samples_per_image(4).get(0, 0).expect_err("three").to_string();
    assert!(error.contains("3 patches, 4"), "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (_dir, items) = phantom(1);
    let cache = |options| CacheDataset::new(items.clone(), pipeline(), 0, 0, options).map(drop);
    let message = |result: Result<(), DataError>| result.expect_err("refused").to_string();
    assert!(message(cache(CacheOptions { rate: 1.5, ..CacheOptions::default() })).contains("1.5"));
    let n = CacheNTransDataset::new(items.clone(), pipeline(), 0, 0, 7, "unused", StoreOptions::default());
    assert!(message(n.map(drop)).contains("has 6"));
    assert!(!Path::new("unused").exists());
    let none = SmartCacheOptions { num: Some(0), ..SmartCacheOptions::default() };
    assert!(message(SmartCacheDataset::new(items.clone(), pipeline(), 0, 0, none).map(drop)).contains("none of 1"));
}

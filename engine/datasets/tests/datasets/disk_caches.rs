//! Tests of caches on disk: written once, replaced if damaged, shared, and read only as far as
//! needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hearth_datasets::{
    CacheDataset, CacheOptions, Dataset, Item, LmdbDataset, PersistentDataset, Storage, StoreOptions, TransformDataset,
};
use hearth_image::{Image, affine, host_device};
use hearth_io::{NiftiOptions, write_nifti};
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Pipeline, Sample, Transform};

use crate::cases::{KEYS, contents, counting, crop, describe, persistent, phantom, pipeline, seeded, steps};

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
    // Changed content is a new case, even while a data set is in use.
    let dataset = persistent(&items, pipeline.clone(), &cache);
    let before = contents(&dataset, 0..1);
    count.store(0, Ordering::SeqCst);
    fs::copy(&items[0].files["image"], dir.path().join("old.nii.gz")).expect("copied");
    fs::copy(&items[1].files["image"], &items[0].files["image"]).expect("copied");
    fs::copy(&items[1].files["label"], &items[0].files["label"]).expect("copied");
    assert_ne!(contents(&dataset, 0..1), before);
    assert_eq!(count.load(Ordering::SeqCst), 0, "it is now the same as case 1, which is there");
    // Other parameters lead to other entries; the old ones are unchanged.
    let (other, counted) = counting(165.0);
    contents(&persistent(&items[..1], other.clone(), &cache), 0..1);
    assert_eq!((counted.load(Ordering::SeqCst), entries(&cache).len()), (1, 3));
    let options = StoreOptions { version: "2".to_owned(), ..StoreOptions::default() };
    let versioned =
        PersistentDataset::new(items[..1].to_vec(), seeded(other.clone(), 7), &cache, options).expect("a folder");
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
        // Damage everywhere, and often within the head.
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
        // A chunk that no crop touched may still be damaged; all damage that was found is repaired.
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
    let plain = contents(&TransformDataset::new(items.clone(), seeded(pipeline(), 7)).expect("sound"), 0..2);
    let dataset = persistent(&items, pipeline(), &cache);
    fs::remove_dir_all(&cache).expect("removed");
    fs::write(&cache, "in the way").expect("written");
    assert_eq!(contents(&dataset, 0..2), plain);
    let refused = PersistentDataset::new(items, seeded(pipeline(), 7), cache.join("below"), StoreOptions::default());
    assert!(refused.expect_err("no folder").to_string().contains("below"));
}

/// A case of noise, which does not compress, with a label of one voxel in eight.
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
    let plain = TransformDataset::new(items.clone(), seeded(crop_of_noise(64), 7)).expect("sound");
    let cache = dir.path().join("cache");
    persistent(&items, crop_of_noise(64), &cache).fill(1, hearth_datasets::Progress::None).expect("filled");
    let size = fs::metadata(&entries(&cache)[0]).expect("an entry").len();
    assert!(size > 160 * 160 * 160 * 3, "noise stays about as large as it is");
    let kept = persistent(&items, crop_of_noise(64), &cache);
    let database =
        LmdbDataset::new(items, seeded(crop_of_noise(64), 7), dir.path().join("db"), StoreOptions::default());
    let database = database.expect("opened");
    database.fill(1, hearth_datasets::Progress::None).expect("filled");
    let (mut last, mut last_database) = (kept.bytes_read(), database.bytes_read());
    for epoch in 0..30 {
        let samples = kept.get(0, epoch).expect("a crop");
        let expected = plain.get(0, epoch).expect("a crop");
        assert_eq!(samples.iter().map(describe).collect::<Vec<_>>(), expected.iter().map(describe).collect::<Vec<_>>());
        assert_eq!(describe(&database.get(0, epoch).expect("a crop")[0]), describe(&expected[0]));
        // 64 voxels touch two chunks of 32 if they start with one, else three.
        let Some(hearth_image::Applied::Crop { start, .. }) =
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
    // Five entries of 17 MB and two of 4 MB: more than the initial 64 MiB of the map.
    let large: Vec<Item> = (0..5).map(|i| noise(dir.path(), &format!("large {i}"), 160)).collect();
    let small: Vec<Item> = (0..2).map(|i| noise(dir.path(), &format!("small {i}"), 96)).collect();
    let open = |items: &[Item]| {
        LmdbDataset::new(items.to_vec(), crop_of_noise(16), dir.path().join("db"), StoreOptions::default())
            .expect("opened")
    };
    let (first, second) = (open(&large), open(&small));
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| first.fill(2, hearth_datasets::Progress::None));
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
    let plain = TransformDataset::new(large.clone(), crop_of_noise(16)).expect("sound");
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
    let plain = TransformDataset::new(items.clone(), steps()).expect("sound").get(0, 0).expect("a sample");
    let options = StoreOptions { storage: Storage::F16, ..StoreOptions::default() };
    let open = || PersistentDataset::new(items.clone(), steps(), dir.path().join("c"), options.clone());
    let first = contents(&open().expect("a folder"), 0..1);
    assert_eq!(contents(&open().expect("a folder"), 0..2)[..], [first.clone(), first.clone()].concat());
    let options = CacheOptions { storage: Storage::F16, ..CacheOptions::default() };
    let cached = CacheDataset::new(items.clone(), steps(), options).expect("it fits");
    assert_eq!(contents(&cached, 0..1), first, "in memory as in a file");
    let sample = cached.get(0, 0).expect("a sample").remove(0);
    let (a, b) =
        (sample.image("image").expect("an image").to_vec(), plain[0].image("image").expect("an image").to_vec());
    assert_ne!(a, b);
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= b.abs() / 2048.0 + 1e-6), "11 bits");
    let label = |sample: &Sample| sample.image("label").expect("a label").to_vec();
    assert_eq!(label(&sample), label(&plain[0]), "labels are exact");
}

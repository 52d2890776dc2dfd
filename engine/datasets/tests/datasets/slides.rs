//! Tests of TIFF files and whole-slide images as images and as data sets of patches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_datasets::{Dataset, PatchWSIDataset, WsiOptions, WsiPatch};
use hearth_io::ReadOptions;
use hearth_io::readers::{choose, read_image, read_image_with};
use hearth_slides::{Slide, TissueOptions};
use hearth_transforms::transforms::ScaleIntensityRange;
use hearth_transforms::{Pipeline, Value};
use tiff::encoder::{TiffEncoder, colortype};

/// Pages whose pixel at (row, column) is `page + 10 * row + column`.
fn stack(path: &Path, pages: u16) {
    let mut encoder = TiffEncoder::new(std::fs::File::create(path).expect("created")).expect("an encoder");
    for page in 0..pages {
        let pixels: Vec<u16> = (0..6).map(|i| page + 10 * (i / 3) + i % 3).collect();
        encoder.write_image::<colortype::Gray16>(3, 2, &pixels).expect("written");
    }
}

#[test]
fn pages_of_one_size_are_slices() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("stack.tif");
    stack(&path, 4);
    assert_eq!(choose(&path).expect("a reader").name(), "TiffReader");
    let image = read_image(&path).expect("readable");
    assert_eq!((image.data.dims(), image.meta.spatial_dims), ([1, 3, 2, 4], 3));
    assert_eq!(image.to_vec()[..8], [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]);
    assert_eq!(image.meta.stored_type, "uint16");
    let mut rows_first = ReadOptions::default();
    rows_first.reverse_indexing = false;
    let image = read_image_with(&path, &rows_first).expect("readable");
    assert_eq!(image.data.dims(), [1, 2, 3, 4]);
    assert_eq!(image.to_vec()[4..8], [1.0, 2.0, 3.0, 4.0]);
    stack(&path, 1);
    let image = read_image(&path).expect("readable");
    assert_eq!((image.data.dims(), image.meta.spatial_dims), ([1, 3, 2, 1], 2));
    assert_eq!(image.to_vec(), [0.0, 10.0, 1.0, 11.0, 2.0, 12.0]);
    let whole = std::fs::read(&path).expect("read");
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("written");
    assert!(read_image(&path).expect_err("cut").to_string().contains("stack.tif"));
}

#[test]
fn thumbnails_are_told_from_images_of_several_sizes() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.tif");
    // The pages' values are their numbers.
    let write = |sizes: &[(u32, u32)]| {
        let mut encoder = TiffEncoder::new(std::fs::File::create(&path).expect("created")).expect("an encoder");
        for (page, (width, height)) in sizes.iter().enumerate() {
            let pixels = vec![page as u16; (width * height) as usize];
            encoder.write_image::<colortype::Gray16>(*width, *height, &pixels).expect("written");
        }
    };
    let first = |sizes: &[(u32, u32)]| {
        write(sizes);
        let image = read_image(&path).expect("readable");
        (image.data.dims(), image.to_vec()[0])
    };
    // No size is another divided by a factor: that would be a pyramid.
    // The image with what a scanner adds, wherever that stands; a stack with a preview.
    assert_eq!(first(&[(60, 40), (12, 5), (20, 9)]), ([1, 60, 40, 1], 0.0));
    assert_eq!(first(&[(12, 5), (60, 40)]), ([1, 60, 40, 1], 1.0));
    assert_eq!(first(&[(9, 4), (60, 40), (60, 40), (60, 40)]), ([1, 60, 40, 3], 1.0));
    // Neither: fields of view of their own, two stacks, many sizes.
    for sizes in [
        &[(60, 40), (61, 39)][..],
        &[(60, 40), (60, 40), (30, 25), (30, 25)],
        &[(60, 40), (50, 30), (40, 20), (30, 10), (20, 5)],
    ] {
        write(sizes);
        let error = read_image(&path).expect_err("refused").to_string();
        assert!(
            error.contains("several sizes") && error.contains("60 x 40, ") && error.contains("pages.tif"),
            "{error}"
        );
    }
}

fn real(name: &str) -> PathBuf {
    let root = std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    root.join("wsi").join(name)
}

fn patch(slide: &Path, row: i64, column: i64, label: &[f32]) -> WsiPatch {
    WsiPatch { slide: slide.to_owned(), location: [row, column], label: label.to_vec(), map_location: None }
}

fn scaled() -> Arc<Pipeline> {
    let step = ScaleIntensityRange::new("image", 0.0, 255.0).b_min(Some(-1.0)).b_max(Some(1.0));
    Arc::new(Pipeline::new(step).expect("a sound pipeline"))
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn patches_are_what_lies_there() {
    let path = real("cmu-1-small-region.svs");
    let slide = Slide::open(&path).expect("a slide");
    let (width, height) = slide.dimensions();
    let whole = slide.read_region(0, 0, 0, width, height).expect("the whole").to_chw_f32();
    let patches = vec![patch(&path, 300, 400, &[1.0, 0.0]), patch(&path, 0, 0, &[])];
    let set = PatchWSIDataset::new(patches, WsiOptions::new(64, 32), scaled()).expect("a data set");
    let sample = set.get(0, 1).expect("a patch").remove(0);
    let image = sample.image("image").expect("an image");
    assert_eq!(image.data.dims(), [3, 64, 32, 1]);
    assert_eq!(sample.image("label").expect("a label").to_vec(), [1.0, 0.0]);
    let values = image.to_vec();
    for (channel, row, column) in [(0, 0, 0), (1, 63, 31), (2, 20, 7)] {
        let raw = whole[(channel * height + 300 - 32 + row) * width + 400 - 16 + column];
        let got = values[(channel * 64 + row) * 32 + column];
        assert!((got - (raw / 127.5 - 1.0)).abs() < 1e-5, "channel {channel} at {row}, {column}: {got}");
    }
    // Around the corner of the slide, three quarters lie outside and are white.
    let corner = set.get(1, 1).expect("a patch").remove(0).image("image").expect("an image").to_vec();
    assert_eq!(corner[0], 1.0);
    assert!(set.case(0).contains("row 300"));
    let far = vec![patch(&path, height as i64, 0, &[])];
    let text = PatchWSIDataset::new(far, WsiOptions::new(8, 8), scaled()).expect_err("outside").to_string();
    assert!(text.contains("cmu-1-small-region.svs") && text.contains("rows"), "{text}");
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn windows_cover_a_slide_and_masks_find_its_tissue() {
    let path = real("cmu-1-small-region.svs");
    let slide = Slide::open(&path).expect("a slide");
    let (width, height) = slide.dimensions();
    let sliding = PatchWSIDataset::sliding(std::slice::from_ref(&path), 0.0, WsiOptions::new(256, 256), scaled())
        .expect("windows");
    assert_eq!(sliding.len(), (width / 256) * (height / 256));
    let mask = TissueOptions { side: 64, ..TissueOptions::default() };
    let masked = PatchWSIDataset::masked(std::slice::from_ref(&path), &mask, WsiOptions::new(32, 32), scaled())
        .expect("patches");
    let tissue = slide.tissue_mask(&mask).expect("a mask").pixels.iter().filter(|p| **p).count();
    assert_eq!(masked.len(), tissue);
    assert!(tissue > 100, "{tissue} pixels of tissue");
    let sample = masked.get(tissue / 2, 0).expect("a patch").remove(0);
    assert!(matches!(sample.get("map_row"), Ok(Value::Number(_))));
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_level_of_a_slide_is_an_image() {
    for entry in std::fs::read_dir(real("derived")).expect("a folder") {
        let path = entry.expect("a file").path();
        let Ok(slide) = Slide::open(&path) else { continue };
        let last = slide.levels().len() - 1;
        let mut options = ReadOptions::default();
        (options.reader, options.level) = (Some("WSIReader".to_owned()), last);
        let image = read_image_with(&path, &options).unwrap_or_else(|e| panic!("{e}"));
        let level = &slide.levels()[last];
        assert_eq!(image.shape(), [level.height, level.width, 1], "{}", path.display());
    }
}

//! Tests that damaged or hostile files only cause errors in readers.
//!
//! One function per kind of file reads arbitrary bytes as such a file. The result, or the error, is
//! ignored. A panic ends the program, and so does allocating more than [`LIMIT`]: no reader may
//! allocate memory for content that a file only claims to have.
//!
//! `cargo fuzz run --fuzz-dir tests/fuzz --features libfuzzer nifti` searches for such bytes. Found
//! inputs, and valid files, are kept in `corpus/`, and every `cargo test` tries them again.

#![forbid(unsafe_code)]

use std::panic;
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};

mod models;
mod mutate;
mod others;
mod requests;

pub use models::{annotations, bundle, expression, package, plans, probabilities, run};
pub use mutate::Mutator;
pub use others::{archive, lists, pickle, plugin, raster, recipe, safetensors};
pub use requests::request;

use hearth_dicom::{FindingKind, Regions};
use hearth_slides::{Slide, SlideOptions, TiffFile, TileCache};
use peak_alloc::PeakAlloc;

/// The limit of allocated memory, in bytes: inputs are small, and gzip unpacks to at most a
/// thousand times its size.
pub const LIMIT: usize = 1 << 30;

#[global_allocator]
static ALLOCATOR: cap::Cap<PeakAlloc> = cap::Cap::new(PeakAlloc, LIMIT);

/// Counts allocations.
static PEAK: PeakAlloc = PeakAlloc;

/// The peak of the additional memory allocated while a function ran, in bytes.
pub fn peak_of(work: impl FnOnce()) -> usize {
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    work();
    PEAK.peak_usage().saturating_sub(before)
}

/// Reads bytes for libFuzzer. Its own hook ends the program at every panic, even one that a reader
/// catches and turns into an error. This one only does so for an uncaught panic.
pub fn fuzz(read: fn(&[u8]), bytes: &[u8]) {
    static HOOK: Once = Once::new();
    static LAST: Mutex<String> = Mutex::new(String::new());
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    HOOK.call_once(|| panic::set_hook(Box::new(move |info| *last() = info.to_string())));
    if panic::catch_unwind(|| read(bytes)).is_err() {
        eprintln!("{}", last());
        std::process::abort();
    }
}

/// Writes the bytes under a name in a new folder and calls a function with it.
fn with_file(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    with_files(&[(name, bytes)], |folder| read(&folder.join(name)));
}

/// Writes files into a new folder and calls a function with it.
fn with_files(files: &[(&str, &[u8])], read: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir_in(memory()).expect("a temporary folder");
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("the file is written");
    }
    read(folder.path());
}

/// A folder in memory if the system has one.
fn memory() -> std::path::PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

/// NIfTI-1, NIfTI-2, plain or gzip.
pub fn nifti(bytes: &[u8]) {
    with_file("x.nii", bytes, |path| {
        let _ = hearth_data::nifti::read_header(path);
        if let Ok(image) = hearth_data::read_nifti(path) {
            // What was read must be consistent enough to use.
            let _ = (image.spacing(), image.orientation(), image.to_vec().len());
        }
    });
}

/// NPY and NPZ.
pub fn npy(bytes: &[u8]) {
    let mut options = hearth_data::ReadOptions::default();
    options.reader = Some("NumpyReader".to_owned());
    with_file("x.npy", bytes, |path| {
        let _ = hearth_data::read_image_with(path, &options);
    });
}

/// NRRD, and files of its voxels after [`NEXT_FILE`]; segments are read too.
pub fn nrrd(bytes: &[u8]) {
    with_header("x.nrrd", bytes, |path| {
        drop(hearth_data::read_image(path));
        drop(hearth_data::readers::read_segments(path, &hearth_data::ReadOptions::default()));
    });
}

/// MetaImage, and files of its voxels after [`NEXT_FILE`].
pub fn metaimage(bytes: &[u8]) {
    with_header("x.mha", bytes, |path| drop(hearth_data::read_image(path)));
}

/// Volumes of FreeSurfer, plain or gzip.
pub fn mgh(bytes: &[u8]) {
    with_file("x.mgh", bytes, |path| {
        if let Ok(image) = hearth_data::read_image(path) {
            let _ = (image.spacing(), image.orientation(), image.to_vec().len());
        }
    });
}

/// A pair of Analyze 7.5: the header, and after [`NEXT_FILE`] the values, and SPM's file of the affine.
pub fn analyze(bytes: &[u8]) {
    let files: Vec<(&str, &[u8])> = ["x.hdr", "x.img", "x.mat"].into_iter().zip(split(bytes)).collect();
    with_files(&files, |folder| {
        if let Ok(image) = hearth_data::read_nifti(folder.join("x.hdr")) {
            let _ = (image.spacing(), image.orientation(), image.to_vec().len());
        }
    });
}

/// Writes a header, and up to three files that it may name: `0.raw`, `1.raw` and `2.raw`.
fn with_header(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    let files: Vec<(&str, &[u8])> = [name, "0.raw", "1.raw", "2.raw"].into_iter().zip(split(bytes)).collect();
    with_files(&files, |folder| read(&folder.join(name)));
}

/// Arrays of Blosc2: an image, and its labels after [`NEXT_FILE`].
pub fn b2nd(bytes: &[u8]) {
    let files: Vec<(&str, &[u8])> = ["case.b2nd", "case_seg.b2nd"].into_iter().zip(split(bytes)).collect();
    with_files(&files, |folder| {
        for (name, _) in &files {
            if let Ok(image) = hearth_data::read_image(folder.join(name)) {
                assert_eq!(image.to_vec().len(), image.channels() * image.shape().iter().product::<usize>());
            }
        }
    });
}

/// The list of a Decathlon data set.
pub fn dataset_json(bytes: &[u8]) {
    with_file("dataset.json", bytes, |path| {
        if let Ok(set) = hearth_data::DecathlonDataset::open(path.parent().unwrap_or(path))
            && let Ok((train, held)) = set.split_last(1)
        {
            assert_eq!(train.len() + held.len(), set.training.len());
        }
    });
}

/// The separator between the files of a DICOM folder.
pub const NEXT_FILE: &[u8] = b"==NEXT FILE==";

/// A DICOM folder of one to four files, concatenated with [`NEXT_FILE`] between them (a fourth file
/// has all that is left). Every series is read, every RTSTRUCT and SEG on its own grid and on that
/// of every series, and every file as stored and as a whole slide. Acceptable faults of a series
/// are accepted, so that reading continues.
pub fn dicom(bytes: &[u8]) {
    let names = ["0.dcm", "1.dcm", "2.dcm", "3.dcm"];
    let files: Vec<(&str, &[u8])> = names.into_iter().zip(split(bytes)).collect();
    let mut options = hearth_dicom::ReadOptions::default();
    options.accept = vec![FindingKind::MissingSlices, FindingKind::DuplicateSlices, FindingKind::MissingPosition];
    // The limits are small, so that a run is short; enforcing them does not depend on their size.
    options.limits.file_bytes = 16 << 20;
    options.limits.frame_samples = 1 << 20;
    options.limits.frames = 1 << 10;
    options.limits.volume_values = 1 << 22;
    let limits = hearth_slides::Limits { tag_bytes: 1 << 20, tile_bytes: 4 << 20, image_bytes: 8 << 20, pages: 64 };
    let slide = SlideOptions { limits, cache: Some(TileCache::new(1 << 20)), ..SlideOptions::default() };
    for (name, bytes) in &files {
        if let Ok(slide) = Slide::from_bytes(name, bytes.to_vec(), &slide) {
            let _ = (slide.read_region(0, -3, 5, 40, 40), slide.thumbnail(16));
        }
    }
    with_files(&files, |folder| {
        let Ok(scan) = hearth_dicom::scan_with(folder, &options) else { return };
        for series in &scan.series {
            let _ = (series.summary(), series.files());
            if let Ok(volume) = series.read_with(&options) {
                assert_eq!(volume.values.len(), volume.shape.iter().product::<usize>());
            }
        }
        for annotation in &scan.annotations {
            let Ok(regions) = Regions::open(&annotation.path, &options) else { continue };
            let own = regions.own_grid().and_then(Result::ok);
            for grid in own.iter().chain(scan.series.iter().map(|series| series.grid())) {
                let _ = regions.labels(&[], grid, &options);
                let _ = regions.channels(&[], grid, &options);
            }
        }
        for pair in scan.pairs().pairs {
            let _ = pair.read_labels(&[], &options);
        }
        for (name, _) in &files {
            if let Ok(stored) = hearth_dicom::read_stored(folder.join(name), &options) {
                assert_eq!(stored.bytes.len(), stored.shape.iter().product::<usize>() * stored.stored_type.size());
            }
        }
    });
}

/// The bytes between [`NEXT_FILE`]s, in at most four parts.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = bytes.windows(NEXT_FILE.len()).position(|w| w == NEXT_FILE).filter(|_| parts.len() < 3) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + NEXT_FILE.len()..];
    }
    parts.push(bytes);
    parts
}

/// TIFF and BigTIFF, including pyramids (SVS and others): some pages, a region of each level,
/// associated images, and the result of `TiffReader`.
pub fn tiff(bytes: &[u8]) {
    // Small limits, as for DICOM.
    let limits = hearth_slides::Limits { tag_bytes: 1 << 20, tile_bytes: 4 << 20, image_bytes: 8 << 20, pages: 64 };
    let Ok(file) = TiffFile::from_bytes("x.tif", bytes.to_vec(), limits) else { return };
    let read: Vec<bool> = (0..file.pages().len().min(4)).map(|page| file.read(page).is_ok()).collect();
    let options = SlideOptions { limits, cache: Some(TileCache::new(1 << 20)), ..SlideOptions::default() };
    if let Ok(slide) = Slide::from_bytes("x.tif", bytes.to_vec(), &options) {
        for level in 0..slide.levels().len() {
            if let Ok(region) = slide.read_region(level, -3, 5, 40, 40) {
                assert_eq!(region.samples.len(), 40 * 40 * region.channels);
            }
        }
        for name in slide.associated_names() {
            let _ = slide.read_associated(name);
        }
        let _ = slide.thumbnail(16);
    }
    // This reader has the limits of real slides, so it only gets files that the smaller limits
    // allow.
    if read.len() == file.pages().len() && read.iter().all(|page| *page) {
        let mut options = hearth_data::ReadOptions::default();
        options.reader = Some("TiffReader".to_owned());
        with_file("x.tif", bytes, |path| {
            if let Ok(image) = hearth_data::read_image_with(path, &options) {
                assert_eq!(image.to_vec().len(), image.channels() * image.shape().iter().product::<usize>());
            }
        });
    }
}

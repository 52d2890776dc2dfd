//! What a damaged or hostile file may do to a reader: be an error.
//!
//! One function per kind of file takes any bytes and reads them as if they were one; what comes back, or the error, is of no
//! interest here. A panic ends the program, and so does having more than [`LIMIT`] allocated: no reader may take memory for
//! what a file only promises.
//!
//! `cargo fuzz run --fuzz-dir tests/fuzz --features libfuzzer nifti` looks for such bytes; those found, and files that
//! are as they should be, are kept in `corpus/` and tried again by every `cargo test`.

use std::alloc::System;
use std::path::Path;

/// What may be allocated at one time, in bytes: inputs are small, and gzip unpacks to at most a thousand times its size.
pub const LIMIT: usize = 1 << 30;

#[global_allocator]
static ALLOCATOR: cap::Cap<System> = cap::Cap::new(System, LIMIT);

/// Writes the bytes under a name in a folder of their own and does something with it.
fn with_file(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir_in(memory()).expect("a temporary folder");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("the file is written");
    read(&path);
}

/// A folder in memory where the system has one.
fn memory() -> std::path::PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

/// NIfTI-1, NIfTI-2, plain or gzip.
pub fn nifti(bytes: &[u8]) {
    with_file("x.nii", bytes, |path| {
        let _ = hearth_data::nifti::read_header(path);
        if let Ok(image) = hearth_data::read_nifti(path) {
            // What was read must be sound enough to be looked at.
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

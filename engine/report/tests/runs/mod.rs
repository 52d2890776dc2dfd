//! The recorded runs, with checkpoints of full length: their files are not kept in the repository.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

/// A recorded run, or a folder of some.
pub fn data(name: &str) -> PathBuf {
    static COPY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let copied = || {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"), folder.path());
        folder
    };
    COPY.get_or_init(copied).path().join(name)
}

/// Copies a folder; the files that a checkpoint's manifest names are empty space of their length.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
            continue;
        }
        fs::copy(&path, &target).expect("a file");
        if entry.file_name() == "manifest.json" {
            let manifest: Value = serde_json::from_slice(&fs::read(&path).expect("a manifest")).expect("JSON");
            for (name, file) in manifest["files"].as_object().into_iter().flatten() {
                let length = file["bytes"].as_u64().expect("a length");
                let file = to.join(name);
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
                File::create(file).and_then(|file| file.set_len(length)).expect("a sparse file");
            }
        }
    }
}

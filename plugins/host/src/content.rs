//! The hash of a plugin's files: what a run records, and what the keys of caches include.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::safety::files_beside;

/// The number of hexadecimal digits: 64 bits tell builds of one plugin apart.
const DIGITS: usize = 16;

/// The hash of the library, its modules and the libraries that it brings, in hexadecimal digits. A build
/// with other code has another hash; the place of the files does not change it.
///
/// # Errors
/// A file that cannot be read.
pub fn content_hash(library: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for file in files_beside(library)? {
        hasher.update(blake3::Hasher::new().update_reader(File::open(file)?)?.finalize().as_bytes());
    }
    Ok(hasher.finalize().to_hex()[..DIGITS].to_owned())
}

#[cfg(test)]
mod tests {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    use std::fs;

    use super::*;

    #[test]
    fn the_content_counts_and_not_the_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let library = write(&format!("{DLL_PREFIX}mine{DLL_SUFFIX}"), "code");
        let first = content_hash(&library).expect("a file");
        assert_eq!(first.len(), DIGITS);
        assert_eq!(content_hash(&write(&format!("{DLL_PREFIX}other{DLL_SUFFIX}"), "code")).expect("a file"), first);
        write("mine.py", "x = 1");
        let of_python = content_hash(&library).expect("a file");
        assert_ne!(of_python, first, "the module of a Python plugin is code");
        write("mine.py", "x = 2");
        assert_ne!(content_hash(&library).expect("a file"), of_python);
        fs::remove_file(folder.path().join("mine.py")).expect("a file");
        write(&format!("{DLL_PREFIX}mine{DLL_SUFFIX}"), "other code");
        assert_ne!(content_hash(&library).expect("a file"), first);
    }
}

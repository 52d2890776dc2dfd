//! Uploaded archives: [`unpack`].

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::spool::Workspace;

/// The maximum number of files in an archive: more than a study has.
const FILES: usize = 100_000;

/// An error of unpacking.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is not a zip, or damaged.
    #[error("the archive cannot be read: {0}")]
    Damaged(String),
    /// It exceeds the limit of a request.
    #[error("the archive has {0}")]
    TooMuch(String),
    /// No space for temporary files is left.
    #[error("no space for temporary files is left")]
    SpoolFull,
    /// The disk failed.
    #[error("cannot write a temporary file: {0}")]
    Disk(#[from] io::Error),
}

/// Unpacks a zip into a new folder next to it, removes it, and returns the folder that holds its files:
/// folders that only hold one other folder are skipped.
///
/// # Errors
/// A damaged archive; one with more than `limit` bytes, or with names that lead outside of it.
pub fn unpack(archive: &Path, limit: u64, workspace: &Workspace) -> Result<PathBuf, UnpackError> {
    let folder = archive.with_extension("unpacked");
    fs::create_dir(&folder)?;
    let damaged = |error: zip::result::ZipError| UnpackError::Damaged(error.to_string());
    let mut zip = ZipArchive::new(File::open(archive)?).map_err(damaged)?;
    if zip.len() > FILES {
        return Err(UnpackError::TooMuch(format!("{} files, and at most {FILES} are unpacked", zip.len())));
    }
    let mut left = limit;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(damaged)?;
        let Some(name) = entry.enclosed_name() else {
            return Err(UnpackError::Damaged(format!("{:?} is a name outside of it", entry.name())));
        };
        if entry.is_dir() || is_clutter(&name) {
            continue;
        }
        let path = folder.join(name);
        // A name may be too long for a file, or name both a file and a folder.
        let unusable = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => UnpackError::Damaged(format!("{:?} occurs twice", entry.name())),
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidFilename => {
                UnpackError::Damaged(format!("{:?} cannot be the name of a file: {error}", entry.name()))
            }
            _ => error.into(),
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(unusable)?;
        }
        // The header may contain a wrong size, so the bytes are counted.
        let mut file = File::create_new(&path).map_err(unusable)?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            let count = entry.read(&mut buffer).map_err(|error| UnpackError::Damaged(error.to_string()))?;
            if count == 0 {
                break;
            }
            let Some(rest) = left.checked_sub(count as u64) else {
                let limit = hearth_machine::readable(limit);
                return Err(UnpackError::TooMuch(format!("more than {limit} of files, which is the limit")));
            };
            left = rest;
            workspace.reserve(count as u64).map_err(|_| UnpackError::SpoolFull)?;
            file.write_all(&buffer[..count])?;
        }
    }
    drop(zip);
    fs::remove_file(archive)?;
    Ok(inner(folder))
}

/// Whether it is a file that operating systems add to archives.
fn is_clutter(name: &Path) -> bool {
    let parts = |part: &str| name.components().any(|one| one.as_os_str() == part);
    parts("__MACOSX") || parts(".DS_Store") || name.file_name().is_some_and(|file| file == "Thumbs.db")
}

/// The innermost folder that has more than one entry, or files.
pub fn inner(mut folder: PathBuf) -> PathBuf {
    loop {
        let Ok(entries) = fs::read_dir(&folder) else { return folder };
        let entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        match &entries[..] {
            [one] if one.is_dir() => folder = one.clone(),
            _ => return folder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Spool;
    use zip::write::SimpleFileOptions;

    fn archive(path: &Path, files: &[(&str, &[u8])]) {
        let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
        for (name, content) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap();
    }

    #[test]
    fn archives_are_unpacked_within_their_limits() {
        let spool = Spool::new(None, 1 << 20).unwrap();
        let workspace = spool.workspace().unwrap();
        let path = workspace.uploads().join("a.zip");
        archive(&path, &[("study/series/1", b"one"), ("study/series/2", b"two"), ("__MACOSX/x", b"x")]);
        let folder = unpack(&path, 100, &workspace).unwrap();
        assert!(folder.ends_with("study/series"), "{}", folder.display());
        assert_eq!(fs::read(folder.join("2")).unwrap(), b"two");
        assert_eq!((path.exists(), spool.used()), (false, 6));

        let path = workspace.uploads().join("b.zip");
        archive(&path, &[("zeros", &[0; 2000])]);
        let error = unpack(&path, 1999, &workspace).unwrap_err();
        assert!(matches!(error, UnpackError::TooMuch(_)), "{error}");

        let path = workspace.uploads().join("c.zip");
        archive(&path, &[("../../outside", b"x")]);
        let error = unpack(&path, 100, &workspace).unwrap_err();
        assert!(matches!(error, UnpackError::Damaged(_)), "{error}");

        let long = "x".repeat(400);
        for (name, files) in [("e.zip", ["a", "a/b"]), ("f.zip", ["a/b", "a"]), ("g.zip", ["a", long.as_str()])] {
            let path = workspace.uploads().join(name);
            archive(&path, &files.map(|name| (name, &b"x"[..])));
            let error = unpack(&path, 100, &workspace).unwrap_err();
            assert!(matches!(error, UnpackError::Damaged(_)), "{error}");
        }

        let path = workspace.uploads().join("d.zip");
        fs::write(&path, b"PK\x03\x04 and no more").unwrap();
        assert!(matches!(unpack(&path, 100, &workspace), Err(UnpackError::Damaged(_))));
    }
}

//! Uploaded archives: [`unpack`].

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use zip::ZipArchive;

use crate::spool::Workspace;

/// The maximum number of files in an archive: more than a study has.
const FILES: usize = 100_000;
/// The maximum number of folders in an archive.
const FOLDERS: usize = 10_000;
/// The maximum number of folders within each other.
const DEPTH: usize = 16;
/// The maximum length of a name with its folders in bytes; that of a single name is the file system's.
const NAME: usize = 1024;
/// The maximum size of an archive's list of files in bytes, which is kept in memory.
const DIRECTORY: u64 = 32 << 20;

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

/// The bytes that the compressed files of a request may have when they are unpacked.
pub struct Budget {
    limit: u64,
    left: u64,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Self { limit, left: limit }
    }

    fn take(&mut self, count: usize) -> Result<(), UnpackError> {
        let Some(left) = self.left.checked_sub(count as u64) else {
            let limit = hearth_machine::readable(self.limit);
            return Err(UnpackError::TooMuch(format!("more than {limit} of files, which is the limit")));
        };
        self.left = left;
        Ok(())
    }
}

/// A file of which a limited number of bytes is read: the list of an archive's files is kept in memory.
struct Bounded {
    file: BufReader<File>,
    left: Arc<AtomicU64>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        let left = self.left.load(Ordering::Relaxed).saturating_sub(count as u64);
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(count)
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Unpacks a zip into a new folder next to it, removes it, and returns the folder that holds its files:
/// folders that only hold one other folder are skipped.
///
/// # Errors
/// A damaged archive; one with more than the budget, or with names that lead outside of it.
pub fn unpack(archive: &Path, budget: &mut Budget, workspace: &Workspace) -> Result<PathBuf, UnpackError> {
    let folder = archive.with_extension("unpacked");
    fs::create_dir(&folder)?;
    let damaged = |error: zip::result::ZipError| UnpackError::Damaged(error.to_string());
    let listing = Arc::new(AtomicU64::new(DIRECTORY));
    let file = Bounded { file: BufReader::new(File::open(archive)?), left: listing.clone() };
    let mut zip = ZipArchive::new(file).map_err(|error| match listing.load(Ordering::Relaxed) {
        0 => UnpackError::TooMuch(format!("a list of files of more than {}", hearth_machine::readable(DIRECTORY))),
        _ => damaged(error),
    })?;
    listing.store(u64::MAX, Ordering::Relaxed);
    if zip.len() > FILES {
        return Err(UnpackError::TooMuch(format!("{} files, and at most {FILES} are unpacked", zip.len())));
    }
    let mut folders = BTreeSet::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(damaged)?;
        if entry.name().len() > NAME {
            let length = entry.name().len();
            return Err(UnpackError::TooMuch(format!("a name of {length} bytes, and at most {NAME} are unpacked")));
        }
        let Some(name) = entry.enclosed_name() else {
            return Err(UnpackError::Damaged(format!("{:?} is a name outside of it", entry.name())));
        };
        if entry.is_dir() || is_clutter(&name) {
            continue;
        }
        let within = name.parent().unwrap_or(Path::new(""));
        if within.components().count() > DEPTH {
            let what = format!("more than {DEPTH} folders within each other: {:?}", entry.name());
            return Err(UnpackError::TooMuch(what));
        }
        folders.extend(within.ancestors().map(Path::to_owned));
        if folders.len() > FOLDERS {
            return Err(UnpackError::TooMuch(format!("more than {FOLDERS} folders")));
        }
        let path = folder.join(&name);
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
            budget.take(count)?;
            workspace.reserve(count as u64).map_err(|_| UnpackError::SpoolFull)?;
            file.write_all(&buffer[..count])?;
        }
    }
    drop(zip);
    fs::remove_file(archive)?;
    Ok(inner(folder))
}

/// Checks that the gzip files of a folder, whatever their names, are within the budget once they are
/// inflated. Nothing is written: readers inflate them. A damaged file is left to its reader.
pub fn inflates_within(folder: &Path, budget: &mut Budget) -> Result<(), UnpackError> {
    let mut left = vec![folder.to_owned()];
    let mut buffer = vec![0; 256 << 10];
    while let Some(path) = left.pop() {
        if path.symlink_metadata()?.is_dir() {
            for entry in fs::read_dir(path)? {
                left.push(entry?.path());
            }
            continue;
        }
        let mut file = File::open(path)?;
        let mut magic = Vec::new();
        (&mut file).take(2).read_to_end(&mut magic)?;
        if magic != [0x1f, 0x8b] {
            continue;
        }
        file.rewind()?;
        let mut inflated = MultiGzDecoder::new(BufReader::with_capacity(256 << 10, file));
        while let Ok(count @ 1..) = inflated.read(&mut buffer) {
            budget.take(count)?;
        }
    }
    Ok(())
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
        let folder = unpack(&path, &mut Budget::new(100), &workspace).unwrap();
        assert!(folder.ends_with("study/series"), "{}", folder.display());
        assert_eq!(fs::read(folder.join("2")).unwrap(), b"two");
        assert_eq!((path.exists(), spool.used()), (false, 6));

        let path = workspace.uploads().join("b.zip");
        archive(&path, &[("zeros", &[0; 2000])]);
        let error = unpack(&path, &mut Budget::new(1999), &workspace).unwrap_err();
        assert!(matches!(error, UnpackError::TooMuch(_)), "{error}");

        let path = workspace.uploads().join("c.zip");
        archive(&path, &[("../../outside", b"x")]);
        let error = unpack(&path, &mut Budget::new(100), &workspace).unwrap_err();
        assert!(matches!(error, UnpackError::Damaged(_)), "{error}");

        let long = "x".repeat(400);
        for (name, files) in [("e.zip", ["a", "a/b"]), ("f.zip", ["a/b", "a"]), ("g.zip", ["a", long.as_str()])] {
            let path = workspace.uploads().join(name);
            archive(&path, &files.map(|name| (name, &b"x"[..])));
            let error = unpack(&path, &mut Budget::new(100), &workspace).unwrap_err();
            assert!(matches!(error, UnpackError::Damaged(_)), "{error}");
        }

        let path = workspace.uploads().join("d.zip");
        fs::write(&path, b"PK\x03\x04 and no more").unwrap();
        assert!(matches!(unpack(&path, &mut Budget::new(100), &workspace), Err(UnpackError::Damaged(_))));
    }
    #[test]
    fn archives_have_limits_for_folders_and_names() {
        let spool = Spool::new(None, 1 << 30).unwrap();
        let workspace = spool.workspace().unwrap();
        let refused = |name: &str, files: &[String]| {
            let path = workspace.uploads().join(name);
            let files: Vec<(&str, &[u8])> = files.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
            archive(&path, &files);
            unpack(&path, &mut Budget::new(1 << 20), &workspace).unwrap_err().to_string()
        };
        let said = refused("a.zip", &[format!("{}file", "d/".repeat(DEPTH + 1))]);
        assert!(said.contains("within each other"), "{said}");
        let many: Vec<String> = (0..FOLDERS + 1).map(|number| format!("d{number}/file")).collect();
        let said = refused("b.zip", &many);
        assert!(said.contains("more than 10000 folders"), "{said}");
        let said = refused("c.zip", &[format!("{}file", "long-name/".repeat(200))]);
        assert!(said.contains("a name of 2004 bytes"), "{said}");
        // The list itself: its names have the longest length that a zip can have.
        let long: Vec<String> = (0..600).map(|number| format!("{number:060000}")).collect();
        let said = refused("d.zip", &long);
        assert!(said.contains("a list of files of more than"), "{said}");
        let path = workspace.uploads().join("e.zip");
        archive(&path, &[(&format!("{}file", "d/".repeat(DEPTH)), b"x")]);
        assert!(unpack(&path, &mut Budget::new(1 << 20), &workspace).is_ok());
    }

    #[test]
    fn gzip_files_have_the_limit_of_archives() {
        let folder = tempfile::tempdir().unwrap();
        let gzip = |size: usize| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&vec![0; size]).unwrap();
            gzip.finish().unwrap()
        };
        fs::create_dir(folder.path().join("deep")).unwrap();
        // Two members, in a file whose name says nothing.
        fs::write(folder.path().join("deep/file"), [gzip(600), gzip(400)].concat()).unwrap();
        assert!(inflates_within(folder.path(), &mut Budget::new(1000)).is_ok());
        let error = inflates_within(folder.path(), &mut Budget::new(999)).unwrap_err();
        assert!(matches!(error, UnpackError::TooMuch(_)), "{error}");
        fs::write(folder.path().join("cut"), &gzip(5000)[..20]).unwrap();
        assert!(inflates_within(folder.path(), &mut Budget::new(20_000)).is_ok(), "damage is the reader's to report");
    }
}

//! Files that are replaced as a whole. The content is written to a temporary name in the same
//! folder, flushed to disk and renamed; then the folder is flushed. A reader sees either the old
//! content or all of the new, even after a crash.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("summary.json");
//! hearth_files::replace(&path, "{}")?;
//! assert_eq!(std::fs::read_to_string(&path)?, "{}");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Files that are read are [opened](open) as regular files, and those that the program names itself are
//! [opened](open_own) without following links. [`Scratch`] is a temporary folder.
//!
//! It also writes lines of tables ([`csv_line`]), and reads and writes the headers of NumPy's arrays
//! ([`npy_header`], [`npy_start`]).

#![forbid(unsafe_code)]

mod csv;
mod latched;
mod npy;
mod own;
mod regular;
mod writing;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use csv::{csv_cell, csv_line, csv_text};
pub use latched::Latched;
pub use npy::{NpyHeader, NpyKind, NpyType, npy_header, npy_start};
pub use own::{append, check_can_write, open_own};
pub use regular::{check_readable, is_file_entry, named_twice, open, read, read_to_string};
pub use writing::{Scratch, is_being_written};

/// Replaces a file, or creates it.
///
/// # Errors
///
/// The operating system's error for the folder or the disk. The old file is then unchanged, and no
/// temporary file remains.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace_with(path, |file| file.write_all(content.as_ref()))
}

/// Replaces a file like [`replace`], for content that is generated while it is written.
///
/// # Errors
///
/// The errors of [`replace`] and of `write`.
pub fn replace_with(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    // A device or a pipe is written to directly: renaming would replace it by a regular file.
    if is_stream(path) {
        let mut file = BufWriter::new(File::options().write(true).open(path)?);
        write(&mut file)?;
        return file.flush();
    }
    let folder = folder_of(path);
    let (file, place) = writing::begin(folder)?;
    let _unfinished = Unfinished::new(&place);
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    file.flush()?;
    file.get_ref().sync_all()?;
    place.persist(path)?;
    flush_folder(folder)
}

/// Whether a path is a device, a pipe or a socket. Links are followed where the system has made them
/// (`/dev/stdout`); elsewhere, another user may have placed them.
fn is_stream(path: &Path) -> bool {
    let of_system = ["/dev", "/proc"].iter().any(|root| path.starts_with(root));
    let found = if of_system { path.metadata() } else { path.symlink_metadata() };
    found.is_ok_and(|found| !found.is_file() && !found.is_dir() && !found.is_symlink())
}

/// Temporary files of this process that are not yet renamed, and its temporary folders.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that stays in the list until it is renamed or writing it fails, or a folder until it is removed.
#[derive(Debug)]
pub(crate) struct Unfinished(PathBuf);

impl Unfinished {
    pub(crate) fn new(path: &Path) -> Self {
        unfinished().insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().remove(&self.0);
    }
}

/// Removes the temporary files that [`replace`] and related functions are writing on other threads, and each
/// [`Scratch`]. For a program that exits immediately; these writes then fail.
pub fn remove_unfinished() {
    remove(unfinished().iter());
}

/// The number of attempts to remove a folder: other threads may write into it meanwhile.
const TRIES: u32 = 8;

fn remove<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) {
    for path in paths {
        // What was just renamed no longer exists under this name.
        if path.is_dir() {
            let _ = (0..TRIES).any(|_| fs::remove_dir_all(path).is_ok() || !path.exists());
        } else {
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes a file that must not exist yet, and flushes it. The caller flushes the folder, once for
/// all its files.
///
/// # Errors
///
/// The operating system's error for the folder or the disk, or for a file that exists already.
pub fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Flushes a folder, so that new and renamed files in it survive a crash. Does nothing except on
/// Unix.
///
/// # Errors
///
/// The operating system's error for the folder.
pub fn flush_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The parent folder of a file; the current folder for a bare name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.txt");
        replace(&path, "old").unwrap();
        let failed = replace_with(&path, |file| {
            file.write_all(b"ne")?;
            file.flush()?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["kept.txt"]);
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        // A file does not replace a folder.
        assert!(replace(folder.path(), "x").is_err());
        assert!(create(&path, b"again").is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists));
    }

    #[test]
    fn what_is_being_written_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("late.txt");
        let failed = replace_with(&path, |file| {
            file.write_all(b"half")?;
            assert_eq!(names(folder.path()).len(), 1);
            // Other tests write at the same time.
            let mine: Vec<PathBuf> =
                unfinished().iter().filter(|file| file.starts_with(folder.path())).cloned().collect();
            assert_eq!(mine.len(), 1);
            remove(&mine);
            Ok(())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(names(folder.path()).is_empty() && unfinished().iter().all(|file| !file.starts_with(folder.path())));
    }

    #[test]
    fn temporary_folders_can_be_removed_with_what_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let listed = || unfinished().iter().filter(|path| path.starts_with(folder.path())).cloned().collect::<Vec<_>>();
        let [scratch, kept] = [0, 1].map(|_| Scratch::new_in(folder.path(), ".making-").unwrap());
        fs::create_dir(scratch.path().join("deep")).unwrap();
        fs::write(scratch.path().join("deep/file"), "half").unwrap();
        assert_eq!(listed().len(), 2);
        // What has got its name stays.
        kept.keep_as(&folder.path().join("named")).unwrap();
        remove(&listed());
        assert_eq!(names(folder.path()), ["named"]);
        drop(scratch);
        assert!(listed().is_empty());
    }

    #[test]
    fn writers_of_one_name_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        std::thread::scope(|scope| {
            for letter in b'a'..b'i' {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| replace(path, vec![letter; 10_000]).unwrap()));
            }
        });
        let content = std::fs::read(&path).unwrap();
        assert!(content.len() == 10_000 && content.iter().all(|letter| *letter == content[0]));
        assert_eq!(names(folder.path()), ["shared"]);
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_it_and_devices_stay_devices() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [ours, plain] = ["ours", "plain"].map(|name| folder.path().join(name));
        replace(&ours, "x").unwrap();
        std::fs::write(&plain, "x").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
        replace(Path::new("/dev/null"), "x").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}

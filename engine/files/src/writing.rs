//! Temporary files and folders, and what killed processes leave of them.
//!
//! Each bears the mark of the running system in its name and is locked as long as its writer lives. One
//! with our mark that can be locked has a dead writer: the next writer in the same folder removes it. One
//! with another mark was written before a restart or by another machine, where a lock says less; it is
//! removed after a day.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::{Builder, TempDir, TempPath};

use crate::Unfinished;
use crate::own::open_own;

/// The prefix of files that are being written.
const FILE: &str = ".writing-";

/// The age after which a leftover without our mark is removed.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of attempts to make a temporary file: another process may look at it just then.
const TRIES: u32 = 16;

/// Eight hexadecimal digits that differ between machines and between starts of one; empty if unknown.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.chars().filter(char::is_ascii_hexdigit).take(8).collect()
});

/// Folders where this process has looked for leftovers, with their prefix.
static SEEN: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());

/// Whether a name is that of a file that is being written, or was when its writer was killed.
pub fn is_being_written(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(FILE)
}

/// A new temporary file in a folder, locked by this process.
pub(crate) fn begin(folder: &Path) -> io::Result<(File, TempPath)> {
    let prefix = marked(FILE);
    let mut builder = Builder::new();
    builder.prefix(&prefix);
    // The permissions of an ordinary new file: `tempfile` lets only the owner read its files.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    for _ in 0..TRIES {
        let (file, place) = builder.tempfile_in(folder)?.into_parts();
        if is_held(&file) && place.symlink_metadata().is_ok() {
            remove_left(folder, FILE, &file);
            return Ok((file, place));
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process removes the temporary files as they are made"))
}

/// A temporary folder that is removed when the value is dropped, by
/// [`remove_unfinished`](crate::remove_unfinished), or by the next process that makes one with the same
/// prefix in the same place, should this one be killed.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _listed: Unfinished,
    /// Locked as long as this process lives.
    _lock: Option<File>,
}

impl Scratch {
    /// Makes the folder in `place`, with the permissions of an ordinary new folder.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new_in(place: &Path, prefix: &str) -> io::Result<Self> {
        Self::make(place, prefix, 0o777)
    }

    fn make(place: &Path, prefix: &str, _mode: u32) -> io::Result<Self> {
        let prefix_of_this_system = marked(prefix);
        let mut builder = Builder::new();
        builder.prefix(&prefix_of_this_system);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(_mode));
        for _ in 0..TRIES {
            let folder = builder.tempdir_in(place)?;
            // Folders cannot be opened on all systems: there they are not locked, and not cleared away.
            let lock = File::open(folder.path()).ok();
            if lock.as_ref().is_none_or(is_held) && folder.path().is_dir() {
                if let Some(ours) = &lock {
                    remove_left(place, prefix, ours);
                }
                let listed = Unfinished::new(folder.path());
                return Ok(Self { folder, _listed: listed, _lock: lock });
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process removes the temporary folders as they are made"))
    }

    /// Makes the folder where the system keeps temporary files (`TMPDIR`), for this user alone.
    ///
    /// # Errors
    /// Same as [`new_in`](Self::new_in).
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::make(&std::env::temp_dir(), prefix, 0o700)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the folder its name, under which it stays.
    ///
    /// # Errors
    /// The operating system's error; the folder is then removed.
    pub fn keep_as(self, path: &Path) -> io::Result<()> {
        fs::rename(self.folder.path(), path)?;
        // Nothing is left under the old name.
        let _ = self.folder.keep();
        Ok(())
    }
}

fn marked(prefix: &str) -> String {
    format!("{prefix}{}-", *MARK)
}

/// Locks a file or folder. A file system without locks has no leftovers that are known to be dead.
fn is_held(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Removes what killed processes of the owner of `ours` left in a folder, once per process and folder.
fn remove_left(folder: &Path, prefix: &str, ours: &File) {
    let place = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if !SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert((place, prefix.to_owned())) {
        return;
    }
    let gone = remove_dead(folder, prefix, ours);
    if let Some(first) = gone.first() {
        let (count, place) = (gone.len(), folder.display());
        tracing::warn!("{place}: removed {count} unfinished files or folders of killed processes, such as {first}");
    }
}

/// Removes the leftovers with this prefix whose writers are dead; returns their names.
fn remove_dead(folder: &Path, prefix: &str, ours: &File) -> Vec<String> {
    let Ok(ours) = ours.metadata() else { return Vec::new() };
    // A folder that cannot be read has the same error for its writer.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let gone = named.filter_map(|entry| {
        let path = entry.path();
        // Locked until it is removed: a writer that has made it just now finds it locked or gone, and makes
        // another.
        let _lock = locked_if_dead(&path, prefix, &ours).ok()??;
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.ok().map(|()| entry.file_name().to_string_lossy().into_owned())
    });
    gone.collect()
}

/// A leftover, locked, if it is ours and its writer is dead.
fn locked_if_dead(path: &Path, prefix: &str, ours: &fs::Metadata) -> io::Result<Option<File>> {
    let found = path.symlink_metadata()?;
    if found.is_symlink() || !have_one_owner(&found, ours) {
        return Ok(None);
    }
    let file =
        if found.is_dir() { File::open(path)? } else { open_own(path, OpenOptions::new().read(true).write(true))? };
    if file.try_lock().is_err() {
        return Ok(None);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let of_this_system = !MARK.is_empty() && name.starts_with(&marked(prefix));
    // Compared with a new file of the same file system: this machine may have another clock.
    let age = |found: SystemTime| ours.modified().ok().and_then(|ours| ours.duration_since(found).ok());
    let old = || found.modified().ok().and_then(age).is_some_and(|age| age > OLD);
    Ok((of_this_system || old()).then_some(file))
}

#[cfg(unix)]
fn have_one_owner(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    one.uid() == other.uid()
}

#[cfg(not(unix))]
fn have_one_owner(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_what_a_dead_writer_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (living, place) = begin(dir.path()).unwrap();
        let kept = place.file_name().unwrap().to_string_lossy().into_owned();
        let scratch = Scratch::new_in(dir.path(), ".making-").unwrap();
        fs::write(scratch.path().join("x"), "").unwrap();
        let made = scratch.path().file_name().unwrap().to_string_lossy().into_owned();
        // A killed writer's file is the same without its lock.
        let left = dir.path().join(format!("{}left", marked(FILE)));
        fs::write(&left, "half").unwrap();
        let folder = dir.path().join(format!("{}left", marked(".making-")));
        fs::create_dir_all(folder.join("deep")).unwrap();
        // Of another system, of another program, and a link to one of ours.
        fs::write(dir.path().join(".writing-00000000-x"), "").unwrap();
        fs::write(dir.path().join("left"), "").unwrap();
        std::os::unix::fs::symlink(&left, dir.path().join(format!("{}link", marked(FILE)))).unwrap();
        assert_eq!(remove_dead(dir.path(), FILE, &living), [format!("{}left", marked(FILE))]);
        assert_eq!(remove_dead(dir.path(), ".making-", &living), [format!("{}left", marked(".making-"))]);
        let mut expected =
            vec![kept, made.clone(), ".writing-00000000-x".into(), "left".into(), format!("{}link", marked(FILE))];
        expected.sort();
        assert_eq!(names(dir.path()), expected);
        drop(living);
        scratch.keep_as(&dir.path().join("named")).unwrap();
        assert!(dir.path().join("named/x").is_file() && !dir.path().join(made).exists());
    }

    /// A file is not locked in the moment in which it is made. Who clears the folder just then must not take
    /// it for a leftover once its writer holds it.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_writer_holds_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let ours = File::open(dir.path()).unwrap();
        let writing = std::sync::atomic::AtomicUsize::new(4);
        let lost = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let begun = (0..500).map(|_| begin(dir.path()));
                        let lost = begun.filter(|begun| {
                            std::thread::yield_now();
                            begun.as_ref().is_ok_and(|(_, place)| !place.exists())
                        });
                        let lost = lost.count();
                        writing.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                        lost
                    })
                })
                .collect();
            while writing.load(std::sync::atomic::Ordering::Relaxed) > 0 {
                remove_dead(dir.path(), FILE, &ours);
            }
            writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>()
        });
        assert_eq!(lost, 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_another_system_left_is_removed_after_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".writing-aB3xYz");
        let file = File::create(&path).unwrap();
        let ours = File::open(dir.path()).unwrap();
        let hours = |count: u64| SystemTime::now() - Duration::from_secs(count * 3600);
        file.set_modified(hours(23)).unwrap();
        assert!(remove_dead(dir.path(), FILE, &ours).is_empty());
        // The clock of a file server is days behind: both files have its time.
        ours.set_modified(hours(72)).unwrap();
        file.set_modified(hours(80)).unwrap();
        assert!(remove_dead(dir.path(), FILE, &ours).is_empty());
        ours.set_modified(hours(0)).unwrap();
        file.set_modified(hours(25)).unwrap();
        assert_eq!(remove_dead(dir.path(), FILE, &ours).len(), 1);
    }
}

//! Temporary files with a limit: [`Spool`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;

use crate::error::ServeError;

/// The prefix of the folders that servers create.
const PREFIX: &str = "hearth-serve-";

/// The prefix of the folders of requests.
const REQUEST: &str = "request-";

/// A file in the folder that a server keeps locked while it runs.
const LOCK: &str = "lock";

/// The age after which a folder without that file counts as left behind; a younger one may belong to a
/// server that is starting.
const STARTS_WITHIN: Duration = Duration::from_secs(60 * 60);

/// The folder of all temporary files of a server, which is removed when it is dropped.
#[derive(Debug)]
pub struct Spool {
    folder: TempDir,
    limit: u64,
    used: AtomicU64,
    /// Folders of ended requests that could not be removed, with their bytes.
    stuck: Mutex<Vec<(PathBuf, u64)>>,
    left: usize,
    /// The held lock, which makes other servers leave the folder alone.
    _lock: File,
}

/// No space is left for temporary files.
#[derive(Clone, Copy, Debug)]
pub struct SpoolFull;

impl Spool {
    /// Creates a folder in `parent`, or in the system's folder for temporary files. Other users cannot
    /// read it. Folders of servers that were killed are removed, because they may contain patients'
    /// images.
    pub fn new(parent: Option<&Path>, limit: u64) -> Result<Arc<Self>, ServeError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let made = make(&parent);
        let (folder, lock) =
            made.map_err(|error| ServeError::file("make a folder for temporary files in", parent.clone(), error))?;
        let left = remove_left(&parent, folder.path());
        Ok(Arc::new(Self { folder, limit, used: AtomicU64::new(0), stuck: Mutex::default(), left, _lock: lock }))
    }

    /// The number of removed folders of servers that were killed.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Removes all temporary files, even if threads still hold the spool.
    pub fn remove(&self) -> io::Result<()> {
        std::fs::remove_dir_all(self.folder.path())
    }

    /// An empty folder for one request.
    pub fn workspace(self: &Arc<Self>) -> io::Result<Arc<Workspace>> {
        let stuck = std::mem::take(&mut *self.stuck.lock().unwrap_or_else(|held| held.into_inner()));
        stuck.into_iter().for_each(|(folder, bytes)| self.discard(folder, bytes));
        let folder = tempfile::Builder::new().prefix(REQUEST).tempdir_in(self.folder.path())?.keep();
        let workspace = Workspace { folder, spool: self.clone(), held: AtomicU64::new(0) };
        std::fs::create_dir(workspace.results())?;
        std::fs::create_dir(workspace.uploads())?;
        Ok(Arc::new(workspace))
    }

    /// Removes the folder of a request, and releases its bytes. If something keeps it, as a write of
    /// the last moment does, its bytes count until the next attempt.
    fn discard(&self, folder: PathBuf, bytes: u64) {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.stuck.lock().unwrap_or_else(|held| held.into_inner()).push((folder, bytes));
            }
            _ => drop(self.used.fetch_sub(bytes, Ordering::Relaxed)),
        }
    }
}

/// Creates a folder that only this user can access, and its lock.
fn make(parent: &Path) -> io::Result<(TempDir, File)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder.tempdir_in(parent)?;
    // Locked before it gets its final name, so that a server that starts never finds it unlocked.
    let unlocked = folder.path().join("unlocked");
    let lock = File::create_new(&unlocked)?;
    lock.lock()?;
    fs::rename(unlocked, folder.path().join(LOCK))?;
    Ok((folder, lock))
}

/// Removes this user's folders of servers that no longer run; returns their number.
fn remove_left(parent: &Path, own: &Path) -> usize {
    let folders = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = folders.filter(|folder| folder.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let left = named.map(|folder| folder.path()).filter(|folder| folder != own && is_left(folder, own));
    left.filter(|folder| fs::remove_dir_all(folder).is_ok()).count()
}

fn is_left(folder: &Path, own: &Path) -> bool {
    let (Ok(facts), Ok(ours)) = (folder.symlink_metadata(), own.symlink_metadata()) else { return false };
    if !facts.is_dir() || !is_of_one_user(&facts, &ours) {
        return false;
    }
    match File::open(folder.join(LOCK)) {
        // The lock of a process that has ended is free.
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            facts.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STARTS_WITHIN))
        }
        Err(_) => false,
    }
}

/// Whether both belong to the same user; others may have created anything under such a name.
#[cfg(unix)]
fn is_of_one_user(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    one.uid() == other.uid()
}

#[cfg(not(unix))]
fn is_of_one_user(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// The temporary files of one request. They are removed when the last holder drops the workspace: the
/// connection, or the computation.
#[derive(Debug)]
pub struct Workspace {
    folder: PathBuf,
    spool: Arc<Spool>,
    held: AtomicU64,
}

impl Workspace {
    /// The folder for uploads.
    pub fn uploads(&self) -> PathBuf {
        self.folder.join("in")
    }

    /// The folder for results.
    pub fn results(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// A message without the paths of temporary files, which clients do not know; the file name, which
    /// the client gave, remains.
    pub fn without_paths(&self, text: &str) -> String {
        let slash = std::path::MAIN_SEPARATOR;
        let all = format!("{}{slash}", self.spool.folder.path().display());
        let mut parts = text.split(all.as_str());
        let first = parts.next().unwrap_or_default().to_owned();
        // The input may be that of a session, which is in another workspace: `request-NAME/in/`.
        parts.fold(first, |kept, part| {
            let mut names = part.splitn(3, slash);
            let own = match (names.next(), names.next(), names.next()) {
                (Some(request), Some("in"), Some(rest)) if request.starts_with(REQUEST) => rest,
                _ => part,
            };
            kept + own
        })
    }

    /// Reserves space before files are written.
    pub fn reserve(&self, bytes: u64) -> Result<(), SpoolFull> {
        let before = self.spool.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.spool.limit {
            self.spool.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(SpoolFull);
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Releases the space of removed files.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.spool.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes over the space of files that are moved to this workspace.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn take_over(&self, from: &Workspace, bytes: u64) {
        from.held.fetch_sub(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the files of the result, which exist already, until the workspace ends.
    pub fn hold_results(&self) {
        let sizes = fs::read_dir(self.results()).into_iter().flatten().flatten();
        let bytes = sizes.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
        self.spool.used.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes the uploads, when only the result is still needed.
    pub fn forget_uploads(&self) {
        // If they cannot be removed now, dropping the workspace removes them.
        if std::fs::remove_dir_all(self.uploads()).is_ok() {
            let held = self.held.swap(0, Ordering::Relaxed);
            self.spool.used.fetch_sub(held, Ordering::Relaxed);
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        self.spool.discard(std::mem::take(&mut self.folder), held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_bounded_and_given_back() {
        let spool = Spool::new(None, 100).unwrap();
        let (one, two) = (spool.workspace().unwrap(), spool.workspace().unwrap());
        assert!(one.reserve(60).is_ok() && two.reserve(60).is_err() && two.reserve(40).is_ok());
        assert_eq!(spool.used(), 100);
        let path = one.uploads();
        let said = format!("{}: not a NIfTI file", path.join("ct.nii").display());
        assert_eq!(one.without_paths(&said), "ct.nii: not a NIfTI file");
        assert_eq!(two.without_paths(&said), "ct.nii: not a NIfTI file", "the input of a session");
        assert_eq!(one.without_paths(&format!("{said} and {said}")).matches("ct.nii").count(), 2);
        assert!(!one.without_paths(&format!("{said} and {said}")).contains('/'));
        std::fs::write(path.join("image"), "x").unwrap();
        drop(one);
        assert!(!path.exists());
        assert_eq!(spool.used(), 40);
        two.forget_uploads();
        assert_eq!(spool.used(), 0);
        let folder = spool.folder.path().to_owned();
        spool.remove().unwrap();
        assert!(!folder.exists(), "although a workspace is held");
    }

    #[test]
    fn what_cannot_be_removed_counts_until_it_is() {
        let spool = Spool::new(None, 100).unwrap();
        let one = spool.workspace().unwrap();
        one.reserve(60).unwrap();
        fs::write(one.results().join("label"), [0; 7]).unwrap();
        one.hold_results();
        assert_eq!(spool.used(), 67);
        // A file with the folder's name cannot be removed as a folder.
        let folder = one.folder.clone();
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "x").unwrap();
        drop(one);
        assert_eq!(spool.used(), 67);
        fs::remove_file(&folder).unwrap();
        fs::create_dir_all(folder.join("in/deep")).unwrap();
        let two = spool.workspace().unwrap();
        assert_eq!((spool.used(), folder.exists()), (0, false));
        // A panic ends a request as anything else does.
        let (place, held) = (two.folder.clone(), two.clone());
        two.reserve(10).unwrap();
        drop(two);
        let work = std::thread::spawn(move || {
            let _held = held;
            panic!("a fault of a test");
        });
        assert!(work.join().is_err());
        assert_eq!((spool.used(), place.exists()), (0, false));
    }

    #[test]
    fn folders_of_killed_servers_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let place = |name: &str| parent.path().join(name);
        let living = Spool::new(Some(parent.path()), 100).unwrap();
        // Killed: the lock is free. Starting: there is no lock yet. The others only look like such a
        // folder.
        fs::create_dir_all(place("hearth-serve-killed/request-1/in")).unwrap();
        fs::write(place("hearth-serve-killed/request-1/in/patient.dcm"), "x").unwrap();
        fs::write(place("hearth-serve-killed/lock"), "").unwrap();
        for name in ["hearth-serve-starting", "other"] {
            fs::create_dir(place(name)).unwrap();
        }
        fs::write(place("hearth-serve-file"), "").unwrap();
        // Killed two hours ago, by a version that had no lock.
        fs::create_dir(place("hearth-serve-old")).unwrap();
        let before = std::time::SystemTime::now() - 2 * STARTS_WITHIN;
        File::open(place("hearth-serve-old")).unwrap().set_modified(before).unwrap();
        let next = Spool::new(Some(parent.path()), 100).unwrap();
        assert_eq!((living.left(), next.left()), (0, 2));
        assert!(!place("hearth-serve-killed").exists() && !place("hearth-serve-old").exists());
        assert!(living.folder.path().exists() && next.folder.path().exists());
        for name in ["hearth-serve-starting", "other", "hearth-serve-file"] {
            assert!(place(name).exists(), "{name}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(next.folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}

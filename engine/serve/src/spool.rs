//! Temporary files with a limit: [`Spool`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::error::ServeError;

/// The prefix of the folders that servers create.
const PREFIX: &str = "hearth-serve-";

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
        Ok(Arc::new(Self { folder, limit, used: AtomicU64::new(0), left, _lock: lock }))
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
        let folder = tempfile::Builder::new().prefix("request-").tempdir_in(self.folder.path())?;
        let workspace = Workspace { folder, spool: self.clone(), held: AtomicU64::new(0) };
        std::fs::create_dir(workspace.results())?;
        std::fs::create_dir(workspace.uploads())?;
        Ok(Arc::new(workspace))
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
    folder: TempDir,
    spool: Arc<Spool>,
    held: AtomicU64,
}

impl Workspace {
    /// The folder for uploads.
    pub fn uploads(&self) -> PathBuf {
        self.folder.path().join("in")
    }

    /// The folder for results.
    pub fn results(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// A message without the paths of temporary files, which clients do not know; the file name, which
    /// the client gave, remains.
    pub fn without_paths(&self, text: &str) -> String {
        let of = |folder: PathBuf| format!("{}{}", folder.display(), std::path::MAIN_SEPARATOR);
        let [own, all] = [of(self.uploads()), of(self.spool.folder.path().to_owned())];
        text.replace(&own, "").replace(&all, "")
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
        self.spool.used.fetch_sub(*self.held.get_mut(), Ordering::Relaxed);
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

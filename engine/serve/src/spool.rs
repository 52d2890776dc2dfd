//! Temporary files with a limit: [`Spool`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use crate::error::ServeError;

/// The folder of all temporary files of a server, which is removed with it.
#[derive(Debug)]
pub struct Spool {
    folder: TempDir,
    limit: u64,
    used: AtomicU64,
}

/// No space is left for temporary files.
#[derive(Clone, Copy, Debug)]
pub struct SpoolFull;

impl Spool {
    /// A new folder in `parent`, or in the system's folder of temporary files. Others cannot read it.
    pub fn new(parent: Option<&Path>, limit: u64) -> Result<Arc<Self>, ServeError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = tempfile::Builder::new().prefix("hearth-serve-").tempdir_in(&parent);
        let folder = folder.map_err(|error| ServeError::file("make a folder for temporary files in", parent, error))?;
        Ok(Arc::new(Self { folder, limit, used: AtomicU64::new(0) }))
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Removes all temporary files. Threads that still hold the spool do not keep them.
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

/// The temporary files of one request. They are removed when its last user is done: the connection,
/// or the computation.
#[derive(Debug)]
pub struct Workspace {
    folder: TempDir,
    spool: Arc<Spool>,
    held: AtomicU64,
}

impl Workspace {
    /// The folder of what was uploaded.
    pub fn uploads(&self) -> PathBuf {
        self.folder.path().join("in")
    }

    /// The folder of results.
    pub fn results(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// A message without the places of temporary files, which clients do not know: what remains is the
    /// name that a client gave.
    pub fn without_paths(&self, text: &str) -> String {
        let of = |folder: PathBuf| format!("{}{}", folder.display(), std::path::MAIN_SEPARATOR);
        let [own, all] = [of(self.uploads()), of(self.spool.folder.path().to_owned())];
        text.replace(&own, "").replace(&all, "")
    }

    /// Reserves space before it is written.
    pub fn reserve(&self, bytes: u64) -> Result<(), SpoolFull> {
        let before = self.spool.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.spool.limit {
            self.spool.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(SpoolFull);
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives space back whose files were removed.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.spool.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes over the space of files that are moved here.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn take_over(&self, from: &Workspace, bytes: u64) {
        from.held.fetch_sub(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes what was uploaded: only the result is needed any more.
    pub fn forget_uploads(&self) {
        // What cannot be removed now is when the workspace is dropped.
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
}

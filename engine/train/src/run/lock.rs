//! [`RunLock`]: limits a run's folder to one writing process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The lock file in the run's folder.
pub(super) const FILE: &str = "run.lock";

/// The number of attempts, and the pause between them: a process that inspects the folder takes the
/// lock only for a moment.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// The reason why a run's folder cannot be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process has locked it.
    #[error("{path} is in use by {holder}; wait for it, stop it, or give another folder")]
    Held {
        /// The run's folder.
        path: PathBuf,
        /// Process id and command of the other process, as far as the lock file has them.
        holder: String,
    },
    /// The operating system refused.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}

/// A run's folder, locked for this process until the value is dropped. The operating system
/// releases the lock when the process ends, even when it is killed.
#[derive(Debug)]
pub struct RunLock {
    file: Option<File>,
    path: PathBuf,
}

impl RunLock {
    /// Locks the folder of a run.
    ///
    /// # Errors
    /// When another process holds the lock (the error names it), or the lock file cannot be
    /// written.
    pub fn new(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(FILE);
        let io = |source| LockError::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = hearth_files::open_own(&path, &mut options).map_err(io)?;
        let mut locked = file.try_lock();
        for _ in 1..TRIES {
            if matches!(locked, Err(TryLockError::WouldBlock)) {
                std::thread::sleep(PAUSE);
                locked = file.try_lock();
            }
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Without a readable file the holder's name is unknown.
                let _ = file.read_to_string(&mut holder);
                let holder = match holder.trim() {
                    "" => "another process".to_owned(),
                    known => known.to_owned(),
                };
                return Err(LockError::Held { path: folder.to_owned(), holder });
            }
            // Training is allowed on a file system without locks.
            Err(TryLockError::Error(source)) if source.kind() == std::io::ErrorKind::Unsupported => {
                tracing::warn!("{}: this file system has no locks; start no second process here", folder.display());
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let holder = format!("process {} ({})\n", std::process::id(), command.join(" "));
        file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())).map_err(io)?;
        Ok(Self { file: Some(file), path })
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // The name is removed while the lock is still held, so that another process's name is never
        // removed. In a deleted folder there is nothing to remove.
        let _ = std::fs::remove_file(&self.path);
        self.file.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_holder_who_is_named_and_a_stale_lock_holds_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join(FILE), "process 1 (killed long ago)\n").expect("a stale lock");
        let first = RunLock::new(dir.path()).expect("it is free");
        let error = RunLock::new(dir.path()).expect_err("held").to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        assert!(!dir.path().join(FILE).exists());
        drop(RunLock::new(dir.path()).expect("free again"));
    }

    /// A link that another user has placed there does not lead to one of our files.
    #[cfg(unix)]
    #[test]
    fn a_lock_that_is_a_link_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let (run, other) = (dir.path().join("run"), dir.path().join("other"));
        std::fs::create_dir(&run).expect("a folder");
        std::fs::write(&other, "kept").expect("written");
        std::os::unix::fs::symlink(&other, run.join(FILE)).expect("a link");
        let error = RunLock::new(&run).expect_err("a link").to_string();
        assert!(error.contains("run.lock") && error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&other).expect("read"), "kept");
    }

    #[test]
    fn whoever_only_looks_holds_nobody_up() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join(FILE), "process 1 (killed long ago)\n").expect("a stale lock");
        let looking = File::open(dir.path().join(FILE)).expect("a file");
        looking.try_lock_shared().expect("free");
        let gone = std::thread::spawn(move || {
            std::thread::sleep(PAUSE);
            drop(looking);
        });
        drop(RunLock::new(dir.path()).expect("free as soon as the other has looked"));
        gone.join().expect("no panic");
    }
}

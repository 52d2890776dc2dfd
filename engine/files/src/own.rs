//! Files with names that the program chooses, in folders of users: locks, logs, tests whether a folder can
//! be written.
//!
//! In a folder that others can write to, such a name may lead elsewhere: a link that another user has
//! placed there would let the program change the file that the link names. [`open_own`] is the one way
//! to open these files.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::regular::refusal;
use crate::writing::begin;

/// Opens a file that the program has named, or creates it. A link is never followed, and a named pipe
/// that has no reader is not waited for.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("log.jsonl");
/// let log = hearth_files::open_own(&path, std::fs::OpenOptions::new().create(true).append(true))?;
/// # drop(log);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The operating system's error, or a link, a named pipe without a reader or a socket under this name.
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    // Systems without these flags have no named pipes in folders.
    #[cfg(not(unix))]
    if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        return Err(refusal(path, &io::ErrorKind::InvalidInput.into()));
    }
    options.open(path).map_err(|error| refusal(path, &error))
}

/// Opens a file to which lines are added, like [`open_own`].
///
/// # Errors
/// Same as [`open_own`].
pub fn append(path: &Path) -> io::Result<File> {
    open_own(path, OpenOptions::new().create(true).append(true))
}

/// Fails if a file cannot be created in a folder.
///
/// # Errors
/// The operating system's error.
pub fn check_can_write(folder: &Path) -> io::Result<()> {
    begin(folder).map(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_planted_link_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("of-another");
        std::fs::write(&secret, "kept").unwrap();
        let link = dir.path().join("run.lock");
        for target in [&secret, &dir.path().join("absent"), dir.path()] {
            symlink(target, &link).unwrap();
            for options in [OpenOptions::new().create(true).append(true), OpenOptions::new().write(true).create(true)] {
                let error = open_own(&link, options).unwrap_err().to_string();
                assert!(error.contains("symbolic link") && error.contains("remove it"), "{error}");
            }
            std::fs::remove_file(&link).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "kept");
        assert!(!dir.path().join("absent").exists());
        append(&link).unwrap().write_all(b"a\n").unwrap();
        append(&link).unwrap().write_all(b"b\n").unwrap();
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "a\nb\n");
    }

    #[test]
    fn a_pipe_that_nothing_reads_and_a_socket_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, socket) = (dir.path().join("pipe"), dir.path().join("socket"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, word) in [(&pipe, "named pipe"), (&socket, "socket")] {
            let error = append(path).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_folder_is_tested_without_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        check_can_write(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(check_can_write(&dir.path().join("absent")).is_err());
    }
}

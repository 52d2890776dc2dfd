//! Files that are read: regular ones. A named pipe, a device or a socket under the name of an input would
//! make a reader wait, possibly forever.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Opens a file for reading. Links are followed; the file itself must be a regular one.
///
/// # Errors
/// The operating system's error; a folder, a named pipe, a device or a socket, at once.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    let mut options = OpenOptions::new();
    options.read(true);
    // A named pipe would otherwise wait for its writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path).map_err(|error| refusal(path, &error))?;
    check(&file)?;
    Ok(file)
}

/// Reads a whole file, which must be a regular one.
///
/// # Errors
/// Same as [`open`].
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file as text, like [`read`].
///
/// # Errors
/// Same as [`open`]; text that is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Fails unless a path is a regular file or a folder, for readers that open files by a library. A path
/// that does not exist is left to them.
///
/// # Errors
/// A named pipe, a device or a socket; a link to a missing file.
pub fn check_readable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(found) => check_kind(&found),
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => Err(refusal(path, &error)),
        Err(_) => Ok(()),
    }
}

/// Whether an entry of a folder counts as a file: a regular one, or a link to one, also if that is missing, as
/// where a disk is not mounted or DataLad has not fetched it. Reading it is then an error that names it; without
/// it in the list a case, or a slice, would be lost silently.
pub fn is_file_entry(path: &Path) -> bool {
    path.is_file() || (path.is_symlink() && !path.exists())
}

/// The first path that leads to the same place as one before it, however it is written.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let paths = [folder.path().to_owned(), "elsewhere".into(), folder.path().join(".")];
/// assert_eq!(hearth_files::named_twice(&paths), Some(&*paths[2]));
/// assert_eq!(hearth_files::named_twice(&paths[..2]), None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn named_twice(paths: &[PathBuf]) -> Option<&Path> {
    let real: Vec<PathBuf> = paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    let place = (0..real.len()).find(|place| real[..*place].contains(&real[*place]))?;
    Some(&paths[place])
}

/// Fails unless an open file is a regular one.
pub(crate) fn check(file: &File) -> io::Result<()> {
    check_kind(&file.metadata()?)
}

fn check_kind(found: &Metadata) -> io::Result<()> {
    match kind(found.file_type()) {
        None => Ok(()),
        Some(kind) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}; expected a regular file")))
        }
    }
}

/// The kind of a path that is not a regular file.
fn kind(of: FileType) -> Option<&'static str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if of.is_fifo() {
            return Some("a named pipe");
        }
        if of.is_socket() {
            return Some("a socket");
        }
        if of.is_block_device() || of.is_char_device() {
            return Some("a device");
        }
    }
    of.is_dir().then_some("a folder")
}

/// The error of opening a path: what is there, if that is the reason.
pub(crate) fn refusal(path: &Path, error: &io::Error) -> io::Error {
    let found = path.symlink_metadata();
    let link = found.as_ref().is_ok_and(|found| found.is_symlink());
    let through = path.metadata();
    if link && (is_loop(error) || error.kind() == io::ErrorKind::InvalidInput) {
        let what =
            "it is a symbolic link, and this program writes through none here: remove it, or give another folder";
        return io::Error::new(io::ErrorKind::InvalidInput, what);
    }
    if link && error.kind() == io::ErrorKind::NotFound {
        let target = path.read_link().unwrap_or_default();
        let what = format!("it is a link to {}, which is missing", target.display());
        return io::Error::new(io::ErrorKind::NotFound, what);
    }
    match through.ok().and_then(|found| kind(found.file_type())) {
        Some(kind) if kind != "a folder" => {
            io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}; expected a regular file"))
        }
        _ => copy(error),
    }
}

/// The same error: its type has no copy.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(unix)]
fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(not(unix))]
fn is_loop(_: &io::Error) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const ABSENT: &str = "it is a link to absent, which is missing";

    #[test]
    fn whatever_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _listening = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        let cases = [
            (at("pipe"), "named pipe"),
            (at("link"), "named pipe"),
            (at("socket"), "socket"),
            ("/dev/zero".into(), "device"),
            (dir.path().to_owned(), "folder"),
        ];
        for (path, word) in cases {
            for error in [read(&path).unwrap_err(), read_to_string(&path).unwrap_err()] {
                assert!(error.to_string().contains(word), "{}: {error}", path.display());
            }
            assert_eq!(check_readable(&path).is_ok(), word == "folder", "{}", path.display());
        }
        assert_eq!(open(at("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
        check_readable(&at("absent")).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("to-file")).unwrap();
        assert_eq!(read_to_string(at("to-file")).unwrap(), "text");
        std::os::unix::fs::symlink("absent", at("to-absent")).unwrap();
        let error = read(at("to-absent")).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::NotFound, ABSENT));
        assert_eq!(check_readable(&at("to-absent")).unwrap_err().to_string(), ABSENT);
        let listed = ["to-absent", "to-file", "file", "absent", "pipe", "link"].map(|name| is_file_entry(&at(name)));
        assert_eq!(listed, [true, true, true, false, false, false]);
        assert_eq!(read(at("file")).unwrap(), b"text");
    }
}

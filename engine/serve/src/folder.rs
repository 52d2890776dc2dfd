//! A folder whose names are used without following links: [`Folder`].
//!
//! The folder is held open. Each name is opened, replaced or removed relative to it, so that a link in
//! the place of a file or folder is not followed, even if it is put there in between.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    File,
    Folder,
    /// A link, a device, a pipe.
    Other,
}

/// The prefix of files that are being written. Such a name is never that of an image.
const WRITING: &str = ".writing-";

impl Folder {
    /// Replaces a file, or creates it: readers find the old content or all of the new.
    pub fn replace(&self, name: &str, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let place = format!("{WRITING}{:016x}", u64::from_le_bytes(random));
        let mut file = BufWriter::new(self.create(&place)?);
        let written = write(&mut file).and_then(|()| file.flush()).and_then(|()| file.get_ref().sync_all());
        drop(file);
        let renamed = written.and_then(|()| self.rename(&place, name));
        if renamed.is_err() {
            // The first error is the one to report.
            let _ = self.remove(&place);
        }
        renamed
    }

    /// The entries by name. Names that are not UTF-8 are left out: no client can ask for them.
    pub fn entries(&self) -> io::Result<Vec<(String, Entry)>> {
        let mut all = self.listed()?;
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }
}

#[cfg(unix)]
mod system {
    use super::{Entry, File, Path, io};
    use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
    use rustix::io::Errno;
    use std::os::fd::OwnedFd;

    /// A folder that is held open.
    #[derive(Debug)]
    pub struct Folder(OwnedFd);

    const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    /// `NONBLOCK` makes a pipe fail instead of waiting for its other end.
    const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

    /// The error for a link where a folder was expected: some systems call it a loop.
    fn no_link(error: Errno) -> io::Error {
        if error == Errno::LOOP { Errno::NOTDIR.into() } else { error.into() }
    }

    fn of_type(kind: FileType) -> Entry {
        match kind {
            FileType::RegularFile => Entry::File,
            FileType::Directory => Entry::Folder,
            _ => Entry::Other,
        }
    }

    impl Folder {
        /// Opens the folder that the operator named, which may be a link.
        pub fn open(path: &Path) -> io::Result<Self> {
            Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?))
        }

        /// Opens a folder in it; `None` if there is none.
        pub fn folder(&self, name: &str) -> io::Result<Option<Self>> {
            match openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(folder) => Ok(Some(Self(folder))),
                Err(Errno::NOENT) => Ok(None),
                Err(error) => Err(no_link(error)),
            }
        }

        /// Opens a folder in it, and creates it if it is missing.
        pub fn made(&self, name: &str) -> io::Result<Self> {
            match mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()).map(Self).map_err(no_link)
        }

        /// Opens a regular file for reading.
        pub fn file(&self, name: &str) -> io::Result<File> {
            let file = File::from(openat(&self.0, name, OFlags::RDONLY | FILE, Mode::empty())?);
            if file.metadata()?.is_file() {
                return Ok(file);
            }
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is not a file")))
        }

        pub(super) fn create(&self, name: &str) -> io::Result<File> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | FILE;
            Ok(File::from(openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?))
        }

        pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            renameat(&self.0, from, &self.0, to)?;
            Ok(rustix::fs::fsync(&self.0)?)
        }

        /// Removes a file, or a link itself.
        pub fn remove(&self, name: &str) -> io::Result<()> {
            Ok(unlinkat(&self.0, name, AtFlags::empty())?)
        }

        pub(super) fn listed(&self) -> io::Result<Vec<(String, Entry)>> {
            let mut all = Vec::new();
            for entry in Dir::read_from(&self.0)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                if matches!(name, "." | "..") {
                    continue;
                }
                let kind = match entry.file_type() {
                    // Some file systems do not list kinds.
                    FileType::Unknown => match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(facts) => FileType::from_raw_mode(facts.st_mode),
                        Err(Errno::NOENT) => continue,
                        Err(error) => return Err(error.into()),
                    },
                    known => known,
                };
                all.push((name.to_owned(), of_type(kind)));
            }
            Ok(all)
        }
    }
}

/// Without relative calls of the system, each name is checked before it is used.
#[cfg(not(unix))]
mod system {
    use super::{Entry, File, Path, io};
    use std::fs;
    use std::path::PathBuf;

    /// The path of a folder.
    #[derive(Debug)]
    pub struct Folder(PathBuf);

    fn kind_of(path: &Path) -> io::Result<Entry> {
        let facts = path.symlink_metadata()?;
        Ok(if facts.is_file() {
            Entry::File
        } else if facts.is_dir() {
            Entry::Folder
        } else {
            Entry::Other
        })
    }

    fn other(name: &str) -> io::Error {
        io::Error::new(io::ErrorKind::NotADirectory, format!("{name} is a link, or of another kind"))
    }

    impl Folder {
        /// Opens the folder that the operator named, which may be a link.
        pub fn open(path: &Path) -> io::Result<Self> {
            Ok(Self(path.canonicalize()?))
        }

        /// Opens a folder in it; `None` if there is none.
        pub fn folder(&self, name: &str) -> io::Result<Option<Self>> {
            let path = self.0.join(name);
            match kind_of(&path) {
                Ok(Entry::Folder) => Ok(Some(Self(path))),
                Ok(_) => Err(other(name)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        }

        /// Opens a folder in it, and creates it if it is missing.
        pub fn made(&self, name: &str) -> io::Result<Self> {
            match fs::create_dir(self.0.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            self.folder(name)?.ok_or_else(|| other(name))
        }

        /// Opens a regular file for reading.
        pub fn file(&self, name: &str) -> io::Result<File> {
            let path = self.0.join(name);
            if kind_of(&path)? == Entry::File { File::open(path) } else { Err(other(name)) }
        }

        pub(super) fn create(&self, name: &str) -> io::Result<File> {
            File::create_new(self.0.join(name))
        }

        pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            fs::rename(self.0.join(from), self.0.join(to))
        }

        /// Removes a file, or a link itself.
        pub fn remove(&self, name: &str) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }

        pub(super) fn listed(&self) -> io::Result<Vec<(String, Entry)>> {
            let mut all = Vec::new();
            for entry in fs::read_dir(&self.0)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                all.push((name, kind_of(&entry.path())?));
            }
            Ok(all)
        }
    }
}

pub use system::Folder;

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("outside")).unwrap();
        fs::write(at("outside/secret"), "secret").unwrap();
        fs::create_dir_all(at("store/inner")).unwrap();
        fs::write(at("store/own"), "own").unwrap();
        symlink(at("outside/secret"), at("store/file")).unwrap();
        symlink(at("outside"), at("store/folder")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("store/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let folder = Folder::open(&at("store")).unwrap();
        let found = folder.entries().unwrap();
        let found: Vec<(&str, Entry)> = found.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        assert_eq!(
            found,
            [
                ("file", Entry::Other),
                ("folder", Entry::Other),
                ("inner", Entry::Folder),
                ("own", Entry::File),
                ("pipe", Entry::Other),
            ]
        );
        for name in ["file", "folder", "pipe", "inner"] {
            assert!(folder.file(name).is_err(), "{name}");
        }
        assert!(folder.folder("folder").is_err() && folder.made("folder").is_err() && folder.folder("own").is_err());
        assert!(folder.folder("none").unwrap().is_none() && folder.folder("inner").unwrap().is_some());
        // What replaces or removes a link leaves the file that it leads to.
        folder.replace("file", |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(at("store/file")).unwrap(), b"new");
        folder.remove("folder").unwrap();
        assert_eq!(fs::read(at("outside/secret")).unwrap(), b"secret");
        let failed = folder.replace("own", |_| Err(io::Error::other("the disk is full")));
        assert!(failed.is_err() && fs::read(at("store/own")).unwrap() == b"own");
        assert!(folder.entries().unwrap().iter().all(|(name, _)| !name.starts_with(WRITING)), "nothing is left");
        // The folder is the one that was opened, whatever has its name now.
        fs::rename(at("store"), at("moved")).unwrap();
        symlink(at("outside"), at("store")).unwrap();
        assert!(folder.file("secret").is_err() && folder.file("own").is_ok());
    }
}

//! Unpacks untrusted archives: [`unpack`].

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use hearth_files::Scratch;
use tar::EntryType;

use super::DownloadError;
use crate::Progress;

/// Limits of an archive's content.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLimits {
    /// Maximum number of bytes of all files.
    pub bytes: u64,
    /// Maximum number of files and folders.
    pub entries: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        ArchiveLimits { bytes: 1 << 40, entries: 4_000_000 }
    }
}

/// Unpacks a tar, tar.gz or zip archive (recognized by content) to the folder `into`, which must
/// not exist or be empty. The folder appears only when it is complete.
///
/// A single top-level folder of the archive with the name of `into` is omitted.
/// Files that Apple's tools add (`._*`, `__MACOSX`) are skipped.
///
/// # Errors
/// If the archive is damaged or of another kind, contains a path outside the folder (`..`,
/// absolute), a link, a device or the same file twice, or exceeds the limits.
pub fn unpack(archive: &Path, into: &Path, limits: ArchiveLimits, progress: Progress) -> Result<(), DownloadError> {
    if fs::read_dir(into).is_ok_and(|mut inside| inside.next().is_some()) {
        let what = format!("not unpacked: {} is not empty", into.display());
        return Err(DownloadError::Archive { path: archive.to_owned(), what });
    }
    let parent = into.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(DownloadError::io(parent))?;
    let beside = Scratch::new_in(parent, ".unpacking-").map_err(DownloadError::io(parent))?;
    let mut writer = Writer { archive, root: beside.path(), limits, bytes: 0, entries: 0 };
    let mut file = hearth_files::open(archive).map_err(DownloadError::io(archive))?;
    let mut start = [0; 512];
    let length = fill(&mut file, &mut start).map_err(DownloadError::io(archive))?;
    file.rewind().map_err(DownloadError::io(archive))?;
    let left = file.metadata().map_or(0, |m| m.len());
    let shown = progress.start_bytes("unpack", left);
    let read = Counted { inner: io::BufReader::with_capacity(1 << 17, file), shown: &shown, left };
    match &start[..length] {
        [0x1f, 0x8b, ..] => writer.tar(MultiGzDecoder::new(read))?,
        [b'P', b'K', 3 | 5, ..] => writer.zip(read)?,
        header if header.len() == 512 && header[257..262] == *b"ustar" => writer.tar(read)?,
        _ => return Err(writer.wrong("is neither a tar, a tar.gz nor a zip archive")),
    }
    shown.finish();
    let inner = into.file_name().map(|name| beside.path().join(name)).filter(|path| path.is_dir());
    let alone = fs::read_dir(beside.path()).map_err(DownloadError::io(beside.path()))?.count() == 1;
    let from = inner.filter(|_| alone).unwrap_or_else(|| beside.path().to_owned());
    if into.exists() {
        fs::remove_dir(into).map_err(DownloadError::io(into))?;
    }
    fs::rename(from, into).map_err(DownloadError::io(into))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            n => length += n,
        }
    }
    Ok(length)
}

/// Reports how much was read to the progress display.
struct Counted<'a, R> {
    inner: R,
    shown: &'a crate::Running,
    /// Bytes that were not reported yet: the directory of a zip is read more than once.
    left: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let new = self.left.min(read as u64);
        self.left -= new;
        self.shown.advance_by(new);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<'_, R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

struct Writer<'a> {
    archive: &'a Path,
    root: &'a Path,
    limits: ArchiveLimits,
    bytes: u64,
    entries: u64,
}

impl Writer<'_> {
    fn wrong(&self, what: impl Into<String>) -> DownloadError {
        DownloadError::Archive { path: self.archive.to_owned(), what: what.into() }
    }

    fn damaged(&self, error: impl std::fmt::Display) -> DownloadError {
        self.wrong(format!("is damaged: {error}"))
    }

    /// The target of an entry; `None` if it is skipped.
    fn place(&mut self, name: &Path) -> Result<Option<PathBuf>, DownloadError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(self.wrong(format!("has more than {} entries", self.limits.entries)));
        }
        let mut place = self.root.to_owned();
        for part in name.components() {
            match part {
                Component::Normal(part) => {
                    let part = part.to_str().ok_or_else(|| self.wrong(format!("{name:?} is not a readable name")))?;
                    if part.starts_with("._") || part == "__MACOSX" {
                        return Ok(None);
                    }
                    place.push(part);
                }
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(self.wrong(format!("holds {name:?}, which leads out of the folder")));
                }
            }
        }
        Ok(Some(place))
    }

    fn folder(&mut self, name: &Path) -> Result<(), DownloadError> {
        match self.place(name)? {
            Some(place) => fs::create_dir_all(&place).map_err(DownloadError::io(&place)),
            None => Ok(()),
        }
    }

    fn file(&mut self, name: &Path, mut content: impl Read) -> Result<(), DownloadError> {
        let Some(place) = self.place(name)? else { return Ok(()) };
        if place == self.root {
            return Err(self.wrong("holds a file without a name"));
        }
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(DownloadError::io(folder))?;
        }
        let mut file = match File::create_new(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(self.wrong(format!("holds {name:?} twice")));
            }
            other => other.map_err(DownloadError::io(&place))?,
        };
        let mut buffer = vec![0; 1 << 17];
        loop {
            let read = content.read(&mut buffer).map_err(|e| self.damaged(e))?;
            if read == 0 {
                return Ok(());
            }
            self.bytes += read as u64;
            if self.bytes > self.limits.bytes {
                let what = format!("the content of {}", self.archive.display());
                return Err(DownloadError::TooLarge { what, limit: self.limits.bytes });
            }
            io::Write::write_all(&mut file, &buffer[..read]).map_err(DownloadError::io(&place))?;
        }
    }

    fn tar(&mut self, read: impl Read) -> Result<(), DownloadError> {
        let mut archive = tar::Archive::new(read);
        for entry in archive.entries().map_err(|e| self.damaged(e))? {
            let entry = entry.map_err(|e| self.damaged(e))?;
            let name = entry.path().map_err(|e| self.damaged(e))?.into_owned();
            match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => self.file(&name, entry)?,
                EntryType::Directory => self.folder(&name)?,
                // Other entries are not files.
                EntryType::XGlobalHeader | EntryType::XHeader => {}
                other => {
                    return Err(
                        self.wrong(format!("holds {name:?}, {}; only files and folders are unpacked", kind(other)))
                    );
                }
            }
        }
        Ok(())
    }

    fn zip(&mut self, read: impl Read + Seek) -> Result<(), DownloadError> {
        let mut archive = zip::ZipArchive::new(read).map_err(|e| self.damaged(e))?;
        for index in 0..archive.len() {
            let entry = archive.by_index(index).map_err(|e| self.damaged(e))?;
            // Some tools on Windows write backslashes.
            let name = PathBuf::from(entry.name().replace('\\', "/"));
            // The Unix file type; 0 if the archive does not state it.
            let unix = entry.unix_mode().map_or(0, |mode| mode & 0o170_000);
            if entry.is_dir() {
                self.folder(&name)?;
            } else if matches!(unix, 0 | 0o100_000) {
                self.file(&name, entry)?;
            } else {
                return Err(
                    self.wrong(format!("holds {name:?}, a link or a device; only files and folders are unpacked"))
                );
            }
        }
        Ok(())
    }
}

fn kind(entry: EntryType) -> &'static str {
    match entry {
        EntryType::Symlink | EntryType::Link => "a link",
        EntryType::Block | EntryType::Char => "a device",
        EntryType::Fifo => "a pipe",
        _ => "something else",
    }
}

//! Finds and reads checkpoints.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::manifest::Manifest;
use super::{CheckpointError, Damage, TEMPORARY};

/// A checkpoint whose files were all present and intact when it was opened.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The checkpoint's folder.
    pub path: PathBuf,
    /// The checkpoint's contents.
    pub manifest: Manifest,
}

/// A folder among the checkpoints.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The folder's path.
    pub path: PathBuf,
    /// The manifest, or the damage. The other files are compared by length only.
    pub manifest: Result<Manifest, Damage>,
}

impl Checkpoint {
    /// Opens one checkpoint folder and checks every file's hash.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] names the damaged file.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let damaged = |damage| CheckpointError::Damaged { path: folder.to_owned(), damage };
        let manifest = Manifest::read(folder).map_err(damaged)?;
        check_lengths(folder, &manifest).map_err(damaged)?;
        for (name, sum) in &manifest.files {
            let found = sum_of(&folder.join(name)).map_err(|e| damaged(unreadable(name, &e)))?;
            if found != sum.blake3 {
                return Err(damaged(Damage::Sum(name.clone())));
            }
        }
        Ok(Self { path: folder.to_owned(), manifest })
    }

    /// Returns the contents of one file, checked again.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] where the file is missing or has changed.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, CheckpointError> {
        let damaged = |damage| CheckpointError::Damaged { path: self.path.clone(), damage };
        let sum = self.manifest.files.get(name).ok_or_else(|| damaged(Damage::Missing(name.to_owned())))?;
        let path = self.path.join(name);
        // The length is checked before memory is allocated.
        let found = fs::metadata(&path).map_err(|e| damaged(unreadable(name, &e)))?.len();
        if found != sum.bytes {
            return Err(damaged(Damage::Length { file: name.to_owned(), found, expected: sum.bytes }));
        }
        let bytes = fs::read(&path).map_err(|e| damaged(unreadable(name, &e)))?;
        if *blake3::hash(&bytes).to_hex() != *sum.blake3 {
            return Err(damaged(Damage::Sum(name.to_owned())));
        }
        Ok(bytes)
    }

    /// Whether the checkpoint holds this file.
    pub fn has(&self, name: &str) -> bool {
        self.manifest.files.contains_key(name)
    }
}

/// Every folder among the checkpoints of `dir`, the newest first, damaged ones last. A missing
/// `dir` holds none.
///
/// # Errors
/// [`CheckpointError::Read`] where `dir` cannot be listed.
pub fn list(dir: &Path) -> Result<Vec<Entry>, CheckpointError> {
    let folders = match fs::read_dir(dir) {
        Ok(folders) => folders,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(CheckpointError::read(dir, e)),
    };
    let mut entries = Vec::new();
    for folder in folders {
        let folder = folder.map_err(|e| CheckpointError::read(dir, e))?;
        let name = folder.file_name();
        let path = folder.path();
        if name.to_string_lossy().starts_with(TEMPORARY) || !path.is_dir() {
            continue;
        }
        let manifest = Manifest::read(&path).and_then(|manifest| {
            check_lengths(&path, &manifest)?;
            Ok(manifest)
        });
        entries.push(Entry { path, manifest });
    }
    entries.sort_by_key(|entry| {
        let sequence = entry.manifest.as_ref().map_or(0, |manifest| manifest.sequence);
        (std::cmp::Reverse(sequence), entry.path.clone())
    });
    Ok(entries)
}

/// The newest intact checkpoint in `dir`, or `dir` itself where it is a checkpoint. Damaged ones
/// are skipped, each with a warning that names the damage.
///
/// # Errors
/// [`CheckpointError::None`] where no checkpoint is intact; it lists the skipped ones.
pub fn newest(dir: &Path) -> Result<Checkpoint, CheckpointError> {
    newest_where(dir, |_| true)
}

/// Same as [`newest`], among the checkpoints with this tag (`best`).
///
/// # Errors
/// Same as [`newest`].
pub fn newest_tagged(dir: &Path, tag: &str) -> Result<Checkpoint, CheckpointError> {
    newest_where(dir, |manifest| manifest.header.tag == tag)
}

fn newest_where(dir: &Path, wanted: impl Fn(&Manifest) -> bool) -> Result<Checkpoint, CheckpointError> {
    if dir.join(super::MANIFEST).is_file() {
        return Checkpoint::open(dir);
    }
    let mut skipped = Vec::new();
    let mut skip = |path: &Path, damage: &Damage| {
        tracing::warn!("checkpoint {} is skipped: {damage}", path.display());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        skipped.push(format!("{name}: {damage}"));
    };
    for entry in list(dir)? {
        match entry.manifest {
            Err(damage) => skip(&entry.path, &damage),
            Ok(manifest) if !wanted(&manifest) => {}
            Ok(_) => match Checkpoint::open(&entry.path) {
                Ok(checkpoint) => return Ok(checkpoint),
                Err(CheckpointError::Damaged { path, damage }) => skip(&path, &damage),
                Err(other) => return Err(other),
            },
        }
    }
    let skipped = if skipped.is_empty() { String::new() } else { format!("; skipped: {}", skipped.join("; ")) };
    Err(CheckpointError::None { dir: dir.to_owned(), skipped })
}

fn check_lengths(folder: &Path, manifest: &Manifest) -> Result<(), Damage> {
    for (name, sum) in &manifest.files {
        let found = fs::metadata(folder.join(name)).map_err(|e| unreadable(name, &e))?.len();
        if found != sum.bytes {
            return Err(Damage::Length { file: name.clone(), found, expected: sum.bytes });
        }
    }
    Ok(())
}

fn unreadable(name: &str, e: &io::Error) -> Damage {
    match e.kind() {
        io::ErrorKind::NotFound => Damage::Missing(name.to_owned()),
        _ => Damage::Unreadable { file: name.to_owned(), why: e.to_string() },
    }
}

fn sum_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            n => hasher.update(&buffer[..n]),
        };
    }
}

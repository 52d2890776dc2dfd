//! Finds and reads checkpoints.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use hearth_engine::{Metrics, State};

use super::manifest::Manifest;
use super::name::{Time, parts_of};
use super::{CheckpointError, Damage, TEMPORARY, snapshot_files};

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
        let bytes = hearth_files::read(&path).map_err(|e| damaged(unreadable(name, &e)))?;
        if *blake3::hash(&bytes).to_hex() != *sum.blake3 {
            return Err(damaged(Damage::Sum(name.to_owned())));
        }
        Ok(bytes)
    }

    /// The metrics of the weights: those that were measured in the checkpoint's epoch, if it was
    /// complete. A metric of an earlier epoch is one of other weights.
    ///
    /// # Errors
    /// A state that cannot be read.
    pub fn metrics(&self) -> Result<Metrics, CheckpointError> {
        let Some(state) = self.state()? else { return Ok(Metrics::new()) };
        let names = state.metrics.keys().filter(|_| state.epoch_done);
        Ok(names.filter_map(|name| Some((name.clone(), state.fresh(name)?))).collect())
    }

    /// The state of the run when it was written; `None` if it is not of a trainer.
    ///
    /// # Errors
    /// A state that cannot be read.
    pub fn state(&self) -> Result<Option<State>, CheckpointError> {
        let read = || Ok(snapshot_files::read(self, "")?.state);
        self.has(snapshot_files::ENGINE).then(read).transpose()
    }

    /// Fails if another run wrote it. A caller that knows no run (`None`) accepts all.
    ///
    /// # Errors
    /// [`CheckpointError::OtherRun`].
    pub fn check_run(self, run: Option<&str>) -> Result<Self, CheckpointError> {
        let found = self.manifest.header.run.clone();
        match run {
            Some(run) if found.as_deref() != Some(run) => {
                Err(CheckpointError::OtherRun { path: self.path, found, run: run.to_owned() })
            }
            _ => Ok(self),
        }
    }

    /// The files below a folder of the checkpoint (`companions/teacher/`), as a checkpoint of their
    /// own; `None` where there are none.
    pub(crate) fn part(&self, folder: &str) -> Option<Self> {
        let files = self.manifest.files.iter();
        let files = files.filter_map(|(name, sum)| Some((name.strip_prefix(folder)?.to_owned(), sum.clone())));
        let manifest = Manifest { files: files.collect(), ..self.manifest.clone() };
        (!manifest.files.is_empty()).then(|| Self { path: self.path.join(folder), manifest })
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

/// The newest intact checkpoint in `dir`, or `dir` itself where it is a checkpoint: what a run
/// resumes from. Damaged ones are skipped, each with a warning that names the damage.
///
/// # Errors
/// [`CheckpointError::None`] where no checkpoint is intact; it lists the skipped ones.
pub fn newest(dir: &Path) -> Result<Checkpoint, CheckpointError> {
    newest_of(dir, None)
}

/// The newest intact checkpoint in `dir` as [`newest`] finds it, for the run of this name.
///
/// # Errors
/// Same as [`newest`]; [`CheckpointError::OtherRun`] for a newer checkpoint of another run.
pub fn newest_of(dir: &Path, run: Option<&str>) -> Result<Checkpoint, CheckpointError> {
    if dir.join(super::MANIFEST).is_file() {
        return Checkpoint::open(dir)?.check_run(run);
    }
    let mut skipped = Vec::new();
    let mut skip = |path: &Path, damage: &Damage| {
        tracing::warn!("checkpoint {} is skipped: {damage}", path.display());
        skipped.push(format!("{}: {damage}", name_of(path)));
    };
    let time_of = |path: &Path| parts_of(&name_of(path)).map(|(time, _)| time);
    let mut broken = Vec::new();
    // Those without a usable manifest are the last of the list.
    let mut found = None;
    for Entry { path, manifest } in list(dir)? {
        match manifest {
            Err(damage) => broken.push((path, damage)),
            Ok(_) if found.is_some() => {}
            Ok(_) => match Checkpoint::open(&path) {
                Ok(checkpoint) => found = Some(checkpoint),
                Err(CheckpointError::Damaged { path, damage }) => skip(&path, &damage),
                Err(other) => return Err(other),
            },
        }
    }
    let from = found.as_ref().and_then(|checkpoint| time_of(&checkpoint.path));
    broken.iter().filter(|(path, _)| time_of(path) >= from).for_each(|(path, damage)| skip(path, damage));
    if let Some(checkpoint) = found {
        return checkpoint.check_run(run);
    }
    let skipped = if skipped.is_empty() { String::new() } else { format!("; skipped: {}", skipped.join("; ")) };
    Err(CheckpointError::None { dir: dir.to_owned(), skipped })
}

/// The newest checkpoint with this tag (`best`), or of any tag. In contrast to [`newest`] a damaged
/// one is never replaced by an older one, whose weights are others.
///
/// # Errors
/// [`CheckpointError::None`] where there is no such checkpoint, [`CheckpointError::Damaged`] where it
/// is damaged, [`CheckpointError::OtherRun`] where another run than `run` wrote it.
pub fn chosen(dir: &Path, tag: Option<&str>, run: Option<&str>) -> Result<Checkpoint, CheckpointError> {
    let wanted = |found: &str| tag.is_none_or(|tag| tag == found);
    let mut intact: Option<PathBuf> = None;
    let mut damaged: Option<(Time, PathBuf, Damage)> = None;
    for Entry { path, manifest } in list(dir)? {
        let name = name_of(&path);
        // Without a manifest, the name of the folder says when and why it was written.
        match (manifest, parts_of(&name)) {
            (Ok(manifest), _) if wanted(&manifest.header.tag) => intact = intact.or(Some(path)),
            (Err(damage), Some((time, tag)))
                if wanted(tag) && damaged.as_ref().is_none_or(|(known, ..)| *known < time) =>
            {
                damaged = Some((time, path, damage));
            }
            (Err(damage), None) => tracing::warn!("{} is skipped: {damage}", path.display()),
            _ => {}
        }
    }
    let time = intact.as_ref().and_then(|path| Some(parts_of(&name_of(path))?.0));
    match (intact, damaged) {
        // A run that was resumed before the damaged one has written its iteration again.
        (Some(path), damaged) if damaged.as_ref().is_none_or(|(other, ..)| Some(*other) < time) => {
            Checkpoint::open(&path)?.check_run(run)
        }
        (_, Some((_, path, damage))) => Err(CheckpointError::Damaged { path, damage }),
        (_, None) => Err(CheckpointError::None { dir: dir.to_owned(), skipped: String::new() }),
    }
}

/// Whether a folder is a checkpoint, possibly a damaged one: it has a manifest, or the name of one.
pub fn is_one(folder: &Path) -> bool {
    folder.is_dir() && (folder.join(super::MANIFEST).is_file() || parts_of(&name_of(folder)).is_some())
}

/// The names of the checkpoints in `dir` that are intact, every file compared, the newest first.
///
/// # Errors
/// [`CheckpointError::Read`] where `dir` cannot be listed.
pub fn intact(dir: &Path) -> Result<Vec<String>, CheckpointError> {
    let whole = list(dir)?.into_iter().filter(|entry| Checkpoint::open(&entry.path).is_ok());
    Ok(whole.map(|entry| name_of(&entry.path)).collect())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
    let mut file = hearth_files::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            n => hasher.update(&buffer[..n]),
        };
    }
}

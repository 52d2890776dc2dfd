//! Writes a checkpoint: temporary name, flush, rename, flush.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::manifest::{Header, Manifest};
use super::name::{check_relative, folder_name};
use super::{CheckpointError, Files, MANIFEST, TEMPORARY};

/// The steps of writing, in order; tests fail each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    CreateFolder,
    WriteFile,
    WriteManifest,
    FlushFolder,
    Rename,
    FlushParent,
}

/// Called before each step; an error acts as if the operating system had refused the step.
pub(super) type Gate<'a> = &'a mut dyn FnMut(Step) -> io::Result<()>;

/// Writes a checkpoint with these files into the folder `dir` of checkpoints, which is created if
/// missing. Returns the checkpoint's folder. On failure, `dir` is as before.
///
/// # Errors
/// [`CheckpointError::Write`] for a full disk, missing permission and the like,
/// [`CheckpointError::Tag`] and [`CheckpointError::FileName`] for invalid names.
pub fn write(dir: &Path, header: &Header, files: &Files) -> Result<PathBuf, CheckpointError> {
    write_gated(dir, header, files, &mut |_| Ok(()))
}

pub(super) fn write_gated(
    dir: &Path,
    header: &Header,
    files: &Files,
    gate: Gate<'_>,
) -> Result<PathBuf, CheckpointError> {
    files.keys().try_for_each(|name| check_relative(name))?;
    let name = folder_name(header.epoch, header.iteration, &header.tag, 1)?;
    let needed = files.values().map(|bytes| bytes.len() as u64).sum::<u64>();
    let fail = |step: &str, e: io::Error| CheckpointError::write(&dir.join(&name), step, needed, e);

    fs::create_dir_all(dir).map_err(|e| fail(&format!("making {}", dir.display()), e))?;
    let (sequence, leftovers) = look_around(dir)?;
    for leftover in leftovers {
        // The lock of the run shows that its writer is dead; one that cannot be removed does no harm.
        if fs::remove_dir_all(&leftover).is_ok() {
            tracing::warn!("removed {}, which a killed process left", leftover.display());
        }
    }
    let manifest = Manifest::new(sequence, header, files);
    let temporary = dir.join(format!("{TEMPORARY}{name}"));

    let result = fill(&temporary, &manifest, files, gate).and_then(|()| {
        let place = free_name(dir, header)?;
        gate(Step::Rename).map_err(|e| ("renaming it into place".to_owned(), e))?;
        fs::rename(&temporary, &place).map_err(|e| ("renaming it into place".to_owned(), e))?;
        gate(Step::FlushParent)
            .and_then(|()| hearth_files::flush_folder(dir))
            .map_err(|e| (format!("flushing {}", dir.display()), e))?;
        Ok(place)
    });
    result.map_err(|(step, e)| {
        let _ = fs::remove_dir_all(&temporary);
        fail(&step, e)
    })
}

/// Writes and flushes every file, the manifest last, then the folders.
fn fill(folder: &Path, manifest: &Manifest, files: &Files, gate: Gate<'_>) -> Result<(), (String, io::Error)> {
    let making = |e| ("making its folder".to_owned(), e);
    gate(Step::CreateFolder).map_err(making)?;
    fs::create_dir(folder).map_err(making)?;
    let mut inner = std::collections::BTreeSet::new();
    for (name, bytes) in files {
        let writing = |e| (format!("writing {name}"), e);
        gate(Step::WriteFile).map_err(writing)?;
        let path = folder.join(name);
        let parents = path.ancestors().skip(1).take_while(|parent| *parent != folder);
        inner.extend(parents.map(Path::to_owned));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(writing)?;
        }
        hearth_files::create(&path, bytes).map_err(writing)?;
    }
    let writing = |e| (format!("writing {MANIFEST}"), e);
    gate(Step::WriteManifest).map_err(writing)?;
    let json = manifest.to_json().map_err(|e| writing(e.into()))?;
    hearth_files::create(&folder.join(MANIFEST), json.as_bytes()).map_err(writing)?;
    let flushing = |e| ("flushing its folder".to_owned(), e);
    gate(Step::FlushFolder).map_err(flushing)?;
    inner.iter().try_for_each(|inner| hearth_files::flush_folder(inner)).map_err(flushing)?;
    hearth_files::flush_folder(folder).map_err(flushing)
}

/// An unused folder name: saving an iteration again must not touch the first checkpoint before the
/// second is complete.
fn free_name(dir: &Path, header: &Header) -> Result<PathBuf, (String, io::Error)> {
    let mut again = 1;
    loop {
        let name = folder_name(header.epoch, header.iteration, &header.tag, again)
            .map_err(|e| ("naming it".to_owned(), io::Error::other(e)))?;
        let place = dir.join(name);
        if fs::symlink_metadata(&place).is_err() {
            return Ok(place);
        }
        again += 1;
    }
}

/// The next sequence number, and the leftover folders of crashed writers.
fn look_around(dir: &Path) -> Result<(u64, Vec<PathBuf>), CheckpointError> {
    let mut sequence = 0;
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| CheckpointError::read(dir, e))? {
        let entry = entry.map_err(|e| CheckpointError::read(dir, e))?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            leftovers.push(path);
        } else if let Ok(manifest) = Manifest::read(&path) {
            sequence = sequence.max(manifest.sequence);
        }
    }
    Ok((sequence + 1, leftovers))
}

//! Finding a checkpoint of a run by name, and its weights.

use std::path::Path;

use hearth_recipe::{Outcome, RecipeError, notice};
use hearth_registry::unknown;
use hearth_train::RunFolder;
use hearth_train::checkpoint::{self, Checkpoint, CheckpointError};

use crate::record::run_id;

/// The weights file of a checkpoint.
pub const WEIGHTS: &str = "network.safetensors";

/// The name of a run's checkpoint and the content of its weights file. `which` is `best`, `latest`
/// or the name of a checkpoint's folder.
///
/// # Errors
/// Same as [`choose`].
pub fn checkpoint_file(folder: &RunFolder, which: &str) -> Outcome<(String, Vec<u8>)> {
    let checkpoint = choose(folder, which)?;
    let bytes = checkpoint.file(WEIGHTS)?;
    Ok((name_of(&checkpoint), bytes))
}

/// The name of a checkpoint: that of its folder.
pub fn name_of(checkpoint: &Checkpoint) -> String {
    checkpoint.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The checkpoint of a run with this name: `best`, `latest` or the name of its folder. A damaged one
/// is never replaced by another, which holds other weights.
///
/// # Errors
/// A run without checkpoints, an unknown name, a checkpoint of another run, or a damaged one; the
/// error names those that are intact.
pub fn choose(folder: &RunFolder, which: &str) -> Outcome<Checkpoint> {
    find(folder, which).map_err(|error| match error {
        Lost::Checkpoint(error @ CheckpointError::Damaged { .. }) => with_intact(folder, &error),
        Lost::Checkpoint(error) => error.into(),
        Lost::Other(error) => error,
    })
}

/// Why a checkpoint cannot be used.
enum Lost {
    Checkpoint(CheckpointError),
    Other(RecipeError),
}

impl From<CheckpointError> for Lost {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(error)
    }
}

fn find(folder: &RunFolder, which: &str) -> Result<Checkpoint, Lost> {
    let dir = folder.checkpoints();
    let run = run_id(folder).map_err(Lost::Other)?;
    let run = run.as_deref();
    match which {
        "latest" => Ok(checkpoint::chosen(&dir, None, run)?),
        "best" => match checkpoint::chosen(&dir, Some("best"), run) {
            Err(CheckpointError::None { .. }) => {
                let latest = checkpoint::chosen(&dir, None, run)?;
                let why = match latest.manifest.header.key_metric {
                    None => "the run has not validated",
                    Some(_) => "the run keeps none, or it was deleted",
                };
                notice!("no checkpoint is marked as best ({why}); taking the latest, {}", name_of(&latest));
                Ok(latest)
            }
            found => Ok(found?),
        },
        name => {
            let entries = checkpoint::list(&dir)?;
            let names: Vec<String> =
                entries.iter().filter_map(|e| e.path.file_name()).map(|n| n.to_string_lossy().into_owned()).collect();
            if !names.iter().any(|known| known == name) {
                let mut known = vec!["best", "latest"];
                known.extend(names.iter().map(String::as_str));
                return Err(Lost::Other(RecipeError::new(unknown("checkpoint", name, &known))));
            }
            Ok(Checkpoint::open(&dir.join(name))?.check_run(run)?)
        }
    }
}

/// The error of a damaged checkpoint, with the ones that can be used in its place.
fn with_intact(folder: &RunFolder, error: &CheckpointError) -> RecipeError {
    let dir = folder.checkpoints();
    let intact = checkpoint::intact(&dir).unwrap_or_default();
    let advice = match intact.first() {
        None => "no other one is intact".to_owned(),
        Some(first) => {
            let (list, init) = (intact.join(", "), dir.join(first));
            format!("intact are {list}: take one with --checkpoint NAME (for --init: {})", init.display())
        }
    };
    RecipeError::new(format!("{error}; {advice}"))
}

/// The weights file of a checkpoint's own folder, after its files were compared with the manifest.
/// `None` for a folder that is no checkpoint.
///
/// # Errors
/// A damaged checkpoint.
pub(crate) fn weights_in(folder: &Path) -> Outcome<Option<std::path::PathBuf>> {
    if !checkpoint::is_one(folder) {
        return Ok(None);
    }
    Ok(Some(Checkpoint::open(folder)?.path.join(WEIGHTS)))
}

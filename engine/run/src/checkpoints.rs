//! Finding a checkpoint of a run by name, and its weights.

use hearth_recipe::{Outcome, RecipeError, notice};
use hearth_registry::unknown;
use hearth_train::RunFolder;
use hearth_train::checkpoint::{self, Checkpoint, CheckpointError};

/// The weights file of a checkpoint.
pub const WEIGHTS: &str = "network.safetensors";

/// The name of a run's checkpoint and the content of its weights file. `which` is `best`, `latest`
/// or the name of a checkpoint's folder.
///
/// # Errors
/// Same as [`choose`].
pub fn checkpoint_file(folder: &RunFolder, which: &str) -> Outcome<(String, Vec<u8>)> {
    let checkpoint = choose(folder, which)?;
    let name = checkpoint.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = checkpoint.file(WEIGHTS)?;
    Ok((name, bytes))
}

/// The checkpoint of a run with this name: `best`, `latest` or the name of its folder.
///
/// # Errors
/// A run without checkpoints, an unknown name, or a damaged checkpoint.
pub fn choose(folder: &RunFolder, which: &str) -> Outcome<Checkpoint> {
    let dir = folder.checkpoints();
    match which {
        "latest" => Ok(checkpoint::newest(&dir)?),
        "best" => match checkpoint::newest_tagged(&dir, "best") {
            Err(CheckpointError::None { .. }) => {
                let latest = checkpoint::newest(&dir)?;
                notice!("no checkpoint is marked as best (the run has not validated); taking the latest");
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
                return Err(RecipeError::new(unknown("checkpoint", name, &known)));
            }
            Ok(Checkpoint::open(&dir.join(name))?)
        }
    }
}

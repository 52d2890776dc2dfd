//! Whether a run can be resumed, and what is said if not.

use std::path::Path;

use hearth_engine::{RunError, RunErrorKind};
use hearth_recipe::recipe::PluginChanges;
use hearth_recipe::{Outcome, RecipeError, warning};
use hearth_train::checkpoint::CheckpointError;
use hearth_train::{RunFolder, checkpoint};

use crate::ended::Ended;
use crate::plan::Plan;
use crate::record::{Record, run_id};

/// The error of a checkpoint that cannot be restored; of a missing handler it says how to continue.
pub(crate) fn resume_error(error: &(dyn std::error::Error + 'static)) -> RecipeError {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let missing = causes.filter_map(|cause| cause.downcast_ref::<RunError>()).find_map(|cause| match &cause.kind {
        RunErrorKind::MissingHandler(handler) => Some(handler),
        _ => None,
    });
    match missing {
        None => RecipeError::new(error.to_string()),
        Some(handler) => RecipeError::new(format!(
            "the checkpoint holds a state of the handler `{handler}`, which this run does not have: name its plugin \
             (--plugin FILE), or continue without it and its state (--without {handler})"
        )),
    }
}

/// Fails if a run cannot be resumed with this plan and these changes, before any work; returns its end if it
/// has ended and they do not continue it.
pub fn check_resume(plan: &Plan, data: &Path, folder: &RunFolder, changes: &PluginChanges) -> Outcome<Option<Ended>> {
    Record::new(plan, data)?.check(folder, changes)?;
    if checkpoint::list(&folder.checkpoints())?.is_empty() {
        return Ok(None);
    }
    let run = run_id(folder)?;
    let newest = checkpoint::newest_of(&folder.checkpoints(), run.as_deref())?;
    // Training does not need it, and the commands that use the run's network will.
    if let Err(damaged @ CheckpointError::Damaged { .. }) =
        checkpoint::chosen(&folder.checkpoints(), Some("best"), run.as_deref())
    {
        warning!("{damaged}; the run continues without it, until a better one is found");
    }
    let (done, asked) = (newest.manifest.header.epoch, plan.recipe.training.epochs);
    if asked < done {
        let root = folder.root().display();
        return Err(RecipeError::new(format!(
            "{root} is in epoch {done} already: --epochs {asked} is less; nothing was changed"
        )));
    }
    let before = Record::read(folder)?;
    Ok(newest.state()?.and_then(|state| Ended::of(plan, state, before.as_ref(), changes)))
}

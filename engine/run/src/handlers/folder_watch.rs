//! Ends a run soon after its folder was removed, rather than after all its epochs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hearth_engine::{Context, Event, Handler, HandlerError, When};

/// The interval of checks within an epoch; epochs can take hours.
const EVERY: Duration = Duration::from_secs(10);

/// Fails if the recipe is missing in the run's folder. A checkpoint would create the folder again,
/// and hide the loss of its content.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    recipe: PathBuf,
    looked: Instant,
}

impl FolderWatch {
    /// Watches the folder of this recipe.
    pub fn new(recipe: PathBuf) -> Self {
        Self { recipe, looked: Instant::now() }
    }
}

impl Handler for FolderWatch {
    fn name(&self) -> &str {
        "folder_watch"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::IterationCompleted | Event::EpochCompleted]
    }

    fn handle(&mut self, event: Event, _: &mut Context<'_>) -> Result<(), HandlerError> {
        if event == Event::IterationCompleted && self.looked.elapsed() < EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        match self.recipe.is_file() {
            true => Ok(()),
            false => Err(HandlerError::new(format!("{} is missing", self.recipe.display()))),
        }
    }
}

//! Handling of Ctrl-C. While a run is being prepared, it ends the program; during a run, the first one
//! asks it to stop after the current step. Between cases of a prediction it ends the program, too.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Context, Outcome};
use crate::{hangup, note};

/// What Ctrl-C does.
enum Stage {
    /// Nothing is running yet.
    Preparing,
    /// A run that stops when this flag is set.
    Running(Arc<AtomicBool>),
    /// This rank has finished; the others stop after their step.
    Waiting,
    /// Ranks are processes of a launcher, which gets the signal, too; the second one does not wait for them.
    Launcher(Arc<AtomicBool>),
    /// Cases are done one after another, and what was written stays. Says what becomes of the others.
    Cases(&'static str),
    /// The run was already asked to stop, or nothing is left to stop.
    Ending,
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::Preparing);
/// The output folder, and the folders that were created for it, outermost first.
static MADE: Mutex<Option<(PathBuf, Vec<PathBuf>)>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles Ctrl-C and SIGTERM for a command that prepares a run. A command that starts another one calls this
/// again: the handler is installed once in a process.
///
/// # Errors
/// Where the operating system refuses the handler.
pub fn listen() -> Outcome {
    begin(Stage::Preparing)
}

/// Handles them for a command that does one case after another, each of which has its own files.
pub fn listen_between_cases() -> Outcome {
    begin(Stage::Cases("the same command, without --overwrite, processes the rest"))
}

/// Handles them for a command whose ranks are processes of a launcher: the first one sets `asked`.
pub fn listen_to_launcher(asked: Arc<AtomicBool>) -> Outcome {
    begin(Stage::Launcher(asked))
}

/// Sets what a signal does from now on, and installs the handler if it is not yet.
fn begin(stage: Stage) -> Outcome {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    *lock(&STAGE) = stage;
    let mut installed = lock(&INSTALLED);
    if !*installed {
        hangup::prepare();
        ctrlc::set_handler(handle).while_doing(|| "cannot listen for Ctrl-C")?;
        *installed = true;
    }
    Ok(())
}

/// Does what Ctrl-C does: the launcher of this rank has passed it on.
pub fn request() {
    handle();
}

fn handle() {
    let mut stage = lock(&STAGE);
    if hangup::is_no_request(matches!(*stage, Stage::Ending)) {
        return;
    }
    match &*stage {
        Stage::Preparing => {
            let kept = remove_empty();
            match kept {
                None => note!("\ninterrupted before the first step; nothing was written"),
                Some(kept) => note!("\ninterrupted before the first step; what was written is in {}", kept.display()),
            }
            leave();
        }
        Stage::Cases(others) => {
            note!("\ninterrupted: what was written is complete; {others}");
            leave();
        }
        Stage::Running(flag) => {
            flag.store(true, Ordering::SeqCst);
            *stage = Stage::Ending;
            let more = "press Ctrl-C again to stop at once";
            note!("\ninterrupted: finishing this step and writing a checkpoint ({more})");
        }
        Stage::Launcher(asked) => {
            if asked.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        }
        Stage::Waiting => *stage = Stage::Ending,
        Stage::Ending => leave(),
    }
}

/// Ends the program, and removes half-written files.
fn leave() -> ! {
    hearth_files::remove_unfinished();
    std::process::exit(130)
}

/// This command starts from the beginning when it is called again.
pub fn starts_over() {
    let mut stage = lock(&STAGE);
    if matches!(*stage, Stage::Cases(_)) {
        *stage = Stage::Cases("the same command starts from the beginning: add --overwrite");
    }
}

/// Marks the start of a run: the first Ctrl-C sets `flag`.
pub fn running(flag: Arc<AtomicBool>) {
    *lock(&STAGE) = Stage::Running(flag);
}

/// Marks work after a run, whose files are complete: Ctrl-C ends the program, and says what is missing.
pub fn between(missing: &'static str) {
    *lock(&STAGE) = Stage::Cases(missing);
}

/// Marks the end of a run: Ctrl-C ends the program.
pub fn over() {
    *lock(&STAGE) = Stage::Ending;
}

/// Marks this rank as finished while it waits for others, which Ctrl-C interrupts.
pub fn waiting() {
    let mut stage = lock(&STAGE);
    if !matches!(*stage, Stage::Ending) {
        *stage = Stage::Waiting;
    }
}

/// Records the output folder and the folders created for it, outermost first, so that they are removed
/// if they stay empty.
pub fn made(root: PathBuf, folders: Vec<PathBuf>) {
    *lock(&MADE) = Some((root, folders));
}

/// Removes the recorded folders that are empty. Returns the output folder if it is not.
pub fn remove_empty() -> Option<PathBuf> {
    let (root, folders) = lock(&MADE).take()?;
    for folder in folders.iter().rev() {
        // A folder that is not empty stays.
        let _ = std::fs::remove_dir(folder);
    }
    let filled = std::fs::read_dir(&root).is_ok_and(|mut inside| inside.next().is_some());
    filled.then_some(root)
}

//! Ctrl-C: the first one asks the run to stop after its step, the second ends the program.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Context, Outcome};
use crate::note;

/// How often it was pressed.
static PRESSED: AtomicU32 = AtomicU32::new(0);
/// Who is told. The handler of the process is set once, the first run's flag stays: a process trains once.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on Ctrl-C (and a polite `kill`) raises `flag` first and ends the program the second time.
pub fn listen(flag: Arc<AtomicBool>) -> Outcome {
    if FLAG.set(flag).is_err() {
        return Ok(());
    }
    ctrlc::set_handler(|| {
        if PRESSED.fetch_add(1, Ordering::SeqCst) > 0 {
            std::process::exit(130);
        }
        if let Some(flag) = FLAG.get() {
            flag.store(true, Ordering::SeqCst);
        }
        note!("\ninterrupted: finishing this step and writing a checkpoint (press Ctrl-C again to stop at once)");
    })
    .while_doing(|| "cannot listen for Ctrl-C")
}

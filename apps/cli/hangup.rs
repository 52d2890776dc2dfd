//! Signals that come because the terminal was closed.
//!
//! The system and the shell may send one each, and the second one must not end a run that is writing its
//! checkpoint. A program that `nohup` has started does not stop at all: its handler of Ctrl-C and SIGTERM
//! would otherwise be that of the hang-up, too.

use std::fs::{self, File};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::note;

/// The time within which signals belong to one hang-up.
const MOMENT: Duration = Duration::from_secs(2);

/// How the program was started.
struct Started {
    /// With a terminal.
    watched: bool,
    /// By `nohup`: hang-ups are ignored.
    stays: bool,
}

static STARTED: OnceLock<Started> = OnceLock::new();
static FIRST: Mutex<Option<Instant>> = Mutex::new(None);

/// Remembers how the program was started; called before the handler of signals is installed.
pub fn prepare() {
    STARTED.get_or_init(|| Started { watched: has_terminal(), stays: ignores_hangups() });
}

/// Whether a signal that just came is no request to stop: a hang-up under `nohup`, one of a run that is `ending`,
/// or one more of the same hang-up. The first signal of a hang-up may come while the terminal is still there.
pub fn is_no_request(ending: bool) -> bool {
    let Some(started) = STARTED.get() else { return false };
    if !started.watched || has_terminal() {
        return false;
    }
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    match *first {
        Some(then) => then.elapsed() < MOMENT,
        None => {
            *first = Some(Instant::now());
            if started.stays && !ending {
                note!("the terminal was closed; the program continues (nohup). Send the signal again to stop it");
            }
            started.stays || ending
        }
    }
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Whether the process that started this one has set hang-ups to be ignored.
fn ignores_hangups() -> bool {
    /// The bit of SIGHUP, the signal 1.
    const HANGUP: u64 = 1;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & HANGUP != 0)
}

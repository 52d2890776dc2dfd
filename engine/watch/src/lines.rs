//! Output line by line: for a log, a pipe, a screen reader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hearth_report::Board;

use crate::end::End;
use crate::error::WatchError;
use crate::follow::{Follower, Seen};
use crate::narrate::{Narrator, plain};

/// The interval between checks of the files.
pub const EVERY: Duration = Duration::from_millis(500);

/// Reports each epoch, each warning and a good end; for a folder, its runs by rank whenever one has
/// progressed. Ends when the run ends, when no run of a folder is running, or when `stop` is set.
pub fn lines(follower: &mut Follower, stop: &AtomicBool, mut print: impl FnMut(&str)) -> Result<End, WatchError> {
    let mut narrator = Narrator::default();
    let mut tell = |seen: &Seen| {
        // The caller reports a bad end.
        let bad = over(seen).filter(|end| !end.is_good()).map(|end| plain(end.words()));
        narrator.tell(seen).iter().filter(|line| Some(*line) != bad.as_ref()).for_each(|line| print(line));
    };
    tell(follower.seen());
    loop {
        if let Some(end) = over(follower.seen()) {
            return Ok(end);
        }
        rest(EVERY, stop);
        if stop.load(Ordering::Relaxed) {
            return Ok(End::Left);
        }
        if follower.look() {
            tell(follower.seen());
        }
    }
}

/// Reports the current state once.
pub fn once(follower: &Follower, mut print: impl FnMut(&str)) {
    Narrator::default().tell(follower.seen()).iter().for_each(|line| print(line));
}

/// The end of the watched run or folder, if it is over.
pub fn over(seen: &Seen) -> Option<End> {
    match seen {
        Seen::Waiting(_) => None,
        Seen::Run(run) => End::of(run),
        Seen::Board(runs) => (!Board::new(runs).is_running()).then(|| End::Good("no run is running".into())),
        Seen::Gone(why) => Some(End::Bad(why.clone())),
    }
}

/// Waits for a time, or until `stop` is set.
pub fn rest(time: Duration, stop: &AtomicBool) {
    let part = Duration::from_millis(50);
    for _ in 0..time.as_millis() / part.as_millis() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(part);
    }
}

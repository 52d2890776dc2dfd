//! Whether a run is still running, or how it ended: decided first by the lock of its folder, then by
//! its files.

use std::fs::TryLockError;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::curves::Log;
use super::summary::Summary;

/// The file that a process locks while it writes to a run's folder, and removes at its end.
const LOCK: &str = "run.lock";

/// The maximum size of a lock file's text that is read.
const MAX_HOLDER: u64 = 4096;

/// Files that grow during a run.
const GROWING: [&str; 4] = ["log.jsonl", "metrics.csv", "machine.csv", "run.lock"];

/// On file systems without locks, a run counts as killed if none of its files has grown for this time.
const SILENT: Duration = Duration::from_secs(600);

/// Whether a run is still running, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A process holds the lock of the folder; with its description from the lock file.
    Running(String),
    /// The process that held the lock is gone, and left the lock file behind.
    Killed(String),
    /// The run completed.
    Completed,
    /// A handler ended it.
    EndedEarly,
    /// It was asked to stop, and can be resumed.
    Interrupted,
    /// An error ended it.
    Failed,
    /// Neither a lock nor a summary shows the state.
    Unknown,
}

impl State {
    /// The state according to the lock, the summary and the log of a folder.
    pub(super) fn of(lock: Lock, summary: Option<&Summary>, log: Option<&Log>) -> Self {
        match lock {
            Lock::Held(holder) => return Self::Running(holder),
            Lock::Left(holder) => return Self::Killed(holder),
            Lock::None => {}
        }
        match summary.and_then(|summary| summary.outcome.as_deref()) {
            Some("completed") => Self::Completed,
            Some("terminated") => Self::EndedEarly,
            Some("interrupted") => Self::Interrupted,
            Some("failed") => Self::Failed,
            Some(_) => Self::Unknown,
            None if log.is_some_and(|log| log.error.is_some()) => Self::Failed,
            None if log.is_some_and(|log| log.completed) => Self::Completed,
            None => Self::Unknown,
        }
    }

    /// Whether a process holds the lock of the folder.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// The state in one or two words.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running(_) => "running",
            Self::Killed(_) => "killed",
            Self::Completed => "completed",
            Self::EndedEarly => "ended early",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Unknown => "unfinished",
        }
    }

    /// A sign that is recognisable without colours.
    pub fn sign(&self) -> &'static str {
        match self {
            Self::Running(_) => "▶",
            Self::Killed(_) | Self::Failed => "✗",
            Self::Completed => "✓",
            Self::EndedEarly => "■",
            Self::Interrupted => "❚❚",
            Self::Unknown => "…",
        }
    }
}

/// The state of a folder's lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// There is no lock file.
    None,
    /// A process holds it.
    Held(String),
    /// Its process is gone.
    Left(String),
}

impl Lock {
    /// Tries to take the lock without waiting, and releases it at once. A run that starts at this
    /// moment tries again.
    pub fn of(folder: &Path) -> Self {
        let Ok(file) = hearth_files::open(folder.join(LOCK)) else { return Self::None };
        let mut holder = String::new();
        // Some systems do not allow reading a file that another process has locked.
        let _ = (&file).take(MAX_HOLDER).read_to_string(&mut holder);
        let holder = holder.trim().to_owned();
        match file.try_lock_shared() {
            Ok(()) => Self::Left(holder),
            Err(TryLockError::WouldBlock) => Self::Held(holder),
            Err(TryLockError::Error(_)) if grows(folder) => Self::Held(holder),
            Err(TryLockError::Error(_)) => Self::Left(holder),
        }
    }
}

/// Whether a file of the run has changed recently.
fn grows(folder: &Path) -> bool {
    let changed = |name: &&str| folder.join(name).metadata().and_then(|file| file.modified()).ok();
    let newest = GROWING.iter().filter_map(changed).max();
    // A time ahead of this clock counts as now.
    newest.is_some_and(|newest| {
        SystemTime::now().duration_since(newest).is_ok_and(|age| age < SILENT) || newest > SystemTime::now()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_runs_and_one_that_is_left_was_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Lock::of(folder.path()), Lock::None);
        let path = folder.path().join(LOCK);
        std::fs::write(&path, "process 7 (hearth train)\n").expect("written");
        assert_eq!(Lock::of(folder.path()), Lock::Left("process 7 (hearth train)".into()));
        let held = std::fs::File::options().write(true).open(&path).expect("a file");
        held.try_lock().expect("free");
        assert!(matches!(Lock::of(folder.path()), Lock::Held(_)));
        drop(held);
        assert!(matches!(Lock::of(folder.path()), Lock::Left(_)));
        assert!(grows(folder.path()));
    }

    #[test]
    fn the_lock_decides_before_an_older_summary() {
        let ended = |outcome: &str| Summary { outcome: Some(outcome.into()), ..Summary::default() };
        let of = |lock, summary: Option<&Summary>, log: Option<&Log>| State::of(lock, summary, log).word();
        let interrupted = ended("interrupted");
        assert_eq!(of(Lock::Held(String::new()), Some(&interrupted), None), "running");
        assert_eq!(of(Lock::Left(String::new()), Some(&interrupted), None), "killed");
        let words = ["completed", "terminated", "interrupted", "failed", "else"]
            .map(|word| of(Lock::None, Some(&ended(word)), None));
        assert_eq!(words, ["completed", "ended early", "interrupted", "failed", "unfinished"]);
        let failed = Log { error: Some("no".into()), ..Log::default() };
        let whole = Log { completed: true, ..Log::default() };
        assert_eq!(
            [Some(&failed), Some(&whole), None].map(|log| of(Lock::None, None, log)),
            ["failed", "completed", "unfinished"]
        );
    }
}

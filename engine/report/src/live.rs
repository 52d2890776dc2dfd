//! Pages of running trainings. A server sends one page at a time, and a new version when files have
//! changed. The page's script requests it with `?seen=VERSION` each second, and expects status 204 if
//! its version is the newest.

use crate::board::Board;
use crate::page;
use crate::run::Run;

/// The page of a run.
pub fn run(run: &Run, version: &str) -> String {
    page::live::run(run, version)
}

/// The page of a folder of runs, ordered by rank.
pub fn board(folder: &str, board: &Board<'_>, version: &str) -> String {
    page::live::board(folder, board, version)
}

/// The page of a folder that is not yet, or no longer, a run: its state, and what to expect.
pub fn note(folder: &str, text: &str, version: &str) -> String {
    page::live::note(folder, text, version)
}

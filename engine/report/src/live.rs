//! Pages of runs that go on. A server sends one of them at a time, and another version when files
//! have changed; the page's script asks for it at `?seen=VERSION` each second, and expects status
//! 204 where its version is the newest.

use crate::board::Board;
use crate::page;
use crate::run::Run;

/// The page of a run.
pub fn run(run: &Run, version: &str) -> String {
    page::live::run(run, version)
}

/// The page of a folder of runs, by rank.
pub fn board(folder: &str, board: &Board<'_>, version: &str) -> String {
    page::live::board(folder, board, version)
}

/// The page of something that is no run yet, or no longer: what it is, and what to expect.
pub fn note(folder: &str, text: &str, version: &str) -> String {
    page::live::note(folder, text, version)
}

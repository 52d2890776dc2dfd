//! Sharing of cases among several ranks: each has its own, and they synchronise before and after.

use std::time::Duration;

use hearth_recipe::RecipeError;
use hearth_train::Ranks;

pub use hearth_models::job::{Done, own};

use crate::error::{Failure, Outcome};
use crate::interrupt;
use crate::ranks::{RanksArgs, is_first};
use crate::run::{finish, together};

/// How long ranks that share images wait for each other: one may have all the large ones. A rank that
/// ended is noticed at once, regardless of this.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs `work` as each of the ranks, or as the only one.
pub fn shared(by: &RanksArgs, work: impl Fn(Option<&Ranks>) -> Outcome + Sync) -> Outcome {
    by.run(|ranks| finished(ranks, &work))
}

/// Like [`shared`], for work where each case has its own files: Ctrl-C ends the program, and reports
/// that they are kept.
pub fn shared_cases(by: &RanksArgs, work: impl Fn(Option<&Ranks>) -> Outcome + Sync) -> Outcome {
    shared(by, |ranks| {
        if is_first(ranks) {
            interrupt::listen_between_cases()?;
        }
        work(ranks)
    })
}

/// Runs `work` as a rank on its own cases, and waits at the end for ranks with larger ones.
pub fn finished(ranks: Option<Ranks>, work: impl FnOnce(Option<&Ranks>) -> Outcome) -> Outcome {
    let ranks = ranks.map(|mut ranks| {
        ranks.deadline = PATIENCE;
        ranks
    });
    work(ranks.as_ref())?;
    ranks.as_ref().map_or(Ok(()), |ranks| Ok(finish(ranks)?))
}

/// The result of a preparation that all ranks do before shared work: if one fails, all fail.
pub fn prepared<T>(ranks: Option<&Ranks>, done: Result<T, impl Into<Failure>>) -> Outcome<T> {
    let done = done.map_err(Into::into);
    match ranks {
        None => done,
        ranks => Ok(together(ranks, "preparing", done.map_err(|failure| RecipeError::new(failure.line())))?),
    }
}

/// A failure as an error of the library.
pub fn reported(failure: &Failure) -> RecipeError {
    RecipeError::new(failure.line())
}

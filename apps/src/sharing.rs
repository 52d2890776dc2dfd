//! Work on cases that several ranks share: each has its own, and they meet before and after.

use std::time::Duration;

use hearth_recipe::RecipeError;
use hearth_train::Ranks;
use hearth_train::distributed::Share;
use serde::{Deserialize, Serialize};

use crate::error::{Failure, Outcome};
use crate::ranks::{RanksArgs, is_first};
use crate::run::{finish, gathered, together};
use crate::{interrupt, note, out, terminal};

/// How long ranks that share images wait for each other: one may have all the large ones. A rank
/// that ended is noticed at once, whatever this is.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Works as each of the ranks, or as the only one.
pub fn shared(by: RanksArgs, work: impl Fn(Option<&Ranks>) -> Outcome + Sync) -> Outcome {
    by.run(|ranks| finished(ranks, &work))
}

/// The same, where each case has files of its own: Ctrl-C ends the program, and says that they stay.
pub fn shared_cases(by: RanksArgs, work: impl Fn(Option<&Ranks>) -> Outcome + Sync) -> Outcome {
    shared(by, |ranks| {
        if is_first(ranks) {
            interrupt::listen_between_cases()?;
        }
        work(ranks)
    })
}

/// Works as a rank on cases of its own, and waits at the end for those that have the larger ones.
pub fn finished(ranks: Option<Ranks>, work: impl FnOnce(Option<&Ranks>) -> Outcome) -> Outcome {
    let ranks = ranks.map(|mut ranks| {
        ranks.deadline = PATIENCE;
        ranks
    });
    work(ranks.as_ref())?;
    ranks.as_ref().map_or(Ok(()), |ranks| Ok(finish(ranks)?))
}

/// Which of so many cases are those of this rank.
pub fn own(ranks: Option<&Ranks>, cases: usize) -> impl Iterator<Item = usize> + use<> {
    match ranks {
        Some(ranks) => Share::new(cases, ranks.world()).of(ranks.rank()),
        None => Share::new(cases, 1).of(0),
    }
}

/// What is done before shared work, on all ranks: where one fails, all do.
pub fn prepared<T>(ranks: Option<&Ranks>, done: Outcome<T>) -> Outcome<T> {
    match ranks {
        None => done,
        ranks => Ok(together(ranks, "preparing", done.map_err(|failure| RecipeError::new(failure.line())))?),
    }
}

/// What came of the cases of one rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done<T> {
    /// By their place among all cases: what a table has of them.
    pub rows: Vec<(usize, T)>,
    /// By their place: name and reason of those that failed.
    pub failed: Vec<(usize, String, String)>,
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), failed: Vec::new() }
    }
}

impl<T: Serialize + for<'de> Deserialize<'de>> Done<T> {
    /// A case failed, which does not stop the others.
    pub fn fail(&mut self, place: usize, name: String, failure: &Failure) {
        let why = failure.line();
        note!("{name}: {why}");
        self.failed.push((place, name, why));
    }

    /// The same of all ranks, in the order of cases, on each of them. The first one prints what the
    /// others had to say.
    pub fn of_all(self, ranks: Option<&Ranks>) -> Outcome<Self> {
        let Some(ranks) = ranks else { return Ok(self) };
        let parts = gathered(ranks, "the other ranks' cases", &(terminal::unsaid(), self))?;
        let mut all = Self::default();
        for (rank, (lines, part)) in parts.into_iter().enumerate() {
            if rank != ranks.rank() {
                lines.iter().for_each(|line| out!("{line}"));
                part.failed.iter().for_each(|(_, name, why)| note!("{name}: {why}"));
            }
            all.rows.extend(part.rows);
            all.failed.extend(part.failed);
        }
        all.rows.sort_by_key(|(place, _)| *place);
        all.failed.sort_by_key(|(place, ..)| *place);
        Ok(all)
    }
}

impl<T> Done<T> {
    /// Fails where a case failed, naming the first few.
    pub fn check(&self, ranks: Option<&Ranks>, count: usize, things: &str) -> Outcome {
        if self.failed.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = self.failed.iter().take(8).map(|(_, name, _)| name.as_str()).collect();
        let more = self.failed.len() - named.len();
        let tail = if more > 0 { format!("\nand {more} more") } else { String::new() };
        let bad = self.failed.len();
        let why = format!("{bad} of {count} {things} failed:\n{}{tail}", named.join("\n"));
        prepared(ranks, if is_first(ranks) { Err(Failure::new(why)) } else { Ok(()) })
    }
}

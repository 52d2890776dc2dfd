//! Cases that several ranks share: each rank has its own cases, and they synchronize before and after.

use hearth_recipe::{Outcome, RecipeError, notice};
use hearth_run::{gathered, together};
use hearth_train::Ranks;
use hearth_train::distributed::Share;
use serde::{Deserialize, Serialize};

use crate::job::results::Results;

/// The number of failed cases that an error names.
const NAMED: usize = 8;

/// Whether this rank is the first or only one.
pub(crate) fn is_first(ranks: Option<&Ranks>) -> bool {
    ranks.is_none_or(|ranks| ranks.rank() == 0)
}

/// The indices of this rank's cases among all of them.
pub fn own(ranks: Option<&Ranks>, cases: usize) -> impl Iterator<Item = usize> + use<> {
    match ranks {
        Some(ranks) => Share::new(cases, ranks.world()).of(ranks.rank()),
        None => Share::new(cases, 1).of(0),
    }
}

/// Synchronizes all ranks before shared work: if one failed, all fail.
///
/// # Errors
/// The error of this rank or of another one.
pub fn prepared<T>(ranks: Option<&Ranks>, done: Outcome<T>) -> Outcome<T> {
    match ranks {
        None => done,
        ranks => together(ranks, "preparing", done.map_err(|error| RecipeError::new(error.line()))),
    }
}

/// The results of the cases of one rank, or of all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done<T> {
    /// The table entry of each case, with its index among all cases.
    pub rows: Vec<(usize, T)>,
    /// The index, name and reason of each failed case.
    pub failed: Vec<(usize, String, String)>,
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), failed: Vec::new() }
    }
}

impl<T: Serialize + for<'de> Deserialize<'de>> Done<T> {
    /// Records a failed case, which does not stop the others.
    pub fn fail(&mut self, place: usize, name: String, error: &RecipeError) {
        let why = error.line();
        notice!("{name}: {why}");
        self.failed.push((place, name, why));
    }

    /// Collects the results of all ranks on each of them, in the order of cases. The first rank
    /// prints the lines of the others.
    ///
    /// # Errors
    /// A rank that does not respond.
    pub fn of_all(self, ranks: Option<&Ranks>, results: &dyn Results) -> Outcome<Self> {
        let Some(ranks) = ranks else { return Ok(self) };
        let parts = gathered(ranks, "the other ranks' cases", &(results.unprinted(), self))?;
        let mut all = Self::default();
        for (rank, (lines, part)) in parts.into_iter().enumerate() {
            if rank != ranks.rank() {
                lines.iter().for_each(|line| results.line(line));
                part.failed.iter().for_each(|(_, name, why)| notice!("{name}: {why}"));
            }
            all.rows.extend(part.rows);
            all.failed.extend(part.failed);
        }
        all.rows.sort_by_key(|(place, _)| *place);
        all.failed.sort_by_key(|(place, ..)| *place);
        Ok(all)
    }

    /// Fails if a case failed, naming the first few.
    ///
    /// # Errors
    /// The names of failed cases.
    pub fn check(&self, ranks: Option<&Ranks>, count: usize, things: &str) -> Outcome {
        if self.failed.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = self.failed.iter().take(NAMED).map(|(_, name, _)| name.as_str()).collect();
        let more = self.failed.len() - named.len();
        let tail = if more > 0 { format!("\nand {more} more") } else { String::new() };
        let bad = self.failed.len();
        let why = format!("{bad} of {count} {things} failed:\n{}{tail}", named.join("\n"));
        prepared(ranks, if is_first(ranks) { Err(RecipeError::new(why)) } else { Ok(()) })
    }
}

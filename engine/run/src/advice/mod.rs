//! Suggestions for a faster run: [`Finding`]s, each with measurements from a profile of that run,
//! the line of the recipe to change, and the expected gain in seconds.
//!
//! Each function covers one lever of the fast-training guides. It suggests nothing without a
//! measurement.

mod converging;
pub(crate) mod facts;
mod levers;
mod ranks;
pub mod trials;

pub use converging::{Candidate, converging};
pub use facts::{Chain, Facts, StepTime};
pub use ranks::imbalance;

use hearth_recipe::recipe::Recipe;

/// A suggestion for a faster run.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// A short description.
    pub lever: &'static str,
    /// The measurement, and the conclusion from it.
    pub evidence: String,
    /// The line of the recipe.
    pub line: String,
    /// The same change as `key=value`, in the form of `--set`; empty if no key changes it.
    pub sets: Vec<String>,
    /// The expected gain in seconds per epoch, including validation.
    pub seconds: f64,
    /// Whether the training takes the same steps with it, and finds the same errors and the same best
    /// checkpoint.
    pub same_course: bool,
}

/// The smallest share of an epoch that justifies a suggestion.
const LEAST: f64 = 0.02;

/// The findings about a run, largest gain first; `further` ones were measured by trials.
pub fn advise(recipe: &Recipe, facts: &Facts, further: Vec<Finding>) -> Vec<Finding> {
    let levers = [levers::cache, levers::workers, levers::indices, levers::interval, levers::overlap, levers::handlers];
    let found = levers.iter().filter_map(|lever| lever(recipe, facts)).chain(further);
    let mut found: Vec<Finding> = found.filter(|finding| finding.seconds >= LEAST * facts.cost()).collect();
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    found
}

//! What would make a run faster: [`Finding`]s, each from figures of a profile of that run, with the
//! line of the recipe that changes it and the seconds that it is expected to win.
//!
//! One function is one lever of the fast-training guides. A lever that nothing was measured for says
//! nothing.

mod converging;
pub(crate) mod facts;
mod levers;
mod ranks;
pub mod trials;

pub use converging::{Candidate, converging};
pub use facts::{Chain, Facts, StepTime};
pub use ranks::imbalance;

use hearth_recipe::recipe::Recipe;

/// What would make a run faster.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// What to do, in a few words.
    pub lever: &'static str,
    /// What was measured, and what follows from it.
    pub evidence: String,
    /// The line of the recipe.
    pub line: String,
    /// The same as changes of keys, `key=value` as `--set` takes them; none where no key changes it.
    pub sets: Vec<String>,
    /// Seconds of each epoch that it is expected to win, validation included.
    pub seconds: f64,
    /// Whether the training takes the same steps with it, so that nothing else is learned.
    pub same_course: bool,
}

/// Below this share of an epoch nothing is worth a line of the recipe.
const LEAST: f64 = 0.02;

/// The findings about a run, those that win most first; `further` ones were tried.
pub fn advise(recipe: &Recipe, facts: &Facts, further: Vec<Finding>) -> Vec<Finding> {
    let levers = [levers::cache, levers::workers, levers::indices, levers::interval, levers::overlap, levers::handlers];
    let found = levers.iter().filter_map(|lever| lever(recipe, facts)).chain(further);
    let mut found: Vec<Finding> = found.filter(|finding| finding.seconds >= LEAST * facts.cost()).collect();
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    found
}

//! [`Tables`]: the tables that the jobs of several folds fill together.

use hearth_train::Floats;

use crate::job::ranks::Done;
use crate::job::tasks::Task;

/// The name of an image, and its numbers.
pub(crate) type ScoreRow = (String, Floats);

/// What jobs with the same images and the same folder have found: the folds of a cross-validation, each of
/// which predicts its own cases. A job without a fold has tables of its own.
#[derive(Debug, Default)]
pub struct Tables {
    /// The rows of `scores.csv` and the failed cases, with their places among all images.
    pub(crate) done: Done<ScoreRow>,
    /// The models whose rows `scores.csv` has: program, model and weights of each.
    pub(crate) made_by: Vec<String>,
    /// Whether a job has claimed `scores.csv`: those that follow add to it.
    pub(crate) claimed: bool,
}

impl Tables {
    /// Adds the cases that this model predicted, whose places are those of their tasks.
    pub(crate) fn add(&mut self, done: &Done<ScoreRow>, tasks: &[Task], made_by: &str) {
        if !done.rows.is_empty() {
            self.made_by.push(made_by.to_owned());
        }
        let rows = done.rows.iter().map(|(place, row)| (tasks[*place].place, row.clone()));
        self.done.rows.extend(rows);
        let failed = done.failed.iter().map(|(place, name, why)| (tasks[*place].place, name.clone(), why.clone()));
        self.done.failed.extend(failed);
        self.done.rows.sort_by_key(|(place, _)| *place);
        self.done.failed.sort_by_key(|(place, ..)| *place);
    }
}

//! Finds the task of a model by its labels, its voxel size, and the name of its data set.

use super::task::{Modality, Models, Task, number};
use super::tasks::TASKS;
use crate::volume::Axes3;

/// The largest difference between voxel sizes that count as equal, in mm.
const SAME: f64 = 1e-3;

/// The facts about a model in its files.
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// The names of its data set, in its plans and as a folder.
    pub datasets: Vec<String>,
    /// The names of its labels 1, 2, ...
    pub labels: Vec<String>,
    /// The voxel size of its training in mm, z y x; `None` for a 2-D model.
    pub voxels: Option<Axes3<f64>>,
    /// The modality of its images, if its plans state it.
    pub modality: Modality,
}

/// A model's place in the table of tasks.
#[derive(Clone, Copy, Debug)]
pub struct Match {
    /// The task.
    pub task: &'static Task,
    /// The models of a mode.
    pub models: &'static Models,
    /// The index of the model among them.
    pub part: usize,
}

/// A match and its evidence.
struct Evidence {
    found: Match,
    voxels: bool,
    folder: bool,
    number: bool,
}

/// Finds the places of a model in the table: those whose labels have the same names, or those with
/// the same data set name, number of labels and voxel size. Several matches are narrowed down by
/// voxel size, then by the name or number of the data set, then by modality. Parts of `total` and
/// `total_v3` with the same labels both stay if no number distinguishes them.
pub fn matches(facts: &ModelFacts) -> Vec<Match> {
    let mut found = Vec::new();
    for task in &TASKS {
        for models in task.models {
            let parts = models.folders.iter().enumerate();
            found.extend(parts.filter_map(|(part, folder)| evidence(facts, task, models, part, folder)));
        }
    }
    keep_where_any(&mut found, |one| one.voxels);
    // The modes of a task differ only in their voxel size.
    found.retain(|one| one.voxels || one.found.task.models.len() == 1);
    keep_where_any(&mut found, |one| one.folder);
    keep_where_any(&mut found, |one| one.number);
    keep_where_any(&mut found, |one| one.found.task.modality == facts.modality);
    found.into_iter().map(|one| one.found).collect()
}

fn evidence(
    facts: &ModelFacts,
    task: &'static Task,
    models: &'static Models,
    part: usize,
    folder: &str,
) -> Option<Evidence> {
    let labels = task.part(models.mode, part);
    let named = labels.len() == facts.labels.len()
        && labels.iter().zip(&facts.labels).all(|((known, _), found)| known == found);
    let same = |(a, b): (&f64, &f64)| (a - b).abs() < SAME;
    let voxels = match (&models.voxels, &facts.voxels) {
        (Some(known), Some(found)) => known.iter().zip(found).all(same),
        (known, _) => known.is_none(),
    };
    let of_folder = facts.datasets.iter().any(|dataset| dataset == folder);
    let of_number = facts.datasets.iter().any(|dataset| number(dataset) == number(folder));
    let counts = of_folder && voxels && labels.len() == facts.labels.len();
    let found = Match { task, models, part };
    (named || counts).then_some(Evidence { found, voxels, folder: of_folder, number: of_number })
}

fn keep_where_any<T>(all: &mut Vec<T>, holds: impl Fn(&T) -> bool) {
    if all.iter().any(&holds) {
        all.retain(holds);
    }
}

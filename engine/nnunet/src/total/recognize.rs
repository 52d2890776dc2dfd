//! Finds the task of a model by its labels, its voxels, and the name of its data set.

use super::task::{Modality, Models, Task, number};
use super::tasks::TASKS;
use crate::volume::Axes3;

/// How far two sizes of voxels may differ and still be the same, in mm.
const SAME: f64 = 1e-3;

/// What the files of a model say about it.
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// The name of its data set, in its plans and as a folder.
    pub datasets: Vec<String>,
    /// The names of its labels 1, 2, ...
    pub labels: Vec<String>,
    /// The voxels that it was trained with, z y x in mm; `None` of a 2-D model.
    pub voxels: Option<Axes3<f64>>,
    /// What its images are made by, where its plans say so.
    pub modality: Modality,
}

/// A place of a model in the table of tasks.
#[derive(Clone, Copy, Debug)]
pub struct Match {
    /// The task.
    pub task: &'static Task,
    /// The models of a mode.
    pub models: &'static Models,
    /// Which of them.
    pub part: usize,
}

/// A match, and what it rests on.
struct Evidence {
    found: Match,
    voxels: bool,
    folder: bool,
    number: bool,
}

/// The places of a model in the table: those whose labels have its names, or that have the name of its
/// data set, as many labels, and its voxels. Of several those with its voxels count, then those with the
/// name or the number of its data set, then those of its modality. The parts of `total` and `total_v3`
/// with the same labels stay together where no number tells them apart.
pub fn matches(facts: &ModelFacts) -> Vec<Match> {
    let mut found = Vec::new();
    for task in &TASKS {
        for models in task.models {
            let parts = models.folders.iter().enumerate();
            found.extend(parts.filter_map(|(part, folder)| evidence(facts, task, models, part, folder)));
        }
    }
    keep_where_any(&mut found, |one| one.voxels);
    // The modes of a task differ in their voxels alone.
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

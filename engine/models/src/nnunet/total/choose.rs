//! Chooses the task of a folder of models, and the models that predict.

use std::path::Path;

use hearth_nnunet::total::{Cleaning, Mode, Models, Rough, TASKS, Task, task as named};
use hearth_registry::unknown;

use super::model::Model;
use super::variant::Variant;
use hearth_recipe::{Outcome, RecipeError};

/// The models of a task that predict.
pub(crate) struct Chosen<'a> {
    pub task: &'static Task,
    pub models: &'static Models,
    /// For each existing part, its index among the models, and the model.
    pub parts: Vec<(usize, &'a Model)>,
}

impl Chosen<'_> {
    /// The classes that the parts have.
    pub fn classes(&self) -> Vec<&'static str> {
        let all = self.parts.iter().flat_map(|(part, _)| self.task.part(self.models.mode, *part));
        all.filter(|(_, label)| *label > 0).map(|(name, _)| name).collect()
    }
}

/// The models of a folder, with ambiguous parts of `total` and `total_v3` assigned to one of them.
pub(crate) struct Found<'a> {
    path: &'a Path,
    models: &'a [Model],
    /// The task, `total` or `total_v3`, of models that fit both.
    either: &'static str,
}

impl<'a> Found<'a> {
    /// `wanted` is the name of the task, if given.
    pub fn new(path: &'a Path, models: &'a [Model], wanted: Option<&str>) -> Self {
        let alone =
            |name: &str| models.iter().any(|model| names(model).all(|found| found == name) && is_of(model, name));
        let either = match wanted {
            Some("total") => "total",
            Some("total_v3") => "total_v3",
            // The vertebrae, or the number of a data set, determine the version of the other parts.
            _ if alone("total_v3") && !alone("total") => "total_v3",
            _ => "total",
        };
        Found { path, models, either }
    }

    /// Whether a model belongs to a task in a mode.
    fn is_of_mode(&self, model: &Model, task: &str, mode: Mode) -> bool {
        self.is_of(model, task) && model.found.iter().any(|found| found.task.name == task && found.models.mode == mode)
    }

    fn is_of(&self, model: &Model, task: &str) -> bool {
        let both = is_of(model, "total") && is_of(model, "total_v3");
        let other = ["total", "total_v3"].contains(&task) && task != self.either;
        is_of(model, task) && !(both && other)
    }

    /// The requested task, or the task of the existing models; `None` for other models.
    ///
    /// # Errors
    /// An unknown task, a task without a model, or models of several tasks.
    pub fn task(&self, wanted: Option<&str>) -> Outcome<Option<&'static Task>> {
        if let Some(name) = wanted {
            let known: Vec<&str> = TASKS.iter().map(|task| task.name).collect();
            let Some(task) = named(name) else {
                return Err(RecipeError::new(format!("--task: {}", unknown("task", name, &known))));
            };
            return Ok(Some(task));
        }
        let there = TASKS.iter().filter(|task| self.models.iter().any(|model| self.is_of(model, task.name)));
        let there: Vec<&'static Task> = there.collect();
        let tasks: Vec<&'static Task> = there.iter().copied().filter(|task| !self.only_helps(task, &there)).collect();
        let others = self.models.iter().find(|model| model.found.is_empty());
        let names = || tasks.iter().map(|task| task.name).collect::<Vec<_>>().join(", ");
        let simple = |task: &Task| task.crop.is_none() && task.cleaning == Cleaning::None;
        match (&tasks[..], others) {
            ([], _) => Ok(None),
            ([task], None) => Ok(Some(task)),
            // Their labels are merged.
            (tasks, Some(_)) if tasks.iter().all(|task| simple(task)) => Ok(None),
            (_, Some(other)) => {
                let what = format!(
                    "{} holds models of {} and others ({})",
                    self.path.display(),
                    names(),
                    other.path.display()
                );
                Err(RecipeError::new(format!("{what}: choose the task by --task, or move the others away")))
            }
            _ => {
                let what = format!("{} holds models of several tasks of TotalSegmentator", self.path.display());
                Err(RecipeError::new(format!("{what}: choose one by --task: {}", names())))
            }
        }
    }

    /// Whether all models of a task are the rough models of other existing tasks.
    fn only_helps(&self, task: &Task, there: &[&'static Task]) -> bool {
        let is_there = |task: &str, mode: Mode| self.models.iter().any(|model| self.is_of_mode(model, task, mode));
        let others = there.iter().filter(|other| other.name != task.name);
        let rough = others.flat_map(|other| {
            let subset = other.crops_to_subsets() && is_there(other.name, Mode::Default);
            let crop = other.crop.map(|crop| crop.rough);
            crop.into_iter().chain(subset.then(|| rough_of_subsets(other)))
        });
        let used = |rough| choices(rough).into_iter().find(|(name, mode)| is_there(name, *mode));
        let used: Vec<(&str, Mode)> = rough.filter_map(used).collect();
        let mut modes = task.models.iter().map(|models| models.mode).filter(|mode| is_there(task.name, *mode));
        modes.all(|mode| used.contains(&(task.name, mode)))
    }

    /// The models of a task: of the given mode, or of the first mode with models.
    ///
    /// # Errors
    /// Missing models, or several models for the same part.
    pub fn choose(&self, task: &'static Task, variant: Variant) -> Outcome<Chosen<'a>> {
        let there = |models: &&Models| self.models.iter().any(|model| self.is_of_mode(model, task.name, models.mode));
        let models = match variant.mode {
            Some(mode) => {
                let Some(models) = task.models.iter().find(|models| models.mode == mode) else {
                    let modes: Vec<&str> = task.models.iter().map(|models| models.mode.name()).collect();
                    let what = format!("the task {} has no models called {}", task.name, mode.name());
                    return Err(RecipeError::new(format!("--variant: {what}; it has {}", modes.join(", "))));
                };
                Some(models).filter(there)
            }
            None => task.models.iter().find(there),
        };
        let Some(models) = models else {
            let wanted = variant.mode.unwrap_or(Mode::Default);
            let models = task.models.iter().find(|models| models.mode == wanted).unwrap_or(&task.models[0]);
            let what = format!("the models of the task {} are missing in {}", task.name, self.path.display());
            return Err(RecipeError::new(format!("{what}: put {} there", models.folders.join(", "))));
        };
        let mut parts = Vec::new();
        for part in 0..models.folders.len() {
            let of_part = self.models.iter().filter(|model| {
                self.is_of(model, task.name)
                    && model
                        .found
                        .iter()
                        .any(|found| found.task == task && found.models == models && found.part == part)
            });
            if let Some(model) = self.one_of(of_part.collect(), models, variant.small)? {
                parts.push((part, model));
            }
        }
        Ok(Chosen { task, models, parts })
    }

    /// Selects among several models of the same part: by the given size, otherwise a big one, then
    /// by the task's trainer and configuration.
    fn one_of(&self, mut all: Vec<&'a Model>, models: &Models, small: Option<bool>) -> Outcome<Option<&'a Model>> {
        let Some(first) = all.first().copied() else { return Ok(None) };
        match small {
            Some(small) => all.retain(|model| model.residual == small),
            None if all.iter().any(|model| !model.residual) => all.retain(|model| !model.residual),
            None => {}
        }
        if all.is_empty() {
            let [wanted, network] = match small {
                Some(true) => ["small", "a residual network"],
                _ => ["big", "a network without residual blocks"],
            };
            let folder = first.path.parent().unwrap_or(self.path).display();
            return Err(RecipeError::new(format!("--variant {wanted}: {folder} has no model with {network}")));
        }
        if all.iter().any(|model| model.is_of(models.trainer, models.configuration)) {
            all.retain(|model| model.is_of(models.trainer, models.configuration));
        }
        match all[..] {
            [model] => Ok(Some(model)),
            _ => {
                let paths: Vec<String> = all.iter().map(|model| model.path.display().to_string()).collect();
                let what = "are models of the same classes: move all but one away";
                Err(RecipeError::new(format!("{} {what}", paths.join(" and "))))
            }
        }
    }

    /// The first existing rough model that has all `classes`.
    ///
    /// # Errors
    /// Several models for the same part.
    pub fn rough(&self, rough: Rough, classes: &[&str]) -> Outcome<Option<Chosen<'a>>> {
        for (name, mode) in choices(rough) {
            let Some(task) = named(name) else { continue };
            if !self.models.iter().any(|model| self.is_of_mode(model, name, mode)) {
                continue;
            }
            let chosen = self.choose(task, Variant { mode: Some(mode), small: None })?;
            let has = chosen.classes();
            if classes.iter().all(|class| has.contains(class)) {
                return Ok(Some(chosen));
            }
        }
        Ok(None)
    }

    /// The error for a missing rough model of a task.
    pub fn without_rough(&self, task: &Task, rough: Rough, classes: &[&str]) -> RecipeError {
        let of = |(name, mode): (&str, Mode)| {
            let models = named(name)?.models.iter().find(|models| models.mode == mode)?;
            Some(models.folders.join(", "))
        };
        let folders: Vec<String> = choices(rough).into_iter().filter_map(of).collect();
        let what = format!("the task {} crops images to {}", task.name, classes.join(", "));
        let path = self.path.display();
        RecipeError::new(format!(
            "{what}, which another model finds, and that is missing: put {} into {path}",
            folders.join(" or ")
        ))
    }
}

/// The rough model that finds the region of a subset of a task's classes.
pub(crate) fn rough_of_subsets(task: &Task) -> Rough {
    if task.name == "total_mr" { Rough::Mode("total_mr", Mode::Fast) } else { Rough::Total }
}

/// The models that can be the rough one, best first.
fn choices(rough: Rough) -> Vec<(&'static str, Mode)> {
    match rough {
        Rough::Total => {
            vec![("total", Mode::Fastest), ("total_v3", Mode::Fastest), ("total", Mode::Fast), ("total_v3", Mode::Fast)]
        }
        Rough::Mode("total", mode) => vec![("total", mode), ("total_v3", mode)],
        Rough::Mode(name, mode) => vec![(name, mode)],
    }
}

fn is_of(model: &Model, task: &str) -> bool {
    names(model).any(|name| name == task)
}

fn names(model: &Model) -> impl Iterator<Item = &'static str> + '_ {
    model.found.iter().map(|found| found.task.name)
}

//! The kind of a recipe's predictions.

use std::sync::Arc;

use hearth_registry::{Fault, Named, Node, Value};
use serde::{Deserialize, Deserializer, Serialize};

use super::schema::Recipe;
use crate::task::{Regions, Segmentation, Task};

/// The output of the chain `[post] prediction`: the same in validation, `evaluate` and `predict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Exclusive classes, the background first: the likeliest wins (`AsDiscrete` with `argmax`).
    Labels,
    /// Regions that may overlap, each decided by itself (a sigmoid and a threshold). There is no
    /// background; `labels` names the channels.
    Regions,
    /// Numbers of the whole image, one for each label.
    Scores,
    /// An image.
    Image,
}

impl Output {
    /// Whether it is a map over the image's grid.
    pub fn is_map(self) -> bool {
        matches!(self, Output::Labels | Output::Regions)
    }
}

/// `task`: the learned task, as a table or only as a name for the run. With only a name, the chain
/// of `[post]` decides whether classes or regions are segmented.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TaskEntry {
    /// A name.
    Title(String),
    /// `[task]`.
    Task(Named<dyn Task>),
}

impl<'de> Deserialize<'de> for TaskEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(from)?;
        match node.as_str() {
            Some(title) => Ok(Self::Title(title.to_owned())),
            None => Named::new(&node).map(Self::Task).map_err(Fault::through_serde),
        }
    }
}

impl Recipe {
    /// The task that it learns.
    pub fn learns(&self) -> Arc<dyn Task> {
        match &self.task {
            TaskEntry::Task(task) => task.shared(),
            TaskEntry::Title(_) if self.decides_classes() => Arc::new(Segmentation::default()),
            TaskEntry::Title(_) => Arc::new(Regions::default()),
        }
    }

    /// The kind of its predictions.
    pub fn output(&self) -> Output {
        self.learns().output()
    }

    /// The title of the run.
    pub fn title(&self) -> String {
        match (&self.title, &self.task) {
            (Some(title), _) | (None, TaskEntry::Title(title)) => title.clone(),
            (None, TaskEntry::Task(task)) => task.name().to_lowercase(),
        }
    }

    /// Whether the largest channel wins, which is the default without `[post] prediction`.
    fn decides_classes(&self) -> bool {
        let steps = &self.post.prediction;
        steps.is_empty() || steps.iter().any(takes_the_largest)
    }

    /// Checks that `[task]` and `[post]` fit together.
    pub(super) fn check_task(&self) -> Result<(), Fault> {
        let (task, steps) = (self.learns(), &self.post.prediction);
        if !task.generates() {
            self.check_adversary()?;
            if self.loss.is_none() {
                return Err(Fault::at("loss", "missing: add [loss] with the `name` of a loss"));
            }
        }
        task.check(self)?;
        let wins = steps.iter().any(takes_the_largest);
        if let TaskEntry::Task(named) = &self.task
            && !steps.is_empty()
            && task.output().is_map()
            && wins != (task.output() == Output::Labels)
        {
            let what = if wins {
                "this chain lets the largest channel win (argmax), but regions are decided one by one: remove argmax"
            } else {
                "exclusive classes are decided by an AsDiscrete with argmax = true; for regions that overlap \
                 take task.name = \"Regions\""
            };
            let name = named.name();
            return Err(Fault::at("post.prediction", format!("task {name}: {what}")));
        }
        Ok(())
    }
}

fn takes_the_largest(step: &Node) -> bool {
    match step.get("argmax").map(|argmax| &argmax.value) {
        Some(Value::Leaf(toml::Value::Boolean(argmax))) => *argmax,
        Some(_) => true,
        None => false,
    }
}

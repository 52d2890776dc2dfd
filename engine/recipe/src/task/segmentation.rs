//! Exclusive classes.

use hearth_data::layouts::Target;
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Task, takes_label_maps};
use crate::recipe::{Output, Recipe};

/// Exclusive classes: a label map of integers. `labels` names the classes, the background first.
/// The most likely class wins (`AsDiscrete` with `argmax`), and predictions are label maps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Segmentation {
    /// The column, key or suffix of the label map, if it is not the data set's usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The label of voxels without annotation: the loss and the metrics ignore them, and the
    /// network has no output for this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_label: Option<u16>,
}

impl Task for Segmentation {
    fn output(&self) -> Output {
        Output::Labels
    }

    fn target(&self) -> Target {
        Target::Image { name: self.label.clone() }
    }

    fn check(&self, recipe: &Recipe) -> Result<(), Fault> {
        if recipe.labels.len() < 2 {
            return Err(Fault::at("labels", "name at least the background and one class"));
        }
        if let Some(at) = recipe.labels.iter().position(|label| label.eq_ignore_ascii_case("background"))
            && at > 0
        {
            let first = &recipe.labels[0];
            let message = format!(
                "\"background\" is the name of label {at}, and label 0, which metrics and crops leave out as the \
                 background, is called {first:?}: list the names in the order of their labels, background first"
            );
            return Err(Fault::at("labels", message));
        }
        if let Some(label) = self.ignore_label.filter(|label| usize::from(*label) < recipe.labels.len()) {
            let class = &recipe.labels[usize::from(label)];
            let message =
                format!("is {label}, the label of the class {class:?}; expected a label above those of `labels`");
            return Err(Fault::at("task.ignore_label", message));
        }
        Ok(())
    }

    fn ignore_label(&self) -> Option<u16> {
        self.ignore_label
    }

    fn post(&self, labels: usize) -> (Vec<Node>, Vec<Node>) {
        let classes = labels as i64;
        let decide = Node::named("AsDiscrete").with("argmax", true).with("to_onehot", classes);
        (vec![decide], vec![Node::named("AsDiscrete").with("to_onehot", classes)])
    }

    fn takes(&self, metric: &MetricConfig) -> Result<(), String> {
        takes_label_maps(metric)
    }
}

hearth_registry::entry!(dyn Task => Segmentation, example: "");

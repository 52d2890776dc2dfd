//! Regions that may overlap.

use std::collections::BTreeMap;

use hearth_data::Transform;
use hearth_data::layouts::Target;
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Node, Registry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RegionLabels, Task, takes_label_maps};
use crate::recipe::{Output, Recipe};

/// Regions that may overlap, such as whole tumour, tumour core and enhancing tumour. Each has its
/// own channel and is decided independently (sigmoid, threshold 0.5). `labels` names the channels;
/// there is no background. Predictions are a map of 0 and 1 for each region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Regions {
    /// The column, key or suffix of the label map, if it is not the data set's usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The labels of each region, in the order of `labels`: lists, or for TC, WT and ET one of
    /// `decathlon`, `brats2015`, `brats2018`, `brats2023` and `tutorial`.
    /// `ConvertToMultiChannelBasedOnBratsClasses` then uses them, and predictions are one label map
    /// with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<RegionLabels>,
    /// The label of voxels without annotation: the loss and the metrics ignore them, and the
    /// network has no output for this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_label: Option<u16>,
}

impl Task for Regions {
    fn output(&self) -> Output {
        Output::Regions
    }

    fn target(&self) -> Target {
        Target::Image { name: self.label.clone() }
    }

    fn check(&self, recipe: &Recipe) -> Result<(), Fault> {
        if recipe.labels.is_empty() {
            return Err(Fault::at("labels", "name at least one region"));
        }
        let Some(classes) = self.region_labels() else {
            return match self.ignore_label {
                Some(_) => Err(Fault::at("task.ignore_label", "needs task.classes: the labels of each region")),
                None => Ok(()),
            };
        };
        if let Some(label) =
            self.ignore_label.filter(|label| classes.iter().flatten().any(|one| *one == i64::from(*label)))
        {
            let message = format!("is {label}, which is a label of a region; expected one that is in no region");
            return Err(Fault::at("task.ignore_label", message));
        }
        if classes.len() != recipe.labels.len() {
            let (count, named) = (classes.len(), recipe.labels.len());
            let message = format!("has the labels of {count} regions, but `labels` names {named}");
            return Err(Fault::at("task.classes", message));
        }
        let resolve = Node::named("ResolveRegions").with("keys", "pred").with("classes", classes);
        match Registry::<dyn Transform>::new().build(&resolve) {
            Ok(step) => {
                step.check(&mut ["pred".to_owned()].into()).map_err(|fault| Fault::at("task.classes", fault.message))
            }
            Err(fault) => Err(Fault::at("task.classes", fault.message)),
        }
    }

    fn ignore_label(&self) -> Option<u16> {
        self.ignore_label
    }

    fn region_labels(&self) -> Option<Vec<Vec<i64>>> {
        self.classes.as_ref().map(RegionLabels::classes)
    }

    fn check_names(&self, names: &BTreeMap<u32, String>) -> Result<(), String> {
        self.classes.as_ref().map_or(Ok(()), |classes| classes.check_names(names))
    }

    fn post(&self, _: usize) -> (Vec<Node>, Vec<Node>) {
        let activate = Node::named("Activations").with("sigmoid", true);
        (vec![activate, Node::named("AsDiscrete").with("threshold", 0.5)], Vec::new())
    }

    fn takes(&self, metric: &MetricConfig) -> Result<(), String> {
        takes_label_maps(metric)
    }
}

hearth_registry::entry!(dyn Task => Regions, example: "classes = \"brats2023\"");

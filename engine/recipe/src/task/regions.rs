//! Regions that may overlap.

use hearth_data::layouts::Target;
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Task, takes_label_maps};
use crate::recipe::{Output, Recipe};

/// Regions that may overlap, such as whole tumour, tumour core and enhancing tumour. Each is a
/// channel of its own, decided independently (sigmoid, threshold 0.5). `labels` names the channels;
/// there is no background. Predictions are a map of 0 and 1 for each region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Regions {
    /// The column, key or suffix of the label map, where it is not the data set's usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
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
        Ok(())
    }

    fn post(&self, _: usize) -> (Vec<Node>, Vec<Node>) {
        let activate = Node::named("Activations").with("sigmoid", true);
        (vec![activate, Node::named("AsDiscrete").with("threshold", 0.5)], Vec::new())
    }

    fn takes(&self, metric: &MetricConfig) -> Result<(), String> {
        takes_label_maps(metric)
    }
}

hearth_registry::entry!(dyn Task => Regions, example: "");

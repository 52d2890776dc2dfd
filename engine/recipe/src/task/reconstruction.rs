//! Images from images.

use hearth_data::layouts::Target;
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Task, takes_only};
use crate::recipe::{Output, Recipe};

/// Images from images: denoising, super-resolution, another contrast, autoencoders. The target is
/// the image of `target`. By default it is the key `label`, which the recipe's transforms make from
/// the image (`CopyItems`, then noise on the image only). `labels` names the channels; predictions
/// are images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reconstruction {
    /// The column, key or suffix of the target image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Task for Reconstruction {
    fn output(&self) -> Output {
        Output::Image
    }

    fn target(&self) -> Target {
        match &self.target {
            Some(name) => Target::Image { name: Some(name.clone()) },
            None => Target::Nothing,
        }
    }

    fn check(&self, _: &Recipe) -> Result<(), Fault> {
        Ok(())
    }

    fn channels(&self, labels: usize) -> Option<usize> {
        (labels > 0).then_some(labels)
    }

    fn post(&self, _: usize) -> (Vec<Node>, Vec<Node>) {
        (Vec::new(), Vec::new())
    }

    fn metrics(&self) -> Vec<(&'static str, Node)> {
        vec![("mae", Node::named("MAEMetric")), ("mse", Node::named("MSEMetric"))]
    }

    fn takes(&self, metric: &MetricConfig) -> Result<(), String> {
        let known =
            ["MAEMetric", "MSEMetric", "RMSEMetric", "MAPEMetric", "PSNRMetric", "SSIMMetric", "MultiScaleSSIMMetric"];
        takes_only(metric, "images", &known)
    }
}

hearth_registry::entry!(dyn Task => Reconstruction, example: "target = \"clean\"");

//! Regression of numbers per image.

use hearth_data::layouts::Target;
use hearth_data::{Field, Item};
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Task, takes_only};
use crate::recipe::{Output, Recipe};

/// Numbers per image, such as an age or a score. `labels` names the columns or keys of the data set
/// with these numbers. The network returns `[b, numbers, 1, 1, 1]`; predictions are a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Regression {}

impl Task for Regression {
    fn output(&self) -> Output {
        Output::Scores
    }

    fn target(&self) -> Target {
        // The recipe's labels name the columns.
        Target::Fields(Vec::new())
    }

    fn check(&self, recipe: &Recipe) -> Result<(), Fault> {
        if recipe.labels.is_empty() {
            return Err(Fault::at("labels", "name at least one column of numbers"));
        }
        Ok(())
    }

    fn post(&self, _: usize) -> (Vec<Node>, Vec<Node>) {
        (Vec::new(), Vec::new())
    }

    fn metrics(&self) -> Vec<(&'static str, Node)> {
        vec![("mae", Node::named("MAEMetric")), ("rmse", Node::named("RMSEMetric"))]
    }

    fn takes(&self, metric: &MetricConfig) -> Result<(), String> {
        takes_only(metric, "numbers of images", &["MAEMetric", "MSEMetric", "RMSEMetric", "MAPEMetric"])
    }

    fn prepare(&self, mut item: Item, labels: &[String]) -> Result<Item, String> {
        let number = |name: &String| match item.fields.get(name) {
            Some(Field::Number(number)) if number.is_finite() => Ok(*number),
            Some(other) => Err(format!("{name:?} is {other:?}, expected a finite number")),
            None => Err(format!("there is no {name:?}")),
        };
        let numbers = labels.iter().map(number).collect::<Result<Vec<f64>, _>>()?;
        item.fields.insert("label".to_owned(), Field::Numbers(numbers));
        Ok(item)
    }
}

hearth_registry::entry!(dyn Task => Regression, example: "");

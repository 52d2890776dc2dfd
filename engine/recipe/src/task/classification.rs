//! Classes of whole images.

use hearth_data::layouts::Target;
use hearth_data::{Field, Item};
use hearth_nn::metrics::MetricConfig;
use hearth_nn::post::AsDiscrete;
use hearth_registry::{Fault, Node, unknown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Task, takes_only};
use crate::recipe::{Output, Recipe};
use hearth_train::Post;

/// The threshold of a score if an image may have several labels.
const YES: f64 = 0.5;

/// Classes of whole images: `labels` names them, and a column or key of the data set holds the
/// class of each image, by number (from 0) or by name. The network returns `[b, classes, 1, 1, 1]`;
/// predictions are a table of probabilities (softmax).
///
/// With `multi_label` an image may have several labels or none: each of `labels` is a column of 0
/// and 1, with a separate probability (sigmoid).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Classification {
    /// The column or key with the class.
    pub label: String,
    /// Whether an image may have several labels or none.
    pub multi_label: bool,
}

impl Default for Classification {
    fn default() -> Self {
        Self { label: "label".to_owned(), multi_label: false }
    }
}

impl Task for Classification {
    fn output(&self) -> Output {
        Output::Scores
    }

    fn target(&self) -> Target {
        // If an image may have several labels, each has its own column with the recipe's name.
        Target::Fields(if self.multi_label { Vec::new() } else { vec![self.label.clone()] })
    }

    fn check(&self, recipe: &Recipe) -> Result<(), Fault> {
        let (count, least) = (recipe.labels.len(), if self.multi_label { 1 } else { 2 });
        if count < least {
            return Err(Fault::at("labels", format!("name at least {least} of them; there are {count}")));
        }
        Ok(())
    }

    fn post(&self, _: usize) -> (Vec<Node>, Vec<Node>) {
        let activation = if self.multi_label { "sigmoid" } else { "softmax" };
        (vec![Node::named("Activations").with(activation, true)], Vec::new())
    }

    fn metrics(&self) -> Vec<(&'static str, Node)> {
        let accuracy = Node::named("Accuracy");
        let accuracy = if self.multi_label { accuracy.with("is_multilabel", true) } else { accuracy };
        vec![("accuracy", accuracy), ("roc_auc", Node::named("ROCAUCMetric"))]
    }

    fn takes(&self, metric: &MetricConfig) -> Result<(), String> {
        let known = ["Accuracy", "ROCAUCMetric", "AveragePrecisionMetric", "ConfusionMatrixMetric", "FBetaScore"];
        takes_only(metric, "classes of images", &known)
    }

    fn metric_post(&self, metric: &MetricConfig, labels: usize) -> (Vec<Post>, Vec<Post>) {
        let indices = (**metric).name() == "Accuracy";
        match (self.multi_label, metric.takes_scores()) {
            (true, true) => (Vec::new(), Vec::new()),
            (true, false) => {
                let decide = AsDiscrete { threshold: Some(YES), ..AsDiscrete::default() };
                (vec![Post::AsDiscrete(decide)], Vec::new())
            }
            // Compares the index of the largest score with the class number.
            (false, false) if indices => (Vec::new(), Vec::new()),
            (false, true) => (Vec::new(), Post::onehot(labels)),
            (false, false) => (Post::argmax(labels), Post::onehot(labels)),
        }
    }

    fn names_a_winner(&self) -> bool {
        !self.multi_label
    }

    fn gives_probabilities(&self) -> bool {
        true
    }

    fn prepare(&self, mut item: Item, labels: &[String]) -> Result<Item, String> {
        let known: Vec<&str> = labels.iter().map(String::as_str).collect();
        let value = if self.multi_label {
            let flag = |name: &String| match item.fields.get(name) {
                Some(Field::Number(flag)) if *flag == 0.0 || *flag == 1.0 => Ok(*flag),
                Some(other) => Err(format!("{name:?} is {other:?}, expected 0 or 1")),
                None => Err(format!("there is no {name:?}")),
            };
            Field::Numbers(labels.iter().map(flag).collect::<Result<_, _>>()?)
        } else {
            match item.fields.get(&self.label) {
                Some(Field::Number(class)) if class.fract() == 0.0 && (0.0..labels.len() as f64).contains(class) => {
                    Field::Number(*class)
                }
                Some(Field::Number(class)) => {
                    let last = labels.len() - 1;
                    return Err(format!(
                        "{:?} is {class}, expected a class from 0 to {last} ({})",
                        self.label,
                        known.join(", ")
                    ));
                }
                Some(Field::Text(name)) => match labels.iter().position(|label| label == name) {
                    Some(class) => Field::Number(class as f64),
                    None => return Err(format!("{:?}: {}", self.label, unknown("class", name, &known))),
                },
                Some(Field::Numbers(_)) => return Err(format!("{:?} has several values; see multi_label", self.label)),
                None => return Err(format!("there is no {:?}", self.label)),
            }
        };
        item.fields.insert("label".to_owned(), value);
        Ok(item)
    }
}

hearth_registry::entry!(dyn Task => Classification, example: "label = \"diagnosis\"");

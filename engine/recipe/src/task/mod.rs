//! Tasks: `[task]`.
//!
//! A [`Task`] defines what a case has in addition to its image, the meaning of the network's
//! outputs, the metrics, and how a prediction is written. There is one file for each. A user's own
//! task is registered in the same way.

mod classification;
mod generation;
mod patches;
mod reconstruction;
mod region_labels;
mod regions;
mod regression;
mod segmentation;

use std::collections::BTreeMap;
use std::fmt::Debug;

use hearth_data::Item;
use hearth_data::layouts::Target;
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Kind, Node};
use hearth_train::Post;

use crate::recipe::{Output, Recipe};

pub use classification::Classification;
pub use generation::Generation;
pub use patches::Patches;
pub use reconstruction::Reconstruction;
pub use region_labels::{Convention, RegionLabels};
pub use regions::Regions;
pub use regression::Regression;
pub use segmentation::Segmentation;

/// A task that a recipe learns.
pub trait Task: Debug + Send + Sync {
    /// The kind of its predictions.
    fn output(&self) -> Output;

    /// The data of a case in addition to its image.
    fn target(&self) -> Target;

    /// Checks that the recipe fits the task.
    ///
    /// # Errors
    /// The first key that does not fit.
    fn check(&self, recipe: &Recipe) -> Result<(), Fault>;

    /// Output channels that the network needs for this number of labels; by default any number.
    fn channels(&self, labels: usize) -> Option<usize> {
        Some(labels)
    }

    /// The default chains of `[post]` for prediction and label.
    fn post(&self, labels: usize) -> (Vec<Node>, Vec<Node>);

    /// The default of `[metric]`: names and tables, the key metric first. An empty list means the
    /// mean Dice.
    fn metrics(&self) -> Vec<(&'static str, Node)> {
        Vec::new()
    }

    /// Checks that a metric can measure its predictions.
    ///
    /// # Errors
    /// A metric that is not supported, with the supported ones.
    fn takes(&self, metric: &MetricConfig) -> Result<(), String>;

    /// Further steps on prediction and label, after those of `[post]`, for one metric only.
    fn metric_post(&self, _metric: &MetricConfig, _labels: usize) -> (Vec<Post>, Vec<Post>) {
        (Vec::new(), Vec::new())
    }

    /// Whether images are generated from random numbers by two competing networks.
    fn generates(&self) -> bool {
        false
    }

    /// The labels of each region, if predictions are written as one label map: regions are resolved
    /// as in `ResolveRegions`, at the end of `[post] prediction`.
    fn region_labels(&self) -> Option<Vec<Vec<i64>>> {
        None
    }

    /// The label of voxels without annotation, which the loss and the metrics ignore.
    fn ignore_label(&self) -> Option<u16> {
        None
    }

    /// Compares the recipe with the names that a data set gives its labels.
    ///
    /// # Errors
    /// Names that show another meaning of the labels; the message says what to do.
    fn check_names(&self, _: &BTreeMap<u32, String>) -> Result<(), String> {
        Ok(())
    }

    /// Whether the largest of its scores is the answer.
    fn names_a_winner(&self) -> bool {
        false
    }

    /// Whether its scores are probabilities, from 0 to 1.
    fn gives_probabilities(&self) -> bool {
        false
    }

    /// The options of a slide's map, if patches of slides are learned.
    fn patches(&self) -> Option<&Patches> {
        None
    }

    /// Makes the target from a case's fields: its key `label`.
    ///
    /// # Errors
    /// A value that is not among the recipe's labels.
    fn prepare(&self, item: Item, _labels: &[String]) -> Result<Item, String> {
        Ok(item)
    }
}

impl Kind for dyn Task {
    const WORD: &'static str = "task";

    // Recipes may write the names of tasks in lower case.
    fn is_spelt(known: &str, written: &str) -> bool {
        known.eq_ignore_ascii_case(written)
    }
}

/// Metrics of label maps, for messages.
const OF_MAPS: &str = "DiceMetric, MeanIoU, HausdorffDistanceMetric, ConfusionMatrixMetric, ...";

/// Whether a metric compares label maps.
fn takes_label_maps(metric: &MetricConfig) -> Result<(), String> {
    if !metric.takes_scores() {
        return Ok(());
    }
    Err(format!("a metric of this `name` takes one score per image; validation measures label maps: {OF_MAPS}"))
}

/// Whether a metric is one of these.
fn takes_only(metric: &MetricConfig, what: &str, known: &[&str]) -> Result<(), String> {
    let name = (**metric).name();
    if known.contains(&name) {
        return Ok(());
    }
    Err(format!("{name} does not measure {what}: use {}", known.join(", ")))
}

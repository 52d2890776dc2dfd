//! What is learned: `[task]`.
//!
//! A [`Task`] says what a case has beside its image, what the network's outputs mean, what is
//! measured, and what a prediction is written as. There is one file for each; a user's own is
//! registered like theirs.

mod classification;
mod generation;
mod reconstruction;
mod regions;
mod regression;
mod segmentation;

use std::fmt::Debug;

use hearth_data::Item;
use hearth_data::layouts::Target;
use hearth_nn::metrics::MetricConfig;
use hearth_registry::{Fault, Kind, Node};
use hearth_train::Post;

use crate::recipe::{Output, Recipe};

pub use classification::Classification;
pub use generation::Generation;
pub use reconstruction::Reconstruction;
pub use regions::Regions;
pub use regression::Regression;
pub use segmentation::Segmentation;

/// What a recipe learns.
pub trait Task: Debug + Send + Sync {
    /// What its predictions are.
    fn output(&self) -> Output;

    /// What a case has beside its image.
    fn target(&self) -> Target;

    /// Whether the recipe goes together with it.
    ///
    /// # Errors
    /// The first key that does not.
    fn check(&self, recipe: &Recipe) -> Result<(), Fault>;

    /// Channels that the network must give for so many labels; any number where nothing is said.
    fn channels(&self, labels: usize) -> Option<usize> {
        Some(labels)
    }

    /// The chains of `[post]`, prediction and label, where the recipe has none.
    fn post(&self, labels: usize) -> (Vec<Node>, Vec<Node>);

    /// What is measured where the recipe has no `[metric]`: names and tables, the key metric first.
    /// Nothing: the mean Dice.
    fn metrics(&self) -> Vec<(&'static str, Node)> {
        Vec::new()
    }

    /// Whether a metric can measure its predictions.
    ///
    /// # Errors
    /// Which metrics can, where this one cannot.
    fn takes(&self, metric: &MetricConfig) -> Result<(), String>;

    /// Further steps on prediction and label, behind those of `[post]`, for one metric alone.
    fn metric_post(&self, _metric: &MetricConfig, _labels: usize) -> (Vec<Post>, Vec<Post>) {
        (Vec::new(), Vec::new())
    }

    /// Whether images come from random numbers, by two networks that compete, and not from images.
    fn generates(&self) -> bool {
        false
    }

    /// Whether the largest of its scores is the answer.
    fn names_a_winner(&self) -> bool {
        false
    }

    /// Whether its scores are probabilities, from 0 to 1.
    fn gives_probabilities(&self) -> bool {
        false
    }

    /// Makes what is learned of a case's fields: its key `label`.
    ///
    /// # Errors
    /// A value that is none of the recipe's.
    fn prepare(&self, item: Item, _labels: &[String]) -> Result<Item, String> {
        Ok(item)
    }
}

impl Kind for dyn Task {
    const WORD: &'static str = "task";

    // Recipes write kinds of tasks in lower case as often.
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

//! The confusion of a run's classes, measured in addition to the recipe's metrics.

use hearth_nn::metrics::ClassConfusion;
use hearth_nn::networks::AnyNetwork;
use hearth_train::EvaluatorBuilder;

use crate::plan::Plan;
use hearth_recipe::recipe::Output;

/// The name of the confusion in an evaluator.
pub const CONFUSION: &str = "class_confusion";

impl Plan {
    /// The number of mutually exclusive classes; `None` if several may be right at the same time.
    pub fn exclusive_classes(&self) -> Option<usize> {
        let exclusive = match self.recipe.output() {
            Output::Labels => true,
            Output::Scores => self.recipe.learns().names_a_winner(),
            Output::Regions | Output::Image => false,
        };
        Some(self.recipe.labels.len()).filter(|classes| exclusive && *classes > 1)
    }

    /// An empty confusion of the classes, if they are mutually exclusive.
    pub fn confusion(&self) -> Option<ClassConfusion> {
        self.exclusive_classes().map(ClassConfusion::new)
    }
}

/// Adds the class confusion to an evaluator, if classes are mutually exclusive. It comes after the
/// metrics of the recipe, so that it is never the key metric.
pub fn added(plan: &Plan, evaluator: EvaluatorBuilder<AnyNetwork>) -> EvaluatorBuilder<AnyNetwork> {
    match plan.confusion() {
        Some(confusion) => evaluator.metric(CONFUSION, confusion),
        None => evaluator,
    }
}

//! Which classes a run takes for which, measured beside the metrics of its recipe.

use hearth_nn::metrics::ClassConfusion;
use hearth_nn::networks::AnyNetwork;
use hearth_train::EvaluatorBuilder;

use crate::plan::Plan;
use hearth_recipe::recipe::Output;

/// The name under which an evaluator has it.
pub const CONFUSION: &str = "class_confusion";

impl Plan {
    /// How many classes exclude each other; `None` where several may be right at once.
    pub fn exclusive_classes(&self) -> Option<usize> {
        let exclusive = match self.recipe.output() {
            Output::Labels => true,
            Output::Scores => self.recipe.learns().names_a_winner(),
            Output::Regions | Output::Image => false,
        };
        Some(self.recipe.labels.len()).filter(|classes| exclusive && *classes > 1)
    }

    /// An empty confusion of its classes, where they exclude each other.
    pub fn confusion(&self) -> Option<ClassConfusion> {
        self.exclusive_classes().map(ClassConfusion::new)
    }
}

/// Measures it, too. It comes after the metrics of the recipe, so that it is never the key metric.
/// An evaluator that counts, too, which classes are taken for which, where classes exclude each other.
pub fn added(plan: &Plan, evaluator: EvaluatorBuilder<AnyNetwork>) -> EvaluatorBuilder<AnyNetwork> {
    match plan.confusion() {
        Some(confusion) => evaluator.metric(CONFUSION, confusion),
        None => evaluator,
    }
}

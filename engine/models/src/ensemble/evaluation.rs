//! Evaluates an ensemble on labelled cases, with the events of an evaluator.

use std::sync::Arc;

use hearth_data::DataLoader;
use hearth_nn::inferers::Inferer;
use hearth_nn::losses::one_hot;
use hearth_nn::networks::{AnyNetwork, Network};
use hearth_train::{EnsembleEvaluator, Post, SharedCases};

use crate::ensemble::ways::Merge;
use crate::ensemble::{Ensemble, ways};
use hearth_recipe::Outcome;
use hearth_recipe::recipe::Output;
use hearth_run::{Empty, Penalties};
use hearth_run::{Plan, confusion, session};

impl Ensemble {
    /// The evaluator of an ensemble, as for a single network: the networks predict `pred_0`,
    /// `pred_1`, ..., and at `forward_completed` the plugin merges them to `pred`, before the
    /// handlers that are added to the evaluator. A handler that sets another `pred` there replaces
    /// the merging.
    ///
    /// # Errors
    /// A part of the recipe that cannot be built.
    pub fn evaluator(
        self,
        plan: &Plan,
        first: AnyNetwork,
        loader: DataLoader,
        inferer: Arc<dyn Inferer>,
        empty: Empty,
        shared: Option<SharedCases>,
    ) -> Outcome<(EnsembleEvaluator<AnyNetwork>, Vec<Penalties>)> {
        let (how, output, channels) = (self.merging.how, plan.recipe.output(), first.channels()[1]);
        let (mut member, mut pred) = (Vec::new(), Vec::new());
        let mut steps = plan.post_prediction()?;
        if how != Merge::Logits {
            let own = plan.post_prediction()?;
            member.push(Post::Custom(Box::new(move |x| Ok(how.prepare(output, &own, x)?))));
            // The activations are applied to the members.
            let applied = steps.iter().take_while(|step| matches!(step, Post::Activations(_))).count();
            steps.drain(..applied);
        }
        if how == Merge::Vote && output == Output::Labels {
            pred.push(Post::Custom(Box::new(move |map| Ok(one_hot(map, channels)))));
        }
        pred.extend(steps);
        let (builder, penalties) = session::evaluator_builder(plan, loader, inferer, empty, shared)?;
        let builder = confusion::added(plan, builder).post_member(member).post_pred(pred);
        let networks = std::iter::once(first).chain(self.others).collect();
        let mut ensemble = EnsembleEvaluator::builder(networks, builder);
        if self.by.is_none() {
            ensemble = ensemble.combine_by(|members| Ok(ways::estimated(members)?));
        }
        let mut evaluator = ensemble.build()?;
        if let Some(plugin) = &self.by {
            evaluator.engine_mut().add_boxed(plugin.handler()?)?;
        }
        Ok((evaluator, penalties))
    }
}

//! What a training would fail on, found before a case is read: [`check_training`].

pub(crate) mod batches;
mod dropout;
mod loss;
mod norms;
mod post;
pub(crate) mod rates;
pub(crate) mod remarks;
mod scene;
mod schedule;
pub(crate) mod writes;

use hearth_nn::networks::{AnyNetwork, Network};

use crate::memory::check::check_memory;
use crate::plan::Plan;
use hearth_recipe::Outcome;

/// Checks that the inferer suits the network's axes, that a step and the windows of a validation fit in
/// memory, that each norm has several values, that the loss can learn, that a step changes a weight, that the
/// metrics distinguish right from wrong, and that the inferer's plugin is there. Returns the approximate bytes
/// of host memory of a step, 0 if a GPU trains.
///
/// # Errors
/// The first fault, with the key to change.
pub fn check_training(plan: &Plan, network: &AnyNetwork) -> Outcome<u64> {
    let fits = plan.recipe.inferer.check_for(network.spatial_dims());
    fits.map_err(|error| plan.document.located("inferer", error.into()))?;
    let takes = check_memory(plan, network)?;
    dropout::check_dropout(plan)?;
    norms::check_norms(plan, network)?;
    loss::check_loss(plan, network)?;
    rates::check_rates(plan, network, &plan.recipe.optimizer, "optimizer")?;
    rates::check_schedules(plan)?;
    post::check_post(plan, network)?;
    let inferer = plan.recipe.inferer.load();
    inferer.map_err(|fault| plan.document.located("inferer", fault))?;
    Ok(takes)
}

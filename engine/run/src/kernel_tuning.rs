//! Choosing kernels before a run: [`choose_kernels`].

use hearth_kernels::{Tuning, TuningClock};
use hearth_nn::networks::Network;

use crate::cases::Cases;
use crate::memory::footprint::Sizes;
use crate::memory::synthetic::samples::crops_of;
use crate::memory::synthetic::steps::{evaluated, paced};
use crate::plan::Plan;
use crate::start::Start;
use hearth_recipe::recipe::{Document, Output};
use hearth_recipe::{Outcome, RecipeError};

/// Runs steps and a validation on synthetic images, in the sizes of the recipe or its data, so that
/// the device's kernels are compiled and chosen before a run needs them.
///
/// # Errors
/// A CPU, for which no kernels are chosen, or a recipe or data that cannot be used.
pub fn choose_kernels(document: &Document, sizes: &Sizes<'_>) -> Outcome<Tuning> {
    let plan = Plan::new(document.clone())?;
    if plan.on_processor {
        return Err(RecipeError::new("the CPU has one kernel for each kind of work: nothing is chosen (--device)"));
    }
    let clock = TuningClock::start();
    let network = plan.starting_network(Start::Init)?;
    let cases = sizes.data.map(|data| Cases::open(data, &plan.recipe)).transpose()?;
    let samples = crops_of(&plan, &network, cases.as_ref(), sizes.patch)?;
    let crop = samples.first().ok_or_else(|| RecipeError::new("the chain returns no crop of the first case"))?;
    paced(&plan, crop, samples.len() * plan.recipe.training.batch_size)?;
    if plan.recipe.output() != Output::Scores && !plan.recipe.learns().generates() {
        let of_cases = cases.as_ref().map(|cases| validated(&plan, cases)).transpose()?.flatten();
        // Enough windows to fill a batch.
        let of_windows = || {
            let (_, size) = plan.recipe.inferer.shared().window()?;
            let axis = |at: usize| if size.len() == 1 { size.first() } else { size.get(at) };
            let side = |at: usize| axis(at).and_then(|n| usize::try_from(*n).ok()).filter(|n| *n > 0);
            let flat = if network.spatial_dims() == 2 { 1 } else { side(2)? };
            Some([2 * side(0)?, 2 * side(1)?, flat])
        };
        if let Some(volume) = sizes.volume.or(of_cases).or_else(of_windows) {
            evaluated(&plan, volume)?;
        }
    }
    Ok(clock.spent())
}

/// The size in voxels of the first validation case after the chain.
pub(crate) fn validated(plan: &Plan, cases: &Cases) -> Outcome<Option<[usize; 3]>> {
    let Some(first) = cases.validation.first() else { return Ok(None) };
    let samples = plan.validation.run_deterministic(first.sample())?;
    Ok(samples.first().map(|sample| sample.shape("image")).transpose()?)
}

//! Measures the memory of a step and of a validation.

use std::sync::Arc;
use std::time::Instant;

use hearth_data::{DataError, DataLoader, Dataset, LoaderOptions, Sample};
use hearth_kernels::memory;

use crate::adversarial::{gan_trainer_over, judge};
use crate::memory::synthetic::samples::sample;
use crate::penalty::Empty;
use crate::plan::Plan;
use crate::session::evaluator;
use crate::session::trainer_over;
use crate::start::Start;
use hearth_recipe::{Outcome, RecipeError};

/// The number of measured steps: the second one includes the optimizer's state.
const STEPS: usize = 2;

/// The number of timed steps.
const TIMED: usize = 3;

/// The memory of a step.
pub(crate) struct Step {
    /// The peak in bytes.
    pub peak: usize,
    /// The part that stays: weights, and the optimizer's state.
    pub kept: usize,
}

/// A data set that repeats the same samples.
pub(crate) struct Same {
    pub samples: Vec<Sample>,
    pub cases: usize,
}

impl Dataset for Same {
    fn len(&self) -> usize {
        self.cases
    }

    fn case(&self, _: usize) -> &str {
        "made up"
    }

    fn get(&self, _: usize, _: u64) -> Result<Vec<Sample>, DataError> {
        Ok(self.samples.clone())
    }
}

/// Runs some steps with this number of crops, and measures memory from `before` on.
pub(crate) fn stepped(plan: &Plan, crop: &Sample, crops: usize, before: usize) -> Outcome<Step> {
    memory::begin_peak();
    let with = trained(plan, crop, crops, STEPS, memory::in_use)?;
    // The trainer has been dropped here.
    let kept = with.saturating_sub(memory::in_use());
    if !memory::is_counted() {
        return Err(RecipeError::new("this program's allocator does not count memory (hearth_kernels::memory)"));
    }
    let peak = memory::peak();
    Ok(Step { peak: peak.saturating_sub(before), kept })
}

/// The seconds of a step with this number of crops, without the first steps.
pub(crate) fn paced(plan: &Plan, crop: &Sample, crops: usize) -> Outcome<f64> {
    let seconds = |steps: usize| -> Outcome<f64> {
        let start = Instant::now();
        trained(plan, crop, crops, steps, || ())?;
        Ok(start.elapsed().as_secs_f64())
    };
    let few = seconds(STEPS)?;
    Ok(((seconds(STEPS + TIMED)? - few) / TIMED as f64).max(1e-6))
}

/// Runs this number of steps; `then` runs before the trainer is dropped.
fn trained<T>(plan: &Plan, crop: &Sample, crops: usize, steps: usize, then: impl FnOnce() -> T) -> Outcome<T> {
    let same = Same { samples: vec![crop.clone(); crops], cases: steps };
    let mut loader = DataLoader::new(Arc::new(same), LoaderOptions::default())?;
    if let Some(batch) = &plan.batch {
        loader = loader.with_batch_transforms(batch.clone());
    }
    let network = plan.starting_network(Start::Init)?;
    if plan.recipe.learns().generates() {
        let judge = judge(plan, &network)?;
        let mut trainer = gan_trainer_over(plan, network, judge, loader, None)?;
        trainer.set_max_epochs(1);
        trainer.run().map_err(RecipeError::from_error)?;
        return Ok(then());
    }
    let mut trainer = trainer_over(plan, network, loader, None)?;
    trainer.set_max_epochs(1);
    trainer.run().map_err(RecipeError::from_error)?;
    Ok(then())
}

/// Evaluates a volume of this size, and measures the memory above the weights.
pub(crate) fn evaluated(plan: &Plan, volume: [usize; 3]) -> Outcome<usize> {
    let network = plan.starting_network(Start::Init)?;
    let sample = sample(plan, &network, volume)?;
    let loader = DataLoader::new(Arc::new(Same { samples: vec![sample], cases: 1 }), LoaderOptions::default())?;
    let base = memory::in_use();
    memory::begin_peak();
    let (mut evaluator, _) = evaluator(plan, loader, plan.recipe.inferer.shared(), Empty::default(), None)?;
    evaluator.run(&network, 1).map_err(RecipeError::from_error)?;
    Ok(memory::peak().saturating_sub(base))
}

//! The memory of a step and of a validation, measured.

use std::sync::Arc;

use hearth_data::{DataError, DataLoader, Dataset, LoaderOptions, Sample};
use hearth_kernels::memory;

use super::made_up;
use crate::error::{Outcome, RecipeError};
use crate::run::adversarial::gan_trainer_over;
use crate::run::penalty::Empty;
use crate::run::session::trainer_over;
use crate::run::{Plan, Start, evaluator};

/// Steps of a measurement: the second has the optimizer's state.
const STEPS: usize = 2;

/// What a step takes.
pub(super) struct Step {
    /// Bytes, at most.
    pub peak: usize,
    /// Bytes after it: weights, and the optimizer's state.
    pub kept: usize,
}

/// The same samples again and again.
struct Same {
    samples: Vec<Sample>,
    cases: usize,
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

/// Takes some steps of so many crops, and counts from `before` on.
pub(super) fn stepped(plan: &Plan, crop: &Sample, crops: usize, before: usize) -> Outcome<Step> {
    let same = Same { samples: vec![crop.clone(); crops], cases: STEPS };
    let mut loader = DataLoader::new(Arc::new(same), LoaderOptions::default())?;
    if let Some(batch) = &plan.batch {
        loader = loader.with_batch_transforms(batch.clone());
    }
    let network = plan.starting_network(Start::Init)?;
    memory::begin_peak();
    let kept = if plan.recipe.learns().generates() {
        let mut trainer = gan_trainer_over(plan, network, loader, None)?;
        trainer.set_max_epochs(1);
        trainer.run().map_err(RecipeError::from_error)?;
        memory::in_use()
    } else {
        let mut trainer = trainer_over(plan, network, loader, None)?;
        trainer.set_max_epochs(1);
        trainer.run().map_err(RecipeError::from_error)?;
        memory::in_use()
    };
    if memory::peak() == 0 {
        return Err(RecipeError::new("this program's allocator does not count memory (hearth_kernels::memory)"));
    }
    Ok(Step { peak: memory::peak().saturating_sub(before), kept: kept.saturating_sub(before) })
}

/// Evaluates a volume of this size, and counts what that takes above the weights.
pub(super) fn evaluated(plan: &Plan, volume: [usize; 3]) -> Outcome<usize> {
    let network = plan.starting_network(Start::Init)?;
    let sample = made_up::sample(plan, &network, volume)?;
    let loader = DataLoader::new(Arc::new(Same { samples: vec![sample], cases: 1 }), LoaderOptions::default())?;
    let base = memory::in_use();
    memory::begin_peak();
    let (mut evaluator, _) = evaluator(plan, loader, plan.recipe.inferer.shared(), Empty::default(), None)?;
    evaluator.run(&network, 1).map_err(RecipeError::from_error)?;
    Ok(memory::peak().saturating_sub(base))
}

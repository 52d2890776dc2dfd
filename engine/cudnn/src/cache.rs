//! Plans that were made: [`PlanCache`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::convolution::Convolution;
use crate::error::Error;
use crate::plan::{Options, Plan, Target, plan};

/// The question that a plan, or the lack of one, answers.
type Key = (u64, Convolution, Options);

/// Plans by GPU, convolution and options. Planning takes milliseconds, and a network has tens of
/// shapes; entries are kept as long as the cache. That no engine suits is kept too.
#[derive(Debug, Default)]
pub struct PlanCache {
    entries: Mutex<HashMap<Key, Result<Arc<Plan>, Error>>>,
}

impl PlanCache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Result<Arc<Plan>, Error>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan of an earlier call, or a new one. Threads that ask at once for the same new plan may
    /// each make it; all of them get the first.
    ///
    /// # Errors
    /// As [`plan`]. Errors other than [`Error::NoPlan`] are not kept.
    pub fn get(&self, target: &Target, convolution: &Convolution, options: &Options) -> Result<Arc<Plan>, Error> {
        let key = (target.id(), convolution.clone(), *options);
        if let Some(known) = self.entries().get(&key) {
            return known.clone();
        }
        let made = plan(target, convolution, options).map(Arc::new);
        match &made {
            Ok(_) | Err(Error::NoPlan { .. }) => self.entries().entry(key).or_insert(made).clone(),
            Err(_) => made,
        }
    }

    /// The number of plans and of questions without one.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

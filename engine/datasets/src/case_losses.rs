//! [`CaseLosses`]: the last loss of each case, for samplers that prefer hard cases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The last loss of each case. Copies share their content.
///
/// The order of an epoch depends on the losses at its start, which are kept until the next one, so that a run
/// that is resumed within an epoch has the same order.
#[derive(Clone, Debug, Default)]
pub struct CaseLosses(Arc<Mutex<Kept>>);

/// The content.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    now: BTreeMap<String, f64>,
    /// The losses at the start of an epoch, and its number.
    start: Option<(u64, BTreeMap<String, f64>)>,
}

impl CaseLosses {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the loss of a case. A loss that is not finite is ignored.
    pub fn note(&self, case: &str, loss: f64) {
        if loss.is_finite() {
            self.kept().now.insert(case.to_owned(), loss);
        }
    }

    /// The losses at the start of an epoch: those of now, when the epoch is first asked for.
    pub fn at_start_of(&self, epoch: u64) -> BTreeMap<String, f64> {
        let mut kept = self.kept();
        if let Some((_, losses)) = kept.start.as_ref().filter(|(number, _)| *number == epoch) {
            return losses.clone();
        }
        let losses = kept.now.clone();
        kept.start = Some((epoch, losses.clone()));
        losses
    }

    /// The content as JSON, for checkpoints.
    pub fn save(&self) -> String {
        serde_json::to_string(&*self.kept()).unwrap_or_default()
    }

    /// Restores what [`save`](Self::save) returned.
    ///
    /// # Errors
    /// If it is something else.
    pub fn load(&self, saved: &str) -> Result<(), String> {
        *self.kept() = serde_json::from_str(saved).map_err(|error| format!("not the losses of cases: {error}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_epoch_has_the_losses_of_its_start() {
        let losses = CaseLosses::default();
        losses.note("a", 1.0);
        losses.note("b", f64::NAN);
        let start = losses.at_start_of(1);
        assert_eq!(start, [("a".to_owned(), 1.0)].into());
        losses.note("a", 5.0);
        let resumed = CaseLosses::default();
        resumed.load(&losses.save()).expect("it was saved");
        assert_eq!((resumed.at_start_of(1), losses.at_start_of(1)), (start.clone(), start));
        assert_eq!(resumed.at_start_of(2), [("a".to_owned(), 5.0)].into());
        assert!(resumed.load("[]").is_err());
    }
}

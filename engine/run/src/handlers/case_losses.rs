//! [`KeepCaseLosses`]: the losses of the cases, for a sampler that prefers hard ones.

use hearth_data::CaseLosses;
use hearth_engine::{Context, Event, Handler, HandlerError, When};

/// Gives each case of a batch the loss of the batch. Its state is part of checkpoints, so that a resumed run has
/// the same order.
pub struct KeepCaseLosses(CaseLosses);

impl KeepCaseLosses {
    /// Keeps the losses that a sampler reads.
    pub fn new(losses: CaseLosses) -> Self {
        Self(losses)
    }
}

impl Handler for KeepCaseLosses {
    fn name(&self) -> &str {
        "KeepCaseLosses"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::IterationCompleted.into()]
    }

    fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let loss = cx.host.output("loss")?;
        for case in cx.host.cases() {
            self.0.note(&case, loss);
        }
        Ok(())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(self.0.save().into_bytes())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let text = std::str::from_utf8(state).map_err(|error| HandlerError::new(error.to_string()))?;
        self.0.load(text).map_err(HandlerError::new)
    }
}

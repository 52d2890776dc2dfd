//! The engine's part of a checkpoint, and how it is restored.

use crate::engine::Engine;
use crate::run_error::{RunError, RunErrorKind};
use crate::state::{Pass, State};
use crate::workflow::{Ask, Snapshot};

impl Engine {
    /// The engine's part of a checkpoint: the state as of the last complete iteration, and the
    /// saved state of each handler.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.state.clone();
        // An iteration that has started is repeated after resuming.
        state.iteration -= u64::from(self.progress.in_iteration);
        // What a handler has asked for at this event is decided after it.
        if let Some(Ask { by, why }) = &self.requests.wants.terminate {
            state.terminated.get_or_insert_with(|| self.termination(by.clone(), why));
        }
        let handlers = self
            .entries
            .iter()
            .filter_map(|entry| Some((entry.key.clone(), entry.handler.as_ref()?.save_state()?)))
            .collect();
        Snapshot { state, handlers, store: self.store.clone() }
    }

    /// Lets [`Engine::restore`] drop the state of a handler that is not registered: what it has
    /// counted or kept is lost.
    pub fn restore_without(&mut self, handler: impl Into<String>) {
        self.without.insert(handler.into());
    }

    /// The names of [`Engine::restore_without`] that no restored snapshot had.
    pub fn unused_without(&self) -> impl Iterator<Item = &str> {
        self.without.iter().map(String::as_str)
    }

    /// Restores a snapshot; the next [`Engine::run`] resumes from it. Fields that belong to this
    /// process are kept: name, rank, world size, `max_epochs`, and the key metric if one is set.
    ///
    /// # Errors
    /// When the snapshot's counters contradict each other, a handler with a state is not registered
    /// ([`Engine::restore_without`]), or a handler refuses its part. The state is then unchanged, but
    /// handlers restored before that one may have changed.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), RunError> {
        if let Some(fault) = fault(&snapshot.state) {
            return Err(self.error(RunErrorKind::Snapshot(fault)));
        }
        let left_out = snapshot.state.terminated.as_ref().is_some_and(|end| self.without.contains(&end.by));
        let is_known = |key: &String| self.entries.iter().any(|entry| entry.key == *key);
        let missing: Vec<&String> = snapshot.handlers.keys().filter(|key| !is_known(key)).collect();
        for key in missing {
            if !self.without.remove(key) {
                return Err(self.error(RunErrorKind::MissingHandler(key.clone())));
            }
            tracing::warn!("the state of handler `{key}` is dropped, because it is not registered");
        }
        for index in 0..self.entries.len() {
            let entry = &mut self.entries[index];
            if let (Some(handler), Some(bytes)) = (&mut entry.handler, snapshot.handlers.get(&entry.key))
                && let Err(error) = handler.load_state(bytes)
            {
                let what = format!("handler `{}` refuses its state: {error}", entry.key);
                return Err(self.error(RunErrorKind::Snapshot(what)));
            }
        }
        self.store.clone_from(&snapshot.store);
        let old = std::mem::replace(&mut self.state, snapshot.state.clone());
        let state = &mut self.state;
        if left_out {
            state.terminated = None;
        }
        if old.world_size != state.world_size {
            // The length of a pass has changed. The rest of the epoch comes from a new pass.
            (state.epoch_length, state.pass) = (None, Pass { number: state.pass.number, ..Pass::default() });
        }
        (state.engine, state.rank, state.world_size) = (old.engine, old.rank, old.world_size);
        state.max_epochs = old.max_epochs;
        if old.key_metric.is_some() && (&old.key_metric, old.better) != (&state.key_metric, state.better) {
            tracing::warn!("the key metric has changed; the best value is reset");
            (state.key_metric, state.better) = (old.key_metric, old.better);
            (state.best_metric, state.best_epoch) = (None, None);
        }
        self.progress.restore();
        Ok(())
    }
}

/// The problem of a state that was read from a file, if there is one.
fn fault(state: &State) -> Option<String> {
    let State { epoch, iteration, epoch_iteration, epoch_length, best_epoch, .. } = *state;
    if epoch_length == Some(0) && epoch > 0 {
        return Some("its epoch length is 0".to_owned());
    }
    if epoch_length.is_some_and(|length| epoch_iteration > length) {
        let length = epoch_length.unwrap_or_default();
        return Some(format!("{epoch_iteration} iterations of an epoch of {length} are complete"));
    }
    if epoch == 0 && epoch_iteration > 0 {
        return Some(format!("{epoch_iteration} iterations are complete before the first epoch"));
    }
    if iteration < epoch_iteration {
        return Some(format!("the epoch has {epoch_iteration} complete iterations, the whole run {iteration}"));
    }
    if best_epoch.is_some_and(|best| best > epoch) {
        return Some(format!("the best epoch is {}, the run was in epoch {epoch}", best_epoch.unwrap_or_default()));
    }
    None
}

//! The evaluators of a trainer, by name.

use std::collections::BTreeMap;

use hearth_engine::{Engine, HostError, Metrics};

use crate::evaluation::evaluate::Evaluate;

/// The evaluators that handlers of a trainer run by name.
pub(crate) struct Evaluators<N>(BTreeMap<String, Box<dyn Evaluate<N>>>);

impl<N> Default for Evaluators<N> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<N> Evaluators<N> {
    /// Adds an evaluator. Its key metric becomes that of the trainer's engine, if that has none
    /// yet.
    pub fn insert(&mut self, trainer: &mut Engine, name: String, evaluator: Box<dyn Evaluate<N>>) {
        let theirs = evaluator.engine().state();
        if let (None, Some(metric)) = (&trainer.state().key_metric, &theirs.key_metric) {
            let (metric, better) = (metric.clone(), theirs.better);
            trainer.set_key_metric(&metric, better);
        }
        self.0.insert(name, evaluator);
    }

    pub fn get(&self, name: &str) -> Option<&dyn Evaluate<N>> {
        self.0.get(name).map(|evaluator| &**evaluator)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut (dyn Evaluate<N> + 'static)> {
        self.0.get_mut(name).map(|evaluator| &mut **evaluator)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &dyn Evaluate<N>)> {
        self.0.iter().map(|(name, evaluator)| (name, &**evaluator))
    }

    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Runs an evaluator on the network that `network` returns.
    pub fn run(
        &mut self,
        name: &str,
        epoch: u64,
        network: impl FnOnce() -> Result<N, HostError>,
    ) -> Result<Metrics, HostError> {
        let known = if self.0.is_empty() { "none".to_owned() } else { self.names().join(", ") };
        let evaluator = self.0.get_mut(name);
        let evaluator =
            evaluator.ok_or_else(|| HostError::new(format!("no engine is called `{name}`; there is: {known}")))?;
        let _range = tracing::trace_span!("validation", name).entered();
        evaluator.evaluate(network()?, epoch).map_err(|e| HostError::new(e.to_string()))
    }
}

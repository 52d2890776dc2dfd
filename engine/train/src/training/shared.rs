//! The parts that all trainers share. `Host` and `Workflow` are traits of another crate, which
//! cannot be implemented for every trainer at once, so their common methods are macros.

use hearth_engine::{Engine, Handler, RegisterError};

use crate::evaluation::evaluate::Evaluate;
use crate::evaluation::evaluators::Evaluators;
use crate::ranks::Ranks;

/// Defines the methods of `Host` for a workflow with the fields `feed`, `evaluators`, `options` and
/// `epoch`, and methods `outputs` and `tensor_names` with the names of
/// its numbers and tensors. `$learner` is the network for
/// evaluators, and its learning rate is that of the training.
macro_rules! host_parts {
    ($learner:ident) => {
        fn names(&self, of: hearth_engine::NamesOf) -> Vec<String> {
            use hearth_engine::NamesOf;
            match of {
                NamesOf::Outputs => self.outputs(),
                NamesOf::Tensors => self.tensor_names(),
                NamesOf::Numbers => self.feed.facts().number_names(),
                NamesOf::Texts => self.feed.facts().text_names(),
                NamesOf::Engines => self.evaluators.names(),
                // The engine answers.
                NamesOf::Attachments => Vec::new(),
            }
        }

        fn cases(&self) -> Vec<String> {
            self.feed.cases().to_vec()
        }

        fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
            self.feed.facts().numbers(name)
        }

        fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
            self.feed.facts().texts(name)
        }

        fn learning_rate(&self) -> Option<f64> {
            Some(self.$learner.learning_rate)
        }

        fn run(&mut self, engine: &str) -> Result<hearth_engine::Metrics, HostError> {
            let (learner, ranks, epoch) = (&self.$learner, &self.options.ranks, self.epoch);
            let network = || crate::training::learner::validated(learner, ranks.as_ref(), epoch);
            self.evaluators.run(engine, epoch, network)
        }

        fn combine(&mut self, inputs: &[&str], how: &hearth_engine::Combine, output: &str) -> Result<(), HostError> {
            self.feed.combine(inputs, how, output)
        }

        fn log(&mut self, level: hearth_engine::Level, message: &str) {
            hearth_engine::trace(level, message);
        }

        hearth_engine::not_offered!(requests);
    };
}
pub(crate) use host_parts;

/// Defines the methods of `Workflow` for a workflow with the fields `feed`, `writer`, `options` and
/// `epoch`. `$files` is the module that converts it to files.
macro_rules! workflow_parts {
    ($files:ident) => {
        fn epoch_length(&self) -> Option<u64> {
            self.feed.epoch_length()
        }

        fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError> {
            self.epoch = state.epoch;
            Ok(self.feed.restart(state, skip))
        }

        fn agree(&mut self, state: &State, wants: hearth_engine::Wants) -> Result<hearth_engine::Wants, BoxError> {
            match &self.options.ranks {
                Some(ranks) => ranks.agree(state, &wants),
                None => Ok(wants),
            }
        }

        fn write_checkpoint(
            &mut self,
            request: &hearth_engine::CheckpointRequest,
            snapshot: &hearth_engine::Snapshot,
        ) -> Result<hearth_engine::Written, HostError> {
            let _range = tracing::trace_span!("copy checkpoint").entered();
            let job = $files::collect(self, request, snapshot).map_err(|e| HostError::from_error(&*e))?;
            self.writer.begin(job)?;
            Ok(hearth_engine::Written::Begun)
        }

        fn checkpoint_written(&mut self, wait: bool) -> Option<Result<std::path::PathBuf, HostError>> {
            self.writer.end(wait)
        }

        fn read_checkpoint(&mut self, dir: &std::path::Path) -> Result<hearth_engine::Snapshot, HostError> {
            $files::read(self, dir).map_err(|e| HostError::from_error(&*e))
        }
    };
}
pub(crate) use workflow_parts;

/// Defines the methods of a trainer that drives its workflow `work` by its `engine`.
macro_rules! trainer_parts {
    ($options:ty, evaluates: $network:ty, checkpoints: $files:ident) => {
        /// Runs to the options' `max_epochs`, continuing where an interrupt or a checkpoint left it.
        ///
        /// # Errors
        /// Any error that ended the run early, after `exception_raised`; it names the cases.
        pub fn run(&mut self) -> Result<hearth_engine::RunEnd, hearth_engine::RunError> {
            let max_epochs = self.work.options.max_epochs;
            self.engine.run(&mut self.work, max_epochs)
        }

        /// Restores the newest intact checkpoint in `dir` (or `dir` itself, where it is one); the next
        /// [`run`](Self::run) continues from it. Returns the epoch and iteration it was written at.
        ///
        /// # Errors
        /// When there is no intact checkpoint, or it belongs to other networks or optimizers; the
        /// message lists what differs. The trainer is then unchanged.
        pub fn resume(&mut self, dir: &std::path::Path) -> Result<(u64, u64), hearth_engine::BoxError> {
            let snapshot = hearth_engine::Workflow::read_checkpoint(&mut self.work, dir)?;
            self.engine.restore(&snapshot)?;
            Ok((self.engine.state().epoch, self.engine.state().iteration))
        }

        /// Writes a checkpoint now, between runs (after an interrupt); returns its folder.
        ///
        /// # Errors
        /// When it cannot be written; earlier checkpoints are untouched.
        pub fn save(
            &mut self,
            dir: &std::path::Path,
            tag: &str,
            keep_last: Option<usize>,
        ) -> Result<std::path::PathBuf, hearth_engine::HostError> {
            use hearth_engine::{CheckpointRequest, HostError};
            let request = CheckpointRequest { dir: dir.to_owned(), tag: tag.to_owned(), keep_last };
            let snapshot = self.engine.snapshot();
            let job = $files::collect(&self.work, &request, &snapshot).map_err(|e| HostError::from_error(&*e))?;
            job.write().map_err(|e| HostError::from_error(&e))
        }

        /// The evaluator of this name.
        pub fn evaluator(&self, name: &str) -> Option<&dyn Evaluate<$network>> {
            self.work.evaluators.get(name)
        }

        /// The evaluator of this name, to add handlers to its engine.
        pub fn evaluator_mut(&mut self, name: &str) -> Option<&mut (dyn Evaluate<$network> + 'static)> {
            self.work.evaluators.get_mut(name)
        }

        /// The engine, with its state and its handlers' times.
        pub fn engine(&self) -> &Engine {
            &self.engine
        }

        /// The engine, to add handlers to.
        pub fn engine_mut(&mut self) -> &mut Engine {
            &mut self.engine
        }

        /// The options it was built with.
        pub fn options(&self) -> &$options {
            &self.work.options
        }

        /// Names the run in checkpoints from now on; those of another run are refused.
        pub fn set_run(&mut self, run: Option<String>) {
            self.work.options.run = run;
        }

        /// Changes the last epoch of the next [`run`](Self::run).
        pub fn set_max_epochs(&mut self, max_epochs: u64) {
            self.work.options.max_epochs = max_epochs;
        }
    };
}
pub(crate) use trainer_parts;

/// The engine of a new trainer.
pub(crate) fn engine(name: &str, seed: u64, ranks: Option<&Ranks>) -> Engine {
    let mut engine = Engine::new(name);
    let state = engine.state_mut();
    (state.rank, state.world_size) = ranks.map_or((0, 1), Ranks::place);
    state.seed = seed;
    engine
}

/// Adds the evaluators and handlers of a builder.
pub(crate) fn equip<N>(
    engine: &mut Engine,
    evaluators: &mut Evaluators<N>,
    given: Vec<(String, Box<dyn Evaluate<N>>)>,
    handlers: Vec<Box<dyn Handler>>,
) -> Result<(), RegisterError> {
    for (name, evaluator) in given {
        evaluators.insert(engine, name, evaluator);
    }
    for handler in handlers {
        engine.add_boxed(handler)?;
    }
    Ok(())
}

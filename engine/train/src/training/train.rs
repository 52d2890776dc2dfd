//! The common interface of trainers: [`Train`].

use std::path::{Path, PathBuf};

use hearth_engine::{BoxError, Engine, HostError, RunEnd, RunError};
use hearth_nn::networks::Network;
use hearth_nn::parameters;

use crate::training::adversarial::trainer::GanTrainer;
use crate::training::trainer::SupervisedTrainer;

/// A trainer of any kind: the methods that a program needs to run it, to stop it and to resume it.
pub trait Train {
    /// Runs to the last epoch, continuing where an interrupt or a checkpoint left it.
    ///
    /// # Errors
    /// Any error that ended the run early.
    fn run(&mut self) -> Result<RunEnd, RunError>;

    /// Restores the newest intact checkpoint in `dir`; the next [`run`](Self::run) continues from
    /// it. Returns the epoch and iteration at which it was written.
    ///
    /// # Errors
    /// When there is no intact checkpoint, or it belongs to another network or optimizer.
    fn resume(&mut self, dir: &Path) -> Result<(u64, u64), BoxError>;

    /// Writes a checkpoint between runs; returns its folder.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&mut self, dir: &Path, tag: &str, keep_last: Option<usize>) -> Result<PathBuf, HostError>;

    /// Names the run in checkpoints from now on; those of another run are refused.
    fn set_run(&mut self, run: Option<String>);

    /// The trainer's engine.
    fn engine(&self) -> &Engine;

    /// The trainer's engine, to add handlers to.
    fn engine_mut(&mut self) -> &mut Engine;

    /// The number of values of the networks, and of those that are trained.
    fn parameter_counts(&self) -> (usize, usize);

    /// The engine of the evaluator with this name.
    fn evaluator_engine(&self, name: &str) -> Option<&Engine>;

    /// The engine of the evaluator with this name, to add handlers to.
    fn evaluator_engine_mut(&mut self, name: &str) -> Option<&mut Engine>;
}

/// Implements the functions that trainers define themselves.
macro_rules! as_they_do {
    ($($network:ident),+) => {
        fn parameter_counts(&self) -> (usize, usize) {
            let all = [$(self.$network().map(parameters)),+].into_iter().flatten().flatten();
            all.fold((0, 0), |(total, trained), one| {
                (total + one.values, trained + if one.trains { one.values } else { 0 })
            })
        }

        fn run(&mut self) -> Result<RunEnd, RunError> {
            self.run()
        }

        fn resume(&mut self, dir: &Path) -> Result<(u64, u64), BoxError> {
            self.resume(dir)
        }

        fn save(&mut self, dir: &Path, tag: &str, keep_last: Option<usize>) -> Result<PathBuf, HostError> {
            self.save(dir, tag, keep_last)
        }

        fn set_run(&mut self, run: Option<String>) {
            self.set_run(run);
        }

        fn engine(&self) -> &Engine {
            self.engine()
        }

        fn engine_mut(&mut self) -> &mut Engine {
            self.engine_mut()
        }

        fn evaluator_engine(&self, name: &str) -> Option<&Engine> {
            self.evaluator(name).map(|evaluator| evaluator.engine())
        }

        fn evaluator_engine_mut(&mut self, name: &str) -> Option<&mut Engine> {
            self.evaluator_mut(name).map(|evaluator| evaluator.engine_mut())
        }
    };
}

impl<N: Network> Train for SupervisedTrainer<N> {
    as_they_do!(network);
}

impl<G: Network, D: Network> Train for GanTrainer<G, D> {
    as_they_do!(generator, discriminator);
}

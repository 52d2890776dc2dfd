//! A further network that a step trains: [`Learned`].

use std::any::Any;

use burn::tensor::{Device, Tensor};
use hearth_engine::BoxError;
use hearth_nn::inferers::SimpleInferer;
use hearth_nn::networks::Network;
use hearth_nn::optim::OptimizerConfig;

use crate::batch::step_error::StepError;
use crate::checkpoint::{Checkpoint, Files, learner_files};
use crate::evaluation::inference::infer_all;
use crate::training::custom::companion::{self, Around, Companion, InStep};
use crate::training::custom::context::StepContext;
use crate::training::custom::network::tracked;
use crate::training::learner::{Learner, Learning};
use crate::training::trainer::{TrainerError, TrainerOptions};

/// A further network with its own optimizer, such as a discriminator: see
/// [`TrainerBuilder::step_with`](crate::TrainerBuilder::step_with). Precision, clipping, accumulation
/// and ranks are those of the trainer; a scheduled learning rate changes in proportion to the
/// trained network's. A step receives it as a [`LearnedNetwork`].
pub struct Learned<D> {
    name: String,
    network: D,
    optimizer: OptimizerConfig,
}

impl<D: Network> Learned<D> {
    /// A network under a name, for checkpoints and [`SupervisedTrainer::companion`], with its
    /// optimizer.
    ///
    /// [`SupervisedTrainer::companion`]: crate::SupervisedTrainer::companion
    pub fn new(name: impl Into<String>, network: D, optimizer: impl Into<OptimizerConfig>) -> Self {
        Self { name: name.into(), network, optimizer: optimizer.into() }
    }
}

/// A [`Learned`] network in a step.
#[derive(Clone)]
pub struct LearnedNetwork<D> {
    name: String,
    learner: Learner<D>,
}

impl<D: Network> LearnedNetwork<D> {
    /// The output for `x`, `[b, c, x, y, z]`, with its autodiff graph, in f32; the main one of several.
    ///
    /// # Errors
    /// For an input that the network does not accept, and where an earlier step failed.
    pub fn forward(&self, x: Tensor<5>) -> Result<Tensor<5>, BoxError> {
        self.forward_all(x)?.into_iter().next().ok_or_else(|| "the network has no output".into())
    }

    /// All outputs for `x`, `[b, c, x, y, z]`, the main one first and then those nearest to it. A loss
    /// that the network itself adds is not used.
    ///
    /// # Errors
    /// For an input that the network does not accept, and where an earlier step failed.
    pub fn forward_all(&self, x: Tensor<5>) -> Result<Vec<Tensor<5>>, BoxError> {
        Ok(infer_all(&SimpleInferer {}, tracked(x), self.learner.network()?)?.all)
    }

    /// The network itself, for its own functions.
    ///
    /// # Errors
    /// Where an earlier step failed.
    pub fn module(&self) -> Result<&D, StepError> {
        self.learner.network()
    }

    /// Takes a step along the gradients of this loss, `[n]`; of several batches where the trainer
    /// accumulates. A loss of more than one value is averaged. Gradients do not reach other networks.
    ///
    /// This consumes the graph of the loss: a forward pass whose output is also a part of the loss that
    /// the step returns is computed for each of both, or detached in one of them.
    ///
    /// # Errors
    /// For a loss that does not depend on the network, and errors of optimizer and ranks.
    pub fn step(&mut self, loss: Tensor<1>, cx: &StepContext<'_>) -> Result<(), BoxError> {
        let gradients = self.learner.backward(&loss.mean(), cx.feed)?;
        self.learner.gather(gradients, cx.options.accumulate, cx.feed)
    }
}

impl<N: Network, D: Network> Companion<N> for Learned<D> {
    type InStep = LearnedNetwork<D>;

    fn place(self, _: &N, options: &TrainerOptions) -> Result<LearnedNetwork<D>, TrainerError> {
        let TrainerOptions { device, precision, clip, ranks, .. } = options;
        let how = Learning { device, precision: *precision, clip: *clip, ranks: ranks.as_ref() };
        Ok(LearnedNetwork { name: self.name, learner: Learner::new(self.network, self.optimizer, &how)? })
    }
}

impl<N, D: Network> InStep<N> for LearnedNetwork<D> {
    fn names(&self) -> Vec<&str> {
        vec![&self.name]
    }

    fn find(&self, name: &str) -> Option<&dyn Any> {
        self.learner.network.as_ref().filter(|_| name == self.name).map(|network| network as &dyn Any)
    }

    fn set_draw(&self, seed: u64, step: u64) {
        if let Some(network) = &self.learner.network {
            network.set_draw(seed, step);
        }
    }

    fn follow(&mut self, learning_rate: f64, first: f64) {
        self.learner.follow(learning_rate, first);
    }

    fn epoch_started(&mut self) {
        self.learner.pending = None;
    }

    fn epoch_completed(&mut self, around: &Around<'_>) -> Result<(), BoxError> {
        self.learner.step(around.feed)?;
        self.learner.report_skipped_steps();
        Ok(())
    }

    fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
        let mut own = Files::new();
        learner_files::collect(&mut own, &learner_files::NETWORK, &self.learner)?;
        companion::insert(files, &self.name, own);
        Ok(())
    }

    fn restored(&self, checkpoint: &Checkpoint, device: &Device) -> Result<Self, BoxError> {
        let part = companion::part(checkpoint, &self.name)?;
        let learner = learner_files::read(&part, &learner_files::NETWORK, &self.learner, device)?;
        Ok(Self { name: self.name.clone(), learner })
    }
}

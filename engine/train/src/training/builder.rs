//! [`TrainerBuilder`]: what a trainer is made of, part by part.

use burn::tensor::Device;
use hearth_engine::Handler;
use hearth_nn::inferers::Inferer;
use hearth_nn::losses::Loss;
use hearth_nn::networks::Network;
use hearth_nn::optim::{GradientClip, OptimizerConfig};
use std::sync::Arc;

use crate::batch::loader::Loader;
use crate::evaluation::evaluate::Evaluate;
use crate::training::precision::Precision;
use crate::training::trainer::{SupervisedTrainer, TrainerError, TrainerOptions};

/// Makes a [`SupervisedTrainer`]; begun by [`SupervisedTrainer::builder`]. What is not set is as
/// [`TrainerOptions::new`] has it.
#[must_use]
pub struct TrainerBuilder<N> {
    pub(crate) network: N,
    pub(crate) loss: Box<dyn Loss>,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) loader: Box<dyn Loader>,
    pub(crate) options: TrainerOptions,
    pub(crate) evaluators: Vec<(String, Box<dyn Evaluate<N>>)>,
    pub(crate) handlers: Vec<Box<dyn Handler>>,
}

impl<N> std::fmt::Debug for TrainerBuilder<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<N: Network> TrainerBuilder<N> {
    /// All options at once, in place of those set so far.
    pub fn options(mut self, options: TrainerOptions) -> Self {
        self.options = options;
        self
    }

    /// Where it computes; the network's device where nothing is said.
    pub fn device(mut self, device: &Device) -> Self {
        self.options.device = device.clone().inner();
        self
    }

    /// The number type of convolutions and matrix products; [`Precision::Fp32`] where nothing is
    /// said.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Epochs to run; 1 where nothing is said.
    pub fn max_epochs(mut self, max_epochs: u64) -> Self {
        self.options.max_epochs = max_epochs;
        self
    }

    /// How the network is led over a batch; called once for all of it where nothing is said.
    pub fn inferer(mut self, inferer: impl Inferer + 'static) -> Self {
        self.options.inferer = Arc::new(inferer);
        self
    }

    /// The keys of the batch's image and label; `image` and `label` where nothing is said.
    pub fn keys(mut self, image: impl Into<String>, label: impl Into<String>) -> Self {
        (self.options.image_key, self.options.label_key) = (image.into(), label.into());
        self
    }

    /// Batches that make one step; see [`TrainerOptions::accumulate`].
    pub fn accumulate(mut self, batches: u64) -> Self {
        self.options.accumulate = batches;
        self
    }

    /// How gradients are kept small before a step.
    pub fn clip(mut self, clip: GradientClip) -> Self {
        self.options.clip = Some(clip);
        self
    }

    /// The seed that every random draw of the training step is keyed by; 0 where nothing is said.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// An evaluator that the handler `Validation` runs: [`evaluator`](Self::evaluator) by the name
    /// `validation`.
    pub fn validation(self, evaluator: impl Evaluate<N> + 'static) -> Self {
        self.evaluator("validation", evaluator)
    }

    /// An evaluator that handlers run by this name; see [`SupervisedTrainer::add_evaluator`].
    pub fn evaluator(mut self, name: impl Into<String>, evaluator: impl Evaluate<N> + 'static) -> Self {
        self.evaluators.push((name.into(), Box::new(evaluator)));
        self
    }

    /// A handler; called after those added before it.
    pub fn handler(mut self, handler: impl Handler + 'static) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }

    /// The trainer.
    ///
    /// # Errors
    /// When the optimizer's options make no sense, the device cannot compute in the precision asked
    /// for, or a handler listens to something that does not exist.
    pub fn build(self) -> Result<SupervisedTrainer<N>, TrainerError> {
        SupervisedTrainer::from_builder(self)
    }
}

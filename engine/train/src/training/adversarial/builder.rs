//! [`GanBuilder`]: what a trainer of two networks is made of, part by part.

use burn::tensor::Device;
use hearth_engine::Handler;
use hearth_nn::networks::Network;
use hearth_nn::optim::{GradientClip, OptimizerConfig};

use crate::batch::loader::Loader;
use crate::evaluation::evaluate::Evaluate;
use crate::training::adversarial::loss::AdversarialLoss;
use crate::training::adversarial::trainer::{GanOptions, GanTrainer};
use crate::training::precision::Precision;
use crate::training::trainer::TrainerError;

/// Makes a [`GanTrainer`]; begun by [`GanTrainer::builder`]. What is not set is as
/// [`GanOptions::new`] has it.
#[must_use]
pub struct GanBuilder<G, D> {
    pub(crate) generator: G,
    pub(crate) discriminator: D,
    pub(crate) loss: Box<dyn AdversarialLoss>,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) d_optimizer: Option<OptimizerConfig>,
    pub(crate) loader: Box<dyn Loader>,
    pub(crate) options: GanOptions,
    pub(crate) evaluators: Vec<(String, Box<dyn Evaluate<G>>)>,
    pub(crate) handlers: Vec<Box<dyn Handler>>,
}

impl<G, D> std::fmt::Debug for GanBuilder<G, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GanBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<G: Network, D: Network> GanBuilder<G, D> {
    /// All options at once, in place of those set so far.
    pub fn options(mut self, options: GanOptions) -> Self {
        self.options = options;
        self
    }

    /// The discriminator's optimizer; as the generator's where nothing is said.
    pub fn d_optimizer(mut self, optimizer: impl Into<OptimizerConfig>) -> Self {
        self.d_optimizer = Some(optimizer.into());
        self
    }

    /// Steps of the discriminator for each of the generator; 1 where nothing is said.
    pub fn d_train_steps(mut self, steps: u64) -> Self {
        self.options.d_train_steps = steps;
        self
    }

    /// The shape of an image's latent numbers, one to four axes; `[64]` where nothing is said.
    pub fn latent_shape(mut self, shape: &[usize]) -> Self {
        self.options.latent_shape = shape.to_vec();
        self
    }

    /// Whether the generator's step has latent numbers of its own; it does where nothing is said.
    pub fn g_update_latents(mut self, update: bool) -> Self {
        self.options.g_update_latents = update;
        self
    }

    /// Where it computes; the generator's device where nothing is said.
    pub fn device(mut self, device: &Device) -> Self {
        self.options.device = device.clone().inner();
        self
    }

    /// The number type of convolutions and matrix products of both networks; [`Precision::Fp32`]
    /// where nothing is said.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Epochs to run; 1 where nothing is said.
    pub fn max_epochs(mut self, max_epochs: u64) -> Self {
        self.options.max_epochs = max_epochs;
        self
    }

    /// The key of the batch's real images; `image` where nothing is said.
    pub fn key(mut self, image: impl Into<String>) -> Self {
        self.options.image_key = image.into();
        self
    }

    /// How gradients of each network are kept small before a step.
    pub fn clip(mut self, clip: GradientClip) -> Self {
        self.options.clip = Some(clip);
        self
    }

    /// The seed that every random draw is keyed by; 0 where nothing is said.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// An evaluator of the generator that handlers run by this name.
    pub fn evaluator(mut self, name: impl Into<String>, evaluator: impl Evaluate<G> + 'static) -> Self {
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
    /// When an optimizer's options make no sense, the generator does not take latent numbers of
    /// this shape, the discriminator is to take no step, the device cannot compute in the
    /// precision asked for, or a handler listens to something that does not exist.
    pub fn build(self) -> Result<GanTrainer<G, D>, TrainerError> {
        GanTrainer::from_builder(self)
    }
}

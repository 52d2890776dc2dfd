//! [`GanBuilder`]: the parts of a trainer of two networks, set one by one.

use burn::tensor::Device;
use hearth_engine::{Context, Handler, HandlerError, When, handler_fn};
use hearth_nn::networks::Network;
use hearth_nn::optim::{GradientClip, OptimizerConfig};

use crate::batch::loader::Loader;
use crate::evaluation::evaluate::Evaluate;
use crate::training::adversarial::loss::AdversarialLoss;
use crate::training::adversarial::trainer::{GanOptions, GanTrainer};
use crate::training::precision::Precision;
use crate::training::trainer::TrainerError;

/// Builds a [`GanTrainer`]; returned by [`GanTrainer::builder`]. Options that are not set are those
/// of [`GanOptions::new`].
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
    /// Sets all options at once, replacing those set so far.
    pub fn options(mut self, options: GanOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the discriminator's optimizer; by default the same as the generator's.
    pub fn d_optimizer(mut self, optimizer: impl Into<OptimizerConfig>) -> Self {
        self.d_optimizer = Some(optimizer.into());
        self
    }

    /// Sets the number of discriminator steps for each step of the generator; by default 1.
    pub fn d_train_steps(mut self, steps: u64) -> Self {
        self.options.d_train_steps = steps;
        self
    }

    /// Sets the shape of an image's latent numbers, one to four axes; by default `[64]`.
    pub fn latent_shape(mut self, shape: &[usize]) -> Self {
        self.options.latent_shape = shape.to_vec();
        self
    }

    /// Sets whether the generator's step draws new latent numbers; by default it does.
    pub fn g_update_latents(mut self, update: bool) -> Self {
        self.options.g_update_latents = update;
        self
    }

    /// Sets the device of the training; by default the generator's.
    pub fn device(mut self, device: &Device) -> Self {
        self.options.device = device.clone().inner();
        self
    }

    /// Sets the number type of convolutions and matrix products of both networks; by default
    /// [`Precision::Fp32`].
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Sets the number of epochs; by default 1.
    pub fn max_epochs(mut self, max_epochs: u64) -> Self {
        self.options.max_epochs = max_epochs;
        self
    }

    /// Sets the key of the batch's real images; by default `image`.
    pub fn key(mut self, image: impl Into<String>) -> Self {
        self.options.image_key = image.into();
        self
    }

    /// Sets how the gradients of each network are clipped before a step.
    pub fn clip(mut self, clip: GradientClip) -> Self {
        self.options.clip = Some(clip);
        self
    }

    /// Sets the seed that keys every random draw; by default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Adds an evaluator of the generator that handlers run by this name.
    pub fn evaluator(mut self, name: impl Into<String>, evaluator: impl Evaluate<G> + 'static) -> Self {
        self.evaluators.push((name.into(), Box::new(evaluator)));
        self
    }

    /// Adds a handler; it is called after those added before it.
    pub fn handler(mut self, handler: impl Handler + 'static) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }

    /// Adds a closure as a handler of an event, as [`Engine::on`](hearth_engine::Engine::on) does:
    /// `.on(Event::EpochCompleted, |cx| ...)`. [`build`](Self::build) refuses an event that does not
    /// exist.
    #[track_caller]
    pub fn on<F>(mut self, when: impl Into<When>, f: F) -> Self
    where
        F: FnMut(&mut Context<'_>) -> Result<(), HandlerError> + Send + 'static,
    {
        self.handlers.push(handler_fn(when, f));
        self
    }

    /// Builds the trainer.
    ///
    /// # Errors
    /// When an optimizer's options are invalid, the generator does not accept latent numbers of
    /// this shape, `d_train_steps` is 0, the device cannot compute in the requested precision, or a
    /// handler listens to an event that does not exist.
    pub fn build(self) -> Result<GanTrainer<G, D>, TrainerError> {
        GanTrainer::from_builder(self)
    }
}

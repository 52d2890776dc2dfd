//! [`GanTrainer`]: a generator and a discriminator that compete, driven by an [`Engine`].

use std::fmt;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use hearth_engine::{BoxError, CheckpointRequest, Engine, HostError, RunEnd, RunError};
use hearth_nn::networks::Network;
use hearth_nn::optim::{GradientClip, OptimizerConfig};

use crate::batch::loader::Loader;
use crate::checkpoint::gan_files;
use crate::evaluation::evaluate::Evaluate;
use crate::ranks::Ranks;
use crate::training::adversarial::builder::GanBuilder;
use crate::training::adversarial::latents::Latents;
use crate::training::adversarial::loss::AdversarialLoss;
use crate::training::adversarial::step::Adversarial;
use crate::training::learner::{Learner, Learning};
use crate::training::precision::Precision;
use crate::training::train;
use crate::training::trainer::TrainerError;

/// How a trainer of two networks works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GanOptions {
    /// The engine's name, `trainer`.
    pub name: String,
    /// Where it computes.
    pub device: Device,
    /// The number type of convolutions and matrix products of both networks.
    pub precision: Precision,
    /// Epochs to run.
    pub max_epochs: u64,
    /// The batch's real images.
    pub image_key: String,
    /// Steps of the discriminator for each of the generator, all on the same images.
    pub d_train_steps: u64,
    /// The shape of an image's latent numbers, one to four axes.
    pub latent_shape: Vec<usize>,
    /// Whether the generator's step has latent numbers of its own.
    pub g_update_latents: bool,
    /// How gradients of each network are kept small before a step.
    pub clip: Option<GradientClip>,
    /// The seed that every random draw is keyed by.
    pub seed: u64,
    /// The ranks that train together, each on its part of the data; `None` where there is one.
    pub ranks: Option<Ranks>,
}

impl GanOptions {
    /// MONAI's defaults: one step of the discriminator, 64 latent numbers, new ones for the
    /// generator; one epoch in fp32 on this device, seed 0.
    pub fn new(device: &Device) -> Self {
        Self {
            name: "trainer".into(),
            device: device.clone().inner(),
            precision: Precision::Fp32,
            max_epochs: 1,
            image_key: "image".into(),
            d_train_steps: 1,
            latent_shape: vec![64],
            g_update_latents: true,
            clip: None,
            seed: 0,
            ranks: None,
        }
    }
}

/// Trains two networks that compete, as MONAI's `GanTrainer`. For each batch of real images: the
/// generator makes as many from latent numbers; the discriminator takes `d_train_steps` steps on
/// both; the generator makes images anew, from new latent numbers with `g_update_latents`, and
/// takes one step. Latent numbers are keyed by seed, epoch and iteration; several ranks have parts of
/// one draw, and the losses that handlers find are the means over the ranks.
///
/// As in MONAI there are no events within an iteration. Handlers find the numbers `g_loss` and
/// `d_loss` (the sum over the discriminator's steps), `loss` as another name of `g_loss`, and the
/// tensors `reals` (also `image`), `fakes` and `latents` (those of the generator's step). The means
/// of both losses over an epoch are metrics of the state. The learning rate is the generator's;
/// when it is set, the discriminator's changes in the same proportion.
///
/// A checkpoint holds both networks and both optimizers: the generator's files are called as a
/// supervised trainer's network's, the discriminator's are in the folder `discriminator`.
pub struct GanTrainer<G, D> {
    engine: Engine,
    work: Adversarial<G, D>,
}

impl<G, D> fmt::Debug for GanTrainer<G, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GanTrainer")
            .field("engine", &self.engine)
            .field("options", &self.work.options)
            .finish_non_exhaustive()
    }
}

impl<G: Network, D: Network> GanTrainer<G, D> {
    /// A trainer of these networks:
    /// `GanTrainer::builder(generator, discriminator, loss, optimizer, loader).build()?`. Each
    /// network has an optimizer of its own, of the same options unless
    /// [`d_optimizer`](GanBuilder::d_optimizer) gives others.
    pub fn builder(
        generator: G,
        discriminator: D,
        loss: impl AdversarialLoss + 'static,
        optimizer: impl Into<OptimizerConfig>,
        loader: impl Loader + 'static,
    ) -> GanBuilder<G, D> {
        let device = generator.devices().into_iter().next().unwrap_or_default();
        GanBuilder {
            generator,
            discriminator,
            loss: Box::new(loss),
            optimizer: optimizer.into(),
            d_optimizer: None,
            loader: Box::new(loader),
            options: GanOptions::new(&device),
            evaluators: Vec::new(),
            handlers: Vec::new(),
        }
    }

    pub(crate) fn from_builder(builder: GanBuilder<G, D>) -> Result<Self, TrainerError> {
        let GanBuilder { generator, discriminator, loss, optimizer, d_optimizer, loader, options, .. } = builder;
        if options.d_train_steps == 0 {
            return Err(TrainerError::DiscriminatorSteps);
        }
        let latents = Latents::new(&options.latent_shape)?;
        generator.check_input(latents.batch(1)).map_err(TrainerError::Latents)?;
        let GanOptions { device, precision, clip, ranks, .. } = &options;
        let how = Learning { device, precision: *precision, clip: *clip, ranks: ranks.as_ref() };
        let d_optimizer = d_optimizer.unwrap_or_else(|| optimizer.clone());
        let generator = Learner::new(generator, optimizer, &how)?;
        let discriminator = Learner::new(discriminator, d_optimizer, &how)?;
        let mut engine = Engine::new(options.name.clone());
        let (rank, world_size) = ranks.as_ref().map_or((0, 1), Ranks::place);
        let state = engine.state_mut();
        (state.seed, state.rank, state.world_size) = (options.seed, rank, world_size);
        let work = Adversarial::new(generator, discriminator, loss, latents, options, loader);
        let mut trainer = Self { engine, work };
        for (name, evaluator) in builder.evaluators {
            trainer.work.evaluators.insert(&mut trainer.engine, name, evaluator);
        }
        for handler in builder.handlers {
            trainer.engine.add_boxed(handler)?;
        }
        Ok(trainer)
    }

    /// Runs to the options' `max_epochs`, or goes on where an interrupt or a checkpoint left it.
    ///
    /// # Errors
    /// Whatever ended the run early, after `exception_raised`; it names the cases.
    pub fn run(&mut self) -> Result<RunEnd, RunError> {
        let max_epochs = self.work.options.max_epochs;
        self.engine.run(&mut self.work, max_epochs)
    }

    /// Goes on from the newest whole checkpoint in `dir` (or `dir` itself, where it is one) at the
    /// next [`run`](Self::run). Returns the epoch and iteration it was written at.
    ///
    /// # Errors
    /// When there is no whole checkpoint, or it is one of other networks or optimizers; the message
    /// lists what differs. The trainer is unchanged then.
    pub fn resume(&mut self, dir: &Path) -> Result<(u64, u64), BoxError> {
        train::resume(&mut self.engine, &mut self.work, dir)
    }

    /// Writes a checkpoint now, between runs (after an interrupt); returns its folder.
    ///
    /// # Errors
    /// When it cannot be written; earlier checkpoints are untouched.
    pub fn save(&mut self, dir: &Path, tag: &str, keep_last: Option<usize>) -> Result<PathBuf, HostError> {
        let request = CheckpointRequest { dir: dir.to_owned(), tag: tag.to_owned(), keep_last };
        let snapshot = self.engine.snapshot();
        let job = gan_files::collect(&self.work, &request, &snapshot).map_err(|e| HostError::from_error(&*e))?;
        job.write().map_err(|e| HostError::from_error(&e))
    }

    /// The generator as it is now, under autodiff. `None` only after its optimizer failed.
    pub fn generator(&self) -> Option<&G> {
        self.work.generator.network.as_ref()
    }

    /// The discriminator as it is now, under autodiff. `None` only after its optimizer failed.
    pub fn discriminator(&self) -> Option<&D> {
        self.work.discriminator.network.as_ref()
    }

    /// The evaluator of this name.
    pub fn evaluator(&self, name: &str) -> Option<&dyn Evaluate<G>> {
        self.work.evaluators.get(name)
    }

    /// The evaluator of this name, to add handlers to its engine.
    pub fn evaluator_mut(&mut self, name: &str) -> Option<&mut (dyn Evaluate<G> + 'static)> {
        self.work.evaluators.get_mut(name)
    }

    /// The engine: its state, its handlers' times.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, to add handlers to.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Its options.
    pub fn options(&self) -> &GanOptions {
        &self.work.options
    }

    /// Changes how many epochs the next [`run`](Self::run) goes to.
    pub fn set_max_epochs(&mut self, max_epochs: u64) {
        self.work.options.max_epochs = max_epochs;
    }

    /// The learning rates of the next step: the generator's, the discriminator's.
    pub fn learning_rates(&self) -> [f64; 2] {
        [self.work.generator.learning_rate, self.work.discriminator.learning_rate]
    }
}

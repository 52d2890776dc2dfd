//! [`GanTrainer`]: a generator and a discriminator that compete, driven by an [`Engine`].

use std::fmt;

use burn::tensor::Device;
use hearth_engine::Engine;
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
use crate::training::shared::{self, trainer_parts};
use crate::training::trainer::TrainerError;

/// The options of a trainer of two networks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GanOptions {
    /// The engine's name, `trainer`.
    pub name: String,
    /// The device.
    pub device: Device,
    /// The number type of convolutions and matrix products of both networks.
    pub precision: Precision,
    /// Epochs to run.
    pub max_epochs: u64,
    /// The key of the batch's real images.
    pub image_key: String,
    /// Steps of the discriminator for each step of the generator, all on the same images.
    pub d_train_steps: u64,
    /// The shape of an image's latent numbers, one to four axes.
    pub latent_shape: Vec<usize>,
    /// Whether the generator's step draws new latent numbers.
    pub g_update_latents: bool,
    /// How the gradients of each network are clipped before a step.
    pub clip: Option<GradientClip>,
    /// The seed that keys every random draw.
    pub seed: u64,
    /// The ranks that train together, each on its part of the data; `None` where there is one.
    pub ranks: Option<Ranks>,
    /// The name of the run in its checkpoints; those of another run are refused.
    pub run: Option<String>,
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
            run: None,
        }
    }
}

/// Trains two competing networks, as MONAI's `GanTrainer`. For each batch of real images: the
/// generator makes as many images from latent numbers; the discriminator takes `d_train_steps`
/// steps on both; the generator makes images again, from new latent numbers with
/// `g_update_latents`, and takes one step. Latent numbers are keyed by seed, epoch and iteration;
/// several ranks have parts of one draw, and handlers get the means of the losses over the ranks.
///
/// As in MONAI, there are no events within an iteration. Handlers can read the numbers `g_loss` and
/// `d_loss` (the sum over the discriminator's steps), `loss` as another name of `g_loss`, and the
/// tensors `reals` (also `image`), `fakes` and `latents` (those of the generator's step). The means
/// of both losses over an epoch are metrics of the state. The learning rate is the generator's;
/// when it is set, the discriminator's changes in the same proportion.
///
/// A checkpoint holds both networks and both optimizers: the generator's files have the names of a
/// supervised trainer's files, the discriminator's are in the folder `discriminator`.
///
/// ```
/// # use hearth_engine::BoxError;
/// # use hearth_data::DataLoader;
/// # use hearth_nn::networks::{Classifier, Generator};
/// # use hearth_nn::{losses::PatchAdversarialLoss, optim::AdamConfig};
/// # use hearth_train::GanTrainer;
/// # fn of(generator: Generator, discriminator: Classifier, loader: DataLoader) -> Result<(), BoxError> {
/// let loss = PatchAdversarialLoss::default();
/// let mut trainer = GanTrainer::builder(generator, discriminator, loss, AdamConfig::default(), loader)
///     .latent_shape(&[8])
///     .max_epochs(100)
///     .build()?;
/// trainer.run()?;
/// println!("{}", trainer.engine().state().metrics["g_loss"]);
/// # Ok(())
/// # }
/// ```
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
    /// Builds a trainer of these networks:
    /// `GanTrainer::builder(generator, discriminator, loss, optimizer, loader).build()?`. Each
    /// network has its own optimizer, with the same options unless
    /// [`d_optimizer`](GanBuilder::d_optimizer) sets others.
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
        let mut engine = shared::engine(&options.name, options.seed, ranks.as_ref());
        let mut work = Adversarial::new(generator, discriminator, loss, latents, options, loader);
        shared::equip(&mut engine, &mut work.evaluators, builder.evaluators, builder.handlers)?;
        Ok(Self { engine, work })
    }

    trainer_parts!(GanOptions, evaluates: G, checkpoints: gan_files);

    /// The current generator, under autodiff. `None` only after its optimizer failed.
    pub fn generator(&self) -> Option<&G> {
        self.work.generator.network.as_ref()
    }

    /// The current discriminator, under autodiff. `None` only after its optimizer failed.
    pub fn discriminator(&self) -> Option<&D> {
        self.work.discriminator.network.as_ref()
    }

    /// The learning rates of the next step: of the generator and of the discriminator.
    pub fn learning_rates(&self) -> [f64; 2] {
        [self.work.generator.learning_rate, self.work.discriminator.learning_rate]
    }
}

//! [`SupervisedTrainer`]: network, loss, optimizer and data, driven by an [`Engine`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use burn::tensor::{Device, TensorData};
use hearth_engine::{Engine, RegisterError};
use hearth_nn::inferers::{InferError, Inferer, SimpleInferer};
use hearth_nn::losses::{Loss, LossError};
use hearth_nn::networks::{Network, ShapeError};
use hearth_nn::optim::{GradientClip, OptimError, OptimizerConfig};

use crate::batch::loader::Loader;
use crate::checkpoint::trainer_files;
use crate::evaluation::evaluate::Evaluate;
use crate::ranks::Ranks;
use crate::training::builder::TrainerBuilder;
use crate::training::grad_scaler::GradScaler;
use crate::training::learner::{Learner, Learning};
use crate::training::lr_find::{self, RangeError, RangePoint, RangeResult, RangeTest};
use crate::training::precision::{Precision, PrecisionError};
use crate::training::shared::{self, trainer_parts};
use crate::training::step::Training;
use crate::training::train_metrics::TrainMetrics;

/// The options of a trainer. [`TrainerOptions::new`] has the defaults; the methods of
/// [`TrainerBuilder`] set each one.
#[derive(Clone)]
#[non_exhaustive]
pub struct TrainerOptions {
    /// The engine's name, `trainer`.
    pub name: String,
    /// The device it computes on.
    pub device: Device,
    /// The number type of convolutions and matrix products.
    pub precision: Precision,
    /// Epochs to run.
    pub max_epochs: u64,
    /// How the network is applied to a batch.
    pub inferer: Arc<dyn Inferer>,
    /// The key of the batch's image.
    pub image_key: String,
    /// The key of the batch's label.
    pub label_key: String,
    /// Batches per step: the step takes the mean of their gradients, as one large batch would. The
    /// remaining batches at the end of an epoch make one more step. Iterations still count batches.
    pub accumulate: u64,
    /// How gradients are clipped before a step.
    pub clip: Option<GradientClip>,
    /// The seed that keys every random draw.
    pub seed: u64,
    /// The ranks that train together, each on its part of the data; `None` where there is one.
    pub ranks: Option<Ranks>,
    /// The name of the run in its checkpoints; those of another run are refused.
    pub run: Option<String>,
}

impl fmt::Debug for TrainerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrainerOptions")
            .field("name", &self.name)
            .field("device", &self.device)
            .field("precision", &self.precision)
            .field("max_epochs", &self.max_epochs)
            .field("inferer", &self.inferer.name())
            .field("accumulate", &self.accumulate)
            .field("clip", &self.clip)
            .field("seed", &self.seed)
            .field("ranks", &self.ranks)
            .finish_non_exhaustive()
    }
}

impl TrainerOptions {
    /// One epoch in fp32 on this device, seed 0, one process.
    pub fn new(device: &Device) -> Self {
        Self {
            name: "trainer".into(),
            device: device.clone().inner(),
            precision: Precision::Fp32,
            max_epochs: 1,
            inferer: Arc::new(SimpleInferer {}),
            image_key: "image".into(),
            label_key: "label".into(),
            accumulate: 1,
            clip: None,
            seed: 0,
            ranks: None,
            run: None,
        }
    }
}

/// The reason why a trainer cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainerError {
    /// The optimizer's options are invalid, in general or for this network.
    #[error("the optimizer: {0}")]
    Optimizer(#[from] OptimError),
    /// An option of the loss is invalid.
    #[error("the loss: {0}")]
    Loss(#[from] LossError),
    /// An option of the inferer is invalid.
    #[error("the inferer: {0}")]
    Inferer(#[from] InferError),
    /// A step needs at least one batch.
    #[error("accumulate is 0: a step takes at least 1 batch")]
    Accumulate,
    /// The threshold for clipping gradients is invalid.
    #[error("clipping gradients: {0}")]
    Clip(OptimError),
    /// The discriminator would take no step.
    #[error("d_train_steps is 0: the discriminator takes at least 1 step for each of the generator")]
    DiscriminatorSteps,
    /// The factor of the adversarial loss is invalid.
    #[error("the adversarial loss has the weight {weight}; expected a number of 0 or more")]
    AdversarialWeight {
        /// The requested factor.
        weight: f64,
    },
    /// The shape of the latent numbers is invalid.
    #[error("latent_shape is {shape:?}; expected one to four numbers of at least 1")]
    LatentShape {
        /// The requested shape.
        shape: Vec<usize>,
    },
    /// The generator does not accept the latent numbers.
    #[error("latent_shape: {0}")]
    Latents(ShapeError),
    /// A step of the user's own computes the whole loss, a discriminator would add to it.
    #[error("step and adversary are both set: train the discriminator within the step, as a `Learned` network")]
    StepAndAdversary,
    /// Two metrics of training batches have one name, or one has none or that of a number of the trainer.
    #[error("the training metric `{name}`: every metric needs a name of its own, other than loss, mean_loss and scale")]
    MetricName {
        /// The name.
        name: String,
    },
    /// It is unknown which values of the key metric are better.
    #[error("whether a larger `{metric}` is better depends on what it measures: set it with `key_metric`")]
    Direction {
        /// The key metric.
        metric: String,
    },
    /// Two further networks of a step have one name, or one has none.
    #[error("the step's network `{name}`: every further network of a step needs a name of its own")]
    CompanionName {
        /// The name.
        name: String,
    },
    /// The decay of an average of weights is invalid.
    #[error("the average `{name}` has the decay {decay}; expected 0 to 1")]
    Decay {
        /// The average's name.
        name: String,
        /// The requested decay.
        decay: f64,
    },
    /// A new network has other parameters than the present one.
    #[error("the new network does not fit this trainer: {why}; build another trainer for it")]
    OtherNetwork {
        /// The first difference.
        why: String,
    },
    /// The device does not support the requested precision.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// A handler cannot be added.
    #[error(transparent)]
    Handler(#[from] RegisterError),
}

/// Trains a network, as MONAI's `SupervisedTrainer` does. For each batch: forward by the inferer,
/// `forward_completed`, loss, `loss_completed`, backward, `backward_completed`, step,
/// `model_completed`.
///
/// The loss sees all outputs of the network, the main one first ([`Loss::forward_all`]). A
/// network's own loss ([`Network::forward_with_loss`]) is added. An inferer that calls the network
/// several times for a batch returns only the main output.
///
/// With a discriminator ([`TrainerBuilder::adversary`]) it is MONAI's `AdversarialTrainer`. A closure
/// can take the place of forward pass and loss ([`TrainerBuilder::step`]; MONAI's `iteration_update`).
///
/// Metrics of training batches are MONAI's `key_train_metric` and `additional_metrics`:
/// [`TrainerBuilder::metric`].
///
/// Nothing is read back from the device unless a metric is measured or a handler asks
/// (`cx.host.output("loss")`), once per iteration at most, and in fp16 once per epoch, to report the
/// number of skipped steps. Handlers are added to [`engine_mut`](Self::engine_mut). Evaluators are
/// added by name; a handler runs one with `cx.host.run("validation")`.
///
/// ```
/// # use hearth_engine::{BoxError, Event};
/// # use hearth_nn::{losses::DiceCELoss, networks::UNet, optim::AdamConfig};
/// # use hearth_train::SupervisedTrainer;
/// # fn train(network: UNet, loader: hearth_data::DataLoader) -> Result<(), BoxError> {
/// let loss = DiceCELoss::default().softmax(true).to_onehot_y(true);
/// let mut trainer = SupervisedTrainer::builder(network, loss, AdamConfig::default().lr(1e-3), loader)
///     .max_epochs(100)
///     .on(Event::EpochCompleted, |cx| Ok(println!("{}: {:?}", cx.state.epoch, cx.state.metrics)))
///     .build()?;
/// trainer.run()?;
/// # Ok(())
/// # }
/// ```
///
/// [`Loader`] has an example that runs.
#[doc(alias = "AdversarialTrainer")]
pub struct SupervisedTrainer<N> {
    engine: Engine,
    work: Training<N>,
}

impl<N> fmt::Debug for SupervisedTrainer<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisedTrainer")
            .field("engine", &self.engine)
            .field("options", &self.work.options)
            .field("optimizer", &self.work.learner.optimizer_config)
            .finish_non_exhaustive()
    }
}

impl<N: Network> SupervisedTrainer<N> {
    /// Builds a trainer of this network:
    /// `SupervisedTrainer::builder(network, loss, optimizer, loader).max_epochs(100).build()?`. The
    /// learning rate is the optimizer's until a handler changes it.
    pub fn builder(
        network: N,
        loss: impl Loss + 'static,
        optimizer: impl Into<OptimizerConfig>,
        loader: impl Loader + 'static,
    ) -> TrainerBuilder<N> {
        let device = network.devices().into_iter().next().unwrap_or_default();
        TrainerBuilder {
            network,
            loss: Box::new(loss),
            optimizer: optimizer.into(),
            loader: Box::new(loader),
            options: TrainerOptions::new(&device),
            adversary: None,
            step: None,
            metrics: TrainMetrics::default(),
            key_metric: None,
            evaluators: Vec::new(),
            handlers: Vec::new(),
        }
    }

    pub(crate) fn from_builder(builder: TrainerBuilder<N>) -> Result<Self, TrainerError> {
        let TrainerBuilder { network, loss, optimizer, loader, options, adversary, step, .. } = builder;
        let TrainerBuilder { metrics, key_metric, evaluators, handlers, .. } = builder;
        if options.accumulate == 0 {
            return Err(TrainerError::Accumulate);
        }
        loss.check()?;
        options.inferer.check_for(network.spatial_dims())?;
        if step.is_some() && adversary.is_some() {
            return Err(TrainerError::StepAndAdversary);
        }
        if let Some(name) = metrics.bad_name() {
            return Err(TrainerError::MetricName { name: name.to_owned() });
        }
        let TrainerOptions { device, precision, clip, ranks, .. } = &options;
        let how = Learning { device, precision: *precision, clip: *clip, ranks: ranks.as_ref() };
        let adversary = adversary.map(|make| make(&optimizer, &how)).transpose()?;
        let learner = Learner::new(network, optimizer, &how)?;
        let step = match (step, &learner.network) {
            (Some(make), Some(network)) => Some(make(network, &options)?),
            _ => None,
        };
        let mut engine = shared::engine(&options.name, options.seed, ranks.as_ref());
        if let Some((name, better)) = key_metric {
            let better = better.ok_or_else(|| TrainerError::Direction { metric: name.clone() })?;
            engine.set_key_metric(&name, better);
        }
        let mut work = Training::new(learner, loss, adversary, options, loader);
        (work.step, work.metrics) = (step, metrics);
        shared::equip(&mut engine, &mut work.evaluators, evaluators, handlers)?;
        Ok(Self { engine, work })
    }

    /// Adds an evaluator that handlers run by this name. Its key metric becomes the trainer's, if
    /// the trainer has none yet.
    pub fn add_evaluator(&mut self, name: impl Into<String>, evaluator: impl Evaluate<N> + 'static) {
        self.work.evaluators.insert(&mut self.engine, name.into(), Box::new(evaluator));
    }

    trainer_parts!(TrainerOptions, evaluates: N, checkpoints: trainer_files);

    /// The current network, under autodiff. `None` only after the optimizer failed.
    pub fn network(&self) -> Option<&N> {
        self.work.learner.network.as_ref()
    }

    /// Replaces the network between runs, by one with the same parameters: other weights, as those of
    /// a pretrained network. The optimizer keeps its state; gradients of batches that made no step yet
    /// are dropped.
    ///
    /// # Errors
    /// For a network with other parameters; the trainer is then unchanged.
    pub fn set_network(&mut self, network: N) -> Result<(), TrainerError> {
        let TrainerOptions { device, precision, .. } = &self.work.options;
        self.work.learner.set_network(network, device, *precision)
    }

    /// A further network of the step ([`TrainerBuilder::step_with`]) by its name: `M` is the network's
    /// type, for an [`Averaged`](crate::Averaged) one that of the trained network. `None` where there
    /// is no companion of this name and type, or its optimizer failed.
    pub fn companion<M: 'static>(&self, name: &str) -> Option<&M> {
        self.work.step.as_ref()?.find(name)?.downcast_ref()
    }

    /// The learning rate of the next step.
    pub fn learning_rate(&self) -> f64 {
        self.work.learner.learning_rate
    }

    /// Runs a learning rate range test ([`RangeTest`]) over batches of the training data.
    /// Afterwards the trainer is as before: weights, running statistics, the optimizer's state, the
    /// learning rate. No handler is called. `watch` is called with each point as it is measured.
    ///
    /// # Errors
    /// For invalid options, and any error that ends an iteration early; it names the cases.
    pub fn find_learning_rate(
        &mut self,
        options: &RangeTest,
        watch: impl FnMut(&RangePoint),
    ) -> Result<RangeResult, RangeError> {
        lr_find::run(&mut self.work, options, watch)
    }

    /// The current gradient scaler of a run in fp16, read back from the device.
    pub fn scaler(&self) -> Option<GradScaler> {
        self.work.learner.scaler.as_ref().map(|scaler| scaler.read().0)
    }

    /// The optimizer's state by `path/name`, read back from the device.
    pub fn optimizer_state(&self) -> BTreeMap<String, TensorData> {
        self.work.learner.optimizer.state()
    }
}

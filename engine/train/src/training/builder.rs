//! [`TrainerBuilder`]: the parts of a trainer, set one by one.

use burn::tensor::{Device, Tensor};
use hearth_engine::{Better, BoxError, Context, Handler, HandlerError, When, handler_fn};
use hearth_nn::inferers::Inferer;
use hearth_nn::losses::Loss;
use hearth_nn::metrics::Metric;
use hearth_nn::networks::Network;
use hearth_nn::optim::{GradientClip, OptimizerConfig};
use std::sync::Arc;

use crate::batch::loader::Loader;
use crate::evaluation::evaluate::Evaluate;
use crate::evaluation::measured::NamedMetric;
use crate::evaluation::post::Post;
use crate::training::adversarial::adversary::{Adversary, AdversaryOptions, Discriminating};
use crate::training::adversarial::loss::AdversarialLoss;
use crate::training::custom::batch::StepBatch;
use crate::training::custom::companion::{Companion, check_names};
use crate::training::custom::context::StepContext;
use crate::training::custom::network::StepNetwork;
use crate::training::custom::step::{Closure, Step};
use crate::training::learner::Learning;
use crate::training::precision::Precision;
use crate::training::train_metrics::TrainMetrics;
use crate::training::trainer::{SupervisedTrainer, TrainerError, TrainerOptions};

/// Makes the discriminator once device and precision are known.
pub(crate) type MakeAdversary =
    Box<dyn FnOnce(&OptimizerConfig, &Learning<'_>) -> Result<Box<dyn Adversary>, TrainerError>>;

/// Makes the user's own step once the network is in place.
pub(crate) type MakeStep<N> = Box<dyn FnOnce(&N, &TrainerOptions) -> Result<Box<dyn Step<N>>, TrainerError>>;

/// Builds a [`SupervisedTrainer`]; returned by [`SupervisedTrainer::builder`]. Options that are not
/// set are those of [`TrainerOptions::new`].
#[must_use]
pub struct TrainerBuilder<N> {
    pub(crate) network: N,
    pub(crate) loss: Box<dyn Loss>,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) loader: Box<dyn Loader>,
    pub(crate) options: TrainerOptions,
    pub(crate) adversary: Option<MakeAdversary>,
    pub(crate) step: Option<MakeStep<N>>,
    pub(crate) metrics: TrainMetrics,
    /// The key metric, and which of its values are better, where that is known.
    pub(crate) key_metric: Option<(String, Option<Better>)>,
    pub(crate) evaluators: Vec<(String, Box<dyn Evaluate<N>>)>,
    pub(crate) handlers: Vec<Box<dyn Handler>>,
}

impl<N> std::fmt::Debug for TrainerBuilder<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<N: Network> TrainerBuilder<N> {
    /// Sets all options at once, replacing those set so far.
    pub fn options(mut self, options: TrainerOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the device of the training; by default the network's.
    pub fn device(mut self, device: &Device) -> Self {
        self.options.device = device.clone().inner();
        self
    }

    /// Sets the number type of convolutions and matrix products; by default [`Precision::Fp32`].
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Sets the number of epochs; by default 1.
    pub fn max_epochs(mut self, max_epochs: u64) -> Self {
        self.options.max_epochs = max_epochs;
        self
    }

    /// Sets how the network is applied to a batch; by default once to the whole batch.
    pub fn inferer(mut self, inferer: impl Inferer + 'static) -> Self {
        self.options.inferer = Arc::new(inferer);
        self
    }

    /// Sets the keys of the batch's image and label; by default `image` and `label`.
    pub fn keys(mut self, image: impl Into<String>, label: impl Into<String>) -> Self {
        (self.options.image_key, self.options.label_key) = (image.into(), label.into());
        self
    }

    /// Sets the number of batches per step; see [`TrainerOptions::accumulate`].
    pub fn accumulate(mut self, batches: u64) -> Self {
        self.options.accumulate = batches;
        self
    }

    /// Sets how gradients are clipped before a step.
    pub fn clip(mut self, clip: GradientClip) -> Self {
        self.options.clip = Some(clip);
        self
    }

    /// Sets the seed that keys every random draw of the training step; by default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Adds a metric of the training batches (MONAI's `additional_metrics`), over all batches of an epoch:
    /// at `epoch_completed` the metrics of the state include it, as `name`, with `name_label_1`, ... where
    /// its reduction keeps classes separate. In an iteration, from `iteration_completed` on, handlers read
    /// the values of the batch's cases (`cx.host.numbers(name)`).
    ///
    /// The prediction is that of the training step: with dropout, of augmented crops, before the
    /// optimizer's step. [`post`](Self::post) sets the steps before the metric. Metrics read values back
    /// from the device in every iteration. A checkpoint in mid-epoch includes their rows, and several
    /// ranks measure the batches of all.
    ///
    /// ```
    /// # use hearth_nn::{losses::DiceCELoss, metrics::DiceMetric, networks::UNet, optim::AdamConfig};
    /// # use hearth_train::{Post, SupervisedTrainer, TrainerError};
    /// # fn of(network: UNet, loader: hearth_data::DataLoader) -> Result<SupervisedTrainer<UNet>, TrainerError> {
    /// let trainer = SupervisedTrainer::builder(network, DiceCELoss::default(), AdamConfig::default(), loader)
    ///     .post(Post::argmax(2), Post::onehot(2))
    ///     .metric("train_mean_dice", DiceMetric::default().include_background(false))
    ///     .build()?;
    /// # Ok(trainer)
    /// # }
    /// ```
    pub fn metric(self, name: impl Into<String>, metric: impl Metric + 'static) -> Self {
        self.metric_after(name, metric, Vec::new(), Vec::new())
    }

    /// As [`metric`](Self::metric), with further steps on prediction and label for this metric only.
    pub fn metric_after(
        mut self,
        name: impl Into<String>,
        metric: impl Metric + 'static,
        post_pred: Vec<Post>,
        post_label: Vec<Post>,
    ) -> Self {
        let metric = NamedMetric { post_pred, post_label, ..NamedMetric::new(name.into(), Box::new(metric)) };
        self.metrics.metrics.push(metric);
        self
    }

    /// Adds a metric of the training batches that decides which epoch is best (MONAI's
    /// `key_train_metric`), in the direction of [`Metric::higher_is_better`]. The key metrics of
    /// evaluators then do not decide.
    pub fn key_train_metric(mut self, name: impl Into<String>, metric: impl Metric + 'static) -> Self {
        let name = name.into();
        let better = metric.higher_is_better().map(|higher| if higher { Better::Higher } else { Better::Lower });
        self.key_metric = Some((name.clone(), better));
        self.metric(name, metric)
    }

    /// Lets a metric decide which epoch is best, of those that this trainer or its evaluators measure.
    pub fn key_metric(mut self, name: impl Into<String>, better: Better) -> Self {
        self.key_metric = Some((name.into(), Some(better)));
        self
    }

    /// Sets the steps on prediction and label before the metrics of the training batches (MONAI's
    /// `postprocessing`), as [`EvaluatorBuilder::post`](crate::EvaluatorBuilder::post) does for an
    /// evaluator. As there, handlers see their results from `model_completed` on, where there is a metric.
    pub fn post(mut self, pred: Vec<Post>, label: Vec<Post>) -> Self {
        (self.metrics.post_pred, self.metrics.post_label) = (pred, label);
        self
    }

    /// Adds a discriminator of predictions and labels, whose judgement is added to the loss
    /// (MONAI's `AdversarialTrainer`). For each batch, the network takes a step with the supervised
    /// and the adversarial loss, then the discriminator takes a step with its judgements of the
    /// label and of the same prediction.
    ///
    /// Handlers can read the outputs `reconstruction_loss` (the supervised loss), `generator_loss`
    /// and `discriminator_loss`, MONAI's names; `loss` is the sum used in the network's step. The
    /// means of the three losses over an epoch are metrics of the state. MONAI's adversarial events
    /// are fired in addition to those of supervised training, in MONAI's order: `ForwardCompleted`,
    /// `GeneratorForwardCompleted`, `GeneratorDiscriminatorForwardCompleted`,
    /// `ReconstructionLossCompleted`, `GeneratorLossCompleted`, `LossCompleted`,
    /// `GeneratorBackwardCompleted`, `BackwardCompleted`, `GeneratorModelCompleted`,
    /// `DiscriminatorRealsForwardCompleted`, `DiscriminatorFakesForwardCompleted`,
    /// `DiscriminatorLossCompleted`, `DiscriminatorBackwardCompleted`,
    /// `DiscriminatorModelCompleted`, `ModelCompleted`. (MONAI defines the last two discriminator
    /// events, but never fires them in f32.)
    ///
    /// The label counts as real; in MONAI's trainer it is the image, which is the same for an
    /// autoencoder, whose label is its image. Checkpoints hold the discriminator in a separate
    /// folder.
    pub fn adversary<D: Network>(
        mut self,
        discriminator: D,
        loss: impl AdversarialLoss + 'static,
        options: AdversaryOptions,
    ) -> Self {
        self.adversary = Some(Box::new(move |optimizer, how| {
            Ok(Box::new(Discriminating::new(discriminator, Box::new(loss), options, optimizer, how)?))
        }));
        self
    }

    /// Replaces forward pass and loss of the training step by a closure (MONAI's `iteration_update`,
    /// ignite's process function). It receives the network, the batch and the trainer, and returns the
    /// loss; more than one value is averaged.
    ///
    /// Everything else is as with the default step: precision and gradient scaler, accumulation,
    /// clipping, ranks, the log of the loss, checkpoints, and all events in their order.
    /// `ForwardCompleted` follows the closure, directly before `LossCompleted`. The gradients of several
    /// ranks are summed after the backward pass, not during it.
    ///
    /// ```
    /// # use hearth_nn::{losses::MseLoss, networks::UNet, optim::AdamConfig};
    /// # use hearth_train::{SupervisedTrainer, TrainerError};
    /// # fn of(network: UNet, loader: hearth_data::DataLoader) -> Result<SupervisedTrainer<UNet>, TrainerError> {
    /// let trainer = SupervisedTrainer::builder(network, MseLoss::default(), AdamConfig::default(), loader)
    ///     .step(|net, batch, cx| {
    ///         let image = batch.image()?;
    ///         let noise = image.random_like(burn::tensor::Distribution::Normal(0.0, 0.1));
    ///         cx.loss(net.forward(image.clone() + noise)?, image)
    ///     })
    ///     .build()?;
    /// # Ok(trainer)
    /// # }
    /// ```
    ///
    /// What the closure itself keeps from batch to batch is not part of a checkpoint: further networks
    /// belong into [`step_with`](Self::step_with), random numbers come from [`StepContext::draw`].
    pub fn step<F>(self, mut step: F) -> Self
    where
        F: FnMut(&StepNetwork<'_, N>, &StepBatch<'_>, &mut StepContext<'_>) -> Result<Tensor<1>, BoxError>,
        F: Send + 'static,
    {
        self.step_with((), move |net, (), batch, cx| step(net, batch, cx))
    }

    /// As [`step`](Self::step), with further networks: a [`Learned`](crate::Learned) one has its own
    /// optimizer, an [`Averaged`](crate::Averaged) one follows the trained network, a
    /// [`Fixed`](crate::Fixed) one does not change; a tuple holds several. The closure receives them
    /// after the network: `.step_with(Averaged::new("teacher", 0.99), |net, teacher, batch, cx| ...)`.
    pub fn step_with<C, F>(mut self, companions: C, step: F) -> Self
    where
        C: Companion<N>,
        F: FnMut(
            &StepNetwork<'_, N>,
            &mut C::InStep,
            &StepBatch<'_>,
            &mut StepContext<'_>,
        ) -> Result<Tensor<1>, BoxError>,
        F: Send + 'static,
    {
        self.step = Some(Box::new(move |network, options| {
            let companions = companions.place(network, options)?;
            check_names(&companions)?;
            Ok(Box::new(Closure { companions, call: step }))
        }));
        self
    }

    /// Sets the evaluator that the handler `Validation` runs: [`evaluator`](Self::evaluator) with the
    /// name `validation`.
    pub fn validation(self, evaluator: impl Evaluate<N> + 'static) -> Self {
        self.evaluator("validation", evaluator)
    }

    /// Adds an evaluator that handlers run by this name; see [`SupervisedTrainer::add_evaluator`].
    pub fn evaluator(mut self, name: impl Into<String>, evaluator: impl Evaluate<N> + 'static) -> Self {
        self.evaluators.push((name.into(), Box::new(evaluator)));
        self
    }

    /// Adds a handler; it is called after those added before it.
    pub fn handler(mut self, handler: impl Handler + 'static) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }

    /// Adds a closure as a handler of an event, as [`Engine::on`](hearth_engine::Engine::on) does:
    /// `.on(Event::EpochCompleted, |cx| ...)`.
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
    /// When an option is invalid, in general or for this network; when the device cannot compute in the
    /// requested precision, a handler listens to an event that does not exist, a metric has no name of its
    /// own or the key metric no direction, or the parts of a step do not fit: see [`TrainerError`].
    pub fn build(self) -> Result<SupervisedTrainer<N>, TrainerError> {
        SupervisedTrainer::from_builder(self)
    }
}

//! A discriminator for a supervised network, as in MONAI's `AdversarialTrainer`:
//! [`AdversaryOptions`].

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{DType, Device, Tensor};
use hearth_engine::{BoxError, State};
use hearth_nn::networks::{Network, ShapeError};
use hearth_nn::optim::{Gradients, OptimizerConfig};
use serde::{Deserialize, Serialize};

use crate::batch::feed::Feed;
use crate::checkpoint::{Checkpoint, Files, learner_files};
use crate::ranks::Ranks;
use crate::training::adversarial::loss::{AdversarialLoss, judgements};
use crate::training::adversarial::losses::EpochLosses;
use crate::training::learner::{Learner, Learning};
use crate::training::step::of_rank;
use crate::training::trainer::TrainerError;

/// The supervised loss of an iteration (MONAI's key).
pub(crate) const RECONSTRUCTION: &str = "reconstruction_loss";
const GENERATOR: &str = "generator_loss";
const DISCRIMINATOR: &str = "discriminator_loss";

/// The form in which the discriminator gets a prediction and its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Shown {
    /// Both unchanged: images.
    #[default]
    Raw,
    /// The softmax over the channels; a label of one channel becomes one-hot.
    Softmax,
    /// The sigmoid of the prediction; the label unchanged.
    Sigmoid,
}

impl Shown {
    fn prediction(self, pred: Tensor<5>) -> Tensor<5> {
        match self {
            Shown::Raw => pred,
            Shown::Softmax => softmax(pred, 1),
            Shown::Sigmoid => sigmoid(pred),
        }
    }

    /// Converts a label to the form of a perfect prediction with this number of channels.
    fn label(self, label: Tensor<5>, channels: usize) -> Tensor<5> {
        if self != Shown::Softmax || label.dims()[1] == channels {
            return label;
        }
        let classes = (0..channels).map(|class| label.clone().equal_elem(class as f32).float());
        Tensor::cat(classes.collect(), 1)
    }
}

/// The options of a discriminator in supervised training; see
/// [`TrainerBuilder::adversary`](crate::TrainerBuilder::adversary).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdversaryOptions {
    /// The factor of the adversarial loss, relative to the supervised one. MONAI's trainer uses 1.
    pub weight: f64,
    /// The number of first epochs in which the discriminator is not used.
    pub warmup_epochs: u64,
    /// The form of prediction and label for the discriminator.
    pub shown: Shown,
    /// Whether the discriminator also gets the image: its channels come before those of prediction
    /// or label.
    pub condition: bool,
    /// The discriminator's optimizer; by default the same as the network's.
    pub optimizer: Option<OptimizerConfig>,
}

impl Default for AdversaryOptions {
    fn default() -> Self {
        Self { weight: 1.0, warmup_epochs: 0, shown: Shown::Raw, condition: false, optimizer: None }
    }
}

impl AdversaryOptions {
    /// Sets the factor of the adversarial loss; by default 1.
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the number of first epochs without the discriminator; by default 0.
    #[must_use]
    pub fn warmup_epochs(mut self, epochs: u64) -> Self {
        self.warmup_epochs = epochs;
        self
    }

    /// Sets the form of prediction and label for the discriminator; by default unchanged.
    #[must_use]
    pub fn shown(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }

    /// Sets whether the discriminator also gets the image; by default it does not.
    #[must_use]
    pub fn condition(mut self, condition: bool) -> Self {
        self.condition = condition;
        self
    }

    /// Sets the discriminator's optimizer; by default the same as the network's.
    #[must_use]
    pub fn optimizer(mut self, optimizer: impl Into<OptimizerConfig>) -> Self {
        self.optimizer = Some(optimizer.into());
        self
    }
}

/// A trainer's discriminator, of any network type. The trainer calls its parts in the order of the
/// events between them.
pub(crate) trait Adversary: Send {
    /// Whether the discriminator is used in this epoch.
    fn takes_part(&self, epoch: u64) -> bool;

    /// The weighted adversarial loss of a prediction with its autodiff graph.
    fn judge(&mut self, pred: Tensor<5>, state: &State, feed: &Feed) -> Result<Tensor<1>, BoxError>;

    /// Records the supervised loss of the current iteration, for the metrics.
    fn note_supervised(&mut self, loss: Tensor<1>);

    /// Computes the discriminator's loss of the label and of the judged prediction.
    fn compare(&mut self, feed: &Feed) -> Result<(), BoxError>;

    /// Computes the discriminator's gradients.
    fn backward(&mut self, feed: &Feed) -> Result<(), BoxError>;

    /// Takes the discriminator's step, once there are gradients of `accumulate` batches.
    fn step(&mut self, accumulate: u64, feed: &Feed) -> Result<(), BoxError>;

    fn losses(&self) -> &EpochLosses;

    fn next_iteration(&mut self);

    /// Completes the losses of an iteration.
    fn settle(&mut self, ranks: Option<&Ranks>, iteration: u64) -> Result<(), BoxError>;

    fn epoch_started(&mut self);

    fn epoch_completed(&mut self, state: &mut State, feed: &Feed) -> Result<(), BoxError>;

    /// Keeps the learning rate in proportion to that of a network that started with `first`.
    fn follow(&mut self, learning_rate: f64, first: f64);

    /// The gradient scaler's factor, in fp16.
    fn scale(&self) -> Option<f64>;

    fn collect(&self, files: &mut Files) -> Result<(), BoxError>;

    /// Reads a discriminator from a checkpoint; this one does not change.
    fn restored(&self, checkpoint: &Checkpoint, device: &Device) -> Result<Box<dyn Adversary>, BoxError>;
}

/// The adversary with the discriminator `D`.
pub(crate) struct Discriminating<D> {
    learner: Learner<D>,
    loss: std::sync::Arc<dyn AdversarialLoss>,
    options: AdversaryOptions,
    losses: EpochLosses,
    /// The current prediction without its graph, and its label, in the discriminator's form.
    shown: Option<(Tensor<5>, Tensor<5>)>,
    /// The discriminator's loss, before `backward`.
    own: Option<Tensor<1>>,
    gradients: Option<Gradients>,
}

impl<D: Network> Discriminating<D> {
    /// # Errors
    /// For invalid options, and where the optimizer or the device does not fit.
    pub fn new(
        network: D,
        loss: Box<dyn AdversarialLoss>,
        options: AdversaryOptions,
        optimizer: &OptimizerConfig,
        how: &Learning<'_>,
    ) -> Result<Self, TrainerError> {
        if !(options.weight.is_finite() && options.weight >= 0.0) {
            return Err(TrainerError::AdversarialWeight { weight: options.weight });
        }
        let optimizer = options.optimizer.clone().unwrap_or_else(|| optimizer.clone());
        let learner = Learner::new(network, optimizer, how)?;
        let (loss, losses) = (loss.into(), EpochLosses::default());
        Ok(Self { learner, loss, options, losses, shown: None, own: None, gradients: None })
    }

    /// Puts the image's channels in front, where the discriminator gets them.
    fn conditioned(&self, x: Tensor<5>, feed: &Feed) -> Result<Tensor<5>, BoxError> {
        if !self.options.condition {
            return Ok(x);
        }
        let image = feed.named("image")?.cast(DType::F32);
        let image = if x.is_tracked() { image.autodiff() } else { image };
        Ok(Tensor::cat(vec![image, x], 1))
    }

    fn check(&self, x: &Tensor<5>, feed: &Feed) -> Result<(), BoxError> {
        let network = self.learner.network()?;
        network.check_input(x.dims()).map_err(|error: ShapeError| {
            let of = if self.options.condition { "image and prediction" } else { "a prediction" };
            feed.part("the discriminator", format!("it is shown {of}: {error}"))
        })?;
        Ok(())
    }
}

impl<D: Network> Adversary for Discriminating<D> {
    fn takes_part(&self, epoch: u64) -> bool {
        epoch > self.options.warmup_epochs
    }

    fn judge(&mut self, pred: Tensor<5>, state: &State, feed: &Feed) -> Result<Tensor<1>, BoxError> {
        let label = feed.named("label")?;
        if label.dims()[2..] != pred.dims()[2..] {
            let what = format!("the label has shape {:?}, the prediction {:?}", label.dims(), pred.dims());
            return Err(feed.part("the discriminator", what).into());
        }
        let shown = self.options.shown;
        let channels = pred.dims()[1];
        let fakes = self.conditioned(shown.prediction(pred.cast(DType::F32)), feed)?;
        let reals = self.conditioned(shown.label(label.cast(DType::F32), channels), feed)?;
        self.check(&fakes, feed)?;
        if reals.dims() != fakes.dims() {
            let what =
                format!("it is shown labels of shape {:?}, predictions of shape {:?}", reals.dims(), fakes.dims());
            return Err(feed.part("the discriminator", what).into());
        }
        let network = self.learner.network()?;
        network.set_draw(of_rank(state), state.iteration);
        let _range = tracing::trace_span!("loss", name = "generator").entered();
        let judge = judgements(network);
        let loss = self.loss.generator(fakes.clone(), &judge);
        let loss = loss.map_err(|error| feed.part("the adversarial loss", error))?.mean();
        self.losses.note(GENERATOR, loss.clone().without_autodiff());
        self.shown = Some((fakes.without_autodiff(), reals));
        Ok(loss * self.options.weight as f32)
    }

    fn note_supervised(&mut self, loss: Tensor<1>) {
        self.losses.note(RECONSTRUCTION, loss);
    }

    fn compare(&mut self, feed: &Feed) -> Result<(), BoxError> {
        let Some((fakes, reals)) = self.shown.take() else { return Ok(()) };
        let _range = tracing::trace_span!("loss", name = "discriminator").entered();
        let network = self.learner.network()?;
        let judge = judgements(network);
        let loss = self.loss.discriminator(fakes.autodiff(), reals.autodiff(), &judge);
        let loss = loss.map_err(|error| feed.part("the adversarial loss", error))?.mean();
        self.losses.note(DISCRIMINATOR, loss.clone().without_autodiff());
        self.own = Some(loss);
        Ok(())
    }

    fn backward(&mut self, feed: &Feed) -> Result<(), BoxError> {
        let Some(loss) = self.own.take() else { return Ok(()) };
        self.gradients = Some(self.learner.backward(&loss, feed)?);
        Ok(())
    }

    fn step(&mut self, accumulate: u64, feed: &Feed) -> Result<(), BoxError> {
        let Some(gradients) = self.gradients.take() else { return Ok(()) };
        self.learner.gather(gradients, accumulate, feed)
    }

    fn losses(&self) -> &EpochLosses {
        &self.losses
    }

    fn next_iteration(&mut self) {
        self.losses.next_iteration();
        (self.shown, self.own, self.gradients) = (None, None, None);
    }

    fn settle(&mut self, ranks: Option<&Ranks>, iteration: u64) -> Result<(), BoxError> {
        self.losses.settle(ranks, iteration)
    }

    fn epoch_started(&mut self) {
        self.losses.next_epoch();
        self.learner.pending = None;
    }

    fn epoch_completed(&mut self, state: &mut State, feed: &Feed) -> Result<(), BoxError> {
        self.learner.step(feed)?;
        self.learner.report_skipped_steps();
        Ok(self.losses.finish(state)?)
    }

    fn follow(&mut self, learning_rate: f64, first: f64) {
        self.learner.follow(learning_rate, first);
    }

    fn scale(&self) -> Option<f64> {
        self.learner.scale().ok()
    }

    fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
        learner_files::collect(files, &learner_files::DISCRIMINATOR, &self.learner)?;
        self.losses.collect(files)
    }

    fn restored(&self, checkpoint: &Checkpoint, device: &Device) -> Result<Box<dyn Adversary>, BoxError> {
        Ok(Box::new(Self {
            learner: learner_files::read(checkpoint, &learner_files::DISCRIMINATOR, &self.learner, device)?,
            loss: self.loss.clone(),
            options: self.options.clone(),
            losses: EpochLosses::from_checkpoint(checkpoint, device)?,
            shown: None,
            own: None,
            gradients: None,
        }))
    }
}

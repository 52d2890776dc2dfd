//! One training step: the workflow behind [`SupervisedTrainer`](crate::SupervisedTrainer).

use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_engine::{
    BoxError, Engine, Event, Host, HostError, HostTensor, LayerStatistics, LayerValues, State, Workflow,
};
use hearth_kernels::conv3d::as_part_of;
use hearth_kernels::device_error::reason;
use hearth_nn::layers::SyncedNorms;
use hearth_nn::losses::{Loss, LossError};
use hearth_nn::networks::Network;
use hearth_nn::optim::Gradients;

use crate::batch::feed::{Feed, Placement};
use crate::batch::loader::Loader;
use crate::checkpoint::background::CheckpointWriter;
use crate::checkpoint::trainer_files;
use crate::evaluation::evaluators::Evaluators;
use crate::evaluation::inference::{Outputs, infer_all};
use crate::ranks::check_norms;
use crate::training::adversarial::adversary::Adversary;
use crate::training::adversarial::losses::EpochLosses;
use crate::training::custom::step::Step;
use crate::training::learner::{Learner, check_learning_rate};
use crate::training::mean_loss::MeanLoss;
use crate::training::shared::{host_parts, workflow_parts};
use crate::training::train_metrics::TrainMetrics;
use crate::training::trainer::TrainerOptions;
use crate::training::{layer_statistics, layer_tensors};

pub(crate) struct Training<N> {
    pub learner: Learner<N>,
    pub loss: Box<dyn Loss>,
    pub options: TrainerOptions,
    /// The discriminator of adversarial training.
    pub adversary: Option<Box<dyn Adversary>>,
    /// The user's own step, in place of forward pass and loss.
    pub step: Option<Box<dyn Step<N>>>,
    /// The numbers that the user's own step notes.
    pub notes: EpochLosses,
    pub evaluators: Evaluators<N>,
    pub feed: Feed,
    writer: CheckpointWriter,
    /// The gradients of the current batch, while `backward_completed` is handled.
    gradients: Option<Gradients>,
    /// The loss of the current iteration, on the device.
    loss_tensor: Option<Tensor<1>>,
    /// The value of the loss, where a handler read it back.
    loss_value: Option<f64>,
    /// The mean loss of the epoch so far.
    pub mean_loss: MeanLoss,
    /// The metrics of training batches, where any were asked for.
    pub metrics: TrainMetrics,
    /// The epoch as of the last fetch.
    epoch: u64,
    /// The exchange of batch norm statistics with other ranks in this step.
    norms: Option<Arc<SyncedNorms>>,
}

impl<N: Network> Training<N> {
    pub fn new(
        learner: Learner<N>,
        loss: Box<dyn Loss>,
        adversary: Option<Box<dyn Adversary>>,
        options: TrainerOptions,
        loader: Box<dyn Loader>,
    ) -> Self {
        Self {
            learner,
            loss,
            adversary,
            step: None,
            notes: EpochLosses::default(),
            options,
            evaluators: Evaluators::default(),
            feed: Feed::new(loader),
            writer: CheckpointWriter::default(),
            gradients: None,
            loss_tensor: None,
            loss_value: None,
            mean_loss: MeanLoss::default(),
            metrics: TrainMetrics::default(),
            epoch: 0,
            norms: None,
        }
    }

    /// The outputs in f32, with their autodiff graph.
    pub fn forward(&self, state: &State) -> Result<Outputs, BoxError> {
        // Layers detect training by a tensor under autodiff.
        let image = self.feed.named("image")?.autodiff();
        let watched = self.learner.watched(self.options.accumulate)?;
        let network = watched.as_ref().map_or_else(|| self.learner.network(), Ok)?;
        network.set_draw(of_rank(state), state.iteration);
        let forward = || as_part_of(self.parts(), || infer_all(&*self.options.inferer, image, network));
        let outputs = match &self.norms {
            Some(norms) => norms.within(forward),
            None => forward(),
        };
        self.check_norms()?;
        outputs.map_err(|e| self.feed.part("the forward pass", e).into())
    }

    /// The number of parts of a batch, of which this rank's is one, for rounding.
    fn parts(&self) -> usize {
        self.options.ranks.as_ref().filter(|ranks| ranks.rounds_alike).map_or(1, |ranks| ranks.world())
    }

    /// Runs the discriminator's computation with synchronized batch norms.
    fn with_norms<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, BoxError>) -> Result<T, BoxError> {
        let (norms, parts) = (self.norms.clone(), self.parts());
        let work = |this: &mut Self| as_part_of(parts, || work(this));
        let Some(norms) = norms else { return work(self) };
        let done = norms.within(|| work(self));
        self.check_norms()?;
        done
    }

    fn check_norms(&self) -> Result<(), BoxError> {
        self.norms.as_ref().map_or(Ok(()), |norms| check_norms(norms))
    }

    /// The loss `[1]` of the outputs, plus the network's own loss.
    pub fn compare(&self, outputs: Outputs) -> Result<Tensor<1>, BoxError> {
        let _range = tracing::trace_span!("loss").entered();
        let label = self.feed.named("label")?;
        let loss = loss_of(&*self.loss, outputs.all, label, &self.feed, self.learner.scaler.is_some())?;
        Ok(match outputs.loss {
            Some(own) => loss + own,
            None => loss,
        })
    }

    pub fn backward(&self, loss: &Tensor<1>) -> Result<Gradients, BoxError> {
        let gradients = as_part_of(self.parts(), || self.learner.backward(loss, &self.feed))?;
        self.check_norms()?;
        Ok(gradients)
    }

    /// Adds this rank's loss to the reduction, so that handlers see the mean of all ranks after the
    /// step.
    fn pass_on_loss(&mut self) -> Result<(), BoxError> {
        if self.learner.reducer.is_some() {
            let loss = Host::output(self, "loss")?;
            if let Some(reducer) = &mut self.learner.reducer {
                reducer.loss = Some(loss as f32);
            }
        }
        Ok(())
    }

    /// Accumulates a batch's gradients, and takes a step when there are enough.
    pub fn gather(&mut self, gradients: Gradients) -> Result<(), BoxError> {
        self.learner.gather(gradients, self.options.accumulate, &self.feed)?;
        if self.learner.pending.is_none() { self.stepped() } else { Ok(()) }
    }

    /// Lets the companions of the user's own step follow a step of the optimizer.
    fn stepped(&mut self) -> Result<(), BoxError> {
        if let Some(step) = &mut self.step {
            step.stepped(self.learner.network()?);
        }
        Ok(())
    }

    /// The loss of the current batch, without events.
    pub fn loss_of_batch(&mut self, state: &State) -> Result<Tensor<1>, BoxError> {
        let Some(mut step) = self.step.take() else {
            let outputs = self.forward(state)?;
            return self.compare(outputs);
        };
        let loss = self.with_norms(|training| training.loss_of_step(&mut *step, state));
        self.step = Some(step);
        loss
    }

    /// Forward pass and loss of the default step, with the adversarial loss where there is one.
    fn supervised(&mut self, engine: &mut Engine, competes: bool) -> Result<Tensor<1>, BoxError> {
        let outputs = self.forward(engine.state())?;
        if let Some(pred) = outputs.all.first() {
            self.feed.insert("pred", pred.clone())?;
        }
        for (index, output) in outputs.all.iter().enumerate().filter(|_| outputs.all.len() > 1) {
            self.feed.insert(&format!("output_{index}"), output.clone())?;
        }
        engine.fire(Event::ForwardCompleted, self)?;

        let adversarial = if competes { self.with_norms(|training| training.judge(engine, &outputs))? } else { None };
        let mut loss = self.compare(outputs)?;
        if let Some(adversary) = &mut self.adversary {
            adversary.note_supervised(loss.clone().without_autodiff());
        }
        if let Some(adversarial) = adversarial {
            engine.fire(Event::ReconstructionLossCompleted, self)?;
            engine.fire(Event::GeneratorLossCompleted, self)?;
            loss = loss + adversarial;
        }
        Ok(loss)
    }

    /// The adversarial loss of the prediction.
    fn judge(&mut self, engine: &mut Engine, outputs: &Outputs) -> Result<Option<Tensor<1>>, BoxError> {
        engine.fire(Event::GeneratorForwardCompleted, self)?;
        let (Some(adversary), Some(pred)) = (&mut self.adversary, outputs.all.first()) else { return Ok(None) };
        let loss = adversary.judge(pred.clone(), engine.state(), &self.feed)?;
        engine.fire(Event::GeneratorDiscriminatorForwardCompleted, self)?;
        Ok(Some(loss))
    }

    /// The discriminator's step.
    fn discriminate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        type Part = fn(&mut dyn Adversary, u64, &Feed) -> Result<(), BoxError>;
        let parts: [(Part, &[Event]); 3] = [
            (
                |adversary, _, feed| adversary.compare(feed),
                &[
                    Event::DiscriminatorRealsForwardCompleted,
                    Event::DiscriminatorFakesForwardCompleted,
                    Event::DiscriminatorLossCompleted,
                ],
            ),
            (|adversary, _, feed| adversary.backward(feed), &[Event::DiscriminatorBackwardCompleted]),
            (|adversary, accumulate, feed| adversary.step(accumulate, feed), &[Event::DiscriminatorModelCompleted]),
        ];
        for (part, events) in parts {
            if let Some(adversary) = self.adversary.as_deref_mut() {
                part(adversary, self.options.accumulate, &self.feed)?;
            }
            for event in events {
                engine.fire(*event, self)?;
            }
        }
        Ok(())
    }

    /// The names of the tensors that handlers can read now, in alphabetical order.
    fn tensor_names(&self) -> Vec<String> {
        let mut names = self.feed.tensor_names();
        if let Ok(network) = self.learner.network() {
            names.extend(layer_tensors::names(network, self.gradients.as_ref()));
        }
        names.sort_unstable();
        names
    }

    /// The names of the numbers that handlers can read now.
    fn outputs(&self) -> Vec<String> {
        let known = [("loss", self.loss_tensor.is_some()), ("scale", self.learner.scaler.is_some())];
        let mut names: Vec<String> =
            known.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect();
        if let Some(adversary) = &self.adversary {
            names.extend(adversary.losses().names().map(str::to_owned));
            names.extend(adversary.scale().map(|_| "d_scale".to_owned()));
        }
        names.extend(self.notes.names().map(str::to_owned));
        names.sort_unstable();
        names
    }
}

impl<N: Network> Host for Training<N> {
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        match name {
            "loss" => {
                if let Some(value) = self.loss_value {
                    return Ok(value);
                }
                let tensor = self.loss_tensor.clone();
                let tensor = tensor.ok_or_else(|| HostError::new("there is no loss before `loss_completed`"))?;
                let value = read_back(tensor, "the loss")?;
                Ok(*self.loss_value.insert(value))
            }
            "mean_loss" => self.mean_loss.value(),
            "scale" => self.learner.scale(),
            "d_scale" if let Some(scale) = self.adversary.as_ref().and_then(|adversary| adversary.scale()) => Ok(scale),
            _ => {
                let known = self.adversary.as_ref().and_then(|adversary| adversary.losses().read(name));
                known.or_else(|| self.notes.read(name)).unwrap_or_else(|| {
                    let more = match &self.adversary {
                        Some(_) => ", d_scale, discriminator_loss, generator_loss, reconstruction_loss".to_owned(),
                        None => self.notes.names().map(|name| format!(", {name}")).collect(),
                    };
                    Err(HostError::new(format!("no output `{name}`; there are: loss, mean_loss, scale{more}")))
                })
            }
        }
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        let network = self.learner.network().map_err(|e| HostError::from_error(&e))?;
        match (of, &self.gradients) {
            (LayerValues::Weights, _) => layer_statistics::of_weights(network),
            (LayerValues::Gradients, Some(gradients)) => layer_statistics::of_gradients(network, gradients),
            (LayerValues::Gradients, None) => {
                Err(HostError::new("there are no gradients now; ask for them at backward_completed"))
            }
        }
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        check_learning_rate(learning_rate)?;
        self.learner.learning_rate = learning_rate;
        if let Some(adversary) = &mut self.adversary {
            adversary.follow(learning_rate, self.learner.optimizer_config.lr());
        }
        if let Some(step) = &mut self.step {
            step.follow(learning_rate, self.learner.optimizer_config.lr());
        }
        Ok(())
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        if !self.feed.contains(name) {
            let network = self.learner.network().map_err(|e| HostError::from_error(&e))?;
            if let Some(values) = layer_tensors::read(network, self.gradients.as_ref(), name) {
                return values;
            }
        }
        self.feed.read(name)
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        if name == "pred" {
            let why =
                "a prediction from a handler has no gradient; replace `image` or `label` at iteration_started instead";
            return Err(HostError::new(format!("tensor `pred` cannot be put while training: {why}")));
        }
        if self.feed.contains(name) || !layer_tensors::is_of_network(name) {
            return self.feed.put(name, &tensor);
        }
        if self.gradients.is_some()
            && name.starts_with("gradients.")
            && self.step.is_none()
            && self.learner.reduces_early(self.options.accumulate)
        {
            let why = "several ranks have summed them during the backward pass; set distributed.overlap = \"off\"";
            return Err(HostError::new(format!("tensor `{name}` cannot be put: {why}")));
        }
        let written = layer_tensors::write(&mut self.learner.network, self.gradients.as_mut(), name, &tensor);
        written.unwrap_or_else(|| self.feed.put(name, &tensor))
    }

    host_parts!(learner);
}

impl<N: Network> Workflow for Training<N> {
    fn fetch(&mut self, state: &State) -> Result<bool, BoxError> {
        self.epoch = state.epoch;
        (self.loss_tensor, self.loss_value, self.gradients) = (None, None, None);
        if let Some(adversary) = &mut self.adversary {
            adversary.next_iteration();
        }
        self.notes.next_iteration();
        let spatial_dims = self.learner.network()?.spatial_dims();
        let TrainerOptions { device, image_key, label_key, .. } = &self.options;
        self.feed.fetch(&Placement { device, spatial_dims, image_key, label_key })
    }

    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        self.norms = self.options.ranks.as_ref().map(|ranks| ranks.norms(engine.state().iteration));
        let competes = self.adversary.as_ref().is_some_and(|adversary| adversary.takes_part(engine.state().epoch));
        let loss = if self.step.is_some() {
            // The closure is forward pass and loss at once, so the first event follows it.
            let loss = self.loss_of_batch(engine.state())?;
            engine.fire(Event::ForwardCompleted, self)?;
            loss
        } else {
            self.supervised(engine, competes)?
        };
        self.loss_tensor = Some(loss.clone().without_autodiff());
        engine.fire(Event::LossCompleted, self)?;

        self.gradients = Some(self.backward(&loss)?);
        if competes {
            engine.fire(Event::GeneratorBackwardCompleted, self)?;
        }
        engine.fire(Event::BackwardCompleted, self)?;

        // A second reference would make the optimizer copy the gradients instead of changing them
        // in place.
        if let Some(gradients) = self.gradients.take() {
            self.pass_on_loss()?;
            self.gather(gradients)?;
            let mean = self.learner.reducer.as_mut().and_then(|reducer| reducer.mean_loss.take());
            self.loss_value = mean.or(self.loss_value);
        }
        if competes {
            // The discriminator's step does not need the graph of the loss.
            drop(loss);
            engine.fire(Event::GeneratorModelCompleted, self)?;
            self.with_norms(|training| training.discriminate(engine))?;
        }
        if let Some(adversary) = &mut self.adversary {
            adversary.settle(self.options.ranks.as_ref(), engine.state().iteration)?;
        }
        if self.step.is_some() {
            self.notes.settle(self.options.ranks.as_ref(), engine.state().iteration)?;
        }
        self.mean_loss.add(self.loss_value, self.loss_tensor.as_ref());
        if self.metrics.is_empty() {
            engine.fire(Event::ModelCompleted, self)?;
            return Ok(());
        }
        let dims = self.learner.network()?.spatial_dims();
        self.metrics.post_process(&mut self.feed, dims)?;
        engine.fire(Event::ModelCompleted, self)?;
        self.metrics.measure(&mut self.feed, dims, self.options.ranks.as_ref(), engine.state().iteration)
    }

    fn epoch_started(&mut self, state: &mut State) -> Result<(), BoxError> {
        self.epoch = state.epoch;
        // Pending gradients of a run that was terminated in mid-epoch are dropped.
        self.learner.pending = None;
        self.mean_loss = MeanLoss::default();
        self.metrics.next_epoch();
        if let Some(adversary) = &mut self.adversary {
            adversary.epoch_started();
        }
        if let Some(step) = &mut self.step {
            step.epoch_started();
        }
        self.notes.next_epoch();
        Ok(())
    }

    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        self.epoch = state.epoch;
        // The remaining batches of an epoch make a step, even if they are fewer.
        let remain = self.learner.pending.is_some();
        self.learner.step(&self.feed)?;
        if remain {
            self.stepped()?;
        }
        self.learner.report_skipped_steps();
        if let Some(step) = &mut self.step {
            step.epoch_completed(&self.feed)?;
        }
        self.notes.finish(state)?;
        self.metrics.finish(state)?;
        match &mut self.adversary {
            Some(adversary) => adversary.epoch_completed(state, &self.feed),
            None => Ok(()),
        }
    }

    workflow_parts!(trainer_files);
}

/// The mean of a loss, `[1]`, with the further tensors of the batch that it needs. `scaled` states
/// whether a gradient scaler handles overflows.
pub(crate) fn loss_of(
    loss: &dyn Loss,
    outputs: Vec<Tensor<5>>,
    target: Tensor<5>,
    feed: &Feed,
    scaled: bool,
) -> Result<Tensor<1>, BoxError> {
    let needed = loss.needs().iter().map(|key| feed.named(key)).collect::<Result<Vec<_>, _>>()?;
    let main = outputs.first().cloned();
    match (loss.forward_with(outputs, target, needed), main) {
        (Ok(loss), _) => Ok(loss.mean()),
        // An overflow in fp16 is no error: the scaler finds a non-finite gradient, skips the step and
        // lowers the scale.
        (Err(LossError::NonFinite { what: "prediction", .. }), Some(pred)) if scaled => Ok(pred.mean() * f32::NAN),
        (Err(error), _) => Err(feed.part("the loss", error).into()),
    }
}

/// The seed of dropout: a different draw on each rank, as for each item of a larger batch.
pub(crate) fn of_rank(state: &State) -> u64 {
    state.seed ^ (u64::from(state.rank) << 32)
}

/// Reads a number back from the device for a handler.
pub(crate) fn read_back(tensor: Tensor<1>, what: &str) -> Result<f64, HostError> {
    let value: Result<f32, _> = tensor.try_into_scalar();
    let value = value
        .map_err(|error| HostError::new(format!("{what} cannot be read back from the device: {}", reason(&error))))?;
    Ok(f64::from(value))
}

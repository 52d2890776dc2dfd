//! One training step: the workflow behind [`SupervisedTrainer`](crate::SupervisedTrainer).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::batch::feed::{Feed, Placement};
use crate::batch::loader::Loader;
use crate::batch::step_error::{StepError, name_cases};
use crate::checkpoint::background::CheckpointWriter;
use crate::checkpoint::trainer_files;
use crate::evaluation::evaluate::Evaluate;
use crate::evaluation::inference::{Outputs, infer_all};
use crate::training::grad_scaler::{DeviceScaler, GradScaler};
use crate::training::layer_statistics;
use crate::training::trainer::TrainerOptions;
use burn::tensor::Tensor;
use hearth_engine::{
    BoxError, CheckpointRequest, Combine, Engine, Event, Host, HostError, HostTensor, LayerStatistics, LayerValues,
    Level, Metrics, NamesOf, Snapshot, State, Workflow, Written, not_offered, trace,
};
use hearth_nn::losses::{Loss, LossError};
use hearth_nn::networks::Network;
use hearth_nn::optim::{Gradients, Optimizer, OptimizerConfig};

pub(crate) struct Training<N> {
    /// `None` only after the optimizer has failed while it owned the parameters.
    pub network: Option<N>,
    pub loss: Box<dyn Loss>,
    pub optimizer: Optimizer,
    pub optimizer_config: OptimizerConfig,
    pub options: TrainerOptions,
    pub learning_rate: f64,
    /// In fp16 only.
    pub scaler: Option<DeviceScaler>,
    pub evaluators: BTreeMap<String, Box<dyn Evaluate<N>>>,
    /// The sum of the gradients since the last step, and the number of batches.
    pub pending: Option<(Gradients, u64)>,
    pub feed: Feed,
    writer: CheckpointWriter,
    /// The gradients of the current batch, while `backward_completed` is handled.
    gradients: Option<Gradients>,
    /// The loss of the current iteration, on the device.
    loss_tensor: Option<Tensor<1>>,
    /// The same, read back because a handler asked.
    loss_value: Option<f64>,
    /// The epoch as of the last fetch.
    epoch: u64,
}

impl<N: Network> Training<N> {
    pub fn new(
        network: N,
        loss: Box<dyn Loss>,
        (optimizer, optimizer_config): (Optimizer, OptimizerConfig),
        options: TrainerOptions,
        loader: Box<dyn Loader>,
    ) -> Self {
        let fp16 = options.precision == crate::Precision::Fp16;
        let scaler = fp16.then(|| DeviceScaler::new(GradScaler::default(), &options.device.clone().inner()));
        Self {
            network: Some(network),
            loss,
            optimizer,
            learning_rate: optimizer_config.lr(),
            optimizer_config,
            options,
            scaler,
            evaluators: BTreeMap::new(),
            pending: None,
            feed: Feed::new(loader),
            writer: CheckpointWriter::default(),
            gradients: None,
            loss_tensor: None,
            loss_value: None,
            epoch: 0,
        }
    }

    pub fn network(&self) -> Result<&N, StepError> {
        self.network.as_ref().ok_or(StepError::NoNetwork)
    }

    /// The outputs in f32, with their autodiff graph.
    pub fn forward(&self, state: &State) -> Result<Outputs, BoxError> {
        let network = self.network()?;
        // Layers know that they train by their input being under autodiff.
        let image = self.feed.named("image")?.autodiff();
        network.set_draw(state.seed, state.iteration);
        infer_all(&*self.options.inferer, image, network).map_err(|e| self.feed.part("the forward pass", e).into())
    }

    /// The loss `[1]` of the outputs, with what the network adds to it.
    pub fn compare(&self, outputs: Outputs) -> Result<Tensor<1>, BoxError> {
        let label = self.feed.named("label")?;
        let needed = self.loss.needs().iter().map(|key| self.feed.named(key)).collect::<Result<Vec<_>, _>>()?;
        let main = outputs.all.first().cloned();
        let loss = match (self.loss.forward_with(outputs.all, label, needed), main) {
            (Ok(loss), _) => loss.mean(),
            // An fp16 overflow is not an error: the scaler finds non-finite gradients, skips the
            // step and lowers the scale.
            (Err(LossError::NonFinite { what: "prediction", .. }), Some(pred)) if self.scaler.is_some() => {
                pred.mean() * f32::NAN
            }
            (Err(error), _) => return Err(self.feed.part("the loss", error).into()),
        };
        Ok(match outputs.loss {
            Some(own) => loss + own,
            None => loss,
        })
    }

    pub fn backward(&self, loss: &Tensor<1>) -> Result<Gradients, BoxError> {
        if !loss.is_tracked() {
            return Err(StepError::NoGradient { cases: name_cases(self.feed.cases()) }.into());
        }
        let network = self.network()?;
        Ok(match &self.scaler {
            None => Gradients::of(network, loss),
            Some(scaler) => {
                let scale = scaler.scale();
                Gradients::of(network, &(loss.clone() * scale.clone().autodiff())).scale_by(&scale.recip())
            }
        })
    }

    /// Accumulates a batch's gradients; takes a step when there are enough.
    pub fn gather(&mut self, gradients: Gradients) -> Result<(), BoxError> {
        let (sum, count) = match self.pending.take() {
            Some((sum, count)) => (sum + gradients, count + 1),
            None => (gradients, 1),
        };
        self.pending = Some((sum, count));
        if count >= self.options.accumulate { self.step() } else { Ok(()) }
    }

    /// Takes one step with the mean of the accumulated gradients, if there are any.
    pub fn step(&mut self) -> Result<(), BoxError> {
        let Some((sum, count)) = self.pending.take() else { return Ok(()) };
        let mut gradients = if count == 1 { sum } else { sum.scale(1.0 / count as f64) };
        // The device decides whether to step: reading back would stall it.
        let finite = match (&mut self.scaler, gradients.norm()) {
            (Some(scaler), Some(norm)) => {
                let finite = norm.is_finite();
                scaler.update(&finite);
                Some(finite)
            }
            _ => None,
        };
        if let Some(clip) = self.options.clip {
            gradients = clip.apply(gradients);
        }
        let network = self.network.take().ok_or(StepError::NoNetwork)?;
        let stepped = match finite {
            Some(finite) => self.optimizer.step_where(network, gradients, self.learning_rate, &finite),
            None => self.optimizer.step(network, gradients, self.learning_rate),
        };
        self.network = Some(stepped.map_err(|e| self.feed.part("the optimizer", e))?);
        Ok(())
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
                let value: f32 = tensor
                    .try_into_scalar()
                    .map_err(|e| HostError::new(format!("the loss cannot be read back from the device: {e}")))?;
                Ok(*self.loss_value.insert(f64::from(value)))
            }
            "scale" => {
                let scaler = self.scaler.as_ref();
                let scale = scaler.map(|scaler| scaler.read().0.scale());
                scale.ok_or_else(|| HostError::new("only a run in fp16 has a gradient scaler"))
            }
            _ => Err(HostError::new(format!("no output `{name}`; there are: loss, scale"))),
        }
    }

    fn names(&self, of: NamesOf) -> Vec<String> {
        match of {
            NamesOf::Outputs => {
                let known = [("loss", self.loss_tensor.is_some()), ("scale", self.scaler.is_some())];
                known.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect()
            }
            NamesOf::Tensors => self.feed.tensor_names(),
            NamesOf::Numbers => self.feed.facts().number_names(),
            NamesOf::Texts => self.feed.facts().text_names(),
            NamesOf::Engines => self.evaluators.keys().cloned().collect(),
        }
    }

    fn cases(&self) -> Vec<String> {
        self.feed.cases().to_vec()
    }

    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        self.feed.facts().numbers(name)
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        self.feed.facts().texts(name)
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        let network = self.network().map_err(|e| HostError::from_error(&e))?;
        match (of, &self.gradients) {
            (LayerValues::Weights, _) => layer_statistics::of_weights(network),
            (LayerValues::Gradients, Some(gradients)) => layer_statistics::of_gradients(network, gradients),
            (LayerValues::Gradients, None) => {
                Err(HostError::new("there are no gradients now; ask for them at backward_completed"))
            }
        }
    }

    fn learning_rate(&self) -> Option<f64> {
        Some(self.learning_rate)
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        if !learning_rate.is_finite() || learning_rate < 0.0 {
            return Err(HostError::new(format!("a learning rate of {learning_rate} is invalid; give 0 or more")));
        }
        self.learning_rate = learning_rate;
        Ok(())
    }

    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        let known = || self.evaluators.keys().cloned().collect::<Vec<_>>().join(", ");
        if !self.evaluators.contains_key(engine) {
            let known = if self.evaluators.is_empty() { "none".to_owned() } else { known() };
            return Err(HostError::new(format!("no engine is called `{engine}`; there is: {known}")));
        }
        let network = self.network().map_err(|e| HostError::from_error(&e))?.valid();
        let epoch = self.epoch;
        match self.evaluators.get_mut(engine) {
            Some(evaluator) => evaluator.evaluate(network, epoch).map_err(|e| HostError::new(e.to_string())),
            None => Err(HostError::not_offered(engine)),
        }
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        self.feed.read(name)
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        if name == "pred" {
            let why =
                "a prediction from a handler has no gradient; replace `image` or `label` at iteration_started instead";
            return Err(HostError::new(format!("tensor `pred` cannot be put while training: {why}")));
        }
        self.feed.put(name, &tensor)
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        self.feed.combine(inputs, how, output)
    }

    fn log(&mut self, level: Level, message: &str) {
        trace(level, message);
    }

    not_offered!(requests);
}

impl<N: Network> Workflow for Training<N> {
    fn epoch_length(&self) -> Option<u64> {
        self.feed.epoch_length()
    }

    fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError> {
        self.epoch = state.epoch;
        Ok(self.feed.restart(state, skip))
    }

    fn fetch(&mut self, state: &State) -> Result<bool, BoxError> {
        self.epoch = state.epoch;
        (self.loss_tensor, self.loss_value, self.gradients) = (None, None, None);
        let spatial_dims = self.network()?.spatial_dims();
        let TrainerOptions { device, image_key, label_key, .. } = &self.options;
        self.feed.fetch(&Placement { device, spatial_dims, image_key, label_key })
    }

    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        let outputs = self.forward(engine.state())?;
        if let Some(pred) = outputs.all.first() {
            self.feed.insert("pred", pred.clone())?;
        }
        for (index, output) in outputs.all.iter().enumerate().filter(|_| outputs.all.len() > 1) {
            self.feed.insert(&format!("output_{index}"), output.clone())?;
        }
        engine.fire(Event::ForwardCompleted, self)?;

        let loss = self.compare(outputs)?;
        self.loss_tensor = Some(loss.clone().without_autodiff());
        engine.fire(Event::LossCompleted, self)?;

        self.gradients = Some(self.backward(&loss)?);
        engine.fire(Event::BackwardCompleted, self)?;

        // A second reference to them would make the optimizer copy what it can change in place.
        if let Some(gradients) = self.gradients.take() {
            self.gather(gradients)?;
        }
        engine.fire(Event::ModelCompleted, self)?;
        Ok(())
    }

    fn epoch_started(&mut self, state: &mut State) -> Result<(), BoxError> {
        self.epoch = state.epoch;
        // Gradients left by a run that was terminated in mid-epoch belong to no step.
        self.pending = None;
        Ok(())
    }

    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        self.epoch = state.epoch;
        // The last batches of an epoch make a step, however few they are.
        self.step()?;
        // Once per epoch the host reads what the device decided.
        if let Some((steps, scale)) = self.scaler.as_mut().map(DeviceScaler::news).filter(|(steps, _)| *steps > 0) {
            tracing::info!("fp16: {steps} steps skipped because of non-finite gradients; the scale is {scale} now");
        }
        Ok(())
    }

    fn write_checkpoint(&mut self, request: &CheckpointRequest, snapshot: &Snapshot) -> Result<Written, HostError> {
        let job = trainer_files::collect(self, request, snapshot).map_err(|e| HostError::from_error(&*e))?;
        self.writer.begin(job)?;
        Ok(Written::Begun)
    }

    fn checkpoint_written(&mut self, wait: bool) -> Option<Result<PathBuf, HostError>> {
        self.writer.end(wait)
    }

    fn read_checkpoint(&mut self, dir: &Path) -> Result<Snapshot, HostError> {
        trainer_files::read(self, dir).map_err(|e| HostError::from_error(&*e))
    }
}

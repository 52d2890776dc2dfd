//! The iteration of an evaluator: the workflow behind
//! [`SupervisedEvaluator`](crate::SupervisedEvaluator) (one network) and
//! [`EnsembleEvaluator`](crate::EnsembleEvaluator) (several).

use std::error::Error;

use burn::tensor::{Device, Tensor};
use hearth_engine::{
    BoxError, Combine, Engine, Event, Host, HostError, HostTensor, LayerStatistics, LayerValues, Level, NamesOf, State,
    Workflow, not_offered, trace,
};
use hearth_kernels::device_error::reason;
use hearth_nn::losses::Loss;
use hearth_nn::networks::Network;

use crate::batch::feed::{Feed, Placement};
use crate::batch::loader::Loader;
use crate::batch::step_error::StepError;
use crate::batch::tensors::combined;
use crate::evaluation::builder::EvaluatorOptions;
use crate::evaluation::evaluator::CaseRow;
use crate::evaluation::gathered;
use crate::evaluation::inference::infer;
use crate::evaluation::measured::{self, NamedMetric};
use crate::training::{layer_statistics, layer_tensors};

/// A loss that is averaged over the pass, on the device.
pub(crate) struct MeanLoss {
    pub name: String,
    pub loss: Box<dyn Loss>,
    pub(super) sum: Option<Tensor<1>>,
    /// The loss of the current batch.
    last: Option<Tensor<1>>,
    pub(super) batches: u64,
}

impl MeanLoss {
    pub fn new(name: String, loss: Box<dyn Loss>) -> Self {
        Self { name, loss, sum: None, last: None, batches: 0 }
    }
}

/// How the members of an ensemble are combined where no handler has done so.
pub(crate) enum Combining {
    How(Combine),
    By(CombineMembers),
}

/// A function that makes one prediction from several.
type CombineMembers = Box<dyn Fn(&[Tensor<5>]) -> Result<Tensor<5>, BoxError> + Send>;

pub(crate) struct Evaluation<N> {
    pub networks: Vec<N>,
    pub pred_keys: Vec<String>,
    /// Whether the networks are the members of an ensemble.
    pub is_ensemble: bool,
    pub combine: Option<Combining>,
    /// Whether `post_member` was applied to the members' predictions.
    members_done: bool,
    pub options: EvaluatorOptions,
    /// The device, from the options or from the networks of this pass.
    device: Device,
    /// The first one is the key metric, where there is one.
    pub metrics: Vec<NamedMetric>,
    pub losses: Vec<MeanLoss>,
    feed: Feed,
}

impl<N: Network> Evaluation<N> {
    pub fn new(loader: Box<dyn Loader>, options: EvaluatorOptions, pred_keys: Vec<String>) -> Self {
        Self {
            networks: Vec::new(),
            pred_keys,
            is_ensemble: false,
            combine: None,
            members_done: false,
            device: options.device.clone().unwrap_or_default(),
            options,
            metrics: Vec::new(),
            losses: Vec::new(),
            feed: Feed::new(loader),
        }
    }

    /// Sets the networks: in evaluation mode, on the device, read in the options' precision.
    pub fn set_networks(&mut self, networks: impl IntoIterator<Item = N>) {
        let (given, precision) = (self.options.device.clone(), self.options.precision);
        let mut used = None;
        let placed = networks.into_iter().map(|net| {
            // All members of an ensemble are moved to the device of the first one.
            let device = used.get_or_insert_with(|| given.clone().or_else(|| net.devices().into_iter().next()));
            let net = net.valid();
            precision.apply(match device {
                Some(device) => net.to_device(&device.clone().inner()),
                None => net,
            })
        });
        self.networks = placed.collect();
        if let Some(device) = used.flatten() {
            self.device = device.inner();
        }
    }

    /// A metric's values for each case of the last pass; those of the first metric where no name is
    /// given.
    pub fn rows(&self, name: Option<&str>) -> Option<&[CaseRow]> {
        let mut metrics = self.metrics.iter();
        let found = match name {
            Some(name) => metrics.find(|metric| metric.name == name),
            None => metrics.next(),
        };
        found.map(|metric| &metric.rows[..])
    }

    fn spatial_dims(&self) -> usize {
        self.networks.first().map_or(3, Network::spatial_dims)
    }

    fn forward(&mut self) -> Result<(), BoxError> {
        self.members_done = false;
        let image = self.feed.named("image")?;
        for index in 0..self.networks.len() {
            let pred = infer(&*self.options.inferer, image.clone(), &self.networks[index]);
            let pred = pred.map_err(|e| self.feed.part("the forward pass", e))?;
            let key = self.pred_keys[index].clone();
            self.feed.insert(&key, pred)?;
        }
        Ok(())
    }

    /// A member's prediction after `post_member`, ready to be combined.
    fn member(&self, key: &str) -> Result<Tensor<5>, StepError> {
        let mut pred = self.feed.named(key)?;
        for post in self.options.post_member.iter().filter(|_| !self.members_done) {
            pred = post
                .apply(pred, self.spatial_dims(), self.feed.items())
                .map_err(|e| self.feed.part("post-processing a member's prediction", e))?;
        }
        Ok(pred)
    }

    /// Post-processes the members' predictions, and combines them unless a handler has done it at
    /// `forward_completed`.
    fn ensemble(&mut self) -> Result<(), BoxError> {
        if !self.is_ensemble {
            return Ok(());
        }
        let keys = self.pred_keys.clone();
        for key in keys.iter().filter(|_| !self.options.post_member.is_empty()) {
            let done = self.member(key)?;
            self.feed.insert(key, done)?;
        }
        self.members_done = true;
        let Some(how) = self.combine.as_ref().filter(|_| !self.feed.contains("pred")) else {
            return Ok(());
        };
        let failed = |e: BoxError| self.feed.part("combining the predictions", e);
        match how {
            Combining::How(how) => {
                let (how, keys): (_, Vec<&str>) = (how.clone(), keys.iter().map(String::as_str).collect());
                let combined = self.feed.combine(&keys, &how, "pred");
                combined.map_err(|e| self.feed.part("combining the predictions", e))?;
            }
            Combining::By(merge) => {
                let members = keys.iter().map(|key| self.feed.named(key)).collect::<Result<Vec<_>, _>>()?;
                let pred = merge(&members).map_err(failed)?;
                self.feed.insert("pred", pred)?;
            }
        }
        Ok(())
    }

    /// Adds the losses, which use the raw prediction.
    fn add_losses(&mut self) -> Result<(), BoxError> {
        if self.losses.is_empty() {
            return Ok(());
        }
        let (pred, label) = (self.feed.named("pred")?, self.feed.named("label")?);
        for mean in &mut self.losses {
            let needed = mean.loss.needs().iter().map(|key| self.feed.named(key)).collect::<Result<Vec<_>, _>>()?;
            let value = mean.loss.forward_with(vec![pred.clone()], label.clone(), needed);
            let value = value.map_err(|e| StepError::part("the validation loss", self.feed.cases(), e))?.mean();
            mean.last = Some(value.clone());
            mean.sum = Some(match mean.sum.take() {
                Some(sum) => sum + value,
                None => value,
            });
            mean.batches += 1;
        }
        Ok(())
    }
}

impl<N: Network> Host for Evaluation<N> {
    fn names(&self, of: NamesOf) -> Vec<String> {
        let mut names = match of {
            NamesOf::Outputs => {
                self.losses.iter().filter(|loss| loss.last.is_some()).map(|loss| loss.name.clone()).collect()
            }
            NamesOf::Tensors => {
                let of_network = match &self.networks[..] {
                    [network] => layer_tensors::names(network, None),
                    _ => Vec::new(),
                };
                self.feed.tensor_names().into_iter().chain(of_network).collect()
            }
            NamesOf::Numbers => {
                let measured = self.metrics.iter().filter(|metric| metric.rows.len() > metric.before);
                measured.map(|metric| metric.name.clone()).chain(self.feed.facts().number_names()).collect()
            }
            NamesOf::Texts => self.feed.facts().text_names(),
            NamesOf::Engines | NamesOf::Attachments => Vec::new(),
        };
        names.sort_unstable();
        names
    }

    /// The losses of the current batch.
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        let known = || match self.names(NamesOf::Outputs) {
            names if names.is_empty() => "none".to_owned(),
            names => names.join(", "),
        };
        let loss = self.losses.iter().find(|loss| loss.name == name).and_then(|loss| loss.last.clone());
        let loss = loss.ok_or_else(|| HostError::new(format!("no output `{name}`; there are: {}", known())))?;
        let value: f32 = loss.try_into_scalar().map_err(|e| {
            HostError::new(format!("the loss `{name}` cannot be read back from the device: {}", reason(&e)))
        })?;
        Ok(f64::from(value))
    }

    fn cases(&self) -> Vec<String> {
        self.feed.cases().to_vec()
    }

    /// A metric's values for the cases of the current batch, once measured, or the batch's own
    /// numbers.
    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        let metric = self.metrics.iter().find(|metric| metric.name == name);
        match metric.map(NamedMetric::of_batch) {
            Some(rows) if !rows.is_empty() => Ok(rows),
            _ => self.feed.facts().numbers(name),
        }
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        self.feed.facts().texts(name)
    }

    /// Statistics of the weights. The layers of an ensemble's members start with the member's key:
    /// `pred_0.conv.weight`.
    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        if of == LayerValues::Gradients {
            return Err(HostError::new("an evaluator computes no gradients"));
        }
        let mut all = Vec::new();
        for (network, key) in self.networks.iter().zip(&self.pred_keys) {
            let layers = layer_statistics::of_weights(network)?;
            all.extend(layers.into_iter().map(|layer| match self.networks.len() {
                1 => layer,
                _ => LayerStatistics { name: format!("{key}.{}", layer.name), ..layer },
            }));
        }
        if all.is_empty() { Err(HostError::new("there is no network outside a pass")) } else { Ok(all) }
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        if let ([network], false) = (&self.networks[..], self.feed.contains(name))
            && let Some(values) = layer_tensors::read(network, None, name)
        {
            return values;
        }
        self.feed.read(name)
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        if !self.feed.contains(name) && layer_tensors::is_of_network(name) {
            let why = "a pass of an evaluator does not change the network; do so in a handler of the trainer";
            return Err(HostError::new(format!("tensor `{name}` cannot be put: {why}")));
        }
        self.feed.put(name, &tensor)
    }

    /// Members of an ensemble are combined after `post_member`, although handlers of
    /// `forward_completed` see them raw.
    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        if !self.is_ensemble || self.members_done || self.options.post_member.is_empty() {
            return self.feed.combine(inputs, how, output);
        }
        let finished = |name: &&str| match self.pred_keys.iter().any(|key| key == name) {
            true => self.member(name).map_err(|error| {
                let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
                HostError::new(format!("{error}{cause}"))
            }),
            false => self.feed.find(name),
        };
        let members = inputs.iter().map(finished).collect::<Result<Vec<_>, _>>()?;
        self.feed.insert(output, combined(inputs, &members, how, output)?)
    }

    fn log(&mut self, level: Level, message: &str) {
        trace(level, message);
    }

    not_offered!(requests, learning_rate, set_learning_rate, run);
}

impl<N: Network> Workflow for Evaluation<N> {
    fn epoch_length(&self) -> Option<u64> {
        self.feed.epoch_length()
    }

    fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError> {
        self.options.precision.check(&self.device)?;
        self.options.inferer.check_for(self.spatial_dims())?;
        Ok(self.feed.restart(state, skip))
    }

    fn fetch(&mut self, _state: &State) -> Result<bool, BoxError> {
        self.metrics.iter_mut().for_each(|metric| metric.before = metric.rows.len());
        self.losses.iter_mut().for_each(|loss| loss.last = None);
        let EvaluatorOptions { image_key, label_key, .. } = &self.options;
        let (device, spatial_dims) = (&self.device, self.spatial_dims());
        self.feed.fetch(&Placement { device, spatial_dims, image_key, label_key })
    }

    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        self.forward()?;
        engine.fire(Event::ForwardCompleted, self)?;
        self.ensemble()?;
        self.add_losses()?;
        let dims = self.spatial_dims();
        let chains = [&self.options.post_pred[..], &self.options.post_label];
        measured::post_process(&mut self.feed, dims, chains)?;
        engine.fire(Event::ModelCompleted, self)?;
        measured::update(&mut self.metrics, &self.feed, dims)
    }

    fn epoch_started(&mut self, _state: &mut State) -> Result<(), BoxError> {
        self.metrics.iter_mut().for_each(NamedMetric::reset);
        for mean in &mut self.losses {
            (mean.sum, mean.last, mean.batches) = (None, None, 0);
        }
        Ok(())
    }

    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        self.feed.stop();
        if let Some(shared) = self.options.shared.clone() {
            gathered::gather(self, &shared, state.epoch)?;
        }
        self.metrics.iter().try_for_each(|metric| metric.observe(state))?;
        for mean in &mut self.losses {
            if let Some(sum) = mean.sum.take() {
                let sum: f32 =
                    sum.try_into_scalar().map_err(|e| format!("the loss `{}` cannot be read: {e}", mean.name))?;
                state.observe(&mean.name, f64::from(sum) / mean.batches as f64);
            }
        }
        Ok(())
    }
}

//! Tests a handler without a host: a [`FakeHost`] that records calls, and a [`Rehearsal`] that
//! sends the events of a run to a handler, through its filters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_engine::{
    Attachment, CheckpointRequest, Combine, Context, Counter, Event, Handler, HandlerError, Host, HostError,
    HostTensor, LayerStatistics, LayerValues, Level, Metrics, NamesOf, Ranks, State, When,
};

/// A request of a handler to a [`FakeHost`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is the method of `Host` of the same name, with what it was given")]
pub enum Call {
    Terminate(String),
    TerminateEpoch(String),
    Interrupt(String),
    SetMetric(String, f64),
    Output(String),
    Numbers(String),
    Texts(String),
    LayerStatistics(LayerValues),
    SetLearningRate(f64),
    Run(String),
    Tensor(String),
    PutTensor(String, Vec<usize>),
    Combine {
        inputs: Vec<String>,
        how: Combine,
        output: String,
    },
    SaveCheckpoint(CheckpointRequest),
    LoadCheckpoint(PathBuf),
    Log(Level, String),
    Scalar(String, f64),
    /// `remember`: the key and the value.
    Remember(String, Vec<u8>),
    /// `attach`: the name, and the content or the bytes of the picture's elements.
    Attach(String, Vec<u8>),
    /// `fire`: the event.
    Fire(String),
    CallAfter(Duration),
}

/// A host that records every call and answers from its fields.
///
/// ```
/// use hearth_plugin::testkit::{Call, FakeHost};
/// use hearth_plugin::{Host, HostTensor};
///
/// let mut host = FakeHost::default();
/// host.give("pred", HostTensor::from_f32(vec![1, 1, 2, 1, 1], &[0.25, 0.75]).unwrap());
/// assert_eq!(host.tensor("pred").unwrap().to_f32().unwrap(), [0.25, 0.75]);
/// assert!(host.tensor("label").is_err());
/// assert_eq!(host.calls, [Call::Tensor("pred".into()), Call::Tensor("label".into())]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FakeHost {
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// The results of `tensor`; `put_tensor` adds to them.
    pub tensors: BTreeMap<String, HostTensor<'static>>,
    /// The results of `output`.
    pub outputs: BTreeMap<String, f64>,
    /// The results of `run`, by engine.
    pub engines: BTreeMap<String, Metrics>,
    /// The result of `cases`.
    pub cases: Vec<String>,
    /// The results of `numbers`: a list for each case.
    pub numbers: BTreeMap<String, Vec<Vec<f64>>>,
    /// The results of `texts`: one text for each case.
    pub texts: BTreeMap<String, Vec<String>>,
    /// The result of `layer_statistics` for weights; an error if empty.
    pub weights: Vec<LayerStatistics>,
    /// The result of `layer_statistics` for gradients.
    pub gradients: Vec<LayerStatistics>,
    /// The result of `learning_rate`; `set_learning_rate` changes it, and fails without one.
    pub learning_rate: Option<f64>,
    /// The result of `run_info`: a JSON object; an error if empty.
    pub run_info: String,
    /// At `Attached`: the names of [`NamesOf::Attachments`].
    pub attachments: Vec<String>,
    /// The values that `remember` keeps and `recall` returns.
    pub kept: BTreeMap<String, Vec<u8>>,
    /// Names of methods that fail: `save_checkpoint`. Only methods that return a `Result`, without
    /// `run_info`.
    pub refused: BTreeSet<String>,
}

impl FakeHost {
    /// Adds a tensor, such as `image`, `[B, C, X, Y, Z]`.
    pub fn give(&mut self, name: &str, tensor: HostTensor<'static>) -> &mut Self {
        self.tensors.insert(name.to_owned(), tensor);
        self
    }

    /// Adds an engine that `run` can run, and the metrics it returns.
    pub fn engine(&mut self, name: &str, metrics: &[(&str, f64)]) -> &mut Self {
        let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.engines.insert(name.to_owned(), metrics);
        self
    }

    /// Makes a method fail: see [`refused`](Self::refused).
    pub fn refuse(&mut self, method: &str) -> &mut Self {
        self.refused.insert(method.to_owned());
        self
    }

    /// The messages that were logged.
    pub fn messages(&self) -> Vec<&str> {
        self.calls
            .iter()
            .filter_map(|call| if let Call::Log(_, text) = call { Some(text.as_str()) } else { None })
            .collect()
    }

    /// The tags of the requested checkpoints.
    pub fn checkpoints(&self) -> Vec<&str> {
        self.calls
            .iter()
            .filter_map(|call| if let Call::SaveCheckpoint(request) = call { Some(request.tag.as_str()) } else { None })
            .collect()
    }

    fn note(&mut self, method: &str, call: Call) -> Result<(), HostError> {
        self.calls.push(call);
        if self.refused.contains(method) { Err(HostError::not_offered(method)) } else { Ok(()) }
    }
}

impl Host for FakeHost {
    fn terminate(&mut self, why: &str) {
        self.calls.push(Call::Terminate(why.to_owned()));
    }

    fn terminate_epoch(&mut self, why: &str) {
        self.calls.push(Call::TerminateEpoch(why.to_owned()));
    }

    fn interrupt(&mut self, why: &str) {
        self.calls.push(Call::Interrupt(why.to_owned()));
    }

    fn set_metric(&mut self, name: &str, value: f64) {
        self.calls.push(Call::SetMetric(name.to_owned(), value));
    }

    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        self.note("output", Call::Output(name.to_owned()))?;
        self.outputs.get(name).copied().ok_or_else(|| HostError::not_offered(&format!("output {name}")))
    }

    fn cases(&self) -> Vec<String> {
        self.cases.clone()
    }

    fn names(&self, of: NamesOf) -> Vec<String> {
        match of {
            NamesOf::Outputs => self.outputs.keys().cloned().collect(),
            NamesOf::Tensors => self.tensors.keys().cloned().collect(),
            NamesOf::Numbers => self.numbers.keys().cloned().collect(),
            NamesOf::Texts => self.texts.keys().cloned().collect(),
            NamesOf::Engines => self.engines.keys().cloned().collect(),
            NamesOf::Attachments => self.attachments.clone(),
        }
    }

    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        self.note("numbers", Call::Numbers(name.to_owned()))?;
        self.numbers.get(name).cloned().ok_or_else(|| HostError::not_offered(&format!("numbers {name}")))
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        self.note("texts", Call::Texts(name.to_owned()))?;
        self.texts.get(name).cloned().ok_or_else(|| HostError::not_offered(&format!("texts {name}")))
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        self.note("layer_statistics", Call::LayerStatistics(of))?;
        let layers = match of {
            LayerValues::Weights => &self.weights,
            LayerValues::Gradients => &self.gradients,
        };
        if layers.is_empty() {
            return Err(HostError::not_offered(&format!("layer_statistics {of:?}")));
        }
        Ok(layers.clone())
    }

    fn learning_rate(&self) -> Option<f64> {
        self.learning_rate
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        self.note("set_learning_rate", Call::SetLearningRate(learning_rate))?;
        let present = self.learning_rate.as_mut().ok_or_else(|| HostError::not_offered("set_learning_rate"))?;
        *present = learning_rate;
        Ok(())
    }

    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        self.note("run", Call::Run(engine.to_owned()))?;
        self.engines.get(engine).cloned().ok_or_else(|| HostError::not_offered(&format!("run {engine}")))
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        self.note("tensor", Call::Tensor(name.to_owned()))?;
        let tensor = self.tensors.get(name).ok_or_else(|| HostError::not_offered(&format!("tensor {name}")))?;
        Ok(HostTensor { dtype: tensor.dtype, shape: tensor.shape.clone(), bytes: (&*tensor.bytes).into() })
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        self.note("put_tensor", Call::PutTensor(name.to_owned(), tensor.shape.clone()))?;
        let HostTensor { dtype, shape, bytes } = tensor;
        self.tensors.insert(name.to_owned(), HostTensor { dtype, shape, bytes: bytes.into_owned().into() });
        Ok(())
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        self.note("combine", Call::Combine { inputs, how: how.clone(), output: output.to_owned() })
    }

    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError> {
        self.note("save_checkpoint", Call::SaveCheckpoint(request))
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError> {
        self.note("load_checkpoint", Call::LoadCheckpoint(dir.to_owned()))
    }

    fn log(&mut self, level: Level, message: &str) {
        self.calls.push(Call::Log(level, message.to_owned()));
    }

    fn scalar(&mut self, tag: &str, value: f64) {
        self.calls.push(Call::Scalar(tag.to_owned(), value));
    }

    fn remember(&mut self, key: &str, value: &[u8]) -> Result<(), HostError> {
        self.note("remember", Call::Remember(key.to_owned(), value.to_vec()))?;
        self.kept.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn recall(&self, key: &str) -> Option<Vec<u8>> {
        self.kept.get(key).cloned()
    }

    fn attach(&mut self, name: &str, attachment: &Attachment<'_>) -> Result<(), HostError> {
        let content = match attachment {
            Attachment::File(content) => content.to_vec(),
            Attachment::Image(image) => image.bytes.to_vec(),
            Attachment::Text(text) => text.as_bytes().to_vec(),
        };
        self.note("attach", Call::Attach(name.to_owned(), content))
    }

    fn run_info(&self) -> Result<String, HostError> {
        if self.run_info.is_empty() { Err(HostError::not_offered("run_info")) } else { Ok(self.run_info.clone()) }
    }

    fn fire(&mut self, event: &str) -> Result<(), HostError> {
        self.note("fire", Call::Fire(event.to_owned()))
    }

    fn call_after(&mut self, time: Duration) -> Result<(), HostError> {
        self.note("call_after", Call::CallAfter(time))
    }
}

/// The end of a rehearsed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All epochs were run.
    Completed,
    /// The handler requested the end.
    Terminated,
    /// The handler requested a pause.
    Interrupted,
}

/// Sends events to one handler, through its filters, and carries out its requests: metrics are
/// recorded, engines return theirs, the run ends or pauses. Timers, the handler's own events and
/// `Attached` are not sent: call [`timer`](Self::timer) and [`fire`](Self::fire).
///
/// ```
/// use hearth_plugin::testkit::{Call, Ended, Rehearsal};
/// use hearth_plugin::{Context, Event, Handler, HandlerError, When};
///
/// struct Limit(f64);
///
/// impl Handler for Limit {
///     fn name(&self) -> &str {
///         "limit"
///     }
///     fn subscriptions(&self) -> Vec<When> {
///         vec![Event::LossCompleted.into()]
///     }
///     fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
///         if cx.host.output("loss")? > self.0 {
///             cx.host.terminate("the loss is too large");
///         }
///         Ok(())
///     }
/// }
///
/// let mut rehearsal = Rehearsal::new(Limit(1.0));
/// rehearsal.host.outputs.insert("loss".to_owned(), 2.0);
/// assert_eq!(rehearsal.epochs(3, 4)?, Ended::Terminated);
/// assert_eq!(rehearsal.state.iteration, 1);
/// assert_eq!(rehearsal.host.calls[1], Call::Terminate("the loss is too large".to_owned()));
/// # Ok::<(), HandlerError>(())
/// ```
pub struct Rehearsal<H> {
    /// The handler.
    pub handler: H,
    /// The state that the handler sees; tests can change it.
    pub state: State,
    /// The host that the handler calls.
    pub host: FakeHost,
    /// The metrics of each epoch, in order: recorded before the handler's `EpochCompleted`.
    pub metrics: Vec<Metrics>,
}

impl<H: Handler> Rehearsal<H> {
    /// A rehearsal of a trainer that has not started.
    ///
    /// # Panics
    /// If the engine would refuse the handler: a filter contradicts itself, or counts an event that
    /// has no counter.
    pub fn new(handler: H) -> Self {
        for when in handler.subscriptions() {
            if let Err(error) = when.check() {
                panic!("{}: {error}", handler.name());
            }
            if let Some((event, _)) = when.alternatives().iter().find(|(e, f)| f.counts() && e.counter().is_none()) {
                panic!("{}: {event} has no counter for its filter to compare with", handler.name());
            }
        }
        Self { handler, state: State::new("trainer"), host: FakeHost::default(), metrics: Vec::new() }
    }

    /// Calls the handler with [`Event::Timer`], as the engine does when the time of its `call_after`
    /// has passed.
    ///
    /// # Errors
    /// The handler's error, whatever its [`Handler::on_error`] says.
    pub fn timer(&mut self) -> Result<(), HandlerError> {
        self.call(Event::Timer)
    }

    /// Fires one event. Returns whether the handler was called: it is called once if one of its
    /// subscriptions accepts the event and it acts on this rank.
    ///
    /// # Errors
    /// The handler's error, whatever its [`Handler::on_error`] says.
    pub fn fire(&mut self, event: Event) -> Result<bool, HandlerError> {
        let counter = match event.counter() {
            Some(Counter::Iteration) => self.state.iteration,
            Some(Counter::Epoch) => self.state.epoch,
            None => 0,
        };
        let passes =
            |when: &When| when.alternatives().iter().any(|(on, f)| *on == event && f.passes(&self.state, counter));
        let acts = self.handler.ranks() == Ranks::All || self.state.rank == 0;
        if !acts || !self.handler.subscriptions().iter().any(passes) {
            return Ok(false);
        }
        self.call(event).map(|()| true)
    }

    fn call(&mut self, event: Event) -> Result<(), HandlerError> {
        let before = self.host.calls.len();
        let result = self.handler.handle(event, &mut Context { event, state: &self.state, host: &mut self.host });
        for call in &self.host.calls[before..] {
            match call {
                Call::SetMetric(name, value) => self.state.observe(name, *value),
                Call::Run(engine) => {
                    let metrics = self.host.engines.get(engine).into_iter().flatten();
                    metrics.for_each(|(name, value)| self.state.observe(name, *value));
                }
                _ => {}
            }
        }
        result
    }

    /// Rehearses a trainer's run up to a number of epochs, in the order of a real one, continuing
    /// from `state.epoch`. Requests to end or to pause take effect as in the engine: after the
    /// current event, or, within an iteration, after the iteration.
    ///
    /// # Errors
    /// The first error of the handler, whatever its [`Handler::on_error`] says.
    pub fn epochs(&mut self, epochs: u64, epoch_length: u64) -> Result<Ended, HandlerError> {
        self.state.max_epochs = epochs;
        self.state.epoch_length = Some(epoch_length);
        let from = self.host.calls.len();
        self.fire(Event::Started)?;
        while self.state.epoch < epochs && self.asked(from).is_none() {
            self.state.epoch += 1;
            self.fire(Event::EpochStarted)?;
            self.state.epoch_iteration = 0;
            let epoch_from = self.host.calls.len();
            while self.state.epoch_iteration < epoch_length
                && self.asked(from).is_none()
                && !self.host.calls[epoch_from..].iter().any(|call| matches!(call, Call::TerminateEpoch(_)))
            {
                self.iteration()?;
            }
            match self.asked(from) {
                Some(Ended::Interrupted) => {
                    self.fire(Event::Interrupt)?;
                    return Ok(Ended::Interrupted);
                }
                Some(_) => {}
                None => {
                    if self.state.epoch_iteration < epoch_length {
                        self.fire(Event::TerminateSingleEpoch)?;
                    }
                    let index = usize::try_from(self.state.epoch - 1).unwrap_or(usize::MAX);
                    let metrics = self.metrics.get(index).cloned().unwrap_or_default();
                    metrics.iter().for_each(|(name, value)| self.state.observe(name, *value));
                    self.fire(Event::EpochCompleted)?;
                }
            }
        }
        let ended = self.asked(from);
        if ended == Some(Ended::Interrupted) {
            self.fire(Event::Interrupt)?;
            return Ok(Ended::Interrupted);
        }
        if ended == Some(Ended::Terminated) {
            self.fire(Event::Terminate)?;
        }
        self.fire(Event::Completed)?;
        Ok(ended.unwrap_or(Ended::Completed))
    }

    /// Rehearses one iteration of a trainer, from fetching the batch to its end.
    ///
    /// # Errors
    /// The first error of the handler, whatever its [`Handler::on_error`] says.
    pub fn iteration(&mut self) -> Result<(), HandlerError> {
        self.fire(Event::GetBatchStarted)?;
        self.fire(Event::GetBatchCompleted)?;
        self.state.iteration += 1;
        for event in [
            Event::IterationStarted,
            Event::ForwardCompleted,
            Event::LossCompleted,
            Event::BackwardCompleted,
            Event::ModelCompleted,
        ] {
            self.fire(event)?;
        }
        self.state.epoch_iteration += 1;
        self.fire(Event::IterationCompleted)?;
        Ok(())
    }

    fn asked(&self, from: usize) -> Option<Ended> {
        self.host.calls.get(from..)?.iter().find_map(|call| match call {
            Call::Terminate(_) => Some(Ended::Terminated),
            Call::Interrupt(_) => Some(Ended::Interrupted),
            _ => None,
        })
    }
}

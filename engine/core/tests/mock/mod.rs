//! A workflow without a network: what it "learns" is a number that depends on every batch and on
//! their order.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hearth_engine::{
    BoxError, CheckpointRequest, Context, Engine, Event, Handler, HandlerError, Host, HostError, Metrics, OnError,
    Ranks, Snapshot, State, When, Workflow, Written, not_offered,
};

/// The events within an iteration of a trainer.
pub const INNER: [Event; 4] =
    [Event::ForwardCompleted, Event::LossCompleted, Event::BackwardCompleted, Event::ModelCompleted];

/// Checkpoints, as text, by tag.
pub type Shelf = Arc<Mutex<BTreeMap<String, String>>>;

#[derive(Default)]
pub struct Mock {
    pub batches: u64,
    pub known: bool,
    pub inner: Vec<Event>,
    /// The learned number.
    pub weights: u64,
    /// Sum over the epoch, reset at its start.
    pub total: u64,
    pub position: u64,
    pass: u64,
    /// (pass, skip) of every pass begun.
    pub passes: Vec<(u64, u64)>,
    pub shelf: Shelf,
    /// The iteration that fails.
    pub fail_at: Option<u64>,
    /// Whether `shelf` is full.
    pub full: bool,
    /// Whether checkpoints are only begun, and reported when waited for.
    pub slow: bool,
    /// The results of checkpoints that were begun.
    begun: VecDeque<Result<PathBuf, HostError>>,
    /// The largest number of checkpoints being written at once.
    pub most_begun: usize,
    pub logged: Vec<String>,
    pub learning_rate: f64,
    pub evaluated: Metrics,
}

impl Mock {
    pub fn new(batches: u64) -> Self {
        Self { batches, known: true, inner: INNER.to_vec(), ..Self::default() }
    }
}

impl Host for Mock {
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        match name {
            "loss" => Ok(self.weights as f64),
            _ => Err(HostError::not_offered(name)),
        }
    }
    fn learning_rate(&self) -> Option<f64> {
        Some(self.learning_rate)
    }
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        self.learning_rate = learning_rate;
        Ok(())
    }
    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        if engine != "validation" {
            return Err(HostError::new(format!("there is no engine `{engine}`")));
        }
        Ok(self.evaluated.clone())
    }
    fn log(&mut self, _: hearth_engine::Level, message: &str) {
        self.logged.push(message.to_owned());
    }
    not_offered! { requests, names, cases, numbers, texts, layer_statistics, tensor, put_tensor, combine }
}

impl Workflow for Mock {
    fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError> {
        (self.pass, self.position) = (state.pass.number, skip);
        self.passes.push((self.pass, skip));
        Ok(self.known.then_some(self.batches))
    }
    fn fetch(&mut self, _: &State) -> Result<bool, BoxError> {
        let got = self.position < self.batches;
        self.position += u64::from(got);
        Ok(got)
    }
    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        for event in self.inner.clone() {
            if self.fail_at == Some(engine.state().iteration) && event == Event::BackwardCompleted {
                self.fail_at = None;
                return Err("out of memory".into());
            }
            engine.fire(event, self)?;
        }
        let batch = self.pass * 1000 + self.position;
        self.weights = self.weights.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(batch);
        self.total += batch;
        Ok(())
    }
    fn epoch_started(&mut self, _: &mut State) -> Result<(), BoxError> {
        self.total = 0;
        Ok(())
    }
    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        // Goes up and down, so that the best epoch is not the last one.
        state.observe("score", ((state.epoch * 7) % 5) as f64 + self.total as f64 * 1e-9);
        Ok(())
    }
    fn write_checkpoint(&mut self, request: &CheckpointRequest, snapshot: &Snapshot) -> Result<Written, HostError> {
        let folder = request.dir.join(&request.tag);
        let full = self.full.then(|| HostError::new("no space left on device"));
        if full.is_none() {
            let text =
                serde_json::to_string(&(self.weights, self.total, snapshot)).map_err(|e| HostError::from_error(&e))?;
            self.shelf.lock().unwrap().insert(request.tag.clone(), text);
        }
        if self.slow {
            self.begun.push_back(full.map_or(Ok(folder), Err));
            self.most_begun = self.most_begun.max(self.begun.len());
            return Ok(Written::Begun);
        }
        full.map_or(Ok(Written::Done(folder)), Err)
    }
    fn checkpoint_written(&mut self, wait: bool) -> Option<Result<PathBuf, HostError>> {
        if wait { self.begun.pop_front() } else { None }
    }
    fn read_checkpoint(&mut self, dir: &Path) -> Result<Snapshot, HostError> {
        assert!(self.begun.is_empty(), "one is being written");
        let shelf = self.shelf.lock().unwrap();
        let tag = dir.to_string_lossy();
        let text = shelf.get(&*tag).ok_or_else(|| HostError::new(format!("{tag} holds no checkpoint")))?;
        let (weights, total, snapshot) = serde_json::from_str(text).map_err(|e| HostError::from_error(&e))?;
        (self.weights, self.total) = (weights, total);
        Ok(snapshot)
    }
}

/// Requests a checkpoint with this tag.
pub fn save(cx: &mut Context<'_>, tag: &str) -> Result<(), HandlerError> {
    cx.host.save_checkpoint(CheckpointRequest { dir: "checkpoints".into(), tag: tag.to_owned(), keep_last: None })?;
    Ok(())
}

/// The fired events, as `event epoch iteration`.
pub type Trace = Arc<Mutex<Vec<String>>>;

/// Records each of these events in a trace.
pub fn listen(engine: &mut Engine, events: impl IntoIterator<Item = Event>) -> Trace {
    let trace = Trace::default();
    for event in events {
        let trace = trace.clone();
        let note = move |cx: &mut Context<'_>| {
            trace.lock().unwrap().push(format!("{} {} {}", cx.event, cx.state.epoch, cx.state.iteration));
            Ok(())
        };
        engine.on(event, note).unwrap();
    }
    trace
}

/// A handler with a state of its own: it counts its calls.
pub struct Counting {
    pub name: &'static str,
    pub when: When,
    pub calls: u64,
    pub fail: bool,
    pub policy: OnError,
    pub ranks: Ranks,
    pub seen: Arc<Mutex<u64>>,
}

impl Counting {
    pub fn new(name: &'static str, when: impl Into<When>) -> Self {
        let (policy, ranks) = (OnError::Stop, Ranks::All);
        Self { name, when: when.into(), calls: 0, fail: false, policy, ranks, seen: Arc::default() }
    }
}

impl Handler for Counting {
    fn name(&self) -> &str {
        self.name
    }
    fn subscriptions(&self) -> Vec<When> {
        vec![self.when.clone()]
    }
    fn handle(&mut self, _: Event, _: &mut Context<'_>) -> Result<(), HandlerError> {
        self.calls += 1;
        *self.seen.lock().unwrap() = self.calls;
        if self.fail { Err(HandlerError::new("the disk is full")) } else { Ok(()) }
    }
    fn on_error(&self) -> OnError {
        self.policy
    }
    fn ranks(&self) -> Ranks {
        self.ranks
    }
    fn save_state(&self) -> Option<Vec<u8>> {
        Some(self.calls.to_le_bytes().to_vec())
    }
    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let bytes = state.try_into().map_err(|_| HandlerError::new(format!("{} bytes, not 8", state.len())))?;
        self.calls = u64::from_le_bytes(bytes);
        Ok(())
    }
}

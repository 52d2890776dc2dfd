//! A trainer without a network: losses and metrics come from functions.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hearth_engine::{
    BoxError, CheckpointRequest, Engine, Event, Host, HostError, HostTensor, LayerStatistics, LayerValues, Level,
    Snapshot, State, Workflow, Written, not_offered,
};

pub struct Trainer {
    pub batches: u64,
    next: u64,
    iteration: u64,
    pub learning_rate: f64,
    /// The learning rate of each iteration.
    pub rates: Vec<f64>,
    /// The loss of an iteration.
    pub loss: fn(u64) -> f64,
    /// The metrics of an epoch.
    pub metrics: fn(u64) -> Vec<(&'static str, f64)>,
    pub tensors: BTreeMap<&'static str, (Vec<usize>, Vec<f32>)>,
    pub logged: Arc<Mutex<Vec<String>>>,
    pub saved: Arc<Mutex<Vec<(String, Snapshot)>>>,
    pub looks: u64,
    /// The statistics of the layers in an iteration.
    pub layers: fn(LayerValues, u64) -> Option<Vec<LayerStatistics>>,
}

impl Trainer {
    pub fn new(batches: u64) -> Self {
        Self {
            batches,
            next: 0,
            iteration: 0,
            learning_rate: 0.1,
            rates: Vec::new(),
            loss: |i| 1.0 / i as f64,
            metrics: |_| Vec::new(),
            tensors: BTreeMap::new(),
            logged: Arc::default(),
            saved: Arc::default(),
            looks: 0,
            layers: |_, _| None,
        }
    }

    pub fn log_text(&self) -> String {
        self.logged.lock().unwrap().join("\n")
    }
}

impl Host for Trainer {
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        if name != "loss" {
            return Err(HostError::not_offered(name));
        }
        self.looks += 1;
        Ok((self.loss)(self.iteration))
    }
    fn cases(&self) -> Vec<String> {
        vec![format!("case_{}", self.next), "case_x".to_owned()]
    }
    fn learning_rate(&self) -> Option<f64> {
        Some(self.learning_rate)
    }
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        self.learning_rate = learning_rate;
        Ok(())
    }
    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        let (shape, values) =
            self.tensors.get(name).ok_or_else(|| HostError::not_offered(&format!("tensor {name}")))?;
        HostTensor::from_f32(shape.clone(), values)
    }
    fn log(&mut self, _: Level, message: &str) {
        self.logged.lock().unwrap().push(message.to_owned());
    }
    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        (self.layers)(of, self.iteration).ok_or_else(|| HostError::not_offered("layer_statistics"))
    }
    not_offered! { requests, names, numbers, texts, run, put_tensor, combine }
}

impl Workflow for Trainer {
    fn epoch_length(&self) -> Option<u64> {
        Some(self.batches)
    }
    fn restart(&mut self, _: &State, skip: u64) -> Result<Option<u64>, BoxError> {
        self.next = skip;
        Ok(Some(self.batches))
    }
    fn fetch(&mut self, _: &State) -> Result<bool, BoxError> {
        self.next += 1;
        Ok(self.next <= self.batches)
    }
    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        self.iteration = engine.state().iteration;
        for event in [Event::ForwardCompleted, Event::LossCompleted, Event::BackwardCompleted] {
            engine.fire(event, self)?;
        }
        self.rates.push(self.learning_rate);
        engine.fire(Event::ModelCompleted, self)?;
        Ok(())
    }
    fn epoch_completed(&mut self, state: &mut State) -> Result<(), BoxError> {
        for (name, value) in (self.metrics)(state.epoch) {
            state.observe(name, value);
        }
        Ok(())
    }
    fn write_checkpoint(&mut self, request: &CheckpointRequest, snapshot: &Snapshot) -> Result<Written, HostError> {
        self.saved.lock().unwrap().push((request.tag.clone(), snapshot.clone()));
        Ok(Written::Done(request.dir.join(&request.tag)))
    }
    fn read_checkpoint(&mut self, dir: &Path) -> Result<Snapshot, HostError> {
        Err(HostError::new(format!("{} is empty", dir.display())))
    }
}

/// Requests a checkpoint at the end of each epoch.
pub fn checkpoints(engine: &mut Engine) {
    engine
        .on(Event::EpochCompleted, |cx| {
            let request = CheckpointRequest { dir: "c".into(), tag: format!("{}", cx.state.epoch), keep_last: None };
            Ok(cx.host.save_checkpoint(request)?)
        })
        .unwrap();
}

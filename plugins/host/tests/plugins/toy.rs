//! A trainer without a network that records requests.

use std::collections::BTreeMap;

use hearth_engine::{
    BoxError, CheckpointRequest, Combine, Engine, Event, Host, HostError, HostTensor, LayerStatistics, LayerValues,
    Level, Metrics, NamesOf, Snapshot, State, Workflow, Written, not_offered,
};

/// An evaluator: another engine, with its own handlers.
pub struct Validator {
    pub engine: Engine,
    pub toy: Box<Toy>,
}

#[derive(Default)]
pub struct Toy {
    /// Batches of a pass, and batches of this pass so far.
    pub batches: u64,
    pub taken: u64,
    /// Whether an iteration has a loss.
    pub trains: bool,
    pub epoch: u64,
    pub rate: Option<f64>,
    /// The metrics of each validation.
    pub dice: Vec<f64>,
    pub validator: Option<Validator>,
    pub tensors: BTreeMap<String, HostTensor<'static>>,
    /// All requests, in order.
    pub notes: Vec<String>,
    pub snapshots: Vec<Snapshot>,
    /// The iteration that fails.
    pub fails_at: Option<u64>,
    /// An event that is fired after the prediction.
    pub custom: Option<Event>,
}

impl Toy {
    pub fn trainer(batches: u64) -> Self {
        Self { batches, trains: true, rate: Some(0.5), ..Self::default() }
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

impl Host for Toy {
    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        match name {
            "loss" => Ok(0.125),
            "panic" => panic!("the host has a fault"),
            _ => Err(HostError::not_offered(name)),
        }
    }

    fn cases(&self) -> Vec<String> {
        vec!["case_1.nii".into(), "case_2.nii".into()]
    }

    fn learning_rate(&self) -> Option<f64> {
        self.rate
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        self.rate = Some(learning_rate);
        Ok(())
    }

    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        self.note(format!("run {engine}"));
        if let Some(Validator { engine, toy }) = &mut self.validator {
            engine.run_epoch(toy.as_mut(), self.epoch).map_err(|error| HostError::from_error(&error))?;
        }
        let index = usize::try_from(self.epoch.max(1) - 1).expect("a small epoch");
        Ok([("dice".to_owned(), self.dice.get(index).copied().unwrap_or(0.5))].into())
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        let tensor = self.tensors.get(name).ok_or_else(|| HostError::new(format!("there is no tensor `{name}`")))?;
        // Every other tensor is borrowed, as from a CPU; the rest is owned, as from another device.
        let bytes = if name == "image" { (&*tensor.bytes).into() } else { tensor.bytes.clone().into_owned().into() };
        Ok(HostTensor { dtype: tensor.dtype, shape: tensor.shape.clone(), bytes })
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        let HostTensor { dtype, shape, bytes } = tensor;
        self.tensors.insert(name.to_owned(), HostTensor { dtype, shape, bytes: bytes.into_owned().into() });
        Ok(())
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        self.note(format!("combine {} {how:?} {output}", inputs.join("+")));
        Ok(())
    }

    fn log(&mut self, level: Level, message: &str) {
        self.note(format!("{level:?}: {message}"));
    }

    fn names(&self, of: NamesOf) -> Vec<String> {
        vec![format!("{of:?}"), "é".to_owned()]
    }

    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        match name {
            "age" => Ok(vec![vec![61.5], vec![]]),
            "empty" => Ok(Vec::new()),
            _ => Err(HostError::not_offered(name)),
        }
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        if name == "site" { Ok(vec!["Köln".into(), String::new()]) } else { Err(HostError::not_offered(name)) }
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        if of == LayerValues::Gradients {
            return Err(HostError::new("there are no gradients now"));
        }
        let conv = LayerStatistics {
            name: "conv.weight".into(),
            count: 27,
            mean: 0.25,
            std: 0.5,
            min: -1.0,
            max: 1.5,
            non_finite: 2,
        };
        Ok(vec![conv.clone(), LayerStatistics { name: "conv.bias".into(), mean: f64::NAN, ..conv }])
    }

    not_offered!(requests);
}

impl Workflow for Toy {
    fn restart(&mut self, state: &State, skip: u64) -> Result<Option<u64>, BoxError> {
        self.taken = skip;
        self.epoch = state.epoch;
        Ok(Some(self.batches))
    }

    fn fetch(&mut self, _: &State) -> Result<bool, BoxError> {
        let more = self.taken < self.batches;
        self.taken += u64::from(more);
        Ok(more)
    }

    fn iterate(&mut self, engine: &mut Engine) -> Result<(), BoxError> {
        engine.fire(Event::ForwardCompleted, self)?;
        if self.fails_at == Some(engine.state().iteration) {
            return Err("the loss is not finite".into());
        }
        if let Some(custom) = self.custom {
            engine.fire(custom, self)?;
        }
        if self.trains {
            engine.fire(Event::LossCompleted, self)?;
            engine.fire(Event::BackwardCompleted, self)?;
        }
        engine.fire(Event::ModelCompleted, self)?;
        Ok(())
    }

    fn write_checkpoint(&mut self, request: &CheckpointRequest, snapshot: &Snapshot) -> Result<Written, HostError> {
        let CheckpointRequest { dir, tag, keep_last } = request;
        self.note(format!("checkpoint {} {tag} {keep_last:?}", dir.display()));
        self.snapshots.push(snapshot.clone());
        Ok(Written::Done(dir.join(tag)))
    }
}

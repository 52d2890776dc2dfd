//! The parts that trainer and evaluator share: the batches of a pass, and the tensors of the current batch by
//! name.

use burn::tensor::{Device, Tensor};
use hearth_data::affine::{self, IDENTITY};
use hearth_engine::{BoxError, Combine, HostError, HostTensor, State};

use crate::batch::facts::Facts;
use crate::batch::loader::{BatchStream, Loader};
use crate::batch::step_error::{StepError, name_cases};
use crate::batch::tensors::Tensors;
use crate::evaluation::post::Item;

/// The device for the tensors of a batch, and their keys in it.
pub(crate) struct Placement<'a> {
    pub device: &'a Device,
    pub spatial_dims: usize,
    pub image_key: &'a str,
    pub label_key: &'a str,
}

pub(crate) struct Feed {
    loader: Box<dyn Loader>,
    batches: Option<BatchStream>,
    tensors: Option<Tensors>,
    cases: Vec<String>,
    /// The same cases with the geometry of their images, for post-processing.
    items: Vec<Item>,
    facts: Facts,
}

/// A pass in progress; see [`Feed::hold`].
pub(crate) struct Held {
    batches: Option<BatchStream>,
    tensors: Option<Tensors>,
    cases: Vec<String>,
    items: Vec<Item>,
    facts: Facts,
}

impl Feed {
    pub fn new(loader: Box<dyn Loader>) -> Self {
        Self { loader, batches: None, tensors: None, cases: Vec::new(), items: Vec::new(), facts: Facts::default() }
    }

    pub fn epoch_length(&self) -> Option<u64> {
        self.loader.batches()
    }

    /// Begins the pass that the state counts, without its first `skip` batches.
    pub fn restart(&mut self, state: &State, skip: u64) -> Option<u64> {
        self.batches = Some(self.loader.pass(state.pass.number, skip));
        self.loader.batches()
    }

    /// Takes the next batch; `false` at the end of the pass.
    pub fn fetch(&mut self, placement: &Placement<'_>) -> Result<bool, BoxError> {
        // The last batch's tensors are freed before the next one's are allocated.
        (self.tensors, self.facts) = (None, Facts::default());
        self.cases.clear();
        let next = || self.batches.as_mut().and_then(Iterator::next);
        let Some(batch) = tracing::trace_span!("wait").in_scope(next) else {
            self.batches = None;
            return Ok(false);
        };
        let Placement { device, spatial_dims, image_key, label_key } = placement;
        let batch = batch?;
        let affine = |index: usize| {
            let images = batch.images.get(index)?;
            Some(images.get(*image_key).or_else(|| images.values().next())?.affine)
        };
        let item =
            |(index, case): (usize, &String)| Item { case: case.clone(), affine: affine(index).unwrap_or(IDENTITY) };
        self.items = batch.cases.iter().enumerate().map(item).collect();
        let _range = tracing::trace_span!("copy").entered();
        let (tensors, cases, facts) = Tensors::of_batch(batch, device, *spatial_dims, image_key, label_key)?;
        (self.tensors, self.cases, self.facts) = (Some(tensors), cases, facts);
        Ok(true)
    }

    /// Sets the pass in progress aside, so that another one can run; see
    /// [`put_back`](Self::put_back).
    pub fn hold(&mut self) -> Held {
        Held {
            batches: self.batches.take(),
            tensors: self.tensors.take(),
            cases: std::mem::take(&mut self.cases),
            items: std::mem::take(&mut self.items),
            facts: std::mem::take(&mut self.facts),
        }
    }

    /// Resumes a pass that was held.
    pub fn put_back(&mut self, held: Held) {
        let Held { batches, tensors, cases, items, facts } = held;
        (self.batches, self.tensors, self.cases, self.items, self.facts) = (batches, tensors, cases, items, facts);
    }

    /// Ends the pass.
    pub fn stop(&mut self) {
        (self.tensors, self.batches, self.facts) = (None, None, Facts::default());
    }

    /// The cases of the current batch.
    pub fn cases(&self) -> &[String] {
        &self.cases
    }

    /// The current batch's cases and their geometry.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The numbers and texts of the current batch.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Hands numbers of each case to handlers, in place of the batch's own of this name.
    pub fn insert_numbers(&mut self, name: &str, numbers: Vec<Vec<f64>>) {
        self.facts.insert_numbers(name, numbers);
    }

    /// The names of the current batch's tensors.
    pub fn tensor_names(&self) -> Vec<String> {
        self.tensors.as_ref().map(Tensors::list).unwrap_or_default()
    }

    /// The voxel size of each case of the current batch, in mm.
    pub fn spacing(&self) -> Vec<[f64; 3]> {
        self.items.iter().map(|item| affine::spacing(&item.affine)).collect()
    }

    pub fn contains(&self, key: &str) -> bool {
        self.tensors.as_ref().is_some_and(|tensors| tensors.contains(key))
    }

    pub fn get(&self, key: &str) -> Option<Tensor<5>> {
        self.tensors.as_ref().and_then(|tensors| tensors.get(key)).cloned()
    }

    /// A tensor that the step needs, by its key.
    pub fn named(&self, key: &str) -> Result<Tensor<5>, StepError> {
        self.get(key).ok_or_else(|| StepError::NoTensor {
            key: key.to_owned(),
            cases: name_cases(&self.cases),
            known: self.tensors.as_ref().map(Tensors::names).unwrap_or_default(),
        })
    }

    /// The tensor of this name, on behalf of a handler.
    pub fn find(&self, name: &str) -> Result<Tensor<5>, HostError> {
        self.tensors.as_ref().ok_or_else(outside)?.find(name).cloned()
    }

    pub fn insert(&mut self, key: &str, tensor: Tensor<5>) -> Result<(), HostError> {
        self.tensors_mut()?.insert(key, tensor);
        Ok(())
    }

    pub fn read(&self, name: &str) -> Result<HostTensor<'_>, HostError> {
        self.tensors.as_ref().ok_or_else(outside)?.read(name)
    }

    pub fn put(&mut self, name: &str, tensor: &HostTensor<'_>) -> Result<(), HostError> {
        self.tensors_mut()?.put(name, tensor)
    }

    pub fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        self.tensors_mut()?.combine(inputs, how, output)
    }

    /// The error of a part of the step that failed on the current cases.
    pub fn part(&self, part: &'static str, source: impl Into<BoxError>) -> StepError {
        StepError::part(part, &self.cases, source)
    }

    fn tensors_mut(&mut self) -> Result<&mut Tensors, HostError> {
        self.tensors.as_mut().ok_or_else(outside)
    }
}

fn outside() -> HostError {
    HostError::new("there are no tensors outside an iteration")
}

//! A step of the user's own in a trainer: [`Step`].

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use hearth_engine::{BoxError, State};
use hearth_nn::networks::Network;

use crate::batch::feed::Feed;
use crate::checkpoint::{Checkpoint, Files};
use crate::training::custom::batch::StepBatch;
use crate::training::custom::companion::{Around, InStep};
use crate::training::custom::context::StepContext;
use crate::training::custom::network::{Seen, StepNetwork};
use crate::training::step::{Training, of_rank};

/// A step and its further networks, of any types.
pub(crate) trait Step<N>: Send {
    /// The loss of a batch, with its autodiff graph.
    fn loss(
        &mut self,
        net: &StepNetwork<'_, N>,
        batch: &StepBatch<'_>,
        cx: &mut StepContext<'_>,
    ) -> Result<Tensor<1>, BoxError>;

    /// The companion's network of this name.
    fn find(&self, name: &str) -> Option<&dyn Any>;

    fn set_draw(&self, seed: u64, step: u64);

    fn follow(&mut self, learning_rate: f64, first: f64);

    fn epoch_started(&mut self);

    fn stepped(&mut self, network: &N);

    fn epoch_completed(&mut self, feed: &Feed) -> Result<(), BoxError>;

    fn collect(&self, files: &mut Files) -> Result<(), BoxError>;

    /// The companions as they are now, for [`put_back`](Self::put_back).
    fn hold(&self) -> Held;

    /// Reads companions from a checkpoint; the step itself does not change.
    fn restored(&self, checkpoint: &Checkpoint, device: &Device) -> Result<Held, BoxError>;

    /// Sets the companions.
    fn put_back(&mut self, held: Held);
}

/// Companions of a step, of its own type.
pub(crate) struct Held(Box<dyn Any + Send>);

/// The step with this closure and these companions.
pub(crate) struct Closure<C, F> {
    pub companions: C,
    pub call: F,
}

impl<N, C, F> Step<N> for Closure<C, F>
where
    C: InStep<N>,
    F: FnMut(&StepNetwork<'_, N>, &mut C, &StepBatch<'_>, &mut StepContext<'_>) -> Result<Tensor<1>, BoxError> + Send,
{
    fn loss(
        &mut self,
        net: &StepNetwork<'_, N>,
        batch: &StepBatch<'_>,
        cx: &mut StepContext<'_>,
    ) -> Result<Tensor<1>, BoxError> {
        (self.call)(net, &mut self.companions, batch, cx)
    }

    fn find(&self, name: &str) -> Option<&dyn Any> {
        self.companions.find(name)
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.companions.set_draw(seed, step);
    }

    fn follow(&mut self, learning_rate: f64, first: f64) {
        self.companions.follow(learning_rate, first);
    }

    fn epoch_started(&mut self) {
        self.companions.epoch_started();
    }

    fn stepped(&mut self, network: &N) {
        self.companions.stepped(network);
    }

    fn epoch_completed(&mut self, feed: &Feed) -> Result<(), BoxError> {
        self.companions.epoch_completed(&Around { feed })
    }

    fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
        self.companions.collect(files)
    }

    fn hold(&self) -> Held {
        Held(Box::new(self.companions.clone()))
    }

    fn restored(&self, checkpoint: &Checkpoint, device: &Device) -> Result<Held, BoxError> {
        Ok(Held(Box::new(self.companions.restored(checkpoint, device)?)))
    }

    fn put_back(&mut self, held: Held) {
        if let Ok(companions) = held.0.downcast::<C>() {
            self.companions = *companions;
        }
    }
}

impl<N: Network> Training<N> {
    /// The loss of the current batch by the step of the user's own, and what it hands to handlers.
    pub fn loss_of_step(&mut self, step: &mut dyn Step<N>, state: &State) -> Result<Tensor<1>, BoxError> {
        let (seed, iteration) = (of_rank(state), state.iteration);
        let network = self.learner.network()?;
        network.set_draw(seed, iteration);
        step.set_draw(seed, iteration);
        let net = StepNetwork::new(network, &*self.options.inferer);
        let mut cx = StepContext {
            state,
            feed: &self.feed,
            options: &self.options,
            loss: &*self.loss,
            scaled: self.learner.scaler.is_some(),
            draws: Cell::new(0),
            notes: BTreeMap::new(),
            tensors: BTreeMap::new(),
        };
        let loss = step.loss(&net, &StepBatch::new(&self.feed), &mut cx);
        let loss = loss.map_err(|error| self.feed.part("the step", error))?.mean();
        let StepContext { notes, tensors, .. } = cx;
        let Seen { first, loss: own } = net.into_seen();
        if let Some(pred) = first.first() {
            self.feed.insert("pred", pred.clone())?;
        }
        for (index, output) in first.iter().enumerate().filter(|_| first.len() > 1) {
            self.feed.insert(&format!("output_{index}"), output.clone())?;
        }
        for (name, tensor) in tensors {
            self.feed.insert(&name, tensor)?;
        }
        for (name, value) in notes {
            self.notes.note(&name, value);
        }
        Ok(match own {
            Some(own) => loss + own,
            None => loss,
        })
    }
}

//! What a step of the user's own can ask for: [`StepContext`].

use std::cell::Cell;
use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use hearth_data::{Draw, DrawKey};
use hearth_engine::{BoxError, HostError, State};
use hearth_nn::losses::Loss;

use crate::batch::feed::Feed;
use crate::training::step::loss_of;
use crate::training::trainer::TrainerOptions;

/// The names of numbers that the trainer itself gives to handlers.
const OWN: [&str; 4] = ["loss", "mean_loss", "scale", "pred"];

/// The trainer around a step: the state of the run, the trainer's loss, random draws, and what the
/// step hands to handlers.
pub struct StepContext<'a> {
    /// The state of the run: epoch, iteration, seed, rank.
    pub state: &'a State,
    pub(crate) feed: &'a Feed,
    pub(crate) options: &'a TrainerOptions,
    pub(crate) loss: &'a dyn Loss,
    /// Whether a gradient scaler handles overflows, in fp16.
    pub(crate) scaled: bool,
    pub(crate) draws: Cell<usize>,
    pub(crate) notes: BTreeMap<String, Tensor<1>>,
    pub(crate) tensors: BTreeMap<String, Tensor<5>>,
}

impl StepContext<'_> {
    /// The trainer's loss of a prediction and a target, `[1]`.
    ///
    /// # Errors
    /// For values or shapes that the loss does not accept.
    pub fn loss(&self, pred: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, BoxError> {
        self.loss_of_all(vec![pred], target)
    }

    /// The trainer's loss of all outputs of a network, the main one first, `[1]`.
    ///
    /// # Errors
    /// For values or shapes that the loss does not accept.
    pub fn loss_of_all(&self, outputs: Vec<Tensor<5>>, target: Tensor<5>) -> Result<Tensor<1>, BoxError> {
        loss_of(self.loss, outputs, target, self.feed, self.scaled)
    }

    /// Random numbers of this iteration and rank, from the trainer's seed: a resumed run draws the
    /// same. Each call returns another sequence.
    pub fn draw(&self) -> Draw {
        let State { seed, epoch, iteration, rank, .. } = self.state;
        let part = self.draws.replace(self.draws.get() + 1);
        DrawKey::new(*seed, *epoch, u64::from(*rank)).draw("step", *iteration as usize, part)
    }

    /// The device of the trainer, outside autodiff.
    pub fn device(&self) -> Device {
        self.options.device.clone().inner()
    }

    /// Hands a number to handlers, the mean of `value`, `[n]`: `cx.host.output(name)` of this iteration,
    /// the mean of the ranks.
    /// Its mean over the epoch becomes a metric of the state. All ranks note the same names.
    ///
    /// # Errors
    /// For a name that the trainer itself uses, or an empty one.
    pub fn note(&mut self, name: &str, value: &Tensor<1>) -> Result<(), BoxError> {
        if name.trim().is_empty() || OWN.contains(&name) {
            let message = format!("a step cannot note a number as `{name}`: use a name other than {}", OWN.join(", "));
            return Err(HostError::new(message).into());
        }
        self.notes.insert(name.to_owned(), value.clone().without_autodiff().mean());
        Ok(())
    }

    /// Hands a tensor `[b, c, x, y, z]` to handlers, outside autodiff: `pred` replaces the first output
    /// of the network.
    ///
    /// # Errors
    /// For an empty name, or one of the network's weights.
    pub fn put(&mut self, name: &str, tensor: &Tensor<5>) -> Result<(), BoxError> {
        if name.trim().is_empty() || crate::training::layer_tensors::is_of_network(name) {
            return Err(HostError::new(format!("a step cannot put a tensor `{name}`: use another name")).into());
        }
        self.tensors.insert(name.to_owned(), tensor.clone().without_autodiff());
        Ok(())
    }
}

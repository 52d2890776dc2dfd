//! A further network that does not change: [`Fixed`].

use std::any::Any;

use burn::tensor::Tensor;
use hearth_engine::BoxError;
use hearth_nn::inferers::SimpleInferer;
use hearth_nn::networks::Network;

use crate::evaluation::inference::infer;
use crate::training::custom::companion::{Companion, InStep};
use crate::training::trainer::{TrainerError, TrainerOptions};

/// A further network that does not change, such as the teacher of a distillation: see
/// [`TrainerBuilder::step_with`](crate::TrainerBuilder::step_with). It is not part of checkpoints; a
/// resumed run is given it again. A step receives it as a [`FixedNetwork`].
pub struct Fixed<M> {
    name: String,
    network: M,
}

impl<M: Network> Fixed<M> {
    /// A network under a name, for [`SupervisedTrainer::companion`].
    ///
    /// [`SupervisedTrainer::companion`]: crate::SupervisedTrainer::companion
    pub fn new(name: impl Into<String>, network: M) -> Self {
        Self { name: name.into(), network }
    }
}

/// A [`Fixed`] network in a step.
#[derive(Clone)]
pub struct FixedNetwork<M> {
    name: String,
    network: M,
}

impl<M: Network> FixedNetwork<M> {
    /// The main output for `x`, `[b, c, x, y, z]`, in evaluation mode and without gradient, in f32.
    ///
    /// # Errors
    /// For an input that the network does not accept.
    pub fn forward(&self, x: Tensor<5>) -> Result<Tensor<5>, BoxError> {
        evaluate(&self.network, x)
    }

    /// The network itself, for its own functions.
    pub fn module(&self) -> &M {
        &self.network
    }
}

/// The main output of a network outside autodiff, in evaluation mode.
pub(crate) fn evaluate<M: Network>(network: &M, x: Tensor<5>) -> Result<Tensor<5>, BoxError> {
    infer(&SimpleInferer {}, x.without_autodiff(), network)
}

impl<N: Network, M: Network> Companion<N> for Fixed<M> {
    type InStep = FixedNetwork<M>;

    fn place(self, _: &N, options: &TrainerOptions) -> Result<FixedNetwork<M>, TrainerError> {
        let TrainerOptions { device, precision, .. } = options;
        precision.check(device)?;
        let network = precision.apply(self.network.valid().to_device(&device.clone().inner()));
        Ok(FixedNetwork { name: self.name, network })
    }
}

impl<N, M: Network> InStep<N> for FixedNetwork<M> {
    fn names(&self) -> Vec<&str> {
        vec![&self.name]
    }

    fn find(&self, name: &str) -> Option<&dyn Any> {
        (name == self.name).then_some(&self.network as &dyn Any)
    }
}

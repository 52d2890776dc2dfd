//! The moving average of the trained network: [`Averaged`].

use std::any::Any;

use burn::tensor::{Device, Tensor};
use hearth_engine::BoxError;
use hearth_nn::networks::Network;
use hearth_nn::{moving_average, weights};

use crate::checkpoint::{Checkpoint, CheckpointError, Files};
use crate::training::custom::companion::{self, Companion, InStep};
use crate::training::custom::fixed::evaluate;
use crate::training::trainer::{TrainerError, TrainerOptions};

/// The only file of an average in its part of a checkpoint.
const FILE: &str = "network.safetensors";

/// The exponential moving average of the trained network's weights, such as a mean teacher (Tarvainen
/// and Valpola, <https://arxiv.org/abs/1703.01780>): see
/// [`TrainerBuilder::step_with`](crate::TrainerBuilder::step_with). It starts as a copy of the network
/// and follows each step of its optimizer ([`moving_average`]); running statistics are copied. A step
/// receives it as an [`AveragedNetwork`].
///
/// ```
/// # use hearth_nn::{losses::{Loss, MseLoss}, networks::UNet, optim::AdamConfig};
/// # use hearth_train::{Averaged, SupervisedTrainer, TrainerError};
/// # fn of(network: UNet, loader: hearth_data::DataLoader) -> Result<SupervisedTrainer<UNet>, TrainerError> {
/// let trainer = SupervisedTrainer::builder(network, MseLoss::default(), AdamConfig::default(), loader)
///     .step_with(Averaged::new("teacher", 0.99), |net, teacher, batch, cx| {
///         let (image, label) = (batch.image()?, batch.label()?);
///         let (student, target) = (net.forward(image.clone())?, teacher.forward(image)?);
///         Ok(cx.loss(student.clone(), label)? + MseLoss::default().forward(student, target)? * 0.1)
///     })
///     .build()?;
/// # Ok(trainer)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Averaged {
    name: String,
    decay: f64,
}

impl Averaged {
    /// An average under a name, for checkpoints and [`SupervisedTrainer::companion`], that keeps this
    /// share of its weights at each step: 0 to 1, usually 0.99 or more.
    ///
    /// [`SupervisedTrainer::companion`]: crate::SupervisedTrainer::companion
    pub fn new(name: impl Into<String>, decay: f64) -> Self {
        Self { name: name.into(), decay }
    }
}

/// An [`Averaged`] network in a step.
#[derive(Clone)]
pub struct AveragedNetwork<N> {
    name: String,
    decay: f64,
    network: N,
}

impl<N: Network> AveragedNetwork<N> {
    /// The main output for `x`, `[b, c, x, y, z]`, in evaluation mode and without gradient, in f32.
    ///
    /// # Errors
    /// For an input that the network does not accept.
    pub fn forward(&self, x: Tensor<5>) -> Result<Tensor<5>, BoxError> {
        evaluate(&self.network, x)
    }

    /// The network itself, for its own functions.
    pub fn module(&self) -> &N {
        &self.network
    }
}

impl<N: Network> Companion<N> for Averaged {
    type InStep = AveragedNetwork<N>;

    fn place(self, network: &N, _: &TrainerOptions) -> Result<AveragedNetwork<N>, TrainerError> {
        if !(0.0..=1.0).contains(&self.decay) {
            return Err(TrainerError::Decay { name: self.name, decay: self.decay });
        }
        Ok(AveragedNetwork { name: self.name, decay: self.decay, network: network.valid() })
    }
}

impl<N: Network> InStep<N> for AveragedNetwork<N> {
    fn names(&self) -> Vec<&str> {
        vec![&self.name]
    }

    fn find(&self, name: &str) -> Option<&dyn Any> {
        (name == self.name).then_some(&self.network as &dyn Any)
    }

    fn stepped(&mut self, network: &N) {
        self.network = moving_average(self.network.clone(), network, self.decay);
    }

    fn collect(&self, files: &mut Files) -> Result<(), BoxError> {
        companion::insert(files, &self.name, Files::from([(FILE.to_owned(), weights::to_bytes(&self.network)?)]));
        Ok(())
    }

    fn restored(&self, checkpoint: &Checkpoint, _: &Device) -> Result<Self, BoxError> {
        let part = companion::part(checkpoint, &self.name)?;
        let read = weights::from_bytes(self.network.clone(), &part.file(FILE)?);
        let (network, _report) =
            read.map_err(|e| CheckpointError::Mismatch { path: part.path.clone(), part: FILE, why: e.to_string() })?;
        Ok(Self { network, ..self.clone() })
    }
}

//! [`Learner`]: a network with its optimizer, and its steps.

use burn::tensor::{Device, Tensor};
use hearth_engine::{BoxError, HostError};
use hearth_nn::networks::Network;
use hearth_nn::optim::{GradientClip, Gradients, Optimizer, OptimizerConfig};
use hearth_nn::parameters;

use crate::batch::feed::Feed;
use crate::batch::step_error::{StepError, name_cases};
use crate::ranks::Ranks;
use crate::training::grad_scaler::{DeviceScaler, GradScaler};
use crate::training::precision::Precision;
use crate::training::reducer::{Reducer, Watching};
use crate::training::trainer::TrainerError;

/// The options of a trainer that a learner needs.
pub(crate) struct Learning<'a> {
    pub device: &'a Device,
    pub precision: Precision,
    pub clip: Option<GradientClip>,
    /// The ranks that take each step together.
    pub ranks: Option<&'a Ranks>,
}

/// A network in training.
#[derive(Clone)]
pub(crate) struct Learner<N> {
    /// `None` only after the optimizer has failed while it held the parameters.
    pub network: Option<N>,
    pub optimizer: Optimizer,
    pub optimizer_config: OptimizerConfig,
    pub learning_rate: f64,
    /// The gradient scaler, in fp16 only.
    pub scaler: Option<DeviceScaler>,
    /// The sum of the gradients since the last step, and the number of batches.
    pub pending: Option<(Gradients, u64)>,
    clip: Option<GradientClip>,
    pub reducer: Option<Reducer>,
    on_processor: bool,
}

impl<N: Network> Learner<N> {
    /// Moves the network to the device, under autodiff and in the requested precision.
    pub fn new(network: N, optimizer: OptimizerConfig, how: &Learning<'_>) -> Result<Self, TrainerError> {
        how.precision.prepare(how.device)?;
        how.clip.map_or(Ok(()), GradientClip::check).map_err(TrainerError::Clip)?;
        let mut built = optimizer.build()?;
        built.bind(&network)?;
        let device = how.device.clone().inner();
        // Leaving autodiff and returning makes the parameters leaves, wherever the network was
        // made.
        let network = how.precision.apply(network.valid().to_device(&device).train());
        let fp16 = how.precision == Precision::Fp16;
        Ok(Self {
            network: Some(network),
            optimizer: built,
            learning_rate: optimizer.lr(),
            optimizer_config: optimizer,
            scaler: fp16.then(|| DeviceScaler::new(GradScaler::default(), &device)),
            pending: None,
            clip: how.clip,
            reducer: how.ranks.cloned().map(Reducer::new),
            on_processor: device == Device::flex(),
        })
    }

    /// Replaces the network by one with the same parameters.
    pub fn set_network(&mut self, network: N, device: &Device, precision: Precision) -> Result<(), TrainerError> {
        let named = |of: &N| parameters(of).into_iter().map(|one| (one.path, one.values)).collect::<Vec<_>>();
        if let Some(present) = &self.network {
            let (old, new) = (named(present), named(&network));
            if let Some(index) = (0..old.len().max(new.len())).find(|index| old.get(*index) != new.get(*index)) {
                let shown = |of: &[(String, usize)]| match of.get(index) {
                    Some((path, values)) => format!("`{path}` with {values} values"),
                    None => "no further parameter".to_owned(),
                };
                let why = format!("it has {}, the trainer's network {}", shown(&new), shown(&old));
                return Err(TrainerError::OtherNetwork { why });
            }
        }
        let network = precision.apply(network.valid().to_device(&device.clone().inner()).train());
        self.optimizer.bind(&network)?;
        (self.network, self.pending) = (Some(network), None);
        Ok(())
    }

    pub fn network(&self) -> Result<&N, StepError> {
        self.network.as_ref().ok_or(StepError::NoNetwork)
    }

    /// The network of several ranks for a forward pass whose gradients are reduced during the
    /// backward pass: for the last batch of a step.
    pub fn watched(&self, accumulate: u64) -> Result<Option<N>, StepError> {
        let apart = !self.on_processor;
        match &self.reducer {
            Some(reducer) if self.reduces_early(accumulate) => {
                let factor = self.scaler.as_ref().map(|scaler| scaler.scale().recip());
                let before = self.pending.as_ref().map(|(sum, count)| (sum.clone(), count + 1));
                Ok(reducer.watch(self.network()?, &Watching { factor, before, apart }))
            }
            _ => Ok(None),
        }
    }

    /// Whether the gradients of the current batch are summed over ranks during its backward pass.
    pub fn reduces_early(&self, accumulate: u64) -> bool {
        let waiting = self.pending.as_ref().map_or(0, |(_, count)| *count);
        let of = |reducer: &Reducer| waiting + 1 >= accumulate && reducer.ranks.overlaps(!self.on_processor);
        self.reducer.as_ref().is_some_and(of)
    }

    /// Computes the gradients of a loss of the current batch.
    pub fn backward(&self, loss: &Tensor<1>, feed: &Feed) -> Result<Gradients, StepError> {
        if !loss.is_tracked() {
            return Err(StepError::NoGradient { cases: name_cases(feed.cases()) });
        }
        let _range = tracing::trace_span!("backward").entered();
        let network = self.network()?;
        Ok(match &self.scaler {
            None => Gradients::of(network, loss),
            Some(scaler) => {
                let scale = scaler.scale();
                Gradients::of(network, &(loss.clone() * scale.clone().autodiff())).scale_by(&scale.recip())
            }
        })
    }

    /// Adds a batch's gradients to the pending ones, and takes a step once there are `accumulate`
    /// batches.
    pub fn gather(&mut self, gradients: Gradients, accumulate: u64, feed: &Feed) -> Result<(), BoxError> {
        let (sum, count) = match self.pending.take() {
            Some((sum, count)) => (sum + gradients, count + 1),
            None => (gradients, 1),
        };
        self.pending = Some((sum, count));
        if count >= accumulate { self.step(feed) } else { Ok(()) }
    }

    /// Takes one step with the mean of the pending gradients, if there are any.
    pub fn step(&mut self, feed: &Feed) -> Result<(), BoxError> {
        let Some((sum, count)) = self.pending.take() else { return Ok(()) };
        let mut gradients = if count == 1 { sum } else { sum.scale(1.0 / count as f64) };
        // Reduced first, so that all ranks make the same decisions.
        if let Some(reducer) = &mut self.reducer {
            gradients = tracing::trace_span!("reduce").in_scope(|| reducer.mean(&gradients))?;
        }
        let _range = tracing::trace_span!("optimizer").entered();
        // The device decides whether to step: reading back would make it wait.
        let finite = match (&mut self.scaler, gradients.norm()) {
            (Some(scaler), Some(norm)) => {
                let finite = norm.is_finite();
                scaler.update(&finite);
                Some(finite)
            }
            _ => None,
        };
        if let Some(clip) = self.clip {
            gradients = clip.apply(gradients);
        }
        let network = self.network.take().ok_or(StepError::NoNetwork)?;
        let stepped = match finite {
            Some(finite) => self.optimizer.step_where(network, gradients, self.learning_rate, &finite),
            None => self.optimizer.step(network, gradients, self.learning_rate),
        };
        self.network = Some(stepped.map_err(|e| feed.part("the optimizer", e))?);
        Ok(())
    }

    /// Keeps the learning rate in proportion to that of a network that started with `first`.
    pub fn follow(&mut self, learning_rate: f64, first: f64) {
        if first > 0.0 {
            // Exactly equal where both start with the same rate.
            self.learning_rate = learning_rate * (self.optimizer_config.lr() / first);
        }
    }

    /// Reports skipped steps, once per epoch, since the device made the decisions.
    pub fn report_skipped_steps(&mut self) {
        if let Some((steps, scale)) = self.scaler.as_mut().map(DeviceScaler::news).filter(|(steps, _)| *steps > 0) {
            tracing::info!("fp16: skipped {steps} steps with non-finite gradients; the scale is now {scale}");
        }
    }

    /// The output `scale` of handlers.
    pub fn scale(&self) -> Result<f64, HostError> {
        let scale = self.scaler.as_ref().map(|scaler| scaler.read().0.scale());
        scale.ok_or_else(|| HostError::new("only a run in fp16 has a gradient scaler"))
    }
}

/// The network for validation: of several ranks, with the running statistics of the first.
pub(crate) fn validated<N: Network>(learner: &Learner<N>, ranks: Option<&Ranks>, epoch: u64) -> Result<N, HostError> {
    let network = learner.network().map_err(|e| HostError::from_error(&e))?.valid();
    match ranks {
        Some(ranks) => ranks.of_first(network, epoch).map_err(|e| HostError::from_error(&e)),
        None => Ok(network),
    }
}

/// Fails for an invalid learning rate.
pub(crate) fn check_learning_rate(learning_rate: f64) -> Result<(), HostError> {
    if learning_rate.is_finite() && learning_rate >= 0.0 {
        return Ok(());
    }
    Err(HostError::new(format!("the learning rate {learning_rate} is invalid; give 0 or more")))
}

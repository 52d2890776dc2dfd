//! The interface of schedulers: [`NoiseScheduler`].

use burn::tensor::Tensor;
use hearth_registry::{Fault, Kind, Named, Place};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NoiseLevels;
use super::levels::linspace;

/// An error of a scheduler or of the network in a sampling.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DiffusionError {
    /// An option or time step is invalid.
    #[error("{name} is {value}: {expected}")]
    Value {
        /// Name of the parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected value.
        expected: String,
    },
    /// The network's output does not have the shape of the image.
    #[error("the network returned shape {got:?} for an image of shape {image:?}")]
    Output {
        /// Shape of the image.
        image: [usize; 5],
        /// Shape of the network's output.
        got: [usize; 5],
    },
    /// The network failed.
    #[error("{0}")]
    Network(String),
}

/// The quantity that a network predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PredictionType {
    /// The noise.
    #[default]
    Epsilon,
    /// The image without noise.
    Sample,
    /// The velocity (Salimans and Ho, <https://arxiv.org/abs/2202.00512>).
    VPrediction,
}

impl PredictionType {
    /// Returns image and noise, from a prediction for `x` in which the share `left` is the image.
    pub(super) fn image_and_noise(self, x: &Tensor<5>, predicted: Tensor<5>, left: f32) -> [Tensor<5>; 2] {
        let (root, other) = (f64::from(left.sqrt()), f64::from((1.0 - left).sqrt()));
        match self {
            PredictionType::Epsilon => [(x.clone() - predicted.clone() * other) / root, predicted],
            PredictionType::Sample => [predicted.clone(), (x.clone() - predicted * root) / other],
            PredictionType::VPrediction => {
                [x.clone() * root - predicted.clone() * other, predicted * root + x.clone() * other]
            }
        }
    }
}

/// The position of a step in a sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time step.
    pub timestep: usize,
    /// Number of steps of the sampling.
    pub num_inference_steps: usize,
}

/// A scheduler by name, as in a recipe or a bundle: `name = "DDIMScheduler"` and the scheduler's
/// parameters.
///
/// ```
/// # use hearth_nn::diffusion::NoiseSchedulerConfig;
/// let text = "name = 'DDIMScheduler'\nschedule = 'scaled_linear_beta'\nbeta_start = 0.0015\nbeta_end = 0.0195";
/// let scheduler: NoiseSchedulerConfig = toml::from_str(text)?;
/// assert_eq!(scheduler.build().expect("valid options").name(), "DDIMScheduler");
/// # Ok::<(), toml::de::Error>(())
/// ```
pub type NoiseSchedulerConfig = Named<dyn NoiseScheduler>;

/// A schedule of noise levels, with the step from one time step to the previous one. [`sample`] runs
/// it from noise to an image.
///
/// [`sample`]: super::sample
pub trait NoiseScheduler: Send + Sync {
    /// The scheduler's name in MONAI.
    fn name(&self) -> &'static str;

    /// The noise levels of all time steps.
    ///
    /// # Errors
    /// Fails if an option is invalid.
    fn levels(&self) -> Result<NoiseLevels, DiffusionError>;

    /// The time steps of a sampling, from noise to the image.
    ///
    /// # Errors
    /// Fails if there are no steps, or more than in training.
    fn timesteps(&self, num_inference_steps: usize) -> Result<Vec<usize>, DiffusionError>;

    /// Returns the image with the noise of the previous time step, and the predicted image without
    /// noise, both in the shape of `x`, `[b, c, x, y, z]`.
    ///
    /// `predicted` is the network's output for `x`, and `noise` draws from the normal distribution
    /// in the shape of `x`.
    ///
    /// # Errors
    /// Fails if a time step does not exist or shapes differ.
    fn step(
        &self,
        levels: &NoiseLevels,
        at: Step,
        predicted: Tensor<5>,
        x: Tensor<5>,
        noise: &mut dyn FnMut() -> Tensor<5>,
    ) -> Result<[Tensor<5>; 2], DiffusionError>;
}

impl Kind for dyn NoiseScheduler {
    const WORD: &'static str = "noise scheduler";

    fn check(&self) -> Result<(), Fault> {
        self.levels().map(drop).map_err(|error| match &error {
            DiffusionError::Value { name, .. } => Fault::at(*name, error.to_string()),
            _ => Fault::new(error.to_string()),
        })
    }

    fn place(&self) -> Option<Place> {
        Some(Place::AnyDevice)
    }
}

/// Selects `steps` evenly spaced time steps of the training, from `last` down to 0, rounded half to
/// even.
pub(super) fn spread(last: usize, steps: usize, trained: usize) -> Result<Vec<usize>, DiffusionError> {
    if !(1..=trained).contains(&steps) {
        let expected = format!("expected 1 to {trained}, the time steps of the training");
        return Err(DiffusionError::Value { name: "num_inference_steps", value: steps.to_string(), expected });
    }
    Ok(linspace(last as f64, 0.0, steps).into_iter().map(|step| step.round_ties_even() as usize).collect())
}

/// The remaining share of the image at a time step.
pub(super) fn left(levels: &NoiseLevels, timestep: usize) -> Result<f32, DiffusionError> {
    levels.left(timestep).ok_or_else(|| DiffusionError::Value {
        name: "timestep",
        value: timestep.to_string(),
        expected: format!("expected less than {}", levels.betas.len()),
    })
}

/// Checks that a prediction has the shape of the image.
pub(super) fn same_shape(x: &Tensor<5>, predicted: &Tensor<5>) -> Result<(), DiffusionError> {
    match x.dims() == predicted.dims() {
        true => Ok(()),
        false => Err(DiffusionError::Output { image: x.dims(), got: predicted.dims() }),
    }
}

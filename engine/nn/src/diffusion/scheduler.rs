//! The interface of schedulers: [`NoiseScheduler`].

use burn::tensor::Tensor;
use hearth_registry::{Fault, Kind, Named, Place};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NoiseLevels;
use super::levels::linspace;

/// Options or time steps that do not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DiffusionError {
    /// An invalid value.
    #[error("{name} is {value}: {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected value.
        expected: String,
    },
    /// A tensor of another shape than its fellow.
    #[error("the network returned shape {got:?} for an image of shape {image:?}")]
    Output {
        /// Shape of the image.
        image: [usize; 5],
        /// Shape of what the network returned.
        got: [usize; 5],
    },
    /// The network failed.
    #[error("{0}")]
    Network(String),
}

/// What the network predicts.
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
    /// Image and noise, from a prediction about `x`, in which this share of the image is left.
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

/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time step.
    pub timestep: usize,
    /// How many steps lead from noise to an image.
    pub num_inference_steps: usize,
}

/// A scheduler by name, as a recipe or a bundle gives it: `name = "DDIMScheduler"` and its own
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

/// How much noise a time step has, and the step from one to the one before.
pub trait NoiseScheduler: Send + Sync {
    /// MONAI's name.
    fn name(&self) -> &'static str;

    /// The noise of each time step.
    ///
    /// # Errors
    /// Where an option is invalid.
    fn levels(&self) -> Result<NoiseLevels, DiffusionError>;

    /// The time steps of a sampling, from noise to the image.
    ///
    /// # Errors
    /// Where there are more than in training, or none.
    fn timesteps(&self, num_inference_steps: usize) -> Result<Vec<usize>, DiffusionError>;

    /// The image with the noise of the step before, and what the image without noise would be.
    ///
    /// `predicted` is what the network says of `x`, and `noise` draws from the normal distribution,
    /// in the shape of `x`.
    ///
    /// # Errors
    /// Where a time step does not exist or shapes differ.
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

/// So many of the training's time steps, evenly spread, from `last` down, rounded to even numbers
/// where they lie between two.
pub(super) fn spread(last: usize, steps: usize, trained: usize) -> Result<Vec<usize>, DiffusionError> {
    if !(1..=trained).contains(&steps) {
        let expected = format!("expected 1 to {trained}, the time steps of the training");
        return Err(DiffusionError::Value { name: "num_inference_steps", value: steps.to_string(), expected });
    }
    Ok(linspace(last as f64, 0.0, steps).into_iter().map(|step| step.round_ties_even() as usize).collect())
}

/// The share of the image at a time step.
pub(super) fn left(levels: &NoiseLevels, timestep: usize) -> Result<f32, DiffusionError> {
    levels.left(timestep).ok_or_else(|| DiffusionError::Value {
        name: "timestep",
        value: timestep.to_string(),
        expected: format!("expected less than {}", levels.betas.len()),
    })
}

/// That a prediction has the shape of the image.
pub(super) fn same_shape(x: &Tensor<5>, predicted: &Tensor<5>) -> Result<(), DiffusionError> {
    match x.dims() == predicted.dims() {
        true => Ok(()),
        false => Err(DiffusionError::Output { image: x.dims(), got: predicted.dims() }),
    }
}

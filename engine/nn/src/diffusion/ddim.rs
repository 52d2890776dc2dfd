//! Denoising diffusion implicit models (`monai.networks.schedulers.DDIMScheduler`).

use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ddpm::{clip, max, min, thousand};
use super::levels::{NoiseLevels, Schedule, ScheduleArguments};
use super::scheduler::{DiffusionError, NoiseScheduler, PredictionType, Step, left, same_shape, spread};

/// A scheduler whose steps add no noise (Song et al., <https://arxiv.org/abs/2010.02502>). Sampling
/// needs far fewer steps than training.
///
/// ```
/// # use hearth_nn::diffusion::{DDIMScheduler, NoiseScheduler};
/// let steps = DDIMScheduler::default().timesteps(4)?;
/// assert_eq!(steps, [999, 666, 333, 0]);
/// # Ok::<(), hearth_nn::diffusion::DiffusionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DDIMScheduler {
    /// Number of time steps in training.
    #[serde(default = "thousand")]
    pub num_train_timesteps: usize,
    /// The schedule of the noise.
    #[serde(default)]
    pub schedule: Schedule,
    /// Whether predicted images are limited to `clip_sample_min` and `clip_sample_max`.
    #[serde(default = "clip")]
    pub clip_sample: bool,
    /// Whether the last step removes all noise (true), or leaves the noise of time step 0 (false).
    #[serde(default = "clip")]
    pub set_alpha_to_one: bool,
    /// Offset that is added to every time step of a sampling.
    #[serde(default)]
    pub steps_offset: usize,
    /// The quantity that the network predicts.
    #[serde(default)]
    pub prediction_type: PredictionType,
    /// Lower limit of a predicted image.
    #[serde(default = "min")]
    pub clip_sample_min: f64,
    /// Upper limit of a predicted image.
    #[serde(default = "max")]
    pub clip_sample_max: f64,
    /// The first beta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beta_start: Option<f64>,
    /// The last beta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beta_end: Option<f64>,
    /// Half of the range of the logistic function in `sigmoid_beta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sig_range: Option<f64>,
    /// Offset of the `cosine` schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s: Option<f64>,
}

impl Default for DDIMScheduler {
    fn default() -> Self {
        DDIMScheduler {
            num_train_timesteps: thousand(),
            schedule: Schedule::default(),
            clip_sample: true,
            set_alpha_to_one: true,
            steps_offset: 0,
            prediction_type: PredictionType::default(),
            clip_sample_min: min(),
            clip_sample_max: max(),
            beta_start: None,
            beta_end: None,
            sig_range: None,
            s: None,
        }
    }
}

impl DDIMScheduler {
    /// Moves an image from a time step to `other`, an earlier or later one; `None` is the state
    /// after the last step.
    fn moved(
        &self,
        levels: &NoiseLevels,
        [timestep, other]: [Option<usize>; 2],
        predicted: Tensor<5>,
        x: &Tensor<5>,
    ) -> Result<[Tensor<5>; 2], DiffusionError> {
        same_shape(x, &predicted)?;
        let now = left(levels, timestep.unwrap_or(0))?;
        let then = match other {
            Some(other) => left(levels, other)?,
            None if self.set_alpha_to_one => 1.0,
            None => left(levels, 0)?,
        };
        let [mut image, noise] = self.prediction_type.image_and_noise(x, predicted, now);
        if self.clip_sample {
            image = image.clamp(self.clip_sample_min, self.clip_sample_max);
        }
        let moved = image.clone() * f64::from(then.sqrt()) + noise * f64::from((1.0 - then).sqrt());
        Ok([moved, image])
    }

    /// A step in the reverse direction, from an image to noise (Dhariwal and Nichol,
    /// <https://arxiv.org/abs/2105.05233>). Returns the image with the noise of the next time step,
    /// and the predicted image without noise, both in the shape of `x`, `[b, c, x, y, z]`.
    ///
    /// # Errors
    /// Fails if a time step does not exist or shapes differ.
    pub fn reversed_step(
        &self,
        levels: &NoiseLevels,
        at: Step,
        predicted: Tensor<5>,
        x: Tensor<5>,
    ) -> Result<[Tensor<5>; 2], DiffusionError> {
        let next = at.timestep + self.stride(at);
        self.moved(levels, [Some(at.timestep), Some(next)], predicted, &x)
    }

    /// The number of training time steps per sampling step.
    fn stride(&self, at: Step) -> usize {
        self.num_train_timesteps / at.num_inference_steps.max(1)
    }
}

impl NoiseScheduler for DDIMScheduler {
    fn name(&self) -> &'static str {
        "DDIMScheduler"
    }

    fn levels(&self) -> Result<NoiseLevels, DiffusionError> {
        if self.steps_offset >= self.num_train_timesteps {
            let expected = format!("expected less than num_train_timesteps, which is {}", self.num_train_timesteps);
            return Err(DiffusionError::Value { name: "steps_offset", value: self.steps_offset.to_string(), expected });
        }
        let DDIMScheduler { beta_start, beta_end, sig_range, s, .. } = *self;
        let arguments = ScheduleArguments { beta_start, beta_end, sig_range, s };
        NoiseLevels::new(self.num_train_timesteps, self.schedule, arguments)
    }

    fn timesteps(&self, num_inference_steps: usize) -> Result<Vec<usize>, DiffusionError> {
        let last = self.num_train_timesteps.saturating_sub(1 + self.steps_offset);
        let steps = spread(last, num_inference_steps, self.num_train_timesteps)?;
        Ok(steps.into_iter().map(|step| step + self.steps_offset).collect())
    }

    fn step(
        &self,
        levels: &NoiseLevels,
        at: Step,
        predicted: Tensor<5>,
        x: Tensor<5>,
        _: &mut dyn FnMut() -> Tensor<5>,
    ) -> Result<[Tensor<5>; 2], DiffusionError> {
        let before = at.timestep.checked_sub(self.stride(at));
        self.moved(levels, [Some(at.timestep), before], predicted, &x)
    }
}

hearth_registry::entry!(dyn NoiseScheduler => DDIMScheduler, example: r#"schedule = "scaled_linear_beta"
beta_start = 0.0015
beta_end = 0.0195
clip_sample = false"#);

//! Denoising diffusion probabilistic models (`monai.networks.schedulers.DDPMScheduler`).

use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::levels::{NoiseLevels, Schedule, ScheduleArguments};
use super::scheduler::{DiffusionError, NoiseScheduler, PredictionType, Step, left, same_shape, spread};

/// The variance of the noise that a step of a [`DDPMScheduler`] adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VarianceType {
    /// The variance of the posterior: of the previous step, given the image.
    #[default]
    FixedSmall,
    /// The beta of the step.
    FixedLarge,
    /// The second half of the network's output channels.
    Learned,
    /// A value between the two fixed variances, selected by the second half of the network's output
    /// channels (-1 to 1).
    LearnedRange,
}

/// A scheduler whose steps add noise (Ho et al., <https://arxiv.org/abs/2006.11239>).
///
/// ```
/// # use hearth_nn::diffusion::{DDPMScheduler, NoiseScheduler};
/// assert_eq!(DDPMScheduler::default().timesteps(1000)?.len(), 1000);
/// # Ok::<(), hearth_nn::diffusion::DiffusionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DDPMScheduler {
    /// Number of time steps in training.
    #[serde(default = "thousand")]
    pub num_train_timesteps: usize,
    /// The schedule of the noise.
    #[serde(default)]
    pub schedule: Schedule,
    /// The variance of the noise that a step adds.
    #[serde(default)]
    pub variance_type: VarianceType,
    /// Whether predicted images are limited to `clip_sample_min` and `clip_sample_max`.
    #[serde(default = "clip")]
    pub clip_sample: bool,
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

pub(super) fn thousand() -> usize {
    1000
}

pub(super) fn clip() -> bool {
    true
}

pub(super) fn min() -> f64 {
    -1.0
}

pub(super) fn max() -> f64 {
    1.0
}

impl Default for DDPMScheduler {
    fn default() -> Self {
        DDPMScheduler {
            num_train_timesteps: thousand(),
            schedule: Schedule::default(),
            variance_type: VarianceType::default(),
            clip_sample: true,
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

impl DDPMScheduler {
    /// Splits the network's output into the prediction and the predicted variance, if any.
    fn parts(&self, predicted: Tensor<5>, channels: usize) -> (Tensor<5>, Option<Tensor<5>>) {
        let learned = matches!(self.variance_type, VarianceType::Learned | VarianceType::LearnedRange);
        if !learned || predicted.dims()[1] != 2 * channels {
            return (predicted, None);
        }
        (predicted.clone().narrow(1, 0, channels), Some(predicted.narrow(1, channels, channels)))
    }
}

impl NoiseScheduler for DDPMScheduler {
    fn name(&self) -> &'static str {
        "DDPMScheduler"
    }

    fn levels(&self) -> Result<NoiseLevels, DiffusionError> {
        let DDPMScheduler { beta_start, beta_end, sig_range, s, .. } = *self;
        let arguments = ScheduleArguments { beta_start, beta_end, sig_range, s };
        NoiseLevels::new(self.num_train_timesteps, self.schedule, arguments)
    }

    fn timesteps(&self, num_inference_steps: usize) -> Result<Vec<usize>, DiffusionError> {
        spread(self.num_train_timesteps.saturating_sub(1), num_inference_steps, self.num_train_timesteps)
    }

    fn step(
        &self,
        levels: &NoiseLevels,
        at: Step,
        predicted: Tensor<5>,
        x: Tensor<5>,
        noise: &mut dyn FnMut() -> Tensor<5>,
    ) -> Result<[Tensor<5>; 2], DiffusionError> {
        let (predicted, learned) = self.parts(predicted, x.dims()[1]);
        same_shape(&x, &predicted)?;
        let now = left(levels, at.timestep)?;
        let before = match at.timestep.checked_sub(1) {
            Some(before) => left(levels, before)?,
            None => 1.0,
        };
        let (beta, alpha) = (levels.betas[at.timestep], levels.alphas[at.timestep]);
        let [mut image, _] = self.prediction_type.image_and_noise(&x, predicted, now);
        if self.clip_sample {
            image = image.clamp(self.clip_sample_min, self.clip_sample_max);
        }
        let of_image = before.sqrt() * beta / (1.0 - now);
        let of_x = alpha.sqrt() * (1.0 - before) / (1.0 - now);
        let mean = image.clone() * f64::from(of_image) + x * f64::from(of_x);
        if at.timestep == 0 {
            return Ok([mean, image]);
        }
        let small = (1.0 - before) / (1.0 - now) * beta;
        let added = match (self.variance_type, learned) {
            (VarianceType::FixedSmall, _) => noise() * f64::from(small.max(1e-20).sqrt()),
            (VarianceType::FixedLarge, _) => noise() * f64::from(beta.sqrt()),
            (VarianceType::Learned, Some(variance)) => variance.sqrt() * noise(),
            (VarianceType::LearnedRange, Some(share)) => {
                let share = (share + 1.0) / 2.0;
                let variance = share.clone() * f64::from(beta) + (-share + 1.0) * f64::from(small);
                variance.sqrt() * noise()
            }
            (VarianceType::Learned | VarianceType::LearnedRange, None) => noise() * f64::from(small.sqrt()),
        };
        Ok([mean + added, image])
    }
}

hearth_registry::entry!(dyn NoiseScheduler => DDPMScheduler, example: r#"schedule = "scaled_linear_beta"
beta_start = 0.0015
beta_end = 0.0195"#);

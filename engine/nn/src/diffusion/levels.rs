//! The noise level of each time step (`monai.networks.schedulers.scheduler`).

use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DiffusionError;

/// The schedule by which the noise increases with the time step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Betas grow linearly from `beta_start` to `beta_end`.
    #[default]
    LinearBeta,
    /// The square roots of the betas grow linearly, from that of `beta_start` to that of
    /// `beta_end`.
    ScaledLinearBeta,
    /// Betas follow a logistic function over `-sig_range` to `sig_range`, scaled to `beta_start` to
    /// `beta_end`.
    SigmoidBeta,
    /// The remaining share of the image follows a squared cosine, offset by `s` (Nichol and
    /// Dhariwal, <https://arxiv.org/abs/2102.09672>).
    Cosine,
}

/// The optional arguments of a [`Schedule`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScheduleArguments {
    /// The first beta; 0.0001 by default.
    pub beta_start: Option<f64>,
    /// The last beta; 0.02 by default.
    pub beta_end: Option<f64>,
    /// Half of the range of the logistic function; 6 by default.
    pub sig_range: Option<f64>,
    /// Offset of the cosine; 0.008 by default.
    pub s: Option<f64>,
}

/// The noise levels of the time steps: beta, the share of noise that a step adds; alpha, one minus
/// beta; and the cumulative product of the alphas, the remaining share of the image. In f32, as in
/// MONAI.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::diffusion::{NoiseLevels, Schedule, ScheduleArguments, noise};
/// let levels = NoiseLevels::new(1000, Schedule::LinearBeta, ScheduleArguments::default())?;
/// assert!(levels.left(0) > levels.left(999));
/// let image = Tensor::ones([1, 1, 4, 4, 4], &Device::default());
/// let noise = noise([1, 1, 4, 4, 4], 0, 0, &Device::default());
/// assert_eq!(levels.add_noise(image, noise, &[500]).dims(), [1, 1, 4, 4, 4]);
/// # Ok::<(), hearth_nn::diffusion::DiffusionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseLevels {
    /// Variance of the noise that each step adds.
    pub betas: Vec<f32>,
    /// One minus beta, for each step.
    pub alphas: Vec<f32>,
    /// Product of the alphas up to and including each step.
    pub alphas_cumprod: Vec<f32>,
}

/// `torch.linspace` in f32: computed from both ends to the middle.
pub(super) fn linspace(start: f64, end: f64, count: usize) -> Vec<f32> {
    let (start, end) = (start as f32, end as f32);
    let step = (end - start) / (count.max(2) - 1) as f32;
    let value = |i: usize| match i < count / 2 {
        true => start + step * i as f32,
        false => end - step * (count - i - 1) as f32,
    };
    if count == 1 { vec![start] } else { (0..count).map(value).collect() }
}

impl NoiseLevels {
    /// Computes the levels of a schedule.
    ///
    /// # Errors
    /// Fails if there are no time steps or more than a million, if a beta is not at least 0 and less
    /// than 1, or if an argument belongs to another schedule.
    pub fn new(steps: usize, schedule: Schedule, arguments: ScheduleArguments) -> Result<Self, DiffusionError> {
        let value = |name: &'static str, value: String, expected: &str| {
            Err(DiffusionError::Value { name, value, expected: expected.to_owned() })
        };
        if !(1..=1_000_000).contains(&steps) {
            return value("num_train_timesteps", steps.to_string(), "expected 1 to 1000000");
        }
        let ScheduleArguments { beta_start, beta_end, sig_range, s } = arguments;
        let foreign = match schedule {
            Schedule::LinearBeta | Schedule::ScaledLinearBeta => [("sig_range", sig_range), ("s", s)],
            Schedule::SigmoidBeta => [("s", s), ("s", None)],
            Schedule::Cosine => [("beta_start", beta_start.or(beta_end)), ("sig_range", sig_range)],
        };
        if let Some((name, Some(given))) = foreign.into_iter().find(|(_, given)| given.is_some()) {
            return value(name, given.to_string(), "this schedule has no such argument");
        }
        let (first, last) = (beta_start.unwrap_or(1e-4), beta_end.unwrap_or(2e-2));
        if !(0.0..1.0).contains(&first) || !(0.0..1.0).contains(&last) {
            return value("beta_start, beta_end", format!("{first}, {last}"), "expected at least 0 and less than 1");
        }
        let betas: Vec<f32> = match schedule {
            Schedule::LinearBeta => linspace(first, last, steps),
            Schedule::ScaledLinearBeta => {
                linspace(first.sqrt(), last.sqrt(), steps).iter().map(|root| root * root).collect()
            }
            Schedule::SigmoidBeta => {
                let range = sig_range.unwrap_or(6.0);
                let logistic = |x: f32| 1.0 / (1.0 + (-x).exp());
                let scaled = |x: f32| logistic(x) * (last - first) as f32 + first as f32;
                linspace(-range, range, steps).into_iter().map(scaled).collect()
            }
            Schedule::Cosine => {
                let s = s.unwrap_or(8e-3);
                let left = |step: usize| {
                    let angle = (step as f64 / steps as f64 + s) / (1.0 + s) * std::f64::consts::FRAC_PI_2;
                    angle.cos().powi(2)
                };
                (0..steps).map(|step| (1.0 - left(step + 1) / left(step)).clamp(0.0, 0.999) as f32).collect()
            }
        };
        let alphas: Vec<f32> = betas.iter().map(|beta| 1.0 - beta).collect();
        let mut product = 1.0_f64;
        let alphas_cumprod = alphas
            .iter()
            .map(|alpha| {
                product *= f64::from(*alpha);
                product as f32
            })
            .collect();
        Ok(NoiseLevels { betas, alphas, alphas_cumprod })
    }

    /// The remaining share of the image at a time step; `None` after the last.
    pub fn left(&self, timestep: usize) -> Option<f32> {
        self.alphas_cumprod.get(timestep).copied()
    }

    /// Square roots of the shares of image and noise, for each item of a batch.
    fn shares(&self, timesteps: &[usize], x: &Tensor<5>) -> [Tensor<5>; 2] {
        let items = x.dims()[0];
        let left: Vec<f32> = (0..items)
            .map(|item| timesteps.get(item).or(timesteps.last()).and_then(|step| self.left(*step)).unwrap_or(1.0))
            .collect();
        let tensor = |values: Vec<f32>| {
            let data = TensorData::new(values, [items, 1, 1, 1, 1]);
            Tensor::<5>::from_data(data, &x.device()).cast(x.dtype())
        };
        [
            tensor(left.iter().map(|left| left.sqrt()).collect()),
            tensor(left.iter().map(|left| (1.0 - left).sqrt()).collect()),
        ]
    }

    /// Adds the noise of these time steps to an image `[b, c, x, y, z]`; one time step per item, or one
    /// for all. `noise` has the image's shape. A time step after the last adds none.
    pub fn add_noise(&self, image: Tensor<5>, noise: Tensor<5>, timesteps: &[usize]) -> Tensor<5> {
        let [left, share] = self.shares(timesteps, &image);
        left * image + share * noise
    }

    /// The target of a network that predicts the velocity (Salimans and Ho,
    /// <https://arxiv.org/abs/2202.00512>), with the arguments of [`add_noise`](Self::add_noise).
    pub fn velocity(&self, image: Tensor<5>, noise: Tensor<5>, timesteps: &[usize]) -> Tensor<5> {
        let [left, share] = self.shares(timesteps, &image);
        left * noise - share * image
    }
}

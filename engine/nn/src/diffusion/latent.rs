//! Diffusion of latent images (`monai.inferers.LatentDiffusionInferer`).

use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DiffusionError, NoiseLevels, NoiseScheduler, sample};
use crate::networks::{AutoencoderKL, DiffusionModelUNet, Network};

/// Generates images from noise with a diffusion model of latent images and its autoencoder (Rombach
/// et al., <https://arxiv.org/abs/2112.10752>).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatentDiffusionInferer {
    /// Factor by which latent images are multiplied for the diffusion model.
    #[serde(default = "one")]
    pub scale_factor: f64,
}

fn one() -> f64 {
    1.0
}

impl Default for LatentDiffusionInferer {
    fn default() -> Self {
        LatentDiffusionInferer { scale_factor: one() }
    }
}

/// The parameters of a sampling.
#[derive(Clone, Copy)]
pub struct Sampling<'a> {
    /// The scheduler.
    pub scheduler: &'a dyn NoiseScheduler,
    /// Number of steps from noise to an image.
    pub num_inference_steps: usize,
    /// Seed of the noise that steps add, for schedulers whose steps add noise.
    pub seed: u64,
}

impl LatentDiffusionInferer {
    /// Generates an image `[b, out, x, y, z]` from `start`, noise in the shape of latent images,
    /// `[b, latent, x', y', z']`. `watch` is called with the number of each step, from 0, before the
    /// step.
    ///
    /// # Errors
    /// Fails if the diffusion model does not accept images of this shape, or if an option of the
    /// scheduler is invalid.
    pub fn sample(
        &self,
        start: Tensor<5>,
        autoencoder: &AutoencoderKL,
        diffusion: &DiffusionModelUNet,
        sampling: Sampling<'_>,
        watch: &mut dyn FnMut(usize),
    ) -> Result<Tensor<5>, DiffusionError> {
        diffusion.check_input(start.dims()).map_err(|error| DiffusionError::Network(error.to_string()))?;
        let Sampling { scheduler, num_inference_steps, seed } = sampling;
        let mut number = 0;
        let latent = sample(scheduler, num_inference_steps, start, seed, &mut |x, timestep| {
            watch(number);
            number += 1;
            Ok(diffusion.predict(x, &[timestep]))
        })?;
        Ok(autoencoder.decode(latent / self.scale_factor))
    }

    /// Returns the diffusion model's prediction for the latent image of `image` with this noise at
    /// these time steps, for its training: `[b, in, x, y, z]` to `[b, latent, x', y', z']`, the shape
    /// of `noise`. The autoencoder is not sampled: its mean is used.
    ///
    /// # Errors
    /// Fails if the diffusion model does not accept images of this shape.
    pub fn predict(
        &self,
        image: Tensor<5>,
        autoencoder: &AutoencoderKL,
        diffusion: &DiffusionModelUNet,
        (levels, noise): (&NoiseLevels, Tensor<5>),
        timesteps: &[usize],
    ) -> Result<Tensor<5>, DiffusionError> {
        let (latent, _) = autoencoder.encode(image);
        let noisy = levels.add_noise(latent * self.scale_factor, noise, timesteps);
        diffusion.check_input(noisy.dims()).map_err(|error| DiffusionError::Network(error.to_string()))?;
        Ok(diffusion.predict(noisy, timesteps))
    }
}

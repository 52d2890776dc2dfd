//! Diffusion models: noise schedules, the steps from noise to an image, and the sampling of latent
//! images (`monai.networks.schedulers`, `monai.inferers.LatentDiffusionInferer`).
//!
//! ```
//! # use burn::tensor::{Device, Tensor};
//! use hearth_nn::diffusion::{DDIMScheduler, NoiseScheduler, sample};
//!
//! let scheduler = DDIMScheduler { clip_sample: false, ..DDIMScheduler::default() };
//! // A network that sees no noise leaves the image as it is, scaled.
//! let start = Tensor::<5>::ones([1, 1, 4, 4, 1], &Device::default());
//! let image = sample(&scheduler, 10, start, 0, &mut |x, _| Ok(x.zeros_like()))?;
//! assert_eq!((scheduler.timesteps(10)?[0], image.dims()), (999, [1, 1, 4, 4, 1]));
//! # Ok::<(), hearth_nn::diffusion::DiffusionError>(())
//! ```

mod ddim;
mod ddpm;
mod latent;
mod levels;
mod old_layout;
mod sampling;
mod scheduler;

pub use ddim::DDIMScheduler;
pub use ddpm::{DDPMScheduler, VarianceType};
pub use latent::{LatentDiffusionInferer, Sampling};
pub use levels::{NoiseLevels, Schedule, ScheduleArguments};
pub use old_layout::from_old_layout;
pub use sampling::{noise, sample};
pub use scheduler::{DiffusionError, NoiseScheduler, NoiseSchedulerConfig, PredictionType, Step};

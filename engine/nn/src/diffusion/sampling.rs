//! Sampling: the loop from noise to an image.

use burn::tensor::{Device, Tensor, TensorData};
use hearth_kernels::counter_rng::Key;

use super::{DiffusionError, NoiseScheduler, Step};

/// Draws from the normal distribution, `[b, c, x, y, z]`, with mean 0 and deviation 1. The values
/// depend only on the seed and `draw` and are the same on every device.
pub fn noise(shape: [usize; 5], seed: u64, draw: u64, device: &Device) -> Tensor<5> {
    let key = Key::new(seed).with_text("noise").with(draw);
    let count = shape.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..count).map(|i| key.normal(i) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Generates an image from the noise `start`, `[b, c, x, y, z]`, in `num_inference_steps` steps.
/// `network` receives an image and its time step, and returns the quantity that the scheduler's
/// `prediction_type` names, in the same shape.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::diffusion::{DDIMScheduler, noise, sample};
/// let start = noise([1, 1, 4, 4, 4], 0, 0, &Device::default());
/// let image = sample(&DDIMScheduler::default(), 4, start, 0, &mut |x, _| Ok(x.zeros_like()))?;
/// assert_eq!(image.dims(), [1, 1, 4, 4, 4]);
/// # Ok::<(), hearth_nn::diffusion::DiffusionError>(())
/// ```
///
/// # Errors
/// Fails if an option of the scheduler is invalid, or if the network fails or returns another
/// shape.
pub fn sample(
    scheduler: &dyn NoiseScheduler,
    num_inference_steps: usize,
    start: Tensor<5>,
    seed: u64,
    network: &mut dyn FnMut(Tensor<5>, usize) -> Result<Tensor<5>, DiffusionError>,
) -> Result<Tensor<5>, DiffusionError> {
    let levels = scheduler.levels()?;
    let (shape, device) = (start.dims(), start.device());
    let mut x = start;
    for (number, timestep) in scheduler.timesteps(num_inference_steps)?.into_iter().enumerate() {
        let predicted = network(x.clone(), timestep)?;
        let at = Step { timestep, num_inference_steps };
        // Draw 0 is the noise that a sampling starts from.
        let mut draw = || noise(shape, seed, number as u64 + 1, &device);
        [x, _] = scheduler.step(&levels, at, predicted, x, &mut draw)?;
    }
    Ok(x)
}

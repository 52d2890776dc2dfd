use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranges::check_finite;
use super::values::{groups, on_host};
use super::yes;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Replaces intensities by a random curve, with probability `prob` (Hesse et al., "Intensity
/// augmentation to improve generalizability of breast segmentation across different MRI scan
/// protocols", 2020).
///
/// The curve is a moving average, over `kernel_size` values, of intensities drawn from the image,
/// plus a line of slope `slope` or `-slope`. It is scaled as in MONAI: its minimum is the smallest
/// intensity, and its range is the largest intensity. With `channel_wise = false` all channels
/// share one curve. Each key has separate curves. Runs on the CPU, and sorts all values.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandIntensityRemap};
/// let step = RandIntensityRemap::new("image").prob(1.0).kernel_size(2_usize);
/// let image = tiny::apply(step, tiny::ramp([1, 8, 1, 1]))?;
/// assert_ne!(image.to_vec(), tiny::ramp([1, 8, 1, 1]).to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandIntensityRemap {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default = "thirty")]
    kernel_size: usize,
    #[serde(default = "steep")]
    slope: f64,
    #[serde(default = "yes")]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum length of the average, which bounds the memory of its values.
const MAX_KERNEL: usize = 1 << 16;

fn thirty() -> usize {
    30
}

fn steep() -> f64 {
    0.7
}

impl RandIntensityRemap {
    /// Creates the transform: averages over 30 values, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandIntensityRemap {
            keys: keys.into(),
            prob: tenth(),
            kernel_size: thirty(),
            slope: steep(),
            channel_wise: true,
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<Vec<Draw>, TransformError> {
        Ok((0..self.keys.len() as u64).map(|key| draw.part(key)).collect())
    }

    fn change(&self, image: Image, drawn: &[Draw], place: usize) -> Result<Image, TransformError> {
        let (_, size) = groups(&image, self.channel_wise);
        Ok(on_host(image, |values| {
            for (group, values) in values.chunks_mut(size).enumerate() {
                let draw = drawn[place].part(group as u64);
                let slope = if draw.happens(0.5) { self.slope } else { -self.slope };
                remap(values, self.kernel_size, slope, |n| draw.below(n as u64) as usize);
            }
        }))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if !(1..=MAX_KERNEL).contains(&self.kernel_size) {
            return Err(Fault::at("kernel_size", format!("{} is not 1 to {MAX_KERNEL}", self.kernel_size)));
        }
        check_finite("slope", self.slope)
    }
}

/// Remaps the values; `pick` returns a random number below its argument.
fn remap(values: &mut [f32], kernel: usize, slope: f64, pick: impl Fn(usize) -> usize) {
    let mut levels = values.to_vec();
    levels.par_sort_unstable_by(f32::total_cmp);
    levels.dedup();
    let n = levels.len();
    let (Some(low), Some(high)) = (levels.first().copied(), levels.last().copied()) else { return };
    let picked: Vec<f64> = (0..n - 1 + kernel).map(|_| f64::from(levels[pick(n)])).collect();
    let mut curve: Vec<f64> = picked
        .windows(kernel)
        .enumerate()
        .map(|(i, window)| window.iter().sum::<f64>() / kernel as f64 + slope * (i as f64 / n as f64))
        .collect();
    let (least, most) = curve.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
    if most > least {
        curve.iter_mut().for_each(|v| *v = (*v - least) / (most - least) * f64::from(high) + f64::from(low));
    }
    values.par_iter_mut().for_each(|v| *v = curve[levels.partition_point(|level| level < v).min(n - 1)] as f32);
}

setters!(RandIntensityRemap {
    /// Probability that the transform is applied.
    prob: f64,
    /// Number of values that are averaged.
    kernel_size: usize,
    /// Slope of the line, up or down.
    slope: f64,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandIntensityRemap, through_host: |_| true);

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: [f32; 5] = [5.5217, 9.0, 1.0, 9.0, 5.8696];

    /// MONAI's `IntensityRemap(kernel_size=2, slope=0.5)` where `R.choice` gives the levels 3, 0,
    /// 1, 2, 1 in turn.
    #[test]
    fn the_curve_is_monais() {
        let mut values = [4.0, 1.0, 2.0, 1.0, 8.0];
        let next = std::cell::Cell::new(0);
        let pick = |_| [3, 0, 1, 2, 1][next.replace(next.get() + 1)];
        remap(&mut values, 2, 0.5, pick);
        for (got, expected) in values.iter().zip(EXPECTED) {
            assert!((got - expected).abs() < 1e-4, "{values:?}");
        }
    }
}

transform_entry!(
    RandIntensityRemap,
    r#"keys = ["image"]
prob = 0.5"#
);

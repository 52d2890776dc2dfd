use hearth_image::{Image, TransformError};
use hearth_kernels::math::power;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, map_linear};
use super::ranges::check_positive;
use super::statistics::{image_extremes, image_moments};
use super::values::map_blocks;
use crate::params::Keys;

/// Corrects gamma within the range of the image: `((x - min) / range) ^ gamma * range + min`.
///
/// With `invert_image` the image is negated before and after. With `retain_stats` mean and standard
/// deviation are restored. The range is that of all channels together.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::AdjustContrast};
/// let image = tiny::apply(AdjustContrast::new("image", 2.0), tiny::line([0.0, 0.5, 1.0]))?;
/// assert!(tiny::is_near(&image, [0.0, 0.25, 1.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustContrast {
    keys: Keys,
    /// Exponent of the values between 0 and 1; above 1 darkens.
    gamma: f64,
    #[serde(default)]
    invert_image: bool,
    #[serde(default)]
    retain_stats: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl AdjustContrast {
    /// Creates the transform with this gamma.
    pub fn new(keys: impl Into<Keys>, gamma: f64) -> Self {
        AdjustContrast { keys: keys.into(), gamma, invert_image: false, retain_stats: false, allow_missing_keys: false }
    }

    /// Changes one image.
    pub fn adjust(&self, image: Image) -> Image {
        adjust_contrast(image, self.gamma, self.invert_image, self.retain_stats)
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.adjust(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_gamma(self.gamma)
    }
}

/// The maximum power to which values are raised.
const MOST_POWER: f64 = 1e9;

/// Checks a gamma.
///
/// # Errors
/// If it is not above 0, or exceeds [`MOST_POWER`].
pub(super) fn check_gamma(gamma: f64) -> Result<(), Fault> {
    check_positive("gamma", gamma)?;
    match gamma <= MOST_POWER {
        true => Ok(()),
        false => Err(Fault::at("gamma", format!("{gamma} is more than {MOST_POWER}"))),
    }
}

/// Applies [`AdjustContrast`] with a given gamma.
pub(super) fn adjust_contrast(image: Image, gamma: f64, invert: bool, retain: bool) -> Image {
    let before = retain.then(|| image_moments(&image, false, false)[0]);
    let Some((low, high)) = image_extremes(&image, false).first().copied() else { return image };
    let (min, max, sign) = if invert { (-high, -low, -1.0) } else { (low, high, 1.0) };
    let (range, gamma) = (max - min, gamma as f32);
    // MONAI's epsilon: a constant image keeps its value instead of becoming NaN.
    let scale = 1.0 / (range + 1e-7);
    let curve = |block: &mut [f32]| {
        block.iter_mut().for_each(|v| *v = (sign * *v - min) * scale);
        if gamma > 0.0 {
            power(block, gamma);
        } else {
            block.iter_mut().for_each(|v| *v = v.powf(gamma));
        }
        block.iter_mut().for_each(|v| *v = sign * (*v * range + min));
    };
    let image = map_blocks(image, curve, |x| (((x * sign - min) * scale).powf_scalar(gamma) * range + min) * sign);
    let Some(before) = before else { return image };
    let after = image_moments(&image, false, false)[0];
    let factor = before.sample_deviation() / (after.sample_deviation() + 1e-8);
    let back =
        Linear { shift: after.mean as f32, factor: factor as f32, offset: before.mean as f32, ..Linear::IDENTITY };
    map_linear(image, &[back])
}

setters!(AdjustContrast {
    /// Whether to apply it to the negated image.
    invert_image: bool,
    /// Whether to keep mean and standard deviation.
    retain_stats: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(AdjustContrast, change);

transform_entry!(
    AdjustContrast,
    r#"keys = ["image"]
gamma = 1.5"#
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_that_a_card_cannot_compute_are_refused() {
        assert!(check_gamma(1.5).is_ok() && check_gamma(MOST_POWER).is_ok());
        for gamma in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(check_gamma(gamma).is_err_and(|fault| fault.path == "gamma"), "{gamma}");
        }
    }
}

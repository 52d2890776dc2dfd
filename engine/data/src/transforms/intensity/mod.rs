//! Transforms of the values alone: scaling, noise, filters, colour. Geometry stays as it is.
//!
//! On the CPU they are loops over the values in place, in threads; elsewhere tensor operations. What sorts, counts or transforms to
//! frequencies (percentiles, histograms, medians, Fourier transforms) always runs on the CPU: values are copied from another device
//! and back.

/// Implements [`Transform`](crate::Transform) for one that draws once for all keys, with probability `prob`.
///
/// It has `keys`, `prob`, `allow_missing_keys`, `check_parameters(&self)`, `draw(&self, &Draw, &[&Image])` that draws the parameters, and
/// `change(&self, Image, &Drawn, usize)` that changes the image of the key at that place.
macro_rules! random_image_transform {
    ($type:ident) => {
        impl $crate::Transform for $type {
            fn name(&self) -> &'static str {
                stringify!($type)
            }

            fn is_random(&self) -> bool {
                true
            }

            fn apply(
                &self,
                mut sample: $crate::Sample,
                draw: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, $crate::TransformError> {
                let keys = self.keys.of(&sample, self.allow_missing_keys);
                if !draw.happens(self.prob) || keys.is_empty() {
                    return Ok(vec![sample]);
                }
                let images = keys.iter().map(|(_, key)| sample.image(key).map_err(|e| e.at(key)));
                let drawn = self.draw(draw, &images.collect::<Result<Vec<_>, _>>()?)?;
                for (place, key) in keys {
                    sample.update(key, |image| self.change(image, &drawn, place))?;
                }
                Ok(vec![sample])
            }

            fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), $crate::CheckError> {
                self.keys.check(known)?;
                $crate::params::check_probability(self.prob)?;
                self.check_parameters()
            }

            fn describe(&self) -> serde_json::Value {
                $crate::transform::describe(self.name(), self)
            }
        }
    };
}

mod linear;
mod percentile;
mod ranges;
mod statistics;
mod values;

mod adjust_contrast;
mod clip_intensity_percentiles;
mod gaussian_sharpen;
mod gaussian_smooth;
mod mask_intensity;
mod normalize_intensity;
mod rand_adjust_contrast;
mod rand_gaussian_noise;
mod rand_gaussian_sharpen;
mod rand_gaussian_smooth;
mod rand_rician_noise;
mod rand_scale_intensity;
mod rand_scale_intensity_fixed_mean;
mod rand_shift_intensity;
mod rand_std_shift_intensity;
mod scale_intensity;
mod scale_intensity_fixed_mean;
mod scale_intensity_range;
mod scale_intensity_range_percentiles;
mod shift_intensity;
mod std_shift_intensity;
mod threshold_intensity;

pub(crate) use values::look;
pub(in crate::transforms) use values::{map, on_host, zip};

pub use adjust_contrast::AdjustContrast;
pub use clip_intensity_percentiles::ClipIntensityPercentiles;
pub use gaussian_sharpen::GaussianSharpen;
pub use gaussian_smooth::{GaussianApprox, GaussianSmooth};
pub use mask_intensity::MaskIntensity;
pub use normalize_intensity::NormalizeIntensity;
pub use percentile::percentiles;
pub use rand_adjust_contrast::RandAdjustContrast;
pub use rand_gaussian_noise::RandGaussianNoise;
pub use rand_gaussian_sharpen::RandGaussianSharpen;
pub use rand_gaussian_smooth::RandGaussianSmooth;
pub use rand_rician_noise::RandRicianNoise;
pub use rand_scale_intensity::RandScaleIntensity;
pub use rand_scale_intensity_fixed_mean::RandScaleIntensityFixedMean;
pub use rand_shift_intensity::RandShiftIntensity;
pub use rand_std_shift_intensity::RandStdShiftIntensity;
pub use scale_intensity::ScaleIntensity;
pub use scale_intensity_fixed_mean::ScaleIntensityFixedMean;
pub use scale_intensity_range::ScaleIntensityRange;
pub use scale_intensity_range_percentiles::ScaleIntensityRangePercentiles;
pub use shift_intensity::ShiftIntensity;
pub use std_shift_intensity::StdShiftIntensity;
pub use threshold_intensity::ThresholdIntensity;

fn yes() -> bool {
    true
}

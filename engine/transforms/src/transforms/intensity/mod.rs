//! Transforms that change only the values: scaling, noise, filters, colour. The geometry is
//! unchanged.
//!
//! On the CPU they are loops over the values in place, in threads; on other devices they are tensor
//! operations. Percentiles, histograms, medians and Fourier transforms always run on the CPU:
//! values on another device are copied there and back.

/// Implements [`Transform`](crate::Transform) for a type that draws once for all keys, with
/// probability `prob`.
///
/// The type has `keys`, `prob`, `allow_missing_keys`, `check_parameters(&self)`,
/// `draw(&self, &Draw, &[&Image])`, which draws the parameters, and
/// `change(&self, Image, &Drawn, usize)`, which changes the image of the key at that index. Its
/// function `through_host` returns whether it
/// [goes through the host](crate::Transform::through_host).
macro_rules! random_image_transform {
    ($type:ident $(, through_host: $host:expr)?) => {
        impl $crate::Transform for $type {
            fn name(&self) -> &'static str {
                stringify!($type)
            }

            $(
                fn through_host(&self) -> bool {
                    let host: fn(&Self) -> bool = $host;
                    host(self)
                }
            )?

            fn is_random(&self) -> bool {
                true
            }

            fn apply(
                &self,
                mut sample: $crate::Sample,
                draw: &$crate::Draw,
            ) -> Result<Vec<$crate::Sample>, hearth_image::TransformError> {
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

            fn check(&self, known: &mut std::collections::BTreeSet<String>) -> Result<(), hearth_registry::Fault> {
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

mod coarse;
mod color;
mod fourier;
mod histogram;
mod linear;
mod padding;
mod percentile;
mod ranges;
mod smooth_field;
mod statistics;
mod values;

mod adjust_contrast;
mod clip_intensity_percentiles;
mod color_jitter;
mod foreground_mask;
mod gaussian_sharpen;
mod gaussian_smooth;
mod gibbs_noise;
mod histogram_normalize;
mod k_space_spike_noise;
mod mask_intensity;
mod median_smooth;
mod normalize_intensity;
mod rand_adjust_contrast;
mod rand_bias_field;
mod rand_coarse_dropout;
mod rand_coarse_shuffle;
mod rand_gaussian_noise;
mod rand_gaussian_sharpen;
mod rand_gaussian_smooth;
mod rand_gibbs_noise;
mod rand_histogram_shift;
mod rand_intensity_remap;
mod rand_k_space_spike_noise;
mod rand_rician_noise;
mod rand_scale_intensity;
mod rand_scale_intensity_fixed_mean;
mod rand_shift_intensity;
mod rand_smooth_field_adjust_contrast;
mod rand_smooth_field_adjust_intensity;
mod rand_std_shift_intensity;
mod savitzky_golay_smooth;
mod scale_intensity;
mod scale_intensity_fixed_mean;
mod scale_intensity_range;
mod scale_intensity_range_percentiles;
mod shift_intensity;
mod sobel_gradients;
mod std_shift_intensity;
mod threshold_intensity;

pub(in crate::transforms) use ranges::check_finite;
pub(in crate::transforms) use smooth_field::FieldParameters;
pub(in crate::transforms) use values::{map, on_host, zip};

pub use adjust_contrast::AdjustContrast;
pub use clip_intensity_percentiles::ClipIntensityPercentiles;
pub use color::{PixelType, adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation};
pub use color_jitter::ColorJitter;
pub use foreground_mask::{ForegroundMask, Threshold, ThresholdMethod, Thresholds};
pub use gaussian_sharpen::GaussianSharpen;
pub use gaussian_smooth::{GaussianApprox, GaussianSmooth};
pub use gibbs_noise::GibbsNoise;
pub use histogram_normalize::HistogramNormalize;
pub use k_space_spike_noise::{KSpaceSpikeNoise, SpikeLocation};
pub use mask_intensity::MaskIntensity;
pub use median_smooth::MedianSmooth;
pub use normalize_intensity::NormalizeIntensity;
pub use padding::FilterPadding;
pub use percentile::percentiles;
pub use rand_adjust_contrast::RandAdjustContrast;
pub use rand_bias_field::{RandBiasField, apply_bias_field, bias_coefficients, bias_field};
pub use rand_coarse_dropout::RandCoarseDropout;
pub use rand_coarse_shuffle::RandCoarseShuffle;
pub use rand_gaussian_noise::RandGaussianNoise;
pub use rand_gaussian_sharpen::RandGaussianSharpen;
pub use rand_gaussian_smooth::RandGaussianSmooth;
pub use rand_gibbs_noise::RandGibbsNoise;
pub use rand_histogram_shift::{RandHistogramShift, shift_histogram};
pub use rand_intensity_remap::RandIntensityRemap;
pub use rand_k_space_spike_noise::{IntensityRange, RandKSpaceSpikeNoise};
pub use rand_rician_noise::RandRicianNoise;
pub use rand_scale_intensity::RandScaleIntensity;
pub use rand_scale_intensity_fixed_mean::RandScaleIntensityFixedMean;
pub use rand_shift_intensity::RandShiftIntensity;
pub use rand_smooth_field_adjust_contrast::RandSmoothFieldAdjustContrast;
pub use rand_smooth_field_adjust_intensity::RandSmoothFieldAdjustIntensity;
pub use rand_std_shift_intensity::RandStdShiftIntensity;
pub use savitzky_golay_smooth::SavitzkyGolaySmooth;
pub use scale_intensity::ScaleIntensity;
pub use scale_intensity_fixed_mean::ScaleIntensityFixedMean;
pub use scale_intensity_range::ScaleIntensityRange;
pub use scale_intensity_range_percentiles::ScaleIntensityRangePercentiles;
pub use shift_intensity::ShiftIntensity;
pub use smooth_field::SmoothField;
pub use sobel_gradients::SobelGradients;
pub use std_shift_intensity::StdShiftIntensity;
pub use threshold_intensity::ThresholdIntensity;

fn yes() -> bool {
    true
}

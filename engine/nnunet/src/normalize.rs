//! Normalisation of intensities, by the class names in plans.

use serde_json::Value;

use crate::error::{NnunetError, Result};
use crate::pairwise::mean_and_std;

/// The normalisation of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Shifts and scales each image to mean 0 and deviation 1.
    ZScore,
    /// Clips to the training's percentiles, then uses the training's mean and deviation.
    Ct,
    /// Scales the smallest value to 0 and the largest to 1.
    RescaleTo01,
    /// Divides by 255.
    RgbTo01,
    /// Leaves the values unchanged.
    None,
}

/// Intensities of the foreground of the training images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intensities {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub std: f64,
    /// The 0.5th percentile.
    pub low: f64,
    /// The 99.5th percentile.
    pub high: f64,
}

impl Intensities {
    pub(crate) fn parse(values: &Value) -> Self {
        let number = |key: &str| values.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
        Intensities {
            mean: number("mean"),
            std: number("std"),
            low: number("percentile_00_5"),
            high: number("percentile_99_5"),
        }
    }

    fn is_finite(&self) -> bool {
        [self.mean, self.std, self.low, self.high].iter().all(|value| value.is_finite())
    }
}

impl Scheme {
    /// The scheme with this class name.
    ///
    /// # Errors
    /// An unknown class.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "ZScoreNormalization" => Scheme::ZScore,
            "CTNormalization" => Scheme::Ct,
            "RescaleTo01Normalization" => Scheme::RescaleTo01,
            "RGBTo01Normalization" => Scheme::RgbTo01,
            "NoNormalization" => Scheme::None,
            _ => {
                let known = "ZScoreNormalization, CTNormalization, RescaleTo01Normalization, RGBTo01Normalization and \
                             NoNormalization are";
                return Err(NnunetError::key("normalization_schemes", format!("{name} is not supported; {known}")));
            }
        })
    }

    /// The class name in plans.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::ZScore => "ZScoreNormalization",
            Scheme::Ct => "CTNormalization",
            Scheme::RescaleTo01 => "RescaleTo01Normalization",
            Scheme::RgbTo01 => "RGBTo01Normalization",
            Scheme::None => "NoNormalization",
        }
    }

    /// Normalises a channel in place. `run` is the length of the contiguous pieces in which the
    /// values lay in memory before they were cut out. With a `mask`, only the values inside are
    /// used and changed.
    ///
    /// # Errors
    /// `Ct` without intensities, or colours outside 0 to 255.
    pub fn apply(
        self,
        values: &mut [f32],
        run: usize,
        mask: Option<&Inside<'_>>,
        training: Option<&Intensities>,
    ) -> Result<()> {
        match self {
            Scheme::None => {}
            Scheme::ZScore => match mask {
                Some(mask) => {
                    let inside: Vec<f32> = mask.order().filter(|i| mask.inside[*i]).map(|i| values[i]).collect();
                    if inside.is_empty() {
                        return Ok(());
                    }
                    let (mean, std) = mean_and_std(&inside, inside.len());
                    let divisor = std.max(1e-8);
                    let all = values.iter_mut().zip(mask.inside);
                    all.filter(|(_, inside)| **inside).for_each(|(value, _)| *value = (*value - mean) / divisor);
                }
                None => {
                    let (mean, std) = mean_and_std(values, run);
                    let divisor = std.max(1e-8);
                    values.iter_mut().for_each(|value| *value = (*value - mean) / divisor);
                }
            },
            Scheme::Ct => {
                let Some(training) = training.filter(|training| training.is_finite()) else {
                    let what = "lacks the mean, std, percentile_00_5 and percentile_99_5 that CTNormalization needs";
                    return Err(NnunetError::key("foreground_intensity_properties_per_channel", what));
                };
                let (low, high, mean) = (training.low as f32, training.high as f32, training.mean as f32);
                let divisor = training.std.max(1e-8) as f32;
                values.iter_mut().for_each(|value| *value = (value.max(low).min(high) - mean) / divisor);
            }
            Scheme::RescaleTo01 => {
                let least = values.iter().copied().fold(f32::INFINITY, f32::min);
                let most = values.iter().map(|value| value - least).fold(f32::NEG_INFINITY, f32::max).max(1e-8);
                values.iter_mut().for_each(|value| *value = (*value - least) / most);
            }
            Scheme::RgbTo01 => {
                if let Some(value) = values.iter().find(|value| !(0.0..=255.0).contains(*value)) {
                    let what = format!("RGBTo01Normalization takes values from 0 to 255, and one is {value}");
                    return Err(NnunetError::case(what));
                }
                values.iter_mut().for_each(|value| *value /= 255.0);
            }
        }
        Ok(())
    }
}

/// The voxels of a volume inside a mask, in the order in which nnU-Net sees them: that of the
/// transposed axes.
pub struct Inside<'a> {
    /// Whether each voxel is inside.
    pub inside: &'a [bool],
    /// The shape of the volume.
    pub shape: [usize; 3],
    /// The order of the axes, slowest first.
    pub order: [usize; 3],
}

impl Inside<'_> {
    /// The indices of all voxels.
    fn order(&self) -> impl Iterator<Item = usize> {
        let strides = [self.shape[1] * self.shape[2], self.shape[2], 1];
        let [(na, a), (nb, b), (nc, c)] = self.order.map(|axis| (self.shape[axis], strides[axis]));
        (0..na).flat_map(move |i| (0..nb).flat_map(move |j| (0..nc).map(move |k| i * a + j * b + k * c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_by_hand() {
        let mut values = [2.0, 4.0, 6.0, 8.0];
        Scheme::ZScore.apply(&mut values, 4, None, None).expect("numbers");
        let unit = 1.0 / 5.0_f32.sqrt();
        values.iter().zip([-3.0, -1.0, 1.0, 3.0]).for_each(|(v, e)| assert!((v - e * unit).abs() < 1e-6, "{v}"));
        let mask = [true, false, true, false];
        let mask = Inside { inside: &mask, shape: [1, 2, 2], order: [0, 1, 2] };
        let mut values = [2.0, 0.0, 6.0, 0.0];
        Scheme::ZScore.apply(&mut values, 4, Some(&mask), None).expect("numbers");
        assert_eq!(values, [-1.0, 0.0, 1.0, 0.0]);
        let training = Intensities { mean: 10.0, std: 2.0, low: 0.0, high: 20.0 };
        let mut values = [-100.0, 10.0, 50.0];
        Scheme::Ct.apply(&mut values, 3, None, Some(&training)).expect("numbers");
        assert_eq!(values, [-5.0, 0.0, 5.0]);
        assert!(Scheme::Ct.apply(&mut values, 3, None, None).is_err());
        Scheme::RescaleTo01.apply(&mut values, 3, None, None).expect("numbers");
        assert_eq!(values, [0.0, 0.5, 1.0]);
        let mut values = [0.0, 255.0];
        Scheme::RgbTo01.apply(&mut values, 2, None, None).expect("colours");
        assert_eq!(values, [0.0, 1.0]);
        assert!(Scheme::RgbTo01.apply(&mut [256.0], 1, None, None).is_err());
        assert!(Scheme::named("Other").is_err());
        let mut constant = [7.0; 9];
        Scheme::ZScore.apply(&mut constant, 9, None, None).expect("numbers");
        assert_eq!(constant, [0.0; 9]);
    }
}

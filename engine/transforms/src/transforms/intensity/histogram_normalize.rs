use std::collections::BTreeSet;

use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::ranges::check_finite;
use super::values::{each_piece, on_host};
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// Equalizes the histogram: each value becomes the fraction of values below it, scaled to
/// `min..max`.
///
/// `mask_key` is the key of an image of the same shape: only values where it is not 0 are counted,
/// but all are changed. Runs on the CPU.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::HistogramNormalize};
/// let image = tiny::apply(HistogramNormalize::new("image"), tiny::line([0.0, 1.0, 2.0, 100.0]))?;
/// // Far from 5, where scaling alone would put it.
/// assert!(image.to_vec()[2] > 80.0);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistogramNormalize {
    keys: Keys,
    #[serde(default = "bins")]
    num_bins: usize,
    #[serde(default)]
    min: f64,
    #[serde(default = "highest")]
    max: f64,
    #[serde(default)]
    mask_key: Option<String>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum number of bins: about the number of f32 values of one magnitude.
const MAX_BINS: usize = 1 << 24;

fn bins() -> usize {
    256
}

fn highest() -> f64 {
    255.0
}

impl HistogramNormalize {
    /// Creates the transform: 256 bins, to 0..255, with all values counted.
    pub fn new(keys: impl Into<Keys>) -> Self {
        HistogramNormalize {
            keys: keys.into(),
            num_bins: bins(),
            min: 0.0,
            max: highest(),
            mask_key: None,
            allow_missing_keys: false,
        }
    }

    /// Equalizes one image; values where `mask` is not 0 are counted.
    ///
    /// # Errors
    /// If the mask has another shape or is 0 everywhere, or a value is not finite.
    pub fn normalize(&self, image: Image, mask: Option<&Image>) -> Result<Image, TransformError> {
        let mask: Option<Vec<bool>> = match mask {
            Some(mask) if mask.data.dims() != image.data.dims() => {
                return Err(TransformError::new(format!("the mask has the shape {:?}", mask.data.dims()))
                    .expected(format!("{:?}, as the image", image.data.dims())));
            }
            Some(mask) => Some(mask.with_values(|values| values.iter().map(|m| *m != 0.0).collect())),
            None => None,
        };
        let Some(histogram) = image.with_values(|values| Histogram::of(values, self.num_bins, mask.as_deref())) else {
            return Err(TransformError::new("there are no values to count, or not all are finite")
                .advice("CheckCase finds such images; a mask must select something"));
        };
        let curve = self.curve(histogram);
        Ok(on_host(image, |values| each_piece(values, |piece| piece.iter_mut().for_each(|v| *v = curve.at(*v)))))
    }

    /// The cumulative counts, scaled in f32 as in MONAI.
    fn curve(&self, histogram: Histogram) -> Curve {
        let mut sum = 0_u64;
        let sums: Vec<f32> = histogram
            .counts
            .iter()
            .map(|n| {
                sum += n;
                sum as f32
            })
            .collect();
        let (low, high) = (sums[0], sums[sums.len() - 1]);
        let (min, max) = (self.min as f32, self.max as f32);
        let scaled = |v: &f32| if low == high { v * min } else { (v - low) / (high - low) * (max - min) + min };
        Curve::new(&histogram.centres, sums.iter().map(scaled))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if !(1..=MAX_BINS).contains(&self.num_bins) {
            return Err(Fault::at("num_bins", format!("{} is not 1 to {MAX_BINS}", self.num_bins)));
        }
        check_finite("min", self.min)?;
        check_finite("max", self.max)?;
        if self.min > self.max {
            return Err(Fault::at("min", format!("{} is larger than max = {}", self.min, self.max)));
        }
        Ok(())
    }
}

/// Linear interpolation between equidistant points: numpy's `interp`, which computes in f64.
struct Curve {
    places: Vec<f64>,
    values: Vec<f64>,
    slopes: Vec<f64>,
    /// Points per unit.
    density: f64,
}

impl Curve {
    fn new(places: &[f32], values: impl Iterator<Item = f32>) -> Self {
        let places: Vec<f64> = places.iter().map(|v| f64::from(*v)).collect();
        let values: Vec<f64> = values.map(f64::from).collect();
        let slopes = places.windows(2).zip(values.windows(2)).map(|(x, y)| (y[1] - y[0]) / (x[1] - x[0])).collect();
        let density = (places.len() - 1) as f64 / (places[places.len() - 1] - places[0]).max(f64::MIN_POSITIVE);
        Curve { places, values, slopes, density }
    }

    fn at(&self, x: f32) -> f32 {
        let x = f64::from(x);
        let last = self.places.len() - 1;
        let value = if x <= self.places[0] {
            self.values[0]
        } else if x >= self.places[last] {
            self.values[last]
        } else if x.is_nan() {
            x
        } else {
            let mut i = (((x - self.places[0]) * self.density) as usize).min(last - 1);
            if x < self.places[i] {
                i -= 1;
            } else if i + 1 < last && x >= self.places[i + 1] {
                i += 1;
            }
            self.slopes[i] * (x - self.places[i]) + self.values[i]
        };
        value as f32
    }
}

setters!(HistogramNormalize {
    /// Number of bins.
    num_bins: usize,
    /// Smallest value of the result.
    min: f64,
    /// Largest value of the result.
    max: f64,
    /// Key of the mask: values where it is not 0 are counted.
    mask_key: Option<String>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for HistogramNormalize {
    fn name(&self) -> &'static str {
        "HistogramNormalize"
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let mask = self.mask_key.as_ref().map(|key| sample.image(key).cloned()).transpose()?;
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| self.normalize(image, mask.as_ref()))?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.mask_key.as_ref().map_or(Ok(()), |key| check_key("mask_key", key, known))?;
        self.check_parameters()
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    HistogramNormalize,
    r#"keys = ["image"]
num_bins = 64
min = 0.0
max = 1.0"#
);

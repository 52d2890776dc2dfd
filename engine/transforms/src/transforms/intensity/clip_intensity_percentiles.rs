use burn::tensor::Tensor;
use hearth_image::{Image, TransformError};
use hearth_kernels::host;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::{Linear, column, map_linear};
use super::percentile::percentiles;
use super::ranges::{check_percentile, check_positive};
use super::values::{each_piece, groups};
use crate::params::Keys;

/// Clips to the values at two percentiles of the image, or of each channel; one of them may be
/// omitted.
///
/// With `sharpness_factor` c the clipping is soft:
/// `x + softplus(-c (x - low)) / c - softplus(c (x - high)) / c`, which keeps the order of the
/// values.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ClipIntensityPercentiles};
/// let step = ClipIntensityPercentiles::new("image", 0.0, 50.0);
/// let image = tiny::apply(step, tiny::line([0.0, 1.0, 2.0, 3.0, 4.0]))?;
/// assert!(tiny::is_near(&image, [0.0, 1.0, 2.0, 2.0, 2.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClipIntensityPercentiles {
    keys: Keys,
    /// Percentile below which values are clipped.
    #[serde(default)]
    lower: Option<f64>,
    /// Percentile above which values are clipped.
    #[serde(default)]
    upper: Option<f64>,
    #[serde(default)]
    sharpness_factor: Option<f64>,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ClipIntensityPercentiles {
    /// Creates the transform: hard clipping to the percentiles `lower` and `upper`.
    pub fn new(keys: impl Into<Keys>, lower: impl Into<Option<f64>>, upper: impl Into<Option<f64>>) -> Self {
        ClipIntensityPercentiles {
            keys: keys.into(),
            lower: lower.into(),
            upper: upper.into(),
            sharpness_factor: None,
            channel_wise: false,
            allow_missing_keys: false,
        }
    }

    /// Clips one image.
    ///
    /// # Errors
    /// Never.
    pub fn clip(&self, image: Image) -> Result<Image, TransformError> {
        let (_, size) = groups(&image, self.channel_wise);
        let wanted: Vec<f64> = [self.lower, self.upper].into_iter().flatten().collect();
        let maps: Vec<Linear> = image.with_values(|values| {
            let ends = values.chunks(size).map(|values| percentiles(values, &wanted));
            ends.map(|found| {
                let mut found = found.into_iter();
                let low = self.lower.and_then(|_| found.next()).unwrap_or(f32::NEG_INFINITY);
                let high = self.upper.and_then(|_| found.next()).unwrap_or(f32::INFINITY);
                Linear { low, high, ..Linear::IDENTITY }
            })
            .collect()
        });
        Ok(match self.sharpness_factor {
            _ if maps.is_empty() => image,
            None => map_linear(image, &maps),
            Some(sharpness) => soft_clip(image, &maps, sharpness as f32),
        })
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if self.lower.is_none() && self.upper.is_none() {
            return Err(Fault::at("lower", "at least one of `lower` and `upper` must be given"));
        }
        self.lower.map_or(Ok(()), |v| check_percentile("lower", v))?;
        self.upper.map_or(Ok(()), |v| check_percentile("upper", v))?;
        if let (Some(lower), Some(upper)) = (self.lower, self.upper)
            && lower > upper
        {
            return Err(Fault::at("lower", format!("{lower} is larger than upper = {upper}")));
        }
        self.sharpness_factor.map_or(Ok(()), |v| check_positive("sharpness_factor", v))
    }
}

fn soft_clip(mut image: Image, limits: &[Linear], c: f32) -> Image {
    let (_, size) = groups(&image, limits.len() > 1);
    let (below, above) = (limits[0].low > f32::NEG_INFINITY, limits[0].high < f32::INFINITY);
    let changed = host::change(image.data, |values| {
        for (values, limit) in values.chunks_mut(size).zip(limits) {
            let clip = |x: f32| {
                let lift = if below { softplus(-c * (x - limit.low)) / c } else { 0.0 };
                let press = if above { softplus(c * (x - limit.high)) / c } else { 0.0 };
                x + lift - press
            };
            each_piece(values, |piece| piece.iter_mut().for_each(|v| *v = clip(*v)));
        }
    });
    image.data = changed.unwrap_or_else(|x| {
        let device = x.device();
        let each = |number: fn(&Linear) -> f32| column(limits.iter().map(number).collect(), &device);
        let mut out = x.clone();
        if below {
            out = out + softplus_of((x.clone() - each(|l| l.low)) * -c) / c;
        }
        if above {
            out = out - softplus_of((x - each(|l| l.high)) * c) / c;
        }
        out
    });
    image
}

/// `ln(1 + exp(z))`, without overflow.
fn softplus(z: f32) -> f32 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

fn softplus_of(z: Tensor<4>) -> Tensor<4> {
    z.clone().clamp_min(0.0) + (-z.abs()).exp().log1p()
}

setters!(ClipIntensityPercentiles {
    /// Factor of soft clipping; a larger factor is sharper.
    sharpness_factor: Option<f64>,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ClipIntensityPercentiles, clip, through_host: |_| true);

transform_entry!(
    ClipIntensityPercentiles,
    r#"keys = ["image"]
lower = 1.0
upper = 99.0"#
);

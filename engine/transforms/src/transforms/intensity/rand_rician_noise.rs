use burn::tensor::Tensor;
use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rand_gaussian_noise::{add_noise, check_deviation};
use super::ranges::check_finite;
use super::statistics::image_moments;
use super::values::zip;
use super::yes;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Adds the noise of magnitude images (Gudbjartsson and Patz, "The Rician distribution of noisy MRI
/// data", 1995), with probability `prob`: `sqrt((x + a)^2 + b^2)` with normal a and b of mean
/// `mean`.
///
/// The standard deviation of a and b is drawn uniformly from 0..`std`, or is `std` itself if
/// `sample_std` is false; `relative` multiplies it by the deviation of the image. With
/// `channel_wise` each channel is treated separately, and `mean` and `std` may be lists. Each key
/// gets separate noise.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandRicianNoise};
/// let image = tiny::apply(RandRicianNoise::new("image").prob(1.0), tiny::line([0.0; 4]))?;
/// assert!(image.to_vec().iter().all(|value| *value > 0.0));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandRicianNoise {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    mean: OneOrMany<f64>,
    #[serde(default = "one")]
    std: OneOrMany<f64>,
    #[serde(default)]
    channel_wise: bool,
    #[serde(default)]
    relative: bool,
    #[serde(default = "yes")]
    sample_std: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> OneOrMany<f64> {
    OneOrMany::One(1.0)
}

impl RandRicianNoise {
    /// Creates the transform: deviation up to 1, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandRicianNoise {
            keys: keys.into(),
            prob: tenth(),
            mean: OneOrMany::default(),
            std: one(),
            channel_wise: false,
            relative: false,
            sample_std: true,
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<Vec<Draw>, TransformError> {
        Ok((0..self.keys.len() as u64).map(|key| draw.part(key)).collect())
    }

    fn change(&self, mut image: Image, drawn: &[Draw], place: usize) -> Result<Image, TransformError> {
        let draw = &drawn[place];
        let channels = image.channels();
        for (name, list) in [("mean", &self.mean), ("std", &self.std)] {
            if matches!(list, OneOrMany::Many(v) if self.channel_wise && v.len() != channels) {
                return Err(TransformError::new(format!("`{name}` has {} entries", list.as_slice().len()))
                    .expected(format!("one, or {channels}: one per channel")));
            }
        }
        let groups = if self.channel_wise { channels } else { 1 };
        let spread = if self.relative { image_moments(&image, self.channel_wise, false) } else { Vec::new() };
        let parts: Vec<Tensor<4>> = (0..groups)
            .map(|group| {
                let std = self.std.at(group).unwrap_or(0.0);
                let std = std * spread.get(group).map_or(1.0, |m| m.sample_deviation());
                let std = if self.sample_std { draw.between(0.0, std) } else { std };
                let (mean, std) = (self.mean.at(group).unwrap_or(0.0) as f32, std as f32);
                let part = if groups == 1 { image.data.clone() } else { image.data.clone().narrow(0, group, 1) };
                let number = 2 * group as u64;
                let other = add_noise(part.zeros_like(), &draw.part(number + 1), mean, std);
                let noisy = Image::new(add_noise(part, &draw.part(number), mean, std), image.affine);
                let magnitude = |a: f32, b: f32| (a * a + b * b).sqrt();
                zip(noisy, &other, magnitude, |a, b| (a.clone() * a + b.clone() * b).sqrt()).data
            })
            .collect();
        if groups > 0 {
            image.data = Tensor::cat(parts, 0);
        }
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        for (name, list) in [("mean", &self.mean), ("std", &self.std)] {
            if matches!(list, OneOrMany::Many(_)) && !self.channel_wise {
                return Err(Fault::at(name, "may be a list only where `channel_wise` is true"));
            }
        }
        self.mean.as_slice().iter().try_for_each(|v| check_finite("mean", *v))?;
        self.std.as_slice().iter().try_for_each(|v| check_deviation(*v))
    }
}

setters!(RandRicianNoise {
    /// Probability that the transform is applied.
    prob: f64,
    /// Mean of the normal noise, one or one per channel.
    mean: OneOrMany<f64>,
    /// Standard deviation of the normal noise or its maximum, one or one per channel.
    std: OneOrMany<f64>,
    /// Whether to treat each channel separately.
    channel_wise: bool,
    /// Whether `std` is relative to the deviation of the image.
    relative: bool,
    /// Whether the deviation is drawn.
    sample_std: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandRicianNoise);

transform_entry!(
    RandRicianNoise,
    r#"keys = ["image"]
prob = 0.5
std = 0.1"#
);

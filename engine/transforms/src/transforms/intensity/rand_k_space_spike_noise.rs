use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::k_space_spike_noise::{Spike, add_spikes, mean_logs};
use super::ranges::check_pair;
use super::yes;
use crate::Draw;
use crate::params::Keys;
use crate::transforms::rand_flip::tenth;

/// Applies [`KSpaceSpikeNoise`](super::KSpaceSpikeNoise) at a random position of each channel, with
/// probability `prob`.
///
/// The logarithm of the magnitude is drawn uniformly from `intensity_range`, one pair or one per
/// channel; by default from 0.95 to 1.1 times 2.5 times the mean logarithm of the channel. With
/// `channel_wise = false` the spikes of all channels have the same position. Each key has separate
/// draws.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandKSpaceSpikeNoise};
/// let step = RandKSpaceSpikeNoise::new("image").prob(1.0);
/// let image = tiny::apply(step, tiny::ramp([1, 8, 1, 1]))?;
/// assert_ne!(image.to_vec(), tiny::ramp([1, 8, 1, 1]).to_vec());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandKSpaceSpikeNoise {
    keys: Keys,
    #[serde(default = "tenth")]
    prob: f64,
    #[serde(default)]
    intensity_range: Option<IntensityRange>,
    #[serde(default = "yes")]
    channel_wise: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// One range, or one per channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a range of two numbers, or one for each channel")]
pub enum IntensityRange {
    /// One range for all channels.
    All([f64; 2]),
    /// One range per channel.
    Each(Vec<[f64; 2]>),
}

impl From<[f64; 2]> for IntensityRange {
    fn from(range: [f64; 2]) -> Self {
        IntensityRange::All(range)
    }
}

impl From<Vec<[f64; 2]>> for IntensityRange {
    fn from(ranges: Vec<[f64; 2]>) -> Self {
        IntensityRange::Each(ranges)
    }
}

impl RandKSpaceSpikeNoise {
    /// Creates the transform: an intensity that depends on the image, with probability 0.1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        RandKSpaceSpikeNoise {
            keys: keys.into(),
            prob: tenth(),
            intensity_range: None,
            channel_wise: true,
            allow_missing_keys: false,
        }
    }

    fn draw(&self, draw: &Draw, _: &[&Image]) -> Result<Vec<Draw>, TransformError> {
        Ok((0..self.keys.len() as u64).map(|key| draw.part(key)).collect())
    }

    fn change(&self, image: Image, drawn: &[Draw], place: usize) -> Result<Image, TransformError> {
        let (draw, channels, shape) = (&drawn[place], image.channels(), image.shape());
        if shape.contains(&0) {
            return Ok(image);
        }
        let ranges = match &self.intensity_range {
            Some(IntensityRange::All(range)) => vec![*range; channels],
            Some(IntensityRange::Each(ranges)) if ranges.len() == channels => ranges.clone(),
            Some(IntensityRange::Each(ranges)) => {
                return Err(TransformError::new(format!("intensity_range has {} pairs", ranges.len()))
                    .expected(format!("one, or {channels}: one per channel")));
            }
            None => mean_logs(&image).into_iter().map(|mean| [0.95, 1.1].map(|f| f * 2.5 * mean)).collect(),
        };
        let anywhere = || shape.map(|n| draw.below(n as u64) as usize);
        let common = (!self.channel_wise).then(anywhere);
        let spike = |(channel, [low, high]): (usize, [f64; 2])| {
            let place = common.unwrap_or_else(anywhere);
            Spike { channel, place, intensity: draw.between(low, high) }
        };
        let spikes: Vec<Spike> = ranges.into_iter().enumerate().map(spike).collect();
        Ok(add_spikes(image, &spikes))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        let check = |range: &[f64; 2]| check_pair("intensity_range", *range, f64::NEG_INFINITY, f64::INFINITY);
        match &self.intensity_range {
            None => Ok(()),
            Some(IntensityRange::All(range)) => check(range),
            Some(IntensityRange::Each(_)) if !self.channel_wise => {
                Err(Fault::at("intensity_range", "must be one pair where `channel_wise` is false"))
            }
            Some(IntensityRange::Each(ranges)) => ranges.iter().try_for_each(check),
        }
    }
}

setters!(RandKSpaceSpikeNoise {
    /// Probability that the transform is applied.
    prob: f64,
    /// Range of the logarithm of the magnitude, one or one per channel.
    intensity_range: Option<IntensityRange>,
    /// Whether each channel has a separate position.
    channel_wise: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

random_image_transform!(RandKSpaceSpikeNoise, through_host: |_| true);

transform_entry!(
    RandKSpaceSpikeNoise,
    r#"keys = ["image"]
prob = 0.5"#
);

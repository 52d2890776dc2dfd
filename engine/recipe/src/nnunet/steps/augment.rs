//! nnU-Net's augmentation of a patch.

use std::collections::BTreeSet;

use hearth_data::{Draw, Fault, Keys, Sample, Transform, TransformError};
use hearth_nnunet::Volume;
use hearth_nnunet::augment::intensity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_previous, describe, probability, range, tensor, volume};

/// Augments a patch after nnU-Net's spatial transform. The steps, in this order and each with its
/// own probability, are: noise, blur, brightness, contrast, low resolution, gamma of the negated
/// image, gamma, mirroring. Blur and low resolution change each channel with probability 0.5; the
/// noise is the same for all channels. At the end, the channels of `mask_channels` become 0 where
/// the label is -1, and labels of -1 become 0.
///
/// `keys` are the image and, if there is one, its label map; the labels of `previous_key` are
/// mirrored with them. Factors of brightness, contrast and gamma below 1 and above 1 are equally
/// likely.
///
/// ```
/// # use hearth_data::tiny;
/// # use hearth_recipe::nnunet::RandNnunetAugment;
/// let step = "keys = ['image']\nnoise_prob = 0.0\nblur_prob = 0.0\nbrightness_prob = 0.0\ncontrast_prob = 0.0\n\
///     low_resolution_prob = 0.0\ngamma_inverted_prob = 0.0\ngamma_prob = 0.0\nmirror_axes = []";
/// let step: RandNnunetAugment = toml::from_str(step).expect("parameters");
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0]))?.to_vec(), [1.0, 2.0]);
/// # Ok::<(), hearth_data::TransformError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandNnunetAugment {
    keys: Keys,
    /// Probability of noise.
    #[serde(default = "tenth")]
    noise_prob: f64,
    /// The largest deviation of the noise; nnU-Net calls it a variance.
    #[serde(default = "tenth")]
    noise_std: f64,
    /// Probability of blur.
    #[serde(default = "fifth")]
    blur_prob: f64,
    /// Range of the blur's standard deviation in voxels, drawn for each axis.
    #[serde(default = "half_to_one")]
    blur_sigma: [f64; 2],
    /// Probability of a brightness change.
    #[serde(default = "fifteen")]
    brightness_prob: f64,
    /// Range of the factor of each channel.
    #[serde(default = "around_one")]
    brightness_range: [f64; 2],
    /// Probability of a contrast change.
    #[serde(default = "fifteen")]
    contrast_prob: f64,
    /// Range of the factor of each channel.
    #[serde(default = "around_one")]
    contrast_range: [f64; 2],
    /// Probability of a low resolution.
    #[serde(default = "quarter")]
    low_resolution_prob: f64,
    /// Range of the scale.
    #[serde(default = "half_to_one")]
    low_resolution_zoom: [f64; 2],
    /// Whether the first axis keeps its resolution, for flat patches.
    #[serde(default)]
    keep_first_axis: bool,
    /// Probability of gamma on the negated image.
    #[serde(default = "tenth")]
    gamma_inverted_prob: f64,
    /// Probability of gamma on the image.
    #[serde(default = "three_tenths")]
    gamma_prob: f64,
    /// Range of the gamma of each channel.
    #[serde(default = "powers")]
    gamma_range: [f64; 2],
    /// Axes that are mirrored, each with probability 0.5.
    #[serde(default = "all_axes")]
    pub mirror_axes: Vec<usize>,
    /// Channels that become 0 where the label is -1: those that are normalised within a mask.
    #[serde(default)]
    mask_channels: Vec<usize>,
    /// Key of the labels of the earlier stage of a cascade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_key: Option<String>,
}

fn tenth() -> f64 {
    0.1
}

fn fifth() -> f64 {
    0.2
}

fn fifteen() -> f64 {
    0.15
}

fn quarter() -> f64 {
    0.25
}

fn three_tenths() -> f64 {
    0.3
}

fn half_to_one() -> [f64; 2] {
    [0.5, 1.0]
}

fn around_one() -> [f64; 2] {
    [0.75, 1.25]
}

fn powers() -> [f64; 2] {
    [0.7, 1.5]
}

fn all_axes() -> Vec<usize> {
    vec![0, 1, 2]
}

/// A number below or above 1, equally likely if the range has both.
fn around(draw: &Draw, [low, high]: [f64; 2]) -> f64 {
    let below = draw.happens(0.5);
    if below && low < 1.0 { draw.between(low, high.min(1.0)) } else { draw.between(low.max(1.0).min(high), high) }
}

fn each(image: &mut Volume, change: impl FnMut(&mut [f32])) {
    let voxels = image.voxels().max(1);
    image.data.chunks_mut(voxels).for_each(change);
}

impl RandNnunetAugment {
    fn change(&self, image: &mut Volume, flat: bool, draw: &Draw) {
        let (shape, voxels, channels) = (image.shape, image.voxels().max(1), image.channels);
        if draw.happens(self.noise_prob) {
            let (std, noise) = (draw.between(0.0, self.noise_std) as f32, draw.part(0));
            each(image, |values| noise.add_normal(values, 0.0, std));
        }
        if draw.happens(self.blur_prob) {
            for channel in 0..channels {
                if draw.happens(0.5) {
                    let [low, high] = self.blur_sigma;
                    let sigmas = std::array::from_fn(|axis| (axis > 0 || !flat).then(|| draw.between(low, high)));
                    intensity::blur(&mut image.data[channel * voxels..][..voxels], shape, sigmas);
                }
            }
        }
        if draw.happens(self.brightness_prob) {
            each(image, |values| intensity::brightness(values, around(draw, self.brightness_range)));
        }
        if draw.happens(self.contrast_prob) {
            each(image, |values| intensity::contrast(values, around(draw, self.contrast_range)));
        }
        if draw.happens(self.low_resolution_prob) {
            for channel in 0..channels {
                if draw.happens(0.5) {
                    let scale = draw.between(self.low_resolution_zoom[0], self.low_resolution_zoom[1]);
                    let first = if flat || self.keep_first_axis { 1.0 } else { scale };
                    let values = &mut image.data[channel * voxels..][..voxels];
                    intensity::low_resolution(values, shape, [first, scale, scale]);
                }
            }
        }
        for (prob, invert) in [(self.gamma_inverted_prob, true), (self.gamma_prob, false)] {
            if draw.happens(prob) {
                each(image, |values| intensity::gamma(values, around(draw, self.gamma_range), invert));
            }
        }
    }
}

impl Transform for RandNnunetAugment {
    fn is_random(&self) -> bool {
        true
    }

    fn effect(&self) -> hearth_data::Effect {
        hearth_data::Effect::Values
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys: Vec<String> = self.keys.iter().map(str::to_owned).collect();
        let read = |sample: &Sample, key: &str| -> Result<(Volume, bool), TransformError> {
            let image = sample.image(key)?;
            Ok((volume(image)?, image.meta.spatial_dims == 2))
        };
        let (mut image, flat) = read(&sample, &keys[0]).map_err(|error| error.at(&keys[0]))?;
        let label = keys.get(1).map(|key| read(&sample, key).map_err(|error| error.at(key))).transpose()?;
        self.change(&mut image, flat, draw);
        let mut mirrored = [false; 3];
        for axis in &self.mirror_axes {
            let mirrors = draw.happens(0.5);
            // A slice has no third axis.
            if let Some(place) = mirrored.get_mut(axis + usize::from(flat)) {
                *place = mirrors;
            }
        }
        let mirror = |of: &mut Volume| {
            let (shape, voxels) = (of.shape, of.voxels().max(1));
            of.data.chunks_mut(voxels).for_each(|values| intensity::mirror(values, shape, mirrored));
        };
        mirror(&mut image);
        if let Some((mut label, _)) = label {
            mirror(&mut label);
            if label.shape != image.shape {
                let what = format!("it has {:?} voxels; expected {:?}, as the image has", label.shape, image.shape);
                return Err(TransformError::new(what).at(&keys[1]));
            }
            let voxels = image.voxels();
            for channel in self.mask_channels.iter().filter(|channel| **channel < image.channels) {
                let values = &mut image.data[channel * voxels..][..voxels];
                values.iter_mut().zip(&label.data).filter(|(_, label)| **label < 0.0).for_each(|(v, _)| *v = 0.0);
            }
            label.data.iter_mut().for_each(|label| *label = label.max(0.0));
            sample.update(&keys[1], |old| {
                let data = tensor(label, flat, &old.data.device());
                Ok(hearth_data::Image { data, ..old })
            })?;
        }
        if let Some(key) = &self.previous_key {
            let (mut previous, _) = read(&sample, key).map_err(|error| error.at(key))?;
            if previous.shape != image.shape {
                let what = format!("it has {:?} voxels; expected {:?}, as the image has", previous.shape, image.shape);
                return Err(TransformError::new(what).at(key));
            }
            mirror(&mut previous);
            previous.data.iter_mut().for_each(|label| *label = label.max(0.0));
            sample.update(key, |old| {
                let data = tensor(previous, flat, &old.data.device());
                Ok(hearth_data::Image { data, ..old })
            })?;
        }
        sample.update(&keys[0], |old| {
            let data = tensor(image, flat, &old.data.device());
            Ok(hearth_data::Image { data, ..old })
        })?;
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if self.keys.len() > 2 {
            return Err(Fault::at("keys", "expected the image and its label map"));
        }
        check_previous(self.previous_key.as_deref(), known)?;
        let probabilities = [
            ("noise_prob", self.noise_prob),
            ("blur_prob", self.blur_prob),
            ("brightness_prob", self.brightness_prob),
            ("contrast_prob", self.contrast_prob),
            ("low_resolution_prob", self.low_resolution_prob),
            ("gamma_inverted_prob", self.gamma_inverted_prob),
            ("gamma_prob", self.gamma_prob),
        ];
        probabilities.into_iter().try_for_each(|(key, value)| probability(key, value))?;
        range("noise_std", [0.0, self.noise_std], 0.0)?;
        range("blur_sigma", self.blur_sigma, 0.01)?;
        if self.blur_sigma[1] > 100.0 {
            return Err(Fault::at("blur_sigma", "at most 100 voxels"));
        }
        range("brightness_range", self.brightness_range, 0.0)?;
        range("contrast_range", self.contrast_range, 0.0)?;
        range("low_resolution_zoom", self.low_resolution_zoom, 0.01)?;
        if self.low_resolution_zoom[1] > 1.0 {
            return Err(Fault::at("low_resolution_zoom", "at most 1"));
        }
        range("gamma_range", self.gamma_range, 0.01)?;
        match self.mirror_axes.iter().find(|axis| **axis > 2) {
            Some(axis) => Err(Fault::at("mirror_axes", format!("there is no axis {axis}; expected 0, 1 or 2"))),
            None => Ok(()),
        }
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

hearth_registry::entry!(
    dyn Transform => RandNnunetAugment,
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"keys = ["image", "label"]
mirror_axes = [0, 1, 2]"#
);

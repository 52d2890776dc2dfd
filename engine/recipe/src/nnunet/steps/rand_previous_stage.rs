//! nnU-Net's augmentation of the labels of an earlier stage.

use std::collections::BTreeSet;

use hearth_data::{Draw, Effect, Fault, Image, Keys, Sample, Transform, TransformError};
use hearth_nnunet::augment::cascade::{BinaryOperator, binary_operator, remove_component};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{describe, probability, range, tensor, volume};

/// Augments the labels of an earlier stage, so that the second stage of a cascade learns to correct
/// them. With `operator_prob`, each label is dilated, eroded, closed or opened by a ball with
/// `operator_label_prob`, and added voxels are removed from the other labels. Then with
/// `remove_prob`, each label loses a component with `remove_label_prob`, if it has one that is
/// small enough. The order of the labels is random as well.
///
/// The labels are the last `channels` channels of the image, of 0 and 1, as `NnunetPreviousStage`
/// appends them; other channels stay unchanged.
///
/// ```
/// # use hearth_data::tiny;
/// # use hearth_recipe::nnunet::RandNnunetPreviousStage;
/// let step = "keys = ['image']\nchannels = 1\noperator_prob = 0.0\nremove_prob = 1.0\nremove_label_prob = 1.0";
/// let step: RandNnunetPreviousStage = toml::from_str(step).expect("parameters");
/// let labels = tiny::line([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
/// assert_eq!(tiny::apply(step, labels)?.to_vec(), [0.0; 8]);
/// # Ok::<(), hearth_data::TransformError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandNnunetPreviousStage {
    keys: Keys,
    /// The number of last channels of the image that are labels.
    channels: usize,
    /// Probability that labels are changed by operators.
    #[serde(default = "two_fifths")]
    operator_prob: f64,
    /// Probability of each label in that case.
    #[serde(default = "half")]
    operator_label_prob: f64,
    /// Range of the ball's radius in voxels.
    #[serde(default = "radii")]
    radius: [f64; 2],
    /// Probability that components are removed.
    #[serde(default = "fifth")]
    remove_prob: f64,
    /// Probability of each label in that case.
    #[serde(default = "half")]
    remove_label_prob: f64,
    /// Share of the patch from which on components stay.
    #[serde(default = "share")]
    remove_below: f64,
}

fn two_fifths() -> f64 {
    0.4
}

fn half() -> f64 {
    0.5
}

fn fifth() -> f64 {
    0.2
}

fn share() -> f64 {
    0.15
}

fn radii() -> [f64; 2] {
    [1.0, 8.0]
}

impl RandNnunetPreviousStage {
    /// The labels that are changed, in the order of processing.
    fn chosen(&self, probability: f64, draw: &Draw) -> Vec<usize> {
        draw.permutation(self.channels).into_iter().filter(|_| draw.happens(probability)).collect()
    }

    fn change(&self, hot: &mut [f32], shape: [usize; 3], draw: &Draw) -> Result<(), TransformError> {
        if draw.happens(self.operator_prob) {
            for channel in self.chosen(self.operator_label_prob, draw) {
                let operator = BinaryOperator::ALL[draw.below(BinaryOperator::ALL.len() as u64) as usize];
                binary_operator(hot, shape, channel, operator, draw.between(self.radius[0], self.radius[1]));
            }
        }
        if draw.happens(self.remove_prob) {
            for channel in self.chosen(self.remove_label_prob, draw) {
                let pick = |count: usize| draw.below(count as u64) as usize;
                remove_component(hot, shape, channel, self.remove_below, pick)
                    .map_err(|error| TransformError::new(error.to_string()))?;
            }
        }
        Ok(())
    }
}

impl Transform for RandNnunetPreviousStage {
    fn is_random(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Values
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        for key in self.keys.iter().map(str::to_owned).collect::<Vec<_>>() {
            sample.update(&key, |image| {
                let (flat, mut values) = (image.meta.spatial_dims == 2, volume(&image)?);
                let Some(own) = values.channels.checked_sub(self.channels) else {
                    let what = format!("it has {} channels, and {} are labels", values.channels, self.channels);
                    return Err(TransformError::new(what));
                };
                let (shape, voxels) = (values.shape, values.voxels());
                self.change(&mut values.data[own * voxels..], shape, draw)?;
                Ok(Image { data: tensor(values, flat, &image.data.device()), ..image })
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if self.channels == 0 {
            return Err(Fault::at("channels", "expected at least one label"));
        }
        for (key, value) in [
            ("operator_prob", self.operator_prob),
            ("operator_label_prob", self.operator_label_prob),
            ("remove_prob", self.remove_prob),
            ("remove_label_prob", self.remove_label_prob),
            ("remove_below", self.remove_below),
        ] {
            probability(key, value)?;
        }
        range("radius", self.radius, 0.5)?;
        if self.radius[1] > 100.0 {
            return Err(Fault::at("radius", "at most 100 voxels"));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

hearth_registry::entry!(
    dyn Transform => RandNnunetPreviousStage,
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"keys = ["image"]
channels = 1"#
);

use std::collections::HashMap;

use hearth_image::{Image, OneOrMany, TransformError};
use hearth_kernels::label::{self, Components, LabelError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{axes, channels_of, check_connectivity, voxels, yes};
use crate::params::Keys;
use crate::transforms::intensity::on_host;

/// Keeps the `num_components` largest connected components of each label and sets the others to 0.
///
/// `applied_labels` are the labels (channels of a one-hot map) that are processed, by default all
/// but 0. `is_onehot` is by default true for an image of several channels. `independent = false`
/// treats all labels together, as one region. `connectivity` is the number of orthogonal steps to a
/// neighbour, by default the number of axes. Of components of the same size the later one is kept.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::KeepLargestConnectedComponent};
/// let mask = tiny::line([1.0, 0.0, 1.0, 1.0]);
/// let image = tiny::apply(KeepLargestConnectedComponent::new("image"), mask)?;
/// assert_eq!(image.to_vec(), [0.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepLargestConnectedComponent {
    keys: Keys,
    #[serde(default)]
    applied_labels: Option<OneOrMany<i64>>,
    #[serde(default)]
    is_onehot: Option<bool>,
    #[serde(default = "yes")]
    independent: bool,
    #[serde(default)]
    connectivity: Option<usize>,
    #[serde(default = "one")]
    num_components: usize,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> usize {
    1
}

impl KeepLargestConnectedComponent {
    /// Creates the transform: keeps the largest component of each label.
    pub fn new(keys: impl Into<Keys>) -> Self {
        KeepLargestConnectedComponent {
            keys: keys.into(),
            applied_labels: None,
            is_onehot: None,
            independent: true,
            connectivity: None,
            num_components: 1,
            allow_missing_keys: false,
        }
    }

    /// Cleans one image.
    ///
    /// # Errors
    /// If a label names no channel of a one-hot map, the connectivity is more than the number of
    /// axes, or an image of several channels is used as a label map without `applied_labels`.
    pub fn keep(&self, image: Image) -> Result<Image, TransformError> {
        let channels = image.channels();
        let shape = axes(&image);
        let connectivity = self.connectivity.unwrap_or(shape.len());
        let onehot = self.is_onehot.unwrap_or(channels > 1);
        if !onehot && channels != 1 && self.applied_labels.is_none() {
            return Err(TransformError::new(format!("a label map of {channels} channels")).expected("one channel"));
        }
        let labels = self.applied_labels.as_ref().map(OneOrMany::as_slice);
        let of_channels = match labels {
            Some(labels) if onehot => channels_of(labels, channels)?,
            _ => (1..channels).collect(),
        };
        let size = voxels(&image);
        if size == 0 {
            return Ok(image);
        }
        let mut result = Ok(());
        let image = on_host(image, |values| {
            let mut planes: Vec<&mut [f32]> = values.chunks_exact_mut(size).collect();
            result = if onehot {
                // A channel that is not named is used if it has any voxel.
                let used = |channel: &[f32]| channel.iter().map(|v| f64::from(*v)).sum::<f64>() > 0.0;
                let chosen: Vec<usize> =
                    of_channels.into_iter().filter(|c| labels.is_some() || used(planes[*c])).collect();
                self.one_hot(&mut planes, &chosen, &shape, connectivity)
            } else {
                self.label_map(&mut *planes[0], &shape, connectivity, labels)
            };
        });
        result?;
        Ok(image)
    }

    fn one_hot(
        &self,
        planes: &mut [&mut [f32]],
        channels: &[usize],
        shape: &[usize],
        connectivity: usize,
    ) -> Result<(), LabelError> {
        let clean = |foreground: &[bool], planes: &mut [&mut [f32]], channels: &[usize]| {
            let found = label::components(foreground, shape, connectivity)?;
            let dropped = self.dropped(&found, |_| 0);
            for channel in channels {
                found.paint(&mut *planes[*channel], |component| dropped[component].then_some(0.0));
            }
            Ok(())
        };
        if self.independent {
            return channels.iter().try_for_each(|channel| {
                let foreground: Vec<bool> = planes[*channel].iter().map(|v| *v > 0.0).collect();
                clean(&foreground, planes, &[*channel])
            });
        }
        let mut foreground = vec![false; planes[0].len()];
        for channel in channels {
            foreground.iter_mut().zip(&*planes[*channel]).for_each(|(set, v)| *set |= *v == 1.0);
        }
        clean(&foreground, planes, channels)
    }

    fn label_map(
        &self,
        map: &mut [f32],
        shape: &[usize],
        connectivity: usize,
        labels: Option<&[i64]>,
    ) -> Result<(), LabelError> {
        let labels: Option<Vec<f32>> = labels.map(|labels| labels.iter().map(|l| *l as f32).collect());
        let applies = |v: f32| labels.as_ref().map_or(v != 0.0 && !v.is_nan(), |labels| labels.contains(&v));
        if self.independent {
            let found = label::components_by_value(map, shape, connectivity)?;
            let values: Vec<f32> = found.regions().iter().map(|r| map[r.first]).collect();
            let dropped = self.dropped(&found, |component| values[component].to_bits());
            found.paint(map, |component| (dropped[component] && applies(values[component])).then_some(0.0));
        } else {
            let foreground: Vec<bool> = map.iter().map(|v| applies(*v)).collect();
            let found = label::components(&foreground, shape, connectivity)?;
            let dropped = self.dropped(&found, |_| 0);
            found.paint(map, |component| dropped[component].then_some(0.0));
        }
        Ok(())
    }

    /// The components that are not among the largest of their group.
    fn dropped(&self, found: &Components, group: impl Fn(usize) -> u32) -> Vec<bool> {
        let mut dropped = vec![false; found.len()];
        let mut seen = HashMap::new();
        for component in found.by_size() {
            let rank = seen.entry(group(component)).or_insert(0_usize);
            dropped[component] = *rank >= self.num_components;
            *rank += 1;
        }
        dropped
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_connectivity(self.connectivity)
    }
}

setters!(KeepLargestConnectedComponent {
    /// Labels to process (channels of a one-hot map).
    applied_labels: Option<OneOrMany<i64>>,
    /// Whether channels are labels.
    is_onehot: Option<bool>,
    /// Whether to process each label separately instead of their union.
    independent: bool,
    /// Maximum number of orthogonal steps to a neighbour.
    connectivity: Option<usize>,
    /// Number of components that are kept.
    num_components: usize,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(KeepLargestConnectedComponent, keep, through_host: |_| true);

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, stack, values};
    use super::*;

    /// The examples of MONAI's documentation.
    #[test]
    fn labels_alone_or_together_with_and_without_diagonals() {
        let image = || rows(&[[0, 0, 1, 0, 0], [0, 2, 1, 1, 1], [1, 2, 1, 0, 0], [1, 2, 0, 1, 0], [2, 2, 0, 0, 2]]);
        let keep = |independent: bool, connectivity: usize| {
            let transform = KeepLargestConnectedComponent::new("x").applied_labels(OneOrMany::from([1_i64, 2]));
            values(&transform.independent(independent).connectivity(connectivity).keep(image()).expect("kept"))
        };
        let together = [0, 0, 1, 0, 0, 0, 2, 1, 1, 1, 1, 2, 1, 0, 0, 1, 2, 0, 0, 0, 2, 2, 0, 0, 0];
        assert_eq!(keep(false, 1), together);
        let alone = [0, 0, 1, 0, 0, 0, 2, 1, 1, 1, 0, 2, 1, 0, 0, 0, 2, 0, 0, 0, 2, 2, 0, 0, 0];
        assert_eq!(keep(true, 1), alone);
        assert_eq!(keep(false, 2), values(&image()));
    }

    #[test]
    fn a_union_of_channels_cleans_each_of_them() {
        let a = rows(&[[1, 1, 0, 0, 0, 1]]);
        let b = rows(&[[0, 0, 1, 0, 1, 0]]);
        let background = rows(&[[0, 0, 0, 1, 0, 0]]);
        let transform = KeepLargestConnectedComponent::new("x").independent(false);
        let kept = transform.keep(stack(&[background, a, b])).expect("kept");
        assert_eq!(values(&kept), [0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let says = |transform: KeepLargestConnectedComponent, image: Image, words: &str| {
            let text = transform.keep(image).expect_err("refused").to_string();
            assert!(text.contains(words), "{text:?} holds {words:?}");
        };
        let transform = || KeepLargestConnectedComponent::new("x");
        let two = || stack(&[rows(&[[1, 0]]), rows(&[[0, 1]])]);
        says(
            transform().applied_labels(OneOrMany::One(2_i64)),
            two(),
            "label 2 of an image of 2 channels; expected 0 to 1",
        );
        says(transform().applied_labels(OneOrMany::One(-1_i64)), two(), "label -1");
        says(transform().is_onehot(Some(false)), two(), "a label map of 2 channels");
        says(transform().connectivity(3_usize), rows(&[[1, 0]]), "connectivity 3 for 2 axes");
        assert!(transform().connectivity(4_usize).check_parameters().is_err());
    }
}

transform_entry!(
    KeepLargestConnectedComponent,
    r#"keys = ["mask"]
applied_labels = [1]"#
);

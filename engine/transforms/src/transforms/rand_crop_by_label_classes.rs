use std::collections::BTreeSet;

use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class_indices;
use super::crop_centers::{WarnOnce, check_samples, class_ratios, crop_size, cut, same_shape, start_around};
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Crops `num_samples` boxes of `spatial_size` voxels. Each is centred on a voxel of a class drawn
/// with the weights `ratios` (equal by default), and moved so that it lies within the image.
///
/// The lists of voxels come from `indices_key` (and are removed from the sample), or are computed
/// from `label_key` each time, as by [`super::ClassesToIndices`]. A class without voxels is
/// skipped, with one warning per case (unless `warn = false`); a case in which no class can be
/// chosen is an error. With `allow_smaller` a box that is larger than the image is reduced to it.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::RandCropByLabelClasses};
/// let step = RandCropByLabelClasses::new("image", "image", [1, 1, 1]).num_classes(2);
/// let step = step.ratios(vec![0.0, 1.0]);
/// assert_eq!(tiny::apply(step, tiny::line([0.0, 0.0, 1.0, 0.0]))?.to_vec(), [1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandCropByLabelClasses {
    keys: Keys,
    /// Key of the label map whose classes crops are centred in.
    label_key: String,
    spatial_size: OneOrMany<i64>,
    #[serde(default)]
    ratios: Option<Vec<f64>>,
    #[serde(default)]
    num_classes: Option<usize>,
    #[serde(default = "one")]
    num_samples: usize,
    #[serde(default)]
    image_key: Option<String>,
    #[serde(default)]
    image_threshold: f64,
    #[serde(default)]
    indices_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ignore_index: Option<i64>,
    #[serde(default)]
    allow_smaller: bool,
    #[serde(default = "yes")]
    warn: bool,
    #[serde(default)]
    max_samples_per_class: Option<usize>,
    #[serde(default)]
    allow_missing_keys: bool,
    #[serde(skip)]
    warned: WarnOnce,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl RandCropByLabelClasses {
    /// Creates the transform: one crop per case, with equal weights of all classes.
    pub fn new(keys: impl Into<Keys>, label_key: &str, spatial_size: impl Into<OneOrMany<i64>>) -> Self {
        RandCropByLabelClasses {
            keys: keys.into(),
            label_key: label_key.to_owned(),
            spatial_size: spatial_size.into(),
            ratios: None,
            num_classes: None,
            num_samples: one(),
            image_key: None,
            image_threshold: 0.0,
            indices_key: None,
            ignore_index: None,
            allow_smaller: false,
            warn: true,
            max_samples_per_class: None,
            allow_missing_keys: false,
            warned: WarnOnce::default(),
        }
    }

    /// Returns the size of the box for an image of this shape.
    ///
    /// # Errors
    /// If it is larger than the image and may not be reduced.
    pub fn box_size(&self, shape: [usize; 3], spatial_dims: usize) -> Result<[usize; 3], TransformError> {
        crop_size(&self.spatial_size, shape, spatial_dims, self.allow_smaller)
    }
}

setters!(RandCropByLabelClasses {
    /// Weight of each class, including the background.
    ratios: Option<Vec<f64>>,
    /// Number of classes of a label of one channel.
    num_classes: Option<usize>,
    /// Number of crops per case.
    num_samples: usize,
    /// Image that selects the voxels.
    image_key: Option<String>,
    /// Threshold of that image: voxels above it are used.
    image_threshold: f64,
    /// Key of the lists.
    indices_key: Option<String>,
    /// Label of voxels without annotation: no crop is centred there.
    ignore_index: Option<i64>,
    /// Whether to shrink the box to the image.
    allow_smaller: bool,
    /// Whether to warn about classes without voxels.
    warn: bool,
    /// Maximum number of voxels of each class to choose from.
    max_samples_per_class: Option<usize>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandCropByLabelClasses {
    fn name(&self) -> &'static str {
        "RandCropByLabelClasses"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn is_lazy(&self) -> bool {
        true
    }

    /// Without lists the label's values are read.
    fn requires_current_data(&self) -> bool {
        self.indices_key.is_none()
    }

    fn reads_boxes(&self, key: &str) -> bool {
        let looked_at = key == self.label_key || self.image_key.as_deref() == Some(key);
        self.indices_key.is_some() || !looked_at
    }

    fn effect(&self) -> Effect {
        Effect::sizing("spatial_size", self.spatial_size.as_slice())
    }

    fn through_host(&self) -> bool {
        self.indices_key.is_none()
    }

    fn apply(&self, mut sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let at_label = |e: TransformError| e.at(&self.label_key);
        let shape = sample.shape(&self.label_key).map_err(at_label)?;
        let lists = match &self.indices_key {
            Some(key) => {
                let lists = sample.index_lists(key).map_err(|e| e.at(key))?;
                sample.values.remove(key);
                lists
            }
            None => {
                let label = sample.image(&self.label_key).map_err(at_label)?;
                let image = match &self.image_key {
                    Some(key) => Some((sample.image(key).map_err(|e| e.at(key))?, self.image_threshold)),
                    None => None,
                };
                let lists =
                    class_indices(label, self.num_classes, image, self.max_samples_per_class, self.ignore_index);
                lists.map_err(at_label)?.into_iter().map(Into::into).collect()
            }
        };
        let size = self.box_size(shape, sample.meta(&self.label_key)?.spatial_dims).map_err(at_label)?;
        let voxels: Vec<usize> = lists.iter().map(|list| list.len()).collect();
        let ratios = class_ratios(self.ratios.as_deref(), &voxels).map_err(at_label)?;
        let asked = |class: usize| self.ratios.as_ref().is_none_or(|ratios| ratios[class] > 0.0);
        let missing: Vec<usize> = (0..voxels.len()).filter(|class| voxels[*class] == 0 && asked(*class)).collect();
        if self.warn && !missing.is_empty() {
            let what = || format!("`{}` has no voxel of class {missing:?}: no crop is centred there", self.label_key);
            self.warned.warn(&sample, &self.label_key, what);
        }
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        same_shape(&sample, &keys, shape, &self.label_key)?;
        let total: f64 = ratios.iter().sum();
        let mut boxes = Vec::with_capacity(self.num_samples);
        for _ in 0..self.num_samples {
            let list = &lists[choose(&ratios, draw.uniform() * total)];
            let flat = list.get(draw.below(list.len() as u64) as usize).map_err(at_label)?;
            let start = start_around(flat, shape, size).map_err(at_label)?;
            boxes.push((start, std::array::from_fn(|a| start[a] + size[a])));
        }
        cut(sample, &keys, &boxes)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("label_key", &self.label_key, known)?;
        for (name, key) in [("image_key", &self.image_key), ("indices_key", &self.indices_key)] {
            if let Some(key) = key {
                check_key(name, key, known)?;
            }
        }
        if let Some(ratios) = &self.ratios {
            let total: f64 = ratios.iter().sum();
            if ratios.iter().any(|r| !(*r >= 0.0)) || !(total > 0.0 && total.is_finite()) {
                return Err(Fault::at("ratios", "must not be negative, nor all 0"));
            }
            if let Some(classes) = self.num_classes.filter(|n| *n != ratios.len()) {
                return Err(Fault::at("ratios", format!("has {} entries for {classes} classes", ratios.len())));
            }
        }
        check_samples(self.num_samples)?;
        if let Some(key) = &self.indices_key {
            known.remove(key);
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

/// Returns the class whose range of the cumulative ratios contains `at`; never one with ratio 0.
fn choose(ratios: &[f64], at: f64) -> usize {
    let mut sum = 0.0;
    let mut chosen = 0;
    for (class, ratio) in ratios.iter().enumerate().filter(|(_, ratio)| **ratio > 0.0) {
        chosen = class;
        sum += ratio;
        if at < sum {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;
    use hearth_image::{Image, affine, host_device};
    use proptest::prelude::*;

    #[test]
    fn classes_are_chosen_by_their_ratio() {
        assert_eq!(choose(&[0.0, 1.0, 2.0], 0.0), 1);
        assert_eq!(choose(&[1.0, 0.0, 2.0], 1.0), 2);
        // Rounding may produce a number at the very end, which must still select a valid class.
        assert_eq!(choose(&[1.0, 2.0, 0.0], 3.0), 1);
    }

    proptest! {
        /// Crops lie inside, have the same size, and hold a voxel of a requested class.
        #[test]
        fn crops_hold_the_class(
            values in prop::collection::vec(0u8..4, 6 * 5 * 4),
            size in [1i64..7, 1i64..6, 1i64..5],
            seed in any::<u64>(),
        ) {
            let wanted = values.contains(&3);
            let values: Vec<f32> = values.into_iter().map(f32::from).collect();
            let label = Image::from_values(values, [1, 6, 5, 4], affine::IDENTITY, &host_device());
            let step = RandCropByLabelClasses::new("label", "label", size)
                .num_classes(Some(4))
                .ratios(Some(vec![0.0, 0.0, 0.0, 1.0]))
                .num_samples(3_usize);
            let sample = Sample::new("x").with_image("label", label);
            match step.apply(sample, &DrawKey::new(seed, 0, 0).draw("x", 0, 0)) {
                Err(error) => prop_assert!(!wanted, "{error}"),
                Ok(parts) => for part in parts {
                    let label = part.image("label").expect("a label");
                    prop_assert_eq!(label.shape().map(|n| n as i64), size);
                    prop_assert!(label.to_vec().contains(&3.0));
                },
            }
        }
    }
}

transform_entry!(
    RandCropByLabelClasses,
    r#"keys = ["image", "label"]
label_key = "label"
spatial_size = [8, 8, 8]
num_classes = 3
num_samples = 2"#
);

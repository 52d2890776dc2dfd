use std::collections::BTreeSet;

use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fg_bg_to_indices::{bright, unravel, with_values};
use crate::params::{Keys, check_key};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Lists the voxels of each class of a label map under `KEY_cls_indices`, one list per class, for
/// [`super::RandCropByLabelClasses`].
///
/// A one-hot map has one class per channel. A map of one channel needs `num_classes`; its values
/// are the classes. With `image_key` only voxels where any channel of that image is above
/// `image_threshold` are used. At most `max_samples_per_class` voxels are kept of each class,
/// evenly spread. Indices are flat, row-major, on the CPU; with `output_shape` each class has one
/// list per axis instead, classes one after another.
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::ClassesToIndices};
/// let sample = Sample::new("case").with_image("label", tiny::line([0.0, 1.0, 0.0]));
/// let made = tiny::run(ClassesToIndices::new("label").num_classes(2), sample)?;
/// let classes = made[0].lists("label_cls_indices")?;
/// assert_eq!((&classes[0][..], &classes[1][..]), (&[0, 2][..], &[1][..]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassesToIndices {
    keys: Keys,
    #[serde(default = "postfix")]
    indices_postfix: String,
    #[serde(default)]
    num_classes: Option<usize>,
    #[serde(default)]
    image_key: Option<String>,
    #[serde(default)]
    image_threshold: f64,
    #[serde(default)]
    output_shape: Option<Vec<usize>>,
    #[serde(default)]
    max_samples_per_class: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ignore_index: Option<i64>,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn postfix() -> String {
    "_cls_indices".to_owned()
}

/// The maximum number of classes of a label.
const MOST_CLASSES: usize = 65_536;

impl ClassesToIndices {
    /// Creates the transform for these label maps.
    pub fn new(keys: impl Into<Keys>) -> Self {
        ClassesToIndices {
            keys: keys.into(),
            indices_postfix: postfix(),
            num_classes: None,
            image_key: None,
            image_threshold: 0.0,
            output_shape: None,
            max_samples_per_class: None,
            ignore_index: None,
            allow_missing_keys: false,
        }
    }
}

/// Returns the flat indices of the voxels of each class, ascending; the class `ignore_index` has none.
///
/// # Errors
/// If `num_classes` is missing for a label of one channel, the image has another shape, or reading
/// from the device fails.
pub fn class_indices(
    label: &Image,
    num_classes: Option<usize>,
    image: Option<(&Image, f64)>,
    max_samples_per_class: Option<usize>,
    ignore_index: Option<i64>,
) -> Result<Vec<Vec<u64>>, TransformError> {
    let one_hot = label.channels() > 1;
    let count = match num_classes {
        _ if one_hot => label.channels(),
        Some(count) if count <= MOST_CLASSES => count,
        Some(count) => return Err(TransformError::new(format!("{count} classes")).expected("at most 65536")),
        None => {
            return Err(TransformError::new("the label has one channel, and num_classes is not given")
                .expected("num_classes, or a one-hot label"));
        }
    };
    let bright = match image {
        Some((image, _)) if image.shape() != label.shape() => {
            return Err(TransformError::new(format!("the image has {:?} voxels", image.shape()))
                .expected(format!("{:?}, as the label has", label.shape())));
        }
        Some((image, threshold)) => Some(bright(image, threshold)?),
        None => None,
    };
    let counts = |index: usize| bright.as_ref().is_none_or(|bright| bright[index]);
    let mut lists = vec![Vec::new(); count];
    let voxels = label.shape().iter().product::<usize>();
    with_values(label, |values| {
        lists.iter_mut().for_each(Vec::clear);
        if one_hot {
            for (list, channel) in lists.iter_mut().zip(values.chunks_exact(voxels.max(1))) {
                let marked = channel.iter().enumerate().filter(|(index, value)| **value != 0.0 && counts(*index));
                list.extend(marked.map(|(index, _)| index as u64));
            }
        } else {
            for (index, value) in values.iter().enumerate() {
                let class = *value as usize;
                if class < count && class as f32 == *value && counts(index) {
                    lists[class].push(index as u64);
                }
            }
        }
    })?;
    if let Some(ignored) = ignore_index.and_then(|index| usize::try_from(index).ok()).filter(|_| !one_hot)
        && let Some(list) = lists.get_mut(ignored)
    {
        list.clear();
    }
    if let Some(most) = max_samples_per_class.filter(|most| *most > 0) {
        lists.iter_mut().filter(|list| list.len() > most).for_each(|list| *list = spread(list, most));
    }
    Ok(lists)
}

/// Selects `most` entries at even distances, including the first and the last
/// (`round(linspace(0, n - 1, most))`, half to even).
fn spread(list: &[u64], most: usize) -> Vec<u64> {
    let last = list.len() - 1;
    let step = last as f64 / (most.max(2) - 1) as f64;
    (0..most)
        .map(|i| if i + 1 == most && most > 1 { last } else { (i as f64 * step).round_ties_even() as usize })
        .map(|place| list[place.min(last)])
        .collect()
}

setters!(ClassesToIndices {
    /// Suffix of the key of the lists.
    indices_postfix: String,
    /// Number of classes of a label of one channel.
    num_classes: Option<usize>,
    /// Image that selects the voxels.
    image_key: Option<String>,
    /// Threshold of that image: voxels above it are used.
    image_threshold: f64,
    /// Shape of an array for which coordinates are stored.
    output_shape: Option<Vec<usize>>,
    /// Maximum number of voxels of each class.
    max_samples_per_class: Option<usize>,
    /// Label of voxels without annotation: no crop is centred there.
    ignore_index: Option<i64>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for ClassesToIndices {
    fn name(&self) -> &'static str {
        "ClassesToIndices"
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
            let label = sample.image(key).map_err(|e| e.at(key))?;
            let image = match &self.image_key {
                Some(image) => Some((sample.image(image).map_err(|e| e.at(image))?, self.image_threshold)),
                None => None,
            };
            let lists = class_indices(label, self.num_classes, image, self.max_samples_per_class, self.ignore_index)
                .map_err(|e| e.at(key))?;
            let lists = match &self.output_shape {
                None => lists.into_iter().map(Into::into).collect(),
                Some(shape) => {
                    let each: Result<Vec<_>, _> = lists.iter().map(|list| unravel(list, shape)).collect();
                    each.map_err(|e| e.at(key))?.concat()
                }
            };
            sample.values.insert(format!("{key}{}", self.indices_postfix), Value::Lists(lists));
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        if let Some(key) = &self.image_key {
            check_key("image_key", key, known)?;
        }
        if self.num_classes == Some(0) {
            return Err(Fault::at("num_classes", "is 0"));
        }
        known.extend(self.keys.iter().map(|key| format!("{key}{}", self.indices_postfix)));
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.round(numpy.linspace(0, n - 1, most)).astype(int)`.
    #[test]
    fn samples_are_spread_as_numpys() {
        let list: Vec<u64> = (0..10).collect();
        assert_eq!(spread(&list, 4), [0, 3, 6, 9]);
        assert_eq!(spread(&list, 3), [0, 4, 9]);
        assert_eq!(spread(&list, 7), [0, 2, 3, 4, 6, 8, 9]);
        assert_eq!(spread(&list, 1), [0]);
    }

    #[test]
    fn a_plain_label_needs_the_number_of_classes() {
        let label = Image::from_values(
            vec![0.0, 1.0, 2.5, -1.0, f32::NAN, 1.0],
            [1, 6, 1, 1],
            hearth_image::affine::IDENTITY,
            &hearth_image::host_device(),
        );
        assert!(class_indices(&label, None, None, None, None).is_err());
        assert!(class_indices(&label, Some(1 << 40), None, None, None).is_err());
        assert_eq!(class_indices(&label, Some(3), None, None, None).expect("lists"), [vec![0], vec![1, 5], vec![]]);
        let ignoring = class_indices(&label, Some(3), None, None, Some(1)).expect("lists");
        assert_eq!(ignoring, [vec![0], vec![], vec![]]);
    }
}

transform_entry!(
    ClassesToIndices,
    r#"keys = ["label"]
num_classes = 3"#
);

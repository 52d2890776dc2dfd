use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transforms::intensity::map;

/// Replaces label values: `orig_labels[i]` becomes `target_labels[i]`; all others are unchanged. If
/// a value is listed twice, the last entry is used.
///
/// Values are always f32; an integer `dtype` truncates fractions.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::MapLabelValue};
/// let step = MapLabelValue::new("image", [1.0, 2.0], [2.0, 1.0]);
/// assert_eq!(tiny::apply(step, tiny::line([0.0, 1.0, 2.0]))?.to_vec(), [0.0, 2.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MapLabelValue {
    keys: Keys,
    /// Original labels.
    orig_labels: Vec<f64>,
    /// New label of each original label.
    target_labels: Vec<f64>,
    /// Type to which values are rounded.
    #[serde(default)]
    dtype: Number,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The type of the new values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum Number {
    #[default]
    #[serde(rename = "float32", alias = "float", alias = "float64")]
    Float,
    #[serde(rename = "int64", alias = "int", alias = "int32", alias = "int16", alias = "uint8", alias = "long")]
    Whole,
}

impl MapLabelValue {
    /// Creates the transform: maps each entry of the first list to the entry of the second with the
    /// same index.
    pub fn new(keys: impl Into<Keys>, orig_labels: impl Into<Vec<f64>>, target_labels: impl Into<Vec<f64>>) -> Self {
        MapLabelValue {
            keys: keys.into(),
            orig_labels: orig_labels.into(),
            target_labels: target_labels.into(),
            dtype: Number::Float,
            allow_missing_keys: false,
        }
    }

    /// Recodes one image.
    pub fn recode(&self, image: Image) -> Image {
        let whole = self.dtype == Number::Whole;
        let cut = |v: f32| if whole { v.trunc() } else { v };
        let pairs = self.orig_labels.iter().zip(&self.target_labels).map(|(from, to)| (*from as f32, cut(*to as f32)));
        // Adding 0 makes -0 the same key as 0.
        let mut table: Vec<(f32, f32)> = pairs.rev().map(|(from, to)| (from + 0.0, to)).collect();
        table.sort_by(|a, b| a.0.total_cmp(&b.0));
        table.dedup_by(|later, kept| later.0 == kept.0);
        let find = |v: f32| table.binary_search_by(|(from, _)| from.total_cmp(&(v + 0.0))).ok().map(|i| table[i].1);
        map(
            image,
            |v| find(v).unwrap_or_else(|| cut(v)),
            |x| {
                let kept = if whole { x.clone().trunc() } else { x.clone() };
                table.iter().fold(kept, |out, (from, to)| out.mask_fill(x.clone().equal_elem(*from), *to))
            },
        )
    }

    fn change(&self, image: Image) -> Result<Image, TransformError> {
        Ok(self.recode(image))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        let (from, to) = (self.orig_labels.len(), self.target_labels.len());
        if from != to {
            return Err(Fault::at("target_labels", format!("has {to} entries for {from} orig_labels")));
        }
        Ok(())
    }
}

setters!(MapLabelValue {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(MapLabelValue, change, maps_labels: true);

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, values};
    use super::*;

    #[test]
    fn labels_are_exchanged_at_once_and_the_last_entry_counts() {
        let image = rows(&[[0, 1, 2, 3]]);
        let swap = MapLabelValue::new("x", [1.0, 2.0], [2.0, 1.0]);
        assert_eq!(values(&swap.recode(image.clone())), [0, 2, 1, 3]);
        let twice = MapLabelValue::new("x", [3.0, 0.0, 3.0], [5.0, 9.0, 7.0]);
        assert_eq!(values(&twice.recode(image)), [9, 1, 2, 7]);
        assert!(MapLabelValue::new("x", [1.0], [1.0, 2.0]).check_parameters().is_err());
    }
}

transform_entry!(
    MapLabelValue,
    r#"keys = ["label"]
orig_labels = [1, 2]
target_labels = [2, 1]"#
);

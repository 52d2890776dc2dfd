use std::collections::BTreeSet;

use burn::tensor::Tensor;
use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample, Value};

/// Concatenates the channels of images to a new one, which has the geometry of the first and no
/// history: `Invert` uses the history of one of the inputs (`orig_keys`). For example, the phases
/// of a contrast study become one input (`ConcatImages` of MONAI's bundle
/// `renalStructures_CECT_segmentation`).
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::ConcatImages};
/// let sample = Sample::new("case").with_image("early", tiny::line([1.0, 2.0]));
/// let sample = sample.with_image("late", tiny::line([3.0, 4.0]));
/// let made = tiny::run(ConcatImages::new(["early", "late"], "image"), sample)?;
/// let both = made[0].image("image")?;
/// assert_eq!((both.channels(), both.to_vec()), (2, vec![1.0, 2.0, 3.0, 4.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcatImages {
    /// Keys of the images, in the order of their channels.
    keys_merge: Keys,
    /// Key of the new image.
    keys_out: String,
}

impl ConcatImages {
    /// Creates the transform: concatenates the images of `keys_merge` under `keys_out`.
    pub fn new(keys_merge: impl Into<Keys>, keys_out: &str) -> Self {
        ConcatImages { keys_merge: keys_merge.into(), keys_out: keys_out.to_owned() }
    }
}

setters!(ConcatImages {});

impl Transform for ConcatImages {
    fn name(&self) -> &'static str {
        "ConcatImages"
    }

    fn other_keys(&self) -> Vec<&str> {
        self.keys_merge.iter().collect()
    }

    fn effect(&self) -> Effect {
        Effect::Nothing
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys_merge.of(&sample, false);
        let Some((_, first)) = keys.first() else { return Ok(vec![sample]) };
        let mut joined = sample.image(first).map_err(|e| e.at(first))?.clone();
        let (shape, device) = (joined.shape(), joined.data.device());
        let mut parts = Vec::with_capacity(keys.len());
        for (_, key) in &keys {
            let image = sample.image(key).map_err(|e| e.at(key))?;
            if image.shape() != shape {
                return Err(TransformError::new(format!("`{key}` has {:?} voxels", image.shape()))
                    .expected(format!("{shape:?}, as `{first}`: resample or crop them to one grid before"))
                    .at(key));
            }
            parts.push(image.clone().to_device(&device).data);
        }
        joined.data = Tensor::cat(parts, 0);
        joined.meta.applied.clear();
        joined.meta.original_affine = joined.affine;
        joined.meta.original_shape = joined.spatial_shape();
        sample.values.insert(self.keys_out.clone(), Value::Image(joined));
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys_merge.check(known).map_err(|fault| Fault { path: "keys_merge".to_owned(), ..fault })?;
        known.insert(self.keys_out.clone());
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    ConcatImages,
    r#"keys_merge = ["image", "other"]
keys_out = "both""#
);

#[cfg(test)]
mod tests {
    use super::ConcatImages;
    use crate::transforms::{CenterSpatialCrop, Invert};
    use crate::{Sample, tiny};

    #[test]
    fn a_prediction_goes_back_by_the_history_of_a_part_of_it() -> Result<(), hearth_image::TransformError> {
        let sample = Sample::new("case").with_image("early", tiny::line([1.0, 2.0, 3.0, 4.0]));
        let sample = sample.with_image("late", tiny::line([5.0, 6.0, 7.0, 8.0]));
        let mut made = tiny::run(CenterSpatialCrop::new(["early", "late"], [2, 0, 0]), sample)?;
        let sample = tiny::run(ConcatImages::new(["early", "late"], "image"), made.remove(0))?.remove(0);
        let image = sample.image("image")?.clone();
        assert_eq!(image.to_vec(), [2.0, 3.0, 6.0, 7.0]);
        assert!(image.meta.applied.is_empty());
        let sample = sample.with_image("pred", tiny::line([1.0, 1.0]));
        let back = tiny::run(Invert::new("pred", "early".to_owned()), sample)?.remove(0);
        assert_eq!(back.image("pred")?.to_vec(), [0.0, 1.0, 1.0, 0.0]);
        Ok(())
    }

    #[test]
    fn images_of_other_sizes_are_refused() {
        let sample = Sample::new("case").with_image("a", tiny::line([1.0, 2.0]));
        let sample = sample.with_image("b", tiny::line([1.0, 2.0, 3.0]));
        let error = tiny::run(ConcatImages::new(["a", "b"], "image"), sample).expect_err("sizes differ");
        assert!(error.to_string().contains("`b` has [3, 1, 1] voxels"), "{error}");
    }
}

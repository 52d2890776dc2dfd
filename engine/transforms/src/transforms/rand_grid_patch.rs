use std::collections::BTreeSet;

use hearth_image::spatial::PadMode;
use hearth_image::{OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PatchOrder;
use super::grid_patch::{Choice, split};
use crate::params::{Keys, per_axis};
use crate::transform::{Transform, describe};
use crate::{Draw, Effect, Sample};

/// Applies [`super::GridPatch`] with an offset drawn per axis from `min_offset` (default 0) to
/// `max_offset` (by default the remainder of the image after a whole number of patches), both
/// inclusive. `sort_fn = "random"` uses patches in random order.
///
/// Offset and order are drawn once for all keys (MONAI draws an order for each).
///
/// ```
/// # use hearth_transforms::{Sample, tiny, transforms::RandGridPatch};
/// let sample = Sample::new("case").with_image("image", tiny::line([1.0, 2.0, 3.0, 4.0, 5.0]));
/// let patches = tiny::run(RandGridPatch::new("image", [2, 1, 1]), sample)?;
/// // The grid begins at the first voxel or at the second.
/// let first = patches[0].image("image")?.to_vec();
/// assert!(patches.len() == 2 && [[1.0, 2.0], [2.0, 3.0]].iter().any(|patch| first == patch));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandGridPatch {
    keys: Keys,
    /// Size of a patch in voxels per axis.
    patch_size: Vec<usize>,
    #[serde(default)]
    min_offset: Option<OneOrMany<i64>>,
    #[serde(default)]
    max_offset: Option<OneOrMany<i64>>,
    #[serde(default)]
    num_patches: Option<usize>,
    #[serde(default)]
    overlap: OneOrMany<f64>,
    #[serde(default)]
    sort_fn: Option<PatchOrder>,
    #[serde(default)]
    threshold: Option<f64>,
    #[serde(default)]
    pad_mode: Option<PadMode>,
    #[serde(default)]
    value: f32,
    /// The padding value; numpy's name for `value`.
    #[serde(default)]
    constant_values: Option<f32>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl RandGridPatch {
    /// Creates the transform: adjacent complete patches; 0 means the whole axis.
    pub fn new(keys: impl Into<Keys>, patch_size: impl Into<Vec<usize>>) -> Self {
        RandGridPatch {
            keys: keys.into(),
            patch_size: patch_size.into(),
            min_offset: None,
            max_offset: None,
            num_patches: None,
            overlap: OneOrMany::default(),
            sort_fn: None,
            threshold: None,
            pad_mode: None,
            value: 0.0,
            constant_values: None,
            allow_missing_keys: false,
        }
    }

    fn choice(&self) -> Choice<'_> {
        Choice {
            patch_size: &self.patch_size,
            overlap: &self.overlap,
            num_patches: self.num_patches,
            sort_fn: self.sort_fn,
            threshold: self.threshold,
            pad_mode: self.pad_mode,
            value: self.constant_values.unwrap_or(self.value),
            fill: self.constant_values.unwrap_or(0.0),
        }
    }

    fn draw_offset(&self, draw: &Draw, shape: [usize; 3]) -> Result<Vec<i64>, TransformError> {
        let n = self.patch_size.len();
        let least = self.min_offset.as_ref().map_or(Ok([0; 3]), |least| per_axis("min_offset", least, n, 0))?;
        let most = match &self.max_offset {
            Some(most) => per_axis("max_offset", most, n, 0)?,
            None => std::array::from_fn(|a| match self.patch_size.get(a) {
                Some(0) | None => 0,
                Some(patch) => (shape[a] % patch) as i64,
            }),
        };
        (0..n)
            .map(|axis| match most[axis].checked_sub(least[axis]) {
                Some(room @ 0..) => Ok(least[axis] + draw.below(room as u64 + 1) as i64),
                _ => Err(TransformError::new(format!(
                    "offsets from {} to {} along axis {axis}",
                    least[axis], most[axis]
                ))
                .expected("min_offset not above max_offset")),
            })
            .collect()
    }
}

setters!(RandGridPatch {
    /// Smallest offset.
    min_offset: Option<OneOrMany<i64>>,
    /// Largest offset.
    max_offset: Option<OneOrMany<i64>>,
    /// Number of patches.
    num_patches: Option<usize>,
    /// Overlap of the patches as a fraction.
    overlap: OneOrMany<f64>,
    /// Order of the patches.
    sort_fn: Option<PatchOrder>,
    /// Upper limit of the sum of the patches that are kept.
    threshold: Option<f64>,
    /// Padding with which the grid covers the image to its end.
    pad_mode: Option<PadMode>,
    /// Constant of [`PadMode::Constant`] and of added patches.
    value: f32,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for RandGridPatch {
    fn name(&self) -> &'static str {
        "RandGridPatch"
    }

    fn is_random(&self) -> bool {
        true
    }

    fn effect(&self) -> Effect {
        Effect::Regrids
    }

    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        let Some((_, first)) = keys.first() else { return Ok(vec![sample]) };
        let offset = self.draw_offset(draw, sample.image(first).map_err(|e| e.at(first))?.shape())?;
        let order: std::cell::OnceCell<Vec<usize>> = std::cell::OnceCell::new();
        let shuffled = |count: usize| {
            let order = order.get_or_init(|| draw.permutation(count));
            order.iter().copied().filter(|place| *place < count).collect()
        };
        let mut found = Vec::new();
        for (_, key) in keys {
            let patches = sample.image(key).and_then(|image| self.choice().patches(image, &offset, shuffled));
            found.push((key, patches.map_err(|e| e.at(key))?));
        }
        split(&sample, found)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        self.choice().check()?;
        known.extend(self.keys.iter().map(|key| format!("{key}_location")));
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;
    use hearth_image::{Image, affine, host_device};

    fn sample() -> Sample {
        let values = (0..63).map(|v| v as f32).collect();
        let image = Image::from_values(values, [1, 7, 9, 1], affine::IDENTITY, &host_device()).with_spatial_dims(2);
        Sample::new("x").with_image("image", image.clone()).with_image("label", image)
    }

    #[test]
    fn keys_share_offset_and_order() {
        let step =
            RandGridPatch::new(["image", "label"], [3, 2]).sort_fn(Some(PatchOrder::Random)).num_patches(Some(5));
        let mut offsets = BTreeSet::new();
        for seed in 0..40 {
            let parts = step.apply(sample(), &DrawKey::new(seed, 0, 0).draw("x", 0, 0)).expect("patches");
            assert_eq!(parts.len(), 5);
            for part in &parts {
                let (image, label) = (part.image("image").expect("an image"), part.image("label").expect("a label"));
                assert_eq!(image.to_vec(), label.to_vec());
                let first = image.to_vec()[0] as usize;
                match part.get("image_location").expect("a place") {
                    Value::Numbers(place) => assert_eq!((place[0] as usize, place[1] as usize), (first / 9, first % 9)),
                    other => panic!("{other:?}"),
                }
                offsets.insert((first / 9 % 3, first % 9 % 2));
            }
        }
        // 7 = 2 * 3 + 1 and 9 = 4 * 2 + 1: offsets 0 and 1 along both axes.
        assert_eq!(offsets, BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]));
    }

    #[test]
    fn offsets_must_not_cross() {
        let step = RandGridPatch::new("image", [3, 2]).min_offset(Some(4.into()));
        assert!(step.apply(sample(), &DrawKey::new(0, 0, 0).draw("x", 0, 0)).is_err());
    }

    use crate::Value;
}

transform_entry!(
    RandGridPatch,
    r#"keys = ["image"]
patch_size = [8, 8, 8]
num_patches = 2"#
);

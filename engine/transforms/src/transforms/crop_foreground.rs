use std::collections::BTreeSet;
use std::sync::Arc;

use hearth_image::spatial::{BoundingBox, PadMode, crop_or_pad, foreground_box};
use hearth_image::{Image, OneOrMany, Select, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crop_centers::same_shape;
use crate::params::{Keys, check_key, per_axis};
use crate::transform::{Transform, describe};
use crate::{Draw, Sample, Value};

/// Crops every key to the box of the foreground of `source_key`: voxels that `select_fn` matches in
/// any of `channel_indices`.
///
/// Without `allow_smaller`, a margin that reaches beyond the image is padded. `k_divisible`
/// enlarges the sides of the box to multiples. The box is stored under `start_coord_key` and
/// `end_coord_key`; an empty name disables this.
///
/// Differs from MONAI: an image without foreground is an error, unless `allow_empty`;
/// MONAI returns an empty image.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::CropForeground};
/// let step = CropForeground::new("image", "image");
/// assert_eq!(tiny::apply(step, tiny::line([0.0, 1.0, 2.0, 0.0]))?.to_vec(), [1.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CropForeground {
    keys: Keys,
    /// Key of the image whose foreground defines the box.
    source_key: String,
    #[serde(default, alias = "threshold")]
    select_fn: Select,
    #[serde(default)]
    channel_indices: Option<OneOrMany<i64>>,
    #[serde(default)]
    margin: OneOrMany<usize>,
    #[serde(default)]
    allow_smaller: bool,
    #[serde(default = "one")]
    k_divisible: OneOrMany<i64>,
    #[serde(default)]
    mode: OneOrMany<PadMode>,
    #[serde(default, alias = "constant_values")]
    value: f32,
    #[serde(default = "start_coord")]
    start_coord_key: String,
    #[serde(default = "end_coord")]
    end_coord_key: String,
    #[serde(default)]
    allow_empty: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> OneOrMany<i64> {
    OneOrMany::One(1)
}

fn start_coord() -> String {
    "foreground_start_coord".to_owned()
}

fn end_coord() -> String {
    "foreground_end_coord".to_owned()
}

impl CropForeground {
    /// Creates the transform: crops these keys to the voxels of `source_key` above 0.
    pub fn new(keys: impl Into<Keys>, source_key: &str) -> Self {
        CropForeground {
            keys: keys.into(),
            source_key: source_key.to_owned(),
            select_fn: Select::default(),
            channel_indices: None,
            margin: OneOrMany::default(),
            allow_smaller: false,
            k_divisible: one(),
            mode: OneOrMany::default(),
            value: 0.0,
            start_coord_key: start_coord(),
            end_coord_key: end_coord(),
            allow_empty: false,
            allow_missing_keys: false,
        }
    }

    /// Returns the box of one image's foreground, including margin and divisibility.
    ///
    /// # Errors
    /// If a channel does not exist, or margin or divisor have another number of entries than the
    /// image has axes.
    pub fn bounding_box(&self, image: &Image) -> Result<BoundingBox, TransformError> {
        let n = image.meta.spatial_dims;
        let margin = per_axis("margin", &self.margin, n, 0)?;
        let k = per_axis("k_divisible", &self.k_divisible, n, 1)?;
        let channels = self.channel_indices.as_ref().map(OneOrMany::as_slice);
        let found = foreground_box(image, self.select_fn, channels, margin, self.allow_smaller)?;
        Ok(found.divisible_by(k.map(|k| usize::try_from(k).unwrap_or(1))))
    }

    /// Crops one image to a box; `place` is the index of its key.
    ///
    /// # Errors
    /// If the padding mode has nothing to copy.
    pub fn crop(&self, image: Image, region: BoundingBox, place: usize) -> Result<Image, TransformError> {
        crop_or_pad(image, region, self.mode.at(place).unwrap_or_default(), self.value)
    }
}

setters!(CropForeground {
    /// Comparison that selects the foreground; a number means above it.
    select_fn: Select,
    /// Channels that are used; by default all.
    channel_indices: Option<OneOrMany<i64>>,
    /// Number of voxels added around the box, one or per axis.
    margin: OneOrMany<usize>,
    /// Whether to limit the box to the image instead of padding.
    allow_smaller: bool,
    /// Divisor to a multiple of which each side is enlarged, one or per axis; 0 or less disables
    /// it.
    k_divisible: OneOrMany<i64>,
    /// How padding is filled, one or per key.
    mode: OneOrMany<PadMode>,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// Key of the first voxel of the box.
    start_coord_key: String,
    /// Key of the end of the box.
    end_coord_key: String,
    /// Whether an image without foreground becomes an empty image, as in MONAI.
    allow_empty: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for CropForeground {
    fn name(&self) -> &'static str {
        "CropForeground"
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn requires_current_data(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let source = sample.image(&self.source_key).map_err(|e| e.at(&self.source_key))?;
        let (shape, n) = (source.shape(), source.meta.spatial_dims);
        let region = self.bounding_box(source).map_err(|e| e.at(&self.source_key))?;
        if region.is_empty() && !self.allow_empty {
            return Err(TransformError::new(format!("no voxel of `{}` is {}", self.source_key, self.select_fn))
                .expected("some foreground to crop to")
                .advice("check the file, or the intensity range that an earlier step scales to")
                .at(&self.source_key));
        }
        let keys = self.keys.of(&sample, self.allow_missing_keys);
        same_shape(&sample, &keys, shape, &self.source_key)?;
        for (place, key) in keys {
            sample.update(key, |image| self.crop(image, region, place))?;
        }
        for (key, corner) in [(&self.start_coord_key, region.start), (&self.end_coord_key, region.end)] {
            if !key.is_empty() {
                let corner: Arc<[f64]> = corner[..n].iter().map(|v| *v as f64).collect();
                sample.values.insert(key.clone(), Value::Numbers(corner));
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_key("source_key", &self.source_key, known)?;
        self.keys.check_list("mode", &self.mode)?;
        let kept = [&self.start_coord_key, &self.end_coord_key];
        known.extend(kept.into_iter().filter(|key| !key.is_empty()).cloned());
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    CropForeground,
    r#"keys = ["image", "label"]
source_key = "image"
margin = 1"#
);

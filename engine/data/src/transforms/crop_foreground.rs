use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::params::{Keys, OneOrMany, check_key};
use crate::spatial::{BoundingBox, PadMode, crop_or_pad, foreground_box};
use crate::transform::{Transform, describe};
use crate::{CheckError, Draw, Image, Sample, TransformError};

/// Crops every key to the box of the foreground of `source_key`: voxels above `threshold` in any of `channel_indices`
/// (MONAI's `select_fn`, which is `x > 0` by default).
///
/// Without `allow_smaller`, a margin that reaches beyond the image is padded. `k_divisible` enlarges the box to a multiple.
/// Differs from MONAI: an image without foreground is an error that says so, unless `allow_empty`; MONAI returns an empty image.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CropForeground {
    keys: Keys,
    source_key: String,
    #[serde(default)]
    threshold: f64,
    #[serde(default)]
    channel_indices: Option<OneOrMany<i64>>,
    #[serde(default)]
    margin: OneOrMany<usize>,
    #[serde(default)]
    allow_smaller: bool,
    #[serde(default = "one")]
    k_divisible: OneOrMany<usize>,
    #[serde(default)]
    mode: OneOrMany<PadMode>,
    #[serde(default)]
    value: f32,
    #[serde(default)]
    allow_empty: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn one() -> OneOrMany<usize> {
    OneOrMany::One(1)
}

impl CropForeground {
    /// Crops these keys to the foreground of `source_key`.
    pub fn new(keys: impl Into<Keys>, source_key: &str) -> Self {
        CropForeground {
            keys: keys.into(),
            source_key: source_key.to_owned(),
            threshold: 0.0,
            channel_indices: None,
            margin: OneOrMany::default(),
            allow_smaller: false,
            k_divisible: one(),
            mode: OneOrMany::default(),
            value: 0.0,
            allow_empty: false,
            allow_missing_keys: false,
        }
    }

    /// The box of one image's foreground, margin and divisibility included.
    ///
    /// # Errors
    /// Where a channel does not exist, or margin or divisor have too few axes.
    pub fn bounding_box(&self, image: &Image) -> Result<BoundingBox, TransformError> {
        let n = image.meta.spatial_dims;
        let per_axis = |name: &str, values: &OneOrMany<usize>, rest: usize| {
            if matches!(values, OneOrMany::Many(v) if v.len() != n) {
                return Err(TransformError::new(format!("`{name}` has {} entries", values.as_slice().len()))
                    .expected(format!("{n}")));
            }
            Ok(std::array::from_fn(|a| if a < n { values.at(a).unwrap_or(rest) } else { rest }))
        };
        let margin = per_axis("margin", &self.margin, 0)?;
        let k = per_axis("k_divisible", &self.k_divisible, 1)?;
        let channels = self.channel_indices.as_ref().map(OneOrMany::as_slice);
        let found = foreground_box(image, self.threshold, channels, margin, self.allow_smaller)?;
        Ok(found.divisible_by(k))
    }

    /// Crops one image to a box; `place` is that of its key.
    ///
    /// # Errors
    /// Where the padding mode has nothing to copy.
    pub fn crop(&self, image: Image, region: BoundingBox, place: usize) -> Result<Image, TransformError> {
        crop_or_pad(image, region, self.mode.at(place).unwrap_or_default(), self.value)
    }
}

setters!(CropForeground {
    /// Voxels above this are foreground.
    threshold: f64,
    /// Channels that count; all where not given.
    channel_indices: Option<OneOrMany<i64>>,
    /// Voxels added around the box, one or per axis.
    margin: OneOrMany<usize>,
    /// Let the box end at the image's edge rather than pad.
    allow_smaller: bool,
    /// Enlarge each side to a multiple of this, one or per axis.
    k_divisible: OneOrMany<usize>,
    /// What padding holds, one or per key.
    mode: OneOrMany<PadMode>,
    /// The constant of [`PadMode::Constant`].
    value: f32,
    /// An image without foreground becomes an empty image, as in MONAI.
    allow_empty: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl Transform for CropForeground {
    fn name(&self) -> &'static str {
        "CropForeground"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let source = sample.image(&self.source_key).map_err(|e| e.at(&self.source_key))?;
        let shape = source.shape();
        let region = self.bounding_box(source).map_err(|e| e.at(&self.source_key))?;
        if region.is_empty() && !self.allow_empty {
            return Err(TransformError::new(format!("no voxel of `{}` is above {}", self.source_key, self.threshold))
                .expected("some foreground to crop to")
                .advice("look at the file, or at the intensity range that an earlier step scales to")
                .at(&self.source_key));
        }
        for (place, key) in self.keys.of(&sample, self.allow_missing_keys) {
            sample.update(key, |image| {
                if image.shape() != shape {
                    return Err(TransformError::new(format!("`{key}` has {:?} voxels", image.shape()))
                        .expected(format!("{shape:?}, as `{}` has", self.source_key)));
                }
                self.crop(image, region, place)
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.keys.check(known)?;
        check_key("source_key", &self.source_key, known)?;
        self.keys.check_list("mode", &self.mode)?;
        if self.threshold.is_nan() {
            return Err(CheckError::new("threshold", "is not a number"));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

use hearth_image::spatial::crop;
use hearth_image::{Image, OneOrMany, TransformError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Effect;
use crate::params::{Keys, resolve_size};

/// Crops `roi_size` voxels about the centre; an entry of 0 or less, or beyond the image, keeps the
/// axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::CenterSpatialCrop};
/// let step = CenterSpatialCrop::new("image", [2, 0, 0]);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0, 3.0, 4.0]))?.to_vec(), [2.0, 3.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CenterSpatialCrop {
    keys: Keys,
    roi_size: OneOrMany<i64>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl CenterSpatialCrop {
    /// Creates the transform: this number of voxels, for all axes or per axis.
    pub fn new(keys: impl Into<Keys>, roi_size: impl Into<OneOrMany<i64>>) -> Self {
        CenterSpatialCrop { keys: keys.into(), roi_size: roi_size.into(), allow_missing_keys: false }
    }

    /// Crops one image.
    ///
    /// # Errors
    /// If `roi_size` has too few axes.
    pub fn crop(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        let size = resolve_size(&self.roi_size, image.shape(), image.meta.spatial_dims)?;
        Ok(center_crop(image, size))
    }
}

/// Returns the box of this size about the centre, limited to the image. The smaller half of an odd
/// remainder is removed before the box.
pub(super) fn center_crop(image: Image, size: [usize; 3]) -> Image {
    let (start, end) = center_box(image.shape(), size);
    crop(image, start, end)
}

/// Returns the position of that box.
pub(super) fn center_box(shape: [usize; 3], size: [usize; 3]) -> ([usize; 3], [usize; 3]) {
    let start: [usize; 3] = std::array::from_fn(|a| (shape[a] / 2).saturating_sub(size[a] / 2));
    (start, std::array::from_fn(|a| start[a].saturating_add(size[a]).min(shape[a])))
}

setters!(CenterSpatialCrop {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

impl CenterSpatialCrop {
    fn of_grid(&self) -> Effect {
        Effect::sizing("roi_size", self.roi_size.as_slice())
    }
}

per_image!(CenterSpatialCrop { apply: crop, lazy: true, effect: of_grid });

transform_entry!(
    CenterSpatialCrop,
    r#"keys = ["image"]
roi_size = [8, 8, 8]"#
);

use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::center_spatial_crop::center_crop;
use crate::params::{Keys, per_axis};

/// Crops the fraction `roi_scale` of each axis about the centre, rounded up to whole voxels; 0 or
/// less keeps an axis.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::CenterScaleCrop};
/// let step = CenterScaleCrop::new("image", [0.5, 1.0, 1.0]);
/// assert_eq!(tiny::apply(step, tiny::line([1.0, 2.0, 3.0, 4.0]))?.to_vec(), [2.0, 3.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CenterScaleCrop {
    keys: Keys,
    /// Fraction of each axis that is kept, one or per axis.
    roi_scale: OneOrMany<f64>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl CenterScaleCrop {
    /// Creates the transform: this fraction of each axis, one number or one per axis.
    pub fn new(keys: impl Into<Keys>, roi_scale: impl Into<OneOrMany<f64>>) -> Self {
        CenterScaleCrop { keys: keys.into(), roi_scale: roi_scale.into(), allow_missing_keys: false }
    }

    /// Crops one image.
    ///
    /// # Errors
    /// If `roi_scale` has another number of entries than the image has axes.
    pub fn crop(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        let size = scaled_size("roi_scale", &self.roi_scale, image.shape(), image.meta.spatial_dims)?;
        Ok(center_crop(image, size))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        check_scale("roi_scale", &self.roi_scale)
    }
}

/// `ceil(scale * shape)`; the whole axis if that is not positive.
pub(super) fn scaled_size(
    name: &str,
    scale: &OneOrMany<f64>,
    shape: [usize; 3],
    n: usize,
) -> Result<[usize; 3], TransformError> {
    let scale = per_axis(name, scale, n, 1.0)?;
    Ok(std::array::from_fn(|a| match (scale[a] * shape[a] as f64).ceil() {
        size if size > 0.0 => size as usize,
        _ => shape[a],
    }))
}

pub(super) fn check_scale(name: &str, scale: &OneOrMany<f64>) -> Result<(), Fault> {
    match scale.as_slice().iter().find(|v| !v.is_finite()) {
        Some(value) => Err(Fault::at(name, format!("{value} is not a fraction of an axis"))),
        None => Ok(()),
    }
}

setters!(CenterScaleCrop {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(CenterScaleCrop { apply: crop, lazy: true, check: check_parameters });

transform_entry!(
    CenterScaleCrop,
    r#"keys = ["image"]
roi_scale = 0.5"#
);

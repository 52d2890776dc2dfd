use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;

/// Replaces each voxel by the median of the `2 * radius + 1` voxels along each spatial axis around
/// it; edge voxels are repeated outwards.
///
/// `radius` is one number or one per spatial axis. Runs on the CPU.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::MedianSmooth};
/// let image = tiny::apply(MedianSmooth::new("image"), tiny::line([1.0, 1.0, 9.0, 1.0, 1.0]))?;
/// assert_eq!(image.to_vec(), [1.0; 5]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MedianSmooth {
    keys: Keys,
    #[serde(default = "one")]
    radius: OneOrMany<usize>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// The maximum radius, whose window has a quarter of a million voxels.
const MAX_RADIUS: usize = 31;

fn one() -> OneOrMany<usize> {
    OneOrMany::One(1)
}

impl MedianSmooth {
    /// Creates the transform: radius 1.
    pub fn new(keys: impl Into<Keys>) -> Self {
        MedianSmooth { keys: keys.into(), radius: one(), allow_missing_keys: false }
    }

    /// Smooths one image.
    ///
    /// # Errors
    /// If a list of radii does not have one entry per spatial axis.
    pub fn smooth(&self, mut image: Image) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        if let OneOrMany::Many(radii) = &self.radius
            && radii.len() != n
        {
            return Err(
                TransformError::new(format!("radius has {} entries", radii.len())).expected(format!("one, or {n}"))
            );
        }
        let radius = std::array::from_fn(|axis| if axis < n { self.radius.at(axis).unwrap_or(0) } else { 0 });
        image.data = hearth_kernels::filter::median(image.data, radius);
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        match self.radius.as_slice().iter().find(|r| **r > MAX_RADIUS) {
            Some(r) => Err(Fault::at("radius", format!("{r} is larger than {MAX_RADIUS}"))),
            None if self.radius.as_slice().is_empty() => Err(Fault::at("radius", "is an empty list")),
            None => Ok(()),
        }
    }
}

setters!(MedianSmooth {
    /// Number of voxels to each side, one number or one per axis.
    radius: OneOrMany<usize>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(MedianSmooth, smooth, through_host: |_| true);

transform_entry!(
    MedianSmooth,
    r#"keys = ["image"]
radius = 1"#
);

use hearth_image::{Image, TransformError};
use hearth_kernels::filter::{self, Edge};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transforms::intensity::zip;

/// Computes the contours of masks of 0 and 1, for each channel separately: 1 on voxels with a
/// neighbour of 0, including diagonal neighbours and those beyond the edge.
///
/// This is a Laplace filter over all neighbours, clamped to 0..1; `kernel_type` has no other value.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::LabelToContour};
/// let square = tiny::image([1, 3, 3, 1], [1.0; 9]).with_spatial_dims(2);
/// let contour = tiny::apply(LabelToContour::new("image"), square)?;
/// assert_eq!(contour.to_vec(), [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelToContour {
    keys: Keys,
    /// The kernel of the edge detection.
    #[serde(default)]
    kernel_type: Kernel,
    #[serde(default)]
    allow_missing_keys: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
enum Kernel {
    #[default]
    Laplace,
}

impl LabelToContour {
    /// Creates the transform for these masks.
    pub fn new(keys: impl Into<Keys>) -> Self {
        LabelToContour { keys: keys.into(), kernel_type: Kernel::Laplace, allow_missing_keys: false }
    }

    /// Computes the contour of one image.
    ///
    /// # Errors
    /// If the filter cannot be applied.
    pub fn contour(&self, image: Image) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let taps: [&[f32]; 3] = std::array::from_fn(|axis| if axis < n { &[1.0; 3][..] } else { &[] });
        let sums = filter::separable(image.data.clone(), taps, Edge::Zeros);
        let sums = sums.map_err(|e| TransformError::new(e.to_string()))?;
        // The sum includes the voxel itself: 26 neighbours in 3-D.
        let weight = 3_f32.powi(n as i32);
        Ok(zip(image, &sums, |x, sum| (weight * x - sum).clamp(0.0, 1.0), |x, sum| (x * weight - sum).clamp(0.0, 1.0)))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        Ok(())
    }
}

setters!(LabelToContour {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(LabelToContour, contour);

transform_entry!(LabelToContour, r#"keys = ["mask"]"#);

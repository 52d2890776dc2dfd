use hearth_image::orientation::Reorder;
use hearth_image::{Image, TransformError, spatial};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;

/// Permutes axes: axis `i` of the result is axis `indices[i]` of the image. The channels are axis 0
/// and must stay there.
///
/// Differs from MONAI: the affine is permuted, too, so every voxel keeps its position in the world,
/// and the operation can be inverted.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::Transpose};
/// let image = tiny::apply(Transpose::new("image", [0, 2, 1, 3]), tiny::ramp([1, 2, 3, 1]))?;
/// assert_eq!((image.shape(), image.to_vec()), ([3, 2, 1], vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transpose {
    keys: Keys,
    /// Source of each axis, the channels (0) first.
    indices: Vec<usize>,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl Transpose {
    /// Creates the transform: axis `i` of the result is axis `indices[i]`.
    pub fn new(keys: impl Into<Keys>, indices: impl Into<Vec<usize>>) -> Self {
        Transpose { keys: keys.into(), indices: indices.into(), allow_missing_keys: false }
    }

    /// Permutes one image.
    ///
    /// # Errors
    /// If `indices` does not name each of its axes once, the channels first.
    pub fn transpose(&self, image: Image, _place: usize) -> Result<Image, TransformError> {
        let n = image.meta.spatial_dims;
        let mut how = Reorder::NONE;
        if self.indices.len() != n + 1 || !is_permutation(&self.indices) || self.indices[0] != 0 {
            return Err(TransformError::new(format!("`indices` is {:?}", self.indices))
                .expected(format!("0 (the channels), then the {n} spatial axes, each once")));
        }
        for (axis, from) in self.indices[1..].iter().enumerate() {
            how.source[axis] = from - 1;
        }
        Ok(spatial::reorder(image, &how))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if is_permutation(&self.indices) && self.indices.first() == Some(&0) && self.indices.len() <= 4 {
            return Ok(());
        }
        Err(Fault::at("indices", "must be 0 (the channels), then each spatial axis once; for instance [0, 2, 1, 3]"))
    }
}

fn is_permutation(indices: &[usize]) -> bool {
    (0..indices.len()).all(|axis| indices.contains(&axis))
}

setters!(Transpose {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

per_image!(Transpose { apply: transpose, lazy: true, check: check_parameters });

transform_entry!(
    Transpose,
    r#"keys = ["image"]
indices = [0, 2, 1, 3]"#
);

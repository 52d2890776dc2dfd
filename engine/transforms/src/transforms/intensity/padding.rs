//! The values beyond the edge of a filtered image.

use hearth_image::{Image, TransformError};
use hearth_kernels::filter::{Edge, FilterError, separable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values beyond the edge of a filtered image; the names are PyTorch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilterPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The image mirrored about the centre of its edge voxel.
    Reflect,
    /// The edge voxel, repeated.
    Replicate,
    /// The other end of the image.
    Circular,
}

impl From<FilterPadding> for Edge {
    fn from(padding: FilterPadding) -> Self {
        match padding {
            FilterPadding::Zeros => Edge::Zeros,
            FilterPadding::Reflect => Edge::Reflect,
            FilterPadding::Replicate => Edge::Replicate,
            FilterPadding::Circular => Edge::Circular,
        }
    }
}

/// Filters an image with taps per axis.
pub(super) fn filtered(mut image: Image, taps: [&[f32]; 3], padding: FilterPadding) -> Result<Image, TransformError> {
    image.data = separable(image.data, taps, padding.into()).map_err(failed)?;
    Ok(image)
}

/// Converts an error of a filter.
pub(super) fn failed(error: FilterError) -> TransformError {
    TransformError::new(error.to_string())
}

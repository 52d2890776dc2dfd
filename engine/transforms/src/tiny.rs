//! Images of a few voxels that show the effect of a transform; the examples of transforms use them.
//!
//! ```
//! use hearth_transforms::{tiny, transforms::Flip};
//! let flipped = tiny::apply(Flip::new("image"), tiny::line([1.0, 2.0, 3.0]))?;
//! assert_eq!(flipped.to_vec(), [3.0, 2.0, 1.0]);
//! # Ok::<(), hearth_image::TransformError>(())
//! ```

use hearth_image::{Image, TransformError, affine, host_device};

use crate::{DrawKey, Sample, Transform};

/// Creates an image of this shape, `[C, X, Y, Z]`, with voxels of 1 mm at the origin. The number of
/// values must be that of the shape's voxels.
pub fn image(shape: [usize; 4], values: impl Into<Vec<f32>>) -> Image {
    Image::from_values(values.into(), shape, affine::IDENTITY, &host_device())
}

/// Creates an image of voxels along the first axis, `[1, N, 1, 1]`.
pub fn line<const N: usize>(values: [f32; N]) -> Image {
    image([1, N, 1, 1], values)
}

/// Creates an image with the values 0, 1, 2, ... in memory order.
pub fn ramp(shape: [usize; 4]) -> Image {
    let count: usize = shape.iter().product();
    image(shape, (0..count).map(|value| value as f32).collect::<Vec<f32>>())
}

/// Applies a transform to an image under the key `image`, with the draws of seed 0. If there are
/// several results, the first is returned.
///
/// # Errors
/// The error of the transform.
pub fn apply(transform: impl Transform, image: Image) -> Result<Image, TransformError> {
    let made = run(transform, Sample::new("tiny").with_image("image", image))?;
    let mut first = made.into_iter().next().ok_or_else(|| TransformError::new("the transform gave no sample"))?;
    first.take_image("image")
}

/// Applies a transform to a sample, with the draws of seed 0.
///
/// # Errors
/// The error of the transform.
pub fn run(transform: impl Transform, sample: Sample) -> Result<Vec<Sample>, TransformError> {
    let draw = DrawKey::new(0, 0, 0).draw(&sample.case, 0, 0);
    transform.apply(sample, &draw)
}

/// Whether an image has these values, within 0.0001.
pub fn is_near<const N: usize>(image: &Image, values: [f32; N]) -> bool {
    let found = image.to_vec();
    found.len() == N && found.iter().zip(values).all(|(found, value)| (found - value).abs() <= 1e-4)
}

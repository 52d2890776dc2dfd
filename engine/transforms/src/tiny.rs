//! Images of a few voxels, to see what a transform does: what the examples of transforms are made
//! of.
//!
//! ```
//! use hearth_transforms::{tiny, transforms::Flip};
//! let flipped = tiny::apply(Flip::new("image"), tiny::line([1.0, 2.0, 3.0]))?;
//! assert_eq!(flipped.to_vec(), [3.0, 2.0, 1.0]);
//! # Ok::<(), hearth_image::TransformError>(())
//! ```

use hearth_image::{Image, TransformError, affine, host_device};

use crate::{DrawKey, Sample, Transform};

/// An image of this shape, `[C, X, Y, Z]`, with voxels of 1 mm at the origin; as many values as the
/// shape has voxels.
pub fn image(shape: [usize; 4], values: impl Into<Vec<f32>>) -> Image {
    Image::from_values(values.into(), shape, affine::IDENTITY, &host_device())
}

/// Voxels along the first axis, `[1, N, 1, 1]`.
pub fn line<const N: usize>(values: [f32; N]) -> Image {
    image([1, N, 1, 1], values)
}

/// The values 0, 1, 2, ... in the order in which they are stored.
pub fn ramp(shape: [usize; 4]) -> Image {
    let count: usize = shape.iter().product();
    image(shape, (0..count).map(|value| value as f32).collect::<Vec<f32>>())
}

/// What a transform makes of an image under the key `image`, with the draws of seed 0. Of several
/// results this is the first.
///
/// # Errors
/// What the transform says.
pub fn apply(transform: impl Transform, image: Image) -> Result<Image, TransformError> {
    let made = run(transform, Sample::new("tiny").with_image("image", image))?;
    let mut first = made.into_iter().next().ok_or_else(|| TransformError::new("the transform gave no sample"))?;
    first.take_image("image")
}

/// What a transform makes of a sample, with the draws of seed 0.
///
/// # Errors
/// What the transform says.
pub fn run(transform: impl Transform, sample: Sample) -> Result<Vec<Sample>, TransformError> {
    let draw = DrawKey::new(0, 0, 0).draw(&sample.case, 0, 0);
    transform.apply(sample, &draw)
}

/// Whether an image has these values, to 0.0001.
pub fn is_near<const N: usize>(image: &Image, values: [f32; N]) -> bool {
    let found = image.to_vec();
    found.len() == N && found.iter().zip(values).all(|(found, value)| (found - value).abs() <= 1e-4)
}

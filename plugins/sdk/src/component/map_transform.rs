//! [`MapTransform`].

use hearth_engine::HandlerError;

use super::{Array, Draw, Inversion};

/// A step of `transforms` that gets the images of all its keys at once, may draw random numbers, and may
/// return images on another grid.
///
/// ```
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Array, Draw, MapTransform, Mapped};
///
/// /// Multiplies all images of a case by the same random factor.
/// struct RandomScale;
///
/// impl MapTransform for RandomScale {
///     fn apply(
///         &self,
///         images: Vec<Array<'_>>,
///         _: &[String],
///         mut draw: Draw,
///     ) -> Result<Mapped, HandlerError> {
///         let factor = draw.between(0.9, 1.1) as f32;
///         let scaled = images.into_iter().map(|image| {
///             let values = image.values.iter().map(|value| value * factor).collect::<Vec<f32>>();
///             Array { values: values.into(), shape: image.shape, affine: image.affine }
///         });
///         Ok(Mapped::from(scaled.collect::<Vec<_>>()))
///     }
///     fn is_random(&self) -> bool {
///         true
///     }
/// }
///
/// let image = Array::new(vec![1, 1, 1, 1], vec![10.0]).unwrap();
/// let keys = ["t1".to_owned(), "t2".to_owned()];
/// let mapped = RandomScale.apply(vec![image.clone(), image], &keys, Draw::new(3))?;
/// assert_eq!(mapped.images[0], mapped.images[1]);
/// assert!((9.0..11.0).contains(&mapped.images[0].values[0]));
/// # Ok::<(), HandlerError>(())
/// ```
pub trait MapTransform: Send + Sync {
    /// Maps the images `[C, X, Y, Z]` of `keys` to as many images. Their affines say where the voxels are:
    /// a crop moves the origin, a resampling changes the voxel size. Labels must stay labels.
    ///
    /// `draw` is the same for the same seed, epoch, case and step. Without [`is_random`](Self::is_random)
    /// its numbers are always the same.
    ///
    /// # Errors
    /// The problem of the images; the program adds case, files and step.
    fn apply(&self, images: Vec<Array<'_>>, keys: &[String], draw: Draw) -> Result<Mapped, HandlerError>;

    /// Whether the step draws. Caches keep the result of the steps before the first one that does, and
    /// prediction omits those that do.
    fn is_random(&self) -> bool {
        false
    }

    /// Whether it has an inverse of its own. By default a prediction is sampled on the grid before the step,
    /// by the affines: for crops, pads and changes of the voxel size nothing else is needed.
    fn is_invertible(&self) -> bool {
        false
    }

    /// Maps an image `[C, X, Y, Z]` on the grid that `apply` returned, such as a prediction, to the grid
    /// before it, [`Inversion::shape`].
    ///
    /// # Errors
    /// The problem of the image.
    fn invert(&self, image: Array<'_>, from: &Inversion) -> Result<Array<'static>, HandlerError> {
        let _ = (image, from);
        Err(HandlerError::new("it says that it has an inverse, and has none"))
    }
}

/// The images that a [`MapTransform`] returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    /// An image for each key.
    pub images: Vec<Array<'static>>,
    /// What the inverse of these images needs to know.
    pub state: String,
}

impl From<Vec<Array<'static>>> for Mapped {
    /// Images without a state.
    fn from(images: Vec<Array<'static>>) -> Self {
        Self { images, state: String::new() }
    }
}

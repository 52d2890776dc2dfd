//! Inferers: apply a network to an image as a whole, or window by window.

mod at_once;
mod buffered;
mod importance_map;
mod landmark;
mod of_plugin;
mod padding;
mod patch;
mod saliency;
mod simple;
mod slice;
mod sliding_window;
mod splitter;
mod stop;
mod windows;

pub use at_once::Room;
pub use importance_map::{BlendMode, compute_importance_map};
pub use landmark::LandmarkInferer;
pub use padding::PaddingMode;
pub use patch::PatchInferer;
pub use saliency::{CamName, SaliencyInferer};
pub(crate) use saliency::{activation_map, scaled};
pub use simple::SimpleInferer;
pub use slice::SliceInferer;
pub use sliding_window::SlidingWindowInferer;
pub use splitter::{Overlap, SlidingWindowSplitter};
pub use stop::{check_stop, stoppable};
pub use windows::{dense_patch_slices, scan_interval};

use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_registry::{Fault, FromPlugin, Kind, Named, Place};

/// An error of an inferer: an invalid option or shape.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InferError {
    /// An option is invalid.
    #[error("{inferer}: {name} is {value}: {expected}")]
    Value {
        /// Name of the inferer.
        inferer: &'static str,
        /// Name of the parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected value.
        expected: String,
    },
    /// The network's output does not match the windows.
    #[error("{inferer}: the network returned shape {got:?} for windows of shape {window:?}: {expected}")]
    Output {
        /// Name of the inferer.
        inferer: &'static str,
        /// Shape of the network's input.
        window: [usize; 5],
        /// Shape of the network's output.
        got: [usize; 5],
        /// The expected shape.
        expected: String,
    },
    /// The outputs of all windows do not fit into memory.
    #[error("{inferer}: the sum of the windows, {shape:?}, {what}")]
    Memory {
        /// Name of the inferer.
        inferer: &'static str,
        /// Shape of the sum.
        shape: [usize; 5],
        /// The bytes that it takes and that are left, in words.
        what: String,
    },
    /// A plugin failed, or returned something else than an output.
    #[error("{inferer}: {reason}")]
    Plugin {
        /// Name of the inferer.
        inferer: &'static str,
        /// Description of the problem.
        reason: String,
    },
    /// The result is no longer wanted.
    #[error("the prediction was stopped between two windows, because its result is no longer wanted")]
    Stopped,
    /// An image could not be augmented, or the augmentation could not be inverted.
    #[error("test-time augmentation {example}: {reason}")]
    Augment {
        /// Number of the augmented example, from 1.
        example: usize,
        /// The reason.
        reason: String,
    },
}

/// An inferer by name, as in a recipe: `name = "SlidingWindowInferer"` and the inferer's
/// parameters.
pub type InfererConfig = Named<dyn Inferer>;

impl Kind for dyn Inferer {
    const WORD: &'static str = "inferer";

    const FROM_PLUGIN: Option<FromPlugin<Self>> = Some(of_plugin::build);

    fn check(&self) -> Result<(), Fault> {
        Ok(Inferer::check(self)?)
    }

    fn place(&self) -> Option<Place> {
        Some(Place::AnyDevice)
    }
}

impl From<InferError> for Fault {
    fn from(error: InferError) -> Self {
        match &error {
            InferError::Value { name, .. } => Fault::at(*name, error.to_string()),
            _ => Fault::new(error.to_string()),
        }
    }
}

/// Applies a network, given as a closure, to a batch `[b, c, x, y, z]`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::inferers::{Inferer, SlidingWindowInferer};
///
/// let inferer: Box<dyn Inferer> = Box::new(SlidingWindowInferer::new(&[4, 4, 4]));
/// inferer.check()?;
/// let y = inferer.infer(Tensor::ones([1, 1, 8, 8, 8], &Device::default()), &|window| window + 1.0)?;
/// assert_eq!(y.dims(), [1, 1, 8, 8, 8]);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
pub trait Inferer: Send + Sync {
    /// The inferer's name in MONAI.
    fn name(&self) -> &'static str;

    /// Checks the options.
    ///
    /// # Errors
    /// Fails with the first invalid option.
    fn check(&self) -> Result<(), InferError>;

    /// Checks the options for a network of this number of spatial axes, for which lists have one number each.
    ///
    /// # Errors
    /// Fails with the first invalid option.
    fn check_for(&self, spatial_dims: usize) -> Result<(), InferError> {
        let _ = spatial_dims;
        self.check()
    }

    /// Loads what the inferer needs before its first use: the library of a plugin.
    ///
    /// # Errors
    /// A plugin that is missing or refuses the options.
    fn load(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether it copies images and outputs to host memory.
    fn through_host(&self) -> bool {
        false
    }

    /// The parameter that sets the size of the network's input windows, and its value in voxels per
    /// spatial axis; `None` if the size is not known before the first image. A single number
    /// applies to all axes; 0 or less is the image's length.
    fn window(&self) -> Option<(&'static str, Vec<i64>)> {
        None
    }

    /// The number of network calls of [`infer`](Self::infer) for an input of this shape, if known.
    fn passes(&self, _shape: [usize; 5]) -> Option<u64> {
        None
    }

    /// The network's output for the whole batch: `[b, c, x, y, z]` to `[b, c', x', y', z']`. The
    /// closure gets what the inferer cuts out of `x`, and decides `c'`.
    ///
    /// # Errors
    /// If an option does not fit the image, the outputs do not fit the windows or the memory, or the
    /// result is [no longer wanted](stoppable).
    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError>;
}

/// A shared inferer is an inferer.
impl<I: Inferer + ?Sized> Inferer for Arc<I> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn check(&self) -> Result<(), InferError> {
        Inferer::check(&**self)
    }

    fn check_for(&self, spatial_dims: usize) -> Result<(), InferError> {
        (**self).check_for(spatial_dims)
    }

    fn load(&self) -> Result<(), Fault> {
        (**self).load()
    }

    fn through_host(&self) -> bool {
        (**self).through_host()
    }

    fn window(&self) -> Option<(&'static str, Vec<i64>)> {
        (**self).window()
    }

    fn passes(&self, shape: [usize; 5]) -> Option<u64> {
        (**self).passes(shape)
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        (**self).infer(x, net)
    }
}

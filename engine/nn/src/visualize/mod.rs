//! Maps of what a network's answer depends on (`monai.visualize`): class activation, occlusion, gradients.
//!
//! The network runs in evaluation mode, whatever its own mode is. Maps have the size of the image, and high
//! values where the image supports the class.

mod cam;
mod gradients;
mod occlusion;

pub use cam::GradCam;
pub use gradients::{SmoothGrad, VanillaGrad};
pub use occlusion::{Occlusion, OcclusionSensitivity};

use burn::tensor::{DType, Tensor};

use crate::networks::{Network, ShapeError};

/// An error of a map.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VisualizeError {
    /// The network does not accept the image.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The network's output is no list of scores.
    #[error(
        "the network returned shape {got:?} for images of shape {image:?}: a map explains scores of shape [batch, classes, \
         1, 1, 1]"
    )]
    Scores {
        /// Shape of the images.
        image: [usize; 5],
        /// Shape of the output.
        got: [usize; 5],
    },
    /// There is no such class.
    #[error("there is no class {class}: the network has {classes}, counted from 0")]
    Class {
        /// The requested class.
        class: usize,
        /// Number of classes.
        classes: usize,
    },
    /// There is no such layer.
    #[error("{network} has no layer `{layer}` that is called for this image; the last ones are {known}")]
    Layer {
        /// Name of the network.
        network: &'static str,
        /// The requested layer.
        layer: String,
        /// The last layers.
        known: String,
    },
    /// The output of the layer has no places.
    #[error("the output of `{layer}` of {network} is a single voxel for this image: choose an earlier layer")]
    Point {
        /// Name of the network.
        network: &'static str,
        /// The requested layer.
        layer: String,
    },
    /// No layer has an output of more than one voxel.
    #[error("{network} has no layer whose output is a map of this image: use another method, or a larger image")]
    NoMap {
        /// Name of the network.
        network: &'static str,
    },
    /// The scores do not depend on the values of the layer.
    #[error("the scores of {network} do not depend on {what}")]
    Independent {
        /// Name of the network.
        network: &'static str,
        /// The layer, or the image.
        what: String,
    },
    /// An option is invalid.
    #[error("{name} is {value}: {expected}")]
    Option {
        /// Name of the parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The expected value.
        expected: String,
    },
}

/// The network in evaluation mode, under autodiff: gradients pass through it to its input.
fn differentiable<N: Network>(net: &N) -> N {
    net.clone().train().freeze()
}

/// The score of the class for each image, `[b, 1, 1, 1, 1]` in f32; of the class with the highest one by
/// default.
fn score(scores: Tensor<5>, image: [usize; 5], class_idx: Option<usize>) -> Result<Tensor<5>, VisualizeError> {
    let got = scores.dims();
    if got[0] != image[0] || got[1] == 0 || got[2..] != [1; 3] {
        return Err(VisualizeError::Scores { image, got });
    }
    let scores = scores.cast(DType::F32);
    match class_idx {
        Some(class) if class < got[1] => Ok(scores.narrow(1, class, 1)),
        Some(class) => Err(VisualizeError::Class { class, classes: got[1] }),
        None => Ok(scores.max_dim(1)),
    }
}

//! Losses with MONAI's options and values.
//!
//! Inputs are `[b, c, x, y, z]`, logits unless the options say otherwise; everything is computed in f32. Labels are
//! checked only where asked for, since the check reads a value back from the device.

mod bce;
mod cross_entropy;
mod dice;
mod dice_ce;
mod labels;

pub use bce::BceWithLogitsLoss;
pub use cross_entropy::CrossEntropyLoss;
pub use dice::{DiceLoss, OtherActivation};
pub use dice_ce::DiceCELoss;
pub use labels::{check_labels, one_hot};

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Inputs or options a loss cannot work with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LossError {
    /// Prediction and target do not fit each other.
    #[error("{loss}: target of shape {target:?} does not fit a prediction of shape {input:?}: {expected}")]
    Shape {
        /// The loss.
        loss: &'static str,
        /// Shape of the prediction.
        input: [usize; 5],
        /// Shape of the target.
        target: [usize; 5],
        /// What is needed.
        expected: String,
    },
    /// An option that makes no sense, or not with the others.
    #[error("{loss}: {reason}")]
    Option {
        /// The loss.
        loss: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A label that no class has.
    #[error("label {label} is outside 0..{classes}: expected whole class indices; map or drop the other labels first")]
    Label {
        /// The first such label found.
        label: f32,
        /// Number of classes.
        classes: usize,
    },
}

/// How the values per item and class become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// All of them, flat.
    None,
}

impl Reduction {
    /// Reduces to `[1]`, or flattens.
    pub(crate) fn apply<const D: usize>(self, values: Tensor<D>) -> Tensor<1> {
        match self {
            Reduction::Mean => values.mean(),
            Reduction::Sum => values.sum(),
            Reduction::None => {
                let count = values.shape().num_elements();
                values.reshape([count])
            }
        }
    }
}

/// One weight for all classes, or one per class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClassWeight {
    /// The same for all.
    All(f64),
    /// One per class.
    Each(Vec<f64>),
}

/// A loss of a prediction `[b, c, x, y, z]` and a target.
pub trait Loss: Send + Sync {
    /// MONAI's name.
    fn name(&self) -> &'static str;

    /// The loss, `[1]` unless the reduction is none.
    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError>;
}

/// A loss by name, as a recipe gives it: `name = "DiceLoss"` and its own parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name")]
pub enum LossConfig {
    /// [`DiceLoss`]
    DiceLoss(DiceLoss),
    /// [`DiceCELoss`]
    DiceCELoss(DiceCELoss),
    /// [`CrossEntropyLoss`]
    CrossEntropyLoss(CrossEntropyLoss),
    /// [`BceWithLogitsLoss`]
    #[serde(rename = "BCEWithLogitsLoss")]
    BceWithLogitsLoss(BceWithLogitsLoss),
}

impl LossConfig {
    /// The loss, its options checked.
    pub fn build(&self) -> Result<Box<dyn Loss>, LossError> {
        match self.clone() {
            LossConfig::DiceLoss(loss) => loss.check().map(|()| Box::new(loss) as Box<dyn Loss>),
            LossConfig::DiceCELoss(loss) => loss.check().map(|()| Box::new(loss) as Box<dyn Loss>),
            LossConfig::CrossEntropyLoss(loss) => loss.check().map(|()| Box::new(loss) as Box<dyn Loss>),
            LossConfig::BceWithLogitsLoss(loss) => Ok(Box::new(loss)),
        }
    }
}

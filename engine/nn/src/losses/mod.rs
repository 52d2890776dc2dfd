//! Losses with MONAI's options and values.
//!
//! Inputs are `[b, c, x, y, z]`, logits unless the options say otherwise; all computations are in
//! f32. Shapes are always checked. Values (finite) and labels (classes) are checked on the CPU by
//! default. On other devices they are checked only with `check_labels = true`, because the check
//! reads from the device. `check_labels = false` disables these checks everywhere.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use hearth_nn::losses::{DiceCELoss, Loss};
//!
//! let loss = DiceCELoss::default().softmax(true).to_onehot_y(true);
//! let scores = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
//! let labels = Tensor::ones([1, 1, 4, 4, 4], &Device::default()); // class 1 everywhere
//! assert!(loss.forward(scores.clone(), labels)?.into_scalar::<f32>() > 0.0);
//! let wrong = Tensor::full([1, 1, 4, 4, 4], 2.0, &Device::default());
//! assert!(loss.forward(scores, wrong).unwrap_err().to_string().starts_with("label 2 is outside 0..2"));
//! # Ok::<(), hearth_nn::losses::LossError>(())
//! ```

mod activation;
mod adversarial;
mod bce;
mod checks;
mod cldice;
mod config;
mod contrastive;
mod cross_entropy;
mod deep_supervision;
mod dice;
mod dice_ce;
mod dice_focal;
mod focal;
mod generalized_dice;
mod generalized_dice_focal;
mod hausdorff_dt;
mod inputs;
mod labels;
mod loss_fn;
mod masked;
mod mse;
mod of_plugin;
mod ssim;
mod tversky;
mod unified_focal;
mod wasserstein_dice;

pub use activation::OtherActivation;
pub use adversarial::{AdversarialCriterion, PatchAdversarialLoss};
pub use bce::BceWithLogitsLoss;
pub use checks::{check_finite, check_labels};
pub use cldice::{SoftClDiceLoss, SoftDiceClDiceLoss};
pub use config::LossConfig;
pub use contrastive::ContrastiveLoss;
pub use cross_entropy::CrossEntropyLoss;
pub use deep_supervision::{DeepSupervisionLoss, LevelWeight};
pub use dice::DiceLoss;
pub use dice_ce::DiceCELoss;
pub use dice_focal::DiceFocalLoss;
pub use focal::FocalLoss;
pub use generalized_dice::GeneralizedDiceLoss;
pub use generalized_dice_focal::GeneralizedDiceFocalLoss;
pub use hausdorff_dt::{HausdorffDtLoss, LogHausdorffDtLoss};
pub use labels::one_hot;
pub use loss_fn::loss_fn;
pub use masked::{MaskedDiceLoss, MaskedLoss};
pub use mse::MseLoss;
pub use ssim::SsimLoss;
pub use tversky::TverskyLoss;
pub use unified_focal::AsymmetricUnifiedFocalLoss;
pub use wasserstein_dice::{GeneralizedWassersteinDiceLoss, WassersteinWeighting};

pub use crate::class_size::SizeWeight;
pub use crate::ssim::KernelType;

use burn::tensor::Tensor;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error of a loss: invalid inputs or options. A loss of your own makes one with
/// [`LossError::new`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LossError {
    /// Prediction and target have different shapes.
    #[error("{loss}: target of shape {target:?} does not fit a prediction of shape {input:?}: {expected}")]
    Shape {
        /// Name of the loss.
        loss: &'static str,
        /// Shape of the prediction.
        input: [usize; 5],
        /// Shape of the target.
        target: [usize; 5],
        /// The expected shape.
        expected: String,
    },
    /// An option that is invalid, or that contradicts other options.
    #[error("{loss}: {reason}")]
    Option {
        /// The option's key in a recipe; empty if several options are involved.
        key: &'static str,
        /// Name of the loss.
        loss: &'static str,
        /// Description of the problem.
        reason: String,
    },
    /// A label outside the classes.
    #[error("label {label} is outside 0..{classes}: expected whole class indices; map or drop the other labels first")]
    Label {
        /// The first such label found.
        label: f32,
        /// Number of classes.
        classes: usize,
    },
    /// A mask that does not match the prediction.
    #[error(
        "{loss}: mask of shape {mask:?} does not fit a prediction of shape {input:?}: expected one channel, the same axes \
             of space, and the same batch or batch 1"
    )]
    Mask {
        /// Name of the loss.
        loss: &'static str,
        /// Shape of the prediction.
        input: [usize; 5],
        /// Shape of the mask.
        mask: [usize; 5],
    },
    /// Non-finite values.
    #[error(
        "{loss}: {count} of {of} values of the {what} are not finite, the first is {value} at {at:?} \
             [batch, channel, x, y, z]"
    )]
    NonFinite {
        /// Name of the loss.
        loss: &'static str,
        /// The input: prediction, target or mask.
        what: &'static str,
        /// Number of non-finite values.
        count: usize,
        /// Number of all values.
        of: usize,
        /// The first non-finite value.
        value: f32,
        /// Index of the first non-finite value.
        at: [usize; 5],
    },
    /// Reading values back from the device failed.
    #[error("reading values back from the device failed: {reason}")]
    Read {
        /// The device's error.
        reason: String,
    },
}

/// The reduction of values per item and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// The mean.
    #[default]
    Mean,
    /// The sum.
    Sum,
    /// No reduction: all values, flattened.
    None,
}

impl Reduction {
    /// Reduces the values to `[1]`, or flattens them.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or one for each class")]
pub enum ClassWeight {
    /// The same weight for all classes.
    All(f64),
    /// One weight per class.
    Each(Vec<f64>),
}

impl ClassWeight {
    /// The weights per channel, `[1, c, 1, 1, 1]` (or one for all), on the device of `like`.
    pub(crate) fn per_channel(&self, loss: &'static str, like: &Tensor<5>) -> Result<Tensor<5>, LossError> {
        let channels = like.dims()[1];
        let weights: Vec<f32> = match self {
            ClassWeight::All(weight) => vec![*weight as f32],
            ClassWeight::Each(weights) if weights.len() == channels => weights.iter().map(|w| *w as f32).collect(),
            ClassWeight::Each(weights) => {
                let reason = format!("{} weights for {channels} classes that count", weights.len());
                return Err(LossError::Option { key: "weight", loss, reason });
            }
        };
        Ok(Tensor::<1>::from_floats(weights.as_slice(), &like.device()).reshape([1, weights.len(), 1, 1, 1]))
    }
}

impl LossError {
    /// Creates an error with a reason; `loss` is the loss's name.
    pub fn new(loss: &'static str, reason: impl Into<String>) -> Self {
        LossError::Option { key: "", loss, reason: reason.into() }
    }
}

/// A loss of a prediction `[b, c, x, y, z]` and a target. Implementations must provide two
/// functions.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::losses::{Loss, LossError};
///
/// /// The logarithm of the hyperbolic cosine of the error.
/// struct LogCosh;
///
/// impl Loss for LogCosh {
///     fn check(&self) -> Result<(), LossError> {
///         Ok(())
///     }
///
///     fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
///         if input.dims() != target.dims() {
///             return Err(LossError::new(self.name(), "prediction and target must be of one shape"));
///         }
///         Ok((input - target).cosh().log().mean())
///     }
/// }
///
/// let zeros = Tensor::zeros([1, 1, 2, 2, 2], &Device::default());
/// assert_eq!(LogCosh.forward(zeros.clone(), zeros.clone())?.into_scalar::<f32>(), 0.0);
/// let error = LogCosh.forward(zeros.clone(), zeros.repeat_dim(0, 2)).unwrap_err();
/// assert_eq!(error.to_string(), "LogCosh: prediction and target must be of one shape");
/// # Ok::<(), LossError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a loss",
    note = "implement `Loss` for a type of your own, or name a function of prediction and target: \
            `loss_fn(\"LogCosh\", |input, target| Ok((input - target).cosh().log().mean()))`"
)]
pub trait Loss: Send + Sync {
    /// The loss's name in messages: MONAI's name. By default the name of the type.
    fn name(&self) -> &'static str {
        hearth_registry::type_name::<Self>()
    }

    /// Checks the options.
    ///
    /// # Errors
    /// Fails with the first invalid option.
    fn check(&self) -> Result<(), LossError>;

    /// Loads what the loss needs before its first use: the library of a plugin.
    ///
    /// # Errors
    /// A plugin that is missing or refuses the options.
    fn load(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether it copies prediction and target to host memory.
    fn through_host(&self) -> bool {
        false
    }

    /// Computes the loss of a prediction and a target, both `[b, c, x, y, z]`, as `[1]` unless
    /// `reduction` is `none`.
    ///
    /// # Errors
    /// If the shapes do not fit, or values that are checked (see [`losses`](crate::losses)).
    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError>;

    /// Computes the loss over all outputs of a network, with the main output first. The default
    /// uses the main output only ([`DeepSupervisionLoss`] uses all).
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and without any output.
    fn forward_all(&self, inputs: Vec<Tensor<5>>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        match inputs.into_iter().next() {
            Some(input) => self.forward(input, target),
            None => Err(LossError::new(self.name(), "there is no output to compare")),
        }
    }

    /// Keys of additional tensors of the batch, such as `mask`, that
    /// [`forward_with`](Self::forward_with) receives.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Computes the loss over all outputs of a network with the tensors of [`needs`](Self::needs),
    /// in that order. Called by the trainer. The default ignores `needed`.
    ///
    /// # Errors
    /// As [`forward_all`](Self::forward_all), and if a needed tensor does not fit.
    fn forward_with(
        &self,
        inputs: Vec<Tensor<5>>,
        target: Tensor<5>,
        needed: Vec<Tensor<5>>,
    ) -> Result<Tensor<1>, LossError> {
        let _ = needed;
        self.forward_all(inputs, target)
    }
}

/// Implements the trait for boxed losses, such as those that a recipe names.
impl<L: Loss + ?Sized> Loss for Box<L> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn check(&self) -> Result<(), LossError> {
        (**self).check()
    }

    fn load(&self) -> Result<(), Fault> {
        (**self).load()
    }

    fn through_host(&self) -> bool {
        (**self).through_host()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        (**self).forward(input, target)
    }

    fn forward_all(&self, inputs: Vec<Tensor<5>>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        (**self).forward_all(inputs, target)
    }

    fn needs(&self) -> &'static [&'static str] {
        (**self).needs()
    }

    fn forward_with(
        &self,
        inputs: Vec<Tensor<5>>,
        target: Tensor<5>,
        needed: Vec<Tensor<5>>,
    ) -> Result<Tensor<1>, LossError> {
        (**self).forward_with(inputs, target, needed)
    }
}

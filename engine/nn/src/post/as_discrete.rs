//! Argmax, one-hot, threshold and rounding (`monai.transforms.AsDiscrete`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PostError;
use crate::losses::one_hot;

/// The rounding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rounding {
    /// To the nearest whole number, half to even.
    TorchRounding,
}

/// Makes values discrete; the steps run in the order of the fields.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::post::AsDiscrete;
/// let scores = Tensor::zeros([1, 3, 4, 4, 4], &Device::default());
/// let classes = AsDiscrete::default().argmax(true).apply(scores.clone())?;
/// assert_eq!(classes.dims(), [1, 1, 4, 4, 4]);
/// let masks = AsDiscrete::default().argmax(true).to_onehot(3).apply(scores)?;
/// assert_eq!((masks.dims(), masks.sum().into_scalar::<f32>()), ([1, 3, 4, 4, 4], 64.0));
/// # Ok::<(), hearth_nn::post::PostError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct AsDiscrete {
    /// Whether to take the channel (index along `dim`) with the largest value, as one channel of
    /// class indices.
    pub argmax: bool,
    /// Number of channels (indices along `dim`) of the one-hot form of class indices.
    pub to_onehot: Option<usize>,
    /// Threshold: 1 for values of at least this, otherwise 0.
    pub threshold: Option<f64>,
    /// The rounding of values, if any.
    pub rounding: Option<Rounding>,
    /// The axis of an item for `argmax` and `to_onehot`; 0 for its channels.
    pub dim: i64,
}

impl AsDiscrete {
    /// Maps `[b, c, x, y, z]` to `[b, c, ..]`, `[b, 1, ..]` or `[b, to_onehot, ..]`, in f32.
    ///
    /// # Errors
    /// If there is no axis `dim`, if `to_onehot` is 0 or less than the number of channels of `argmax`,
    /// or if it is given for several channels without `argmax`.
    pub fn apply(&self, x: Tensor<5>) -> Result<Tensor<5>, PostError> {
        let mut x = x.cast(DType::F32);
        let axis = super::axis("AsDiscrete", self.dim, x.dims())?;
        let wrong = |reason: String| PostError::Option { transform: "AsDiscrete", reason };
        if self.argmax {
            let channels = x.dims()[axis];
            // The classes beyond would vanish from prediction and label alike, and a metric would rise.
            if let Some(classes) = self.to_onehot.filter(|classes| (1..channels).contains(classes)) {
                let what = format!("to_onehot {classes} is below the {channels} channels of argmax");
                return Err(wrong(format!("{what}: the classes from {classes} on would be dropped; give {channels}")));
            }
            x = x.argmax(axis).float().cast(DType::F32);
        }
        if let Some(classes) = self.to_onehot {
            let channels = x.dims()[axis];
            if channels != 1 || classes == 0 {
                let reason = format!("to_onehot {classes} needs class indices in one channel; there are {channels}");
                return Err(wrong(reason));
            }
            x = one_hot(x.swap_dims(1, axis), classes).swap_dims(1, axis);
        }
        if let Some(threshold) = self.threshold {
            x = x.greater_equal_elem(threshold).float().cast(DType::F32);
        }
        Ok(match self.rounding {
            Some(Rounding::TorchRounding) => x.round(),
            None => x,
        })
    }
}

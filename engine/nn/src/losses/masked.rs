//! Losses within a mask (`monai.losses.MaskedLoss`, `monai.losses.MaskedDiceLoss`).

use burn::tensor::{DType, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::checks::{self, check_finite};
use super::{DiceLoss, Loss, LossError};

/// A loss within a mask: prediction and target are multiplied by a mask `[b, 1, x, y, z]` or `[1,
/// 1, x, y, z]`.
///
/// The mask is applied to the inputs of the loss: a loss of logits sees logits of 0 outside the
/// mask, which still contribute ([`MaskedDiceLoss`] applies its activation before the mask).
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{MaskedLoss, MseLoss};
/// let x = Tensor::ones([1, 2, 4, 4, 4], &Device::default());
/// let nowhere = Tensor::zeros([1, 1, 4, 4, 4], &Device::default());
/// let loss = MaskedLoss(MseLoss::default()).forward_masked(x.clone() * 5.0, x, nowhere)?;
/// assert_eq!(loss.into_scalar::<f32>(), 0.0);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MaskedLoss<L>(pub L);

impl<L: Loss> MaskedLoss<L> {
    /// Returns the loss of prediction and target `[b, c, x, y, z]` within the mask, `[b, 1, x, y, z]`
    /// or `[1, 1, x, y, z]`.
    ///
    /// # Errors
    /// Fails if the mask has several channels, another size, or another batch size; also returns
    /// the errors of the loss.
    pub fn forward_masked(&self, input: Tensor<5>, target: Tensor<5>, mask: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let (input, target) = masked("MaskedLoss", None, input, target, mask)?;
        self.0.forward(input, target)
    }
}

/// Dice loss within a mask. The prediction after its activation and the target are 0 outside the
/// mask.
///
/// In training, the mask is the batch's `mask`, a key that the data set and the transforms must
/// provide; a batch without it is an error. [`Loss::forward`] has no mask and equals [`DiceLoss`].
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{DiceLoss, MaskedDiceLoss};
/// let logits = Tensor::zeros([1, 1, 4, 4, 4], &Device::default());
/// let half = logits.ones_like().slice_fill([0..1, 0..1, 0..2, 0..4, 0..4], 0.0);
/// let loss = MaskedDiceLoss(DiceLoss { sigmoid: true, ..DiceLoss::default() });
/// let loss = loss.forward_masked(logits, half.clone(), half)?;
/// assert!((loss.into_scalar::<f32>() - 1.0 / 3.0).abs() < 1e-5);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MaskedDiceLoss(pub DiceLoss);

const NAME: &str = "MaskedDiceLoss";

impl MaskedDiceLoss {
    /// Returns the loss within the mask `[b, 1, x, y, z]` or `[1, 1, x, y, z]`.
    ///
    /// # Errors
    /// Fails if the mask has several channels, another size, or another batch size; also returns
    /// the errors of [`DiceLoss`].
    pub fn forward_masked(&self, input: Tensor<5>, target: Tensor<5>, mask: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let DiceLoss { sigmoid, softmax, other_act, .. } = self.0;
        let activation = Activation::choose(NAME, sigmoid, softmax, other_act)?;
        let input = activation.apply(input.cast(DType::F32));
        let (input, target) = masked(NAME, self.0.check_labels, input, target, mask)?;
        DiceLoss { sigmoid: false, softmax: false, other_act: None, ..self.0.clone() }.forward(input, target)
    }
}

impl Loss for MaskedDiceLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        self.0.check()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.0.forward(input, target)
    }

    fn needs(&self) -> &'static [&'static str] {
        &["mask"]
    }

    fn forward_with(
        &self,
        inputs: Vec<Tensor<5>>,
        target: Tensor<5>,
        needed: Vec<Tensor<5>>,
    ) -> Result<Tensor<1>, LossError> {
        match (inputs.into_iter().next(), needed.into_iter().next()) {
            (Some(input), Some(mask)) => self.forward_masked(input, target, mask),
            _ => {
                let reason = "there is no output, or no mask, to compare".to_owned();
                Err(LossError::Option { key: "", loss: NAME, reason })
            }
        }
    }
}

/// Multiplies prediction and target by the mask.
fn masked(
    loss: &'static str,
    check: Option<bool>,
    input: Tensor<5>,
    target: Tensor<5>,
    mask: Tensor<5>,
) -> Result<(Tensor<5>, Tensor<5>), LossError> {
    let (shape, got) = (input.dims(), mask.dims());
    let fits = got[1] == 1 && (got[0] == 1 || got[0] == shape[0]) && got[2..] == shape[2..];
    if !fits {
        return Err(LossError::Mask { loss, input: shape, mask: got });
    }
    let target_shape = target.dims();
    if target_shape[0] != shape[0] || target_shape[2..] != shape[2..] {
        let expected = "batch and spatial axes must be equal".to_owned();
        return Err(LossError::Shape { loss, input: shape, target: target_shape, expected });
    }
    if checks::wanted(check, &input) {
        check_finite(loss, "mask", &mask)?;
    }
    let mask = mask.cast(DType::F32);
    let times = |x: Tensor<5>| {
        let shape = x.dims();
        x.cast(DType::F32) * mask.clone().expand(shape)
    };
    Ok((times(input), times(target)))
}

hearth_registry::entry!(
    dyn crate::losses::Loss => MaskedDiceLoss,
    paper: "Milletari et al. 2016, arXiv:1606.04797",
    example: "sigmoid = true"
);

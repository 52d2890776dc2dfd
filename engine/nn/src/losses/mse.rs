//! Mean squared error (`torch.nn.MSELoss`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite};
use super::{Loss, LossError, Reduction};

/// Squared difference of a prediction and a target of the same shape.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{Loss, MseLoss};
/// let x = Tensor::zeros([1, 1, 4, 4, 4], &Device::default());
/// let loss = MseLoss::default().forward(x.clone(), x.ones_like() * 3.0)?;
/// assert_eq!(loss.into_scalar::<f32>(), 9.0);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct MseLoss {
    /// How elements are reduced.
    pub reduction: Reduction,
    /// Whether values are checked in every call. By default only on the CPU, because on other
    /// devices the check waits for the device.
    pub check_labels: Option<bool>,
}

const NAME: &str = "MSELoss";

impl Loss for MseLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        Ok(())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let (shape, got) = (input.dims(), target.dims());
        if shape != got {
            let expected = "expected the same shape".to_owned();
            return Err(LossError::Shape { loss: NAME, input: shape, target: got, expected });
        }
        if checks::wanted(self.check_labels, &input) {
            check_finite(NAME, "prediction", &input)?;
            check_finite(NAME, "target", &target)?;
        }
        let difference = input.cast(DType::F32) - target.cast(DType::F32);
        Ok(self.reduction.apply(difference.clone() * difference))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => MseLoss,
    name: "MSELoss",
    example: ""
);

//! Inference on the whole image (`monai.inferers.SimpleInferer`).

use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InferError, Inferer, check_stop};

/// Applies the network to the whole batch at once.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::{Inferer, SimpleInferer};
/// let x = Tensor::ones([1, 1, 4, 4, 4], &Device::default());
/// let y = SimpleInferer {}.infer(x, &|image| image * 2.0)?;
/// assert_eq!(y.sum().into_scalar::<f32>(), 128.0);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimpleInferer {}

impl Inferer for SimpleInferer {
    fn name(&self) -> &'static str {
        "SimpleInferer"
    }

    fn check(&self) -> Result<(), InferError> {
        Ok(())
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        check_stop()?;
        Ok(net(x))
    }
}

hearth_registry::entry!(dyn Inferer => SimpleInferer, example: r#""#);

//! Losses of plugins, with their own gradients, computed on host memory: `mine.Boundary`.

use burn::tensor::{DType, Tensor, TensorData};
use hearth_kernels::{cast, given_gradient};
use hearth_registry::component::texts::LossAnswer;
use hearth_registry::component::{self, ComponentKind, HostArray, IDENTITY, Late};
use hearth_registry::{Fault, Node};

use super::checks::{finite, look};
use super::{Loss, LossError};

/// A loss that calls a plugin for each batch.
struct OfPlugin(Late);

/// Builds the loss for a name with a dot, from its table without the name.
pub(super) fn build(name: &str, table: &Node) -> Result<Box<dyn Loss>, Fault> {
    Ok(Box::new(OfPlugin(Late::new(ComponentKind::Loss, name, table.clone()))))
}

impl OfPlugin {
    fn failed(&self, why: String) -> LossError {
        LossError::new(self.name(), why)
    }

    /// The loss, and its gradient with respect to the prediction.
    fn computed(&self, pred: Batch<'_>, label: Batch<'_>) -> Result<(f32, Vec<f32>), LossError> {
        let ((of_pred, shape), name) = (pred, self.name());
        // The values are in host memory in any case, so that the checks cost little on a GPU, too.
        finite(name, "prediction", of_pred, shape)?;
        finite(name, "target", label.0, label.1)?;
        let component = self.0.get().map_err(|fault| self.failed(fault.to_string()))?;
        let answer = component.call("loss", &[array(pred), array(label)], "{}", None);
        let answer = answer.map_err(|why| self.failed(component::reports(&why)))?;
        let LossAnswer { loss } = serde_json::from_str(&answer.text)
            .map_err(|error| self.failed(format!("the plugin returned {:?}: {error}", answer.text)))?;
        let loss = loss.map(|loss| loss as f32).filter(|loss| loss.is_finite());
        let loss = loss.ok_or_else(|| self.failed("the plugin returned a loss that is not finite".to_owned()))?;
        let [gradient] = <[_; 1]>::try_from(answer.arrays).map_err(|arrays| {
            self.failed(format!("the plugin returned {} arrays: expected the gradient alone", arrays.len()))
        })?;
        gradient.check().map_err(|why| self.failed(format!("the plugin returned an invalid gradient: {why}")))?;
        if gradient.shape != shape {
            let got = gradient.shape;
            let why =
                format!("the plugin returned a gradient of shape {got:?}: expected that of the prediction, {shape:?}");
            return Err(self.failed(why));
        }
        finite(name, "gradient that the plugin returned", &gradient.values, shape)?;
        Ok((loss, gradient.values.into_owned()))
    }
}

/// The values of a batch and its shape.
type Batch<'a> = (&'a [f32], [usize; 5]);

/// A batch as the plugin receives it.
fn array((values, shape): Batch<'_>) -> HostArray<'_> {
    HostArray { shape: shape.to_vec(), values: values.into(), affine: IDENTITY }
}

impl Loss for OfPlugin {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn check(&self) -> Result<(), LossError> {
        Ok(())
    }

    fn load(&self) -> Result<(), Fault> {
        self.0.get().map(drop)
    }

    fn through_host(&self) -> bool {
        true
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let (shape, label_shape) = (input.dims(), target.dims());
        let input = cast(input, DType::F32);
        let (loss, gradient) =
            look(&input, |pred| look(&target, |label| self.computed((pred, shape), (label, label_shape))))???;
        let gradient = TensorData::new(gradient, shape);
        let gradient = Tensor::from_data(gradient, &input.device().without_autodiff());
        Ok(given_gradient(input, loss, gradient))
    }
}

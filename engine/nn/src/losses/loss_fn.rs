//! A closure as a loss: [`loss_fn`].

use burn::tensor::Tensor;

use super::{Loss, LossError};

struct LossFn<F> {
    name: &'static str,
    forward: F,
}

impl<F> Loss for LossFn<F>
where
    F: Fn(Tensor<5>, Tensor<5>) -> Result<Tensor<1>, LossError> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self) -> Result<(), LossError> {
        Ok(())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        (self.forward)(input, target)
    }
}

/// A loss that is a function or closure of prediction and target, `[b, c, x, y, z]`; it returns
/// `[1]`. The name is that of messages. Shapes and values are not checked before the call.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::losses::{Loss, loss_fn};
///
/// let loss = loss_fn("LogCosh", |input, target| Ok((input - target).cosh().log().mean()));
/// let zeros = Tensor::zeros([1, 1, 2, 2, 2], &Device::default());
/// assert_eq!(loss.forward(zeros.clone(), zeros)?.into_scalar::<f32>(), 0.0);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
pub fn loss_fn<F>(name: &'static str, forward: F) -> impl Loss + 'static
where
    F: Fn(Tensor<5>, Tensor<5>) -> Result<Tensor<1>, LossError> + Send + Sync + 'static,
{
    LossFn { name, forward }
}

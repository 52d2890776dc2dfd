//! A sum over several processes as an operation with a gradient: [`exchange`].

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchKindConversion, DispatchTensor, backend_extension, tensor::FloatTensor,
};
use burn::tensor::Tensor;

use crate::without_graph::{lower, without_graph};

/// The function that computes the sum; its flag marks a gradient.
#[derive(Clone)]
pub struct Sum(Arc<dyn Fn(Tensor<1>, bool) -> Tensor<1> + Send + Sync>);

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sum")
    }
}

/// A sum over several processes.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait ExchangeOps: Backend {
    /// The sum of the values `[n]` of all processes.
    fn exchange(x: FloatTensor<Self>, sum: Sum) -> FloatTensor<Self>;
}

/// Converts to the callers' tensor type and back.
fn summed<B: Backend>(x: FloatTensor<B>, sum: &Sum, of_gradient: bool) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    let x = Tensor::from_dispatch(DispatchTensor::from_backend(BackendTensor::<B>::Float(x)));
    lower::<B>((sum.0)(x, of_gradient).into_dispatch())
}

without_graph!(ExchangeOps {
    fn exchange(x: FloatTensor<Self>, sum: Sum) -> FloatTensor<Self> {
        summed::<Self>(x, &sum, false)
    }
});

#[derive(Debug)]
struct ExchangeBackward;

impl<B: ExchangeOps> Backward<B, 1> for ExchangeBackward
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = Sum;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        // Each process's value contributes to the results of all: its gradient is the sum of
        // theirs.
        let gradient = summed::<B>(grads.consume::<B>(&ops.node), &ops.state, true);
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, gradient.clone());
        }
    }
}

impl<B: ExchangeOps, C: CheckpointStrategy> ExchangeOps for Autodiff<B, C>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    fn exchange(x: FloatTensor<Self>, sum: Sum) -> FloatTensor<Self> {
        let node = x.node();
        let result = B::exchange(x.into_primitive(), sum.clone());
        match ExchangeBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(sum, result),
            OpsKind::UnTracked(prep) => prep.finish(result),
        }
    }
}

/// Computes the sum of the values of all processes, with its gradient. `sum` returns the sum of its
/// argument over the processes; its flag is `true` for a gradient, in the backward pass. Every
/// process must call it in the same order.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_kernels::exchange;
///
/// // Three processes with the same values.
/// let x = Tensor::<1>::from_floats([1.0, 2.0], &Device::flex().autodiff()).require_grad();
/// let y = exchange(x.clone(), |x, _| x * 3.0);
/// assert_eq!(y.clone().into_data(), Tensor::<1>::from_floats([3.0, 6.0], &Device::flex()).into_data());
/// let gradients = (y * 2.0).sum().backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_data(), Tensor::<1>::full([2], 6.0, &Device::flex()).into_data());
/// ```
pub fn exchange(x: Tensor<1>, sum: impl Fn(Tensor<1>, bool) -> Tensor<1> + Send + Sync + 'static) -> Tensor<1> {
    Tensor::from_dispatch(<Dispatch as ExchangeOps>::exchange(x.into_dispatch(), Sum(Arc::new(sum))))
}

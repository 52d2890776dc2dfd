//! A number with a gradient that was computed elsewhere: [`given_gradient`].

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::without_graph::without_graph;

/// A function of `x` whose value and gradient are known.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait GivenGradientOps: Backend {
    /// The value `[1]`, whose gradient with respect to `x` is `gradient`.
    fn given(x: FloatTensor<Self>, value: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self>;
}

without_graph!(GivenGradientOps {
    fn given(_: FloatTensor<Self>, value: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        value
    }
});

#[derive(Debug)]
struct GivenBackward;

impl<B: GivenGradientOps> Backward<B, 1> for GivenBackward {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        // The gradient of the value is one number: that of the loss, with the scale of fp16.
        let of_value = B::float_reshape(grads.consume::<B>(&ops.node), [1, 1, 1, 1, 1].into());
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, B::float_mul(ops.state.clone(), of_value.clone()));
        }
    }
}

impl<B: GivenGradientOps, C: CheckpointStrategy> GivenGradientOps for Autodiff<B, C> {
    fn given(x: FloatTensor<Self>, value: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        let value = value.into_primitive();
        match GivenBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(gradient.into_primitive(), value),
            OpsKind::UnTracked(prep) => prep.finish(value),
        }
    }
}

/// A number that depends on `x`, with its value and its gradient with respect to `x` as they were
/// computed outside the graph. `gradient` has the shape of `x`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_kernels::given_gradient;
///
/// let device = Device::flex();
/// let x = Tensor::<5>::ones([1, 1, 2, 1, 1], &device).autodiff().require_grad();
/// let gradient = Tensor::<5>::from_floats([[[[[2.0]], [[3.0]]]]], &device);
/// let loss = given_gradient(x.clone(), 7.0, gradient);
/// assert_eq!(loss.clone().into_scalar::<f32>(), 7.0);
/// let gradients = (loss * 10.0).backward();
/// let expected = Tensor::<5>::from_floats([[[[[20.0]], [[30.0]]]]], &device);
/// assert_eq!(x.grad(&gradients).unwrap().into_data(), expected.into_data());
/// ```
pub fn given_gradient(x: Tensor<5>, value: f32, gradient: Tensor<5>) -> Tensor<1> {
    let value = Tensor::<1>::from_floats([value], &x.device());
    let gradient = if x.is_autodiff() { gradient.autodiff() } else { gradient.without_autodiff() };
    let given =
        <Dispatch as GivenGradientOps>::given(x.into_dispatch(), value.into_dispatch(), gradient.into_dispatch());
    Tensor::from_dispatch(given)
}

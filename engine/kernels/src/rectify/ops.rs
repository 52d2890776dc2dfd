//! The activation as an operation of backends, and its node in the autodiff graph.

use crate::layer_range::of_layer;
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

/// The activation and its gradient.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait RectifyOps: Backend {
    /// `x` where positive, `slope x` elsewhere.
    fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self>;

    /// `x + y` where positive, `slope (x + y)` elsewhere.
    fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self>;

    /// `dy` where the output `y` is positive, `slope dy` elsewhere.
    fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self>;
}

/// The backward pass.
#[derive(Debug)]
struct RectifyBackward;

impl<B: RectifyOps> Backward<B, 1> for RectifyBackward {
    type State = (FloatTensor<B>, f32);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (y, slope) = ops.state;
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, B::rectify_gradient(y.clone(), dy.clone(), slope));
        }
    }
}

/// The backward pass of the sum: both terms have the same gradient.
#[derive(Debug)]
struct SumBackward;

impl<B: RectifyOps> Backward<B, 2> for SumBackward {
    /// The output, unless the gradient is passed on unchanged.
    type State = Option<(FloatTensor<B>, f32)>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let dy = match ops.state {
            Some((y, slope)) => B::rectify_gradient(y, dy, slope),
            None => dy,
        };
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, dy.clone());
        }
    }
}

impl<B: RectifyOps, C: CheckpointStrategy> RectifyOps for Autodiff<B, C> {
    fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        match of_layer(SumBackward).prepare::<C>([x.node(), y.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let sum = B::rectified_sum(x.into_primitive(), y.into_primitive(), slope);
                prep.finish((slope != 1.0).then(|| (sum.clone(), slope)), sum)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::rectified_sum(x.into_primitive(), y.into_primitive(), slope)),
        }
    }

    fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        match of_layer(RectifyBackward).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let y = B::rectify(x.into_primitive(), slope);
                prep.finish((y.clone(), slope), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::rectify(x.into_primitive(), slope)),
        }
    }

    fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        Self::from_inner(B::rectify_gradient(y.into_primitive(), dy.into_primitive(), slope))
    }
}

/// Runs the kernel.
pub fn rectified_sum(x: Tensor<5>, y: Tensor<5>, slope: f32) -> Tensor<5> {
    let sum = <Dispatch as RectifyOps>::rectified_sum(x.into_dispatch(), y.into_dispatch(), slope);
    Tensor::from_dispatch(sum)
}

/// Runs the kernel.
pub fn rectify(x: Tensor<5>, slope: f32) -> Tensor<5> {
    Tensor::from_dispatch(<Dispatch as RectifyOps>::rectify(x.into_dispatch(), slope))
}

//! Dropout as an operation of backends, and its node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::Drops;
use crate::layer_range::of_layer;

/// The dropout operation.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait DropoutOps: Backend {
    /// `x` after dropout.
    fn drop_out(x: FloatTensor<Self>, drops: Drops) -> FloatTensor<Self>;
}

/// The backward pass: the same mask and factor for the gradient.
#[derive(Debug)]
struct DropoutBackward;

impl<B: DropoutOps> Backward<B, 1> for DropoutBackward {
    type State = Drops;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let [parent] = ops.parents;
        if let Some(node) = parent {
            grads.register::<B>(node.id, B::drop_out(dy, Drops { offsets: [0.0; 2], ..ops.state }));
        }
    }
}

impl<B: DropoutOps, C: CheckpointStrategy> DropoutOps for Autodiff<B, C> {
    fn drop_out(x: FloatTensor<Self>, drops: Drops) -> FloatTensor<Self> {
        match of_layer(DropoutBackward).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(drops, B::drop_out(x.into_primitive(), drops)),
            OpsKind::UnTracked(prep) => prep.finish(B::drop_out(x.into_primitive(), drops)),
        }
    }
}

/// Runs the kernel.
pub fn dropout<const D: usize>(x: Tensor<D>, drops: Drops) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as DropoutOps>::drop_out(x.into_dispatch(), drops))
}

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
pub trait SwishOps: Backend {
    /// The output.
    fn logistic_gate(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The gradient with respect to the input.
    fn logistic_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// The backward pass.
#[derive(Debug)]
struct SwishBackward;

impl<B: SwishOps> Backward<B, 1> for SwishBackward {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, B::logistic_gate_gradient(ops.state.clone(), dy.clone()));
        }
    }
}

impl<B: SwishOps, C: CheckpointStrategy> SwishOps for Autodiff<B, C> {
    fn logistic_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        match of_layer(SwishBackward).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let x = x.into_primitive();
                prep.finish(x.clone(), B::logistic_gate(x))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::logistic_gate(x.into_primitive())),
        }
    }

    fn logistic_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        Self::from_inner(B::logistic_gate_gradient(x.into_primitive(), dy.into_primitive()))
    }
}

/// Runs the kernel.
pub fn swish<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as SwishOps>::logistic_gate(x.into_dispatch()))
}

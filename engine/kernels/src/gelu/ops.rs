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
pub trait GeluOps: Backend {
    /// The output.
    fn normal_gate(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The gradient with respect to the input.
    fn normal_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// The backward pass.
#[derive(Debug)]
struct GeluBackward;

impl<B: GeluOps> Backward<B, 1> for GeluBackward {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, B::normal_gate_gradient(ops.state.clone(), dy.clone()));
        }
    }
}

impl<B: GeluOps, C: CheckpointStrategy> GeluOps for Autodiff<B, C> {
    fn normal_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        match of_layer(GeluBackward).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let x = x.into_primitive();
                prep.finish(x.clone(), B::normal_gate(x))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::normal_gate(x.into_primitive())),
        }
    }

    fn normal_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        Self::from_inner(B::normal_gate_gradient(x.into_primitive(), dy.into_primitive()))
    }
}

/// Runs the kernel.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as GeluOps>::normal_gate(x.into_dispatch()))
}

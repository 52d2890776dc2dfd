//! The norm as an operation of backends, and its node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::layer_range::of_layer;
use crate::place;

/// The norm and its gradients.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait LayerNormOps: Backend {
    /// The output.
    fn normalize_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self>;

    /// The gradients with respect to x, weight and bias.
    fn normalize_rows_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        eps: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// The backward pass.
#[derive(Debug)]
struct LayerNormBackward;

impl<B: LayerNormOps> Backward<B, 3> for LayerNormBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, f32);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (x, weight, eps) = ops.state;
        let (dx, dw, db) = B::normalize_rows_gradient(x, weight, dy, eps);
        for (parent, gradient) in ops.parents.into_iter().zip([dx, dw, db]) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: LayerNormOps, C: CheckpointStrategy> LayerNormOps for Autodiff<B, C> {
    fn normalize_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node(), bias.node()];
        let [x, weight, bias] = [x, weight, bias].map(|t| t.into_primitive());
        match of_layer(LayerNormBackward).prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let y = B::normalize_rows(x.clone(), weight.clone(), bias, eps);
                prep.finish((x, weight, eps), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::normalize_rows(x, weight, bias, eps)),
        }
    }

    fn normalize_rows_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        eps: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        let [x, weight, dy] = [x, weight, dy].map(|t| t.into_primitive());
        let (dx, dw, db) = B::normalize_rows_gradient(x, weight, dy, eps);
        (Self::from_inner(dx), Self::from_inner(dw), Self::from_inner(db))
    }
}

/// Whether a kernel supports these tensors: f32, one weight and bias per feature.
pub fn has_kernel<const D: usize>(x: &Tensor<D>, affine: [&Tensor<1>; 2]) -> bool {
    let features = x.dims()[D - 1];
    place::takes_floats(x) && affine.into_iter().all(|t| place::takes_floats(t) && t.dims() == [features])
}

/// Runs the kernel; [`has_kernel`] must be true.
pub fn layer_norm<const D: usize>(x: Tensor<D>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<D> {
    let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(<Dispatch as LayerNormOps>::normalize_rows(x, weight, bias, eps as f32))
}

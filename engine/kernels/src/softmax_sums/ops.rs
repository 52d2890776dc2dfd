//! The sums as an operation of backends, and their node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::SoftmaxSums;
use super::shape::Shape;
use crate::layer_range::of_layer;
use crate::place::{self, Place};

/// The sums and their gradient.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait SoftmaxSumsOps: Backend {
    /// The sums, `[B, C, SUMS]`; only the first four have a gradient.
    fn softmax_sums(logits: FloatTensor<Self>, labels: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self>;

    /// The gradient with respect to the logits.
    fn softmax_sums_gradient(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self>;
}

/// The backward pass.
#[derive(Debug)]
struct SoftmaxSumsBackward;

impl<B: SoftmaxSumsOps> Backward<B, 1> for SoftmaxSumsBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Shape);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let of_sums = grads.consume::<B>(&ops.node);
        let (logits, labels, shape) = ops.state;
        for node in ops.parents.into_iter().flatten() {
            let gradient = B::softmax_sums_gradient(logits.clone(), labels.clone(), of_sums.clone(), shape);
            grads.register::<B>(node.id, gradient);
        }
    }
}

impl<B: SoftmaxSumsOps, C: CheckpointStrategy> SoftmaxSumsOps for Autodiff<B, C> {
    fn softmax_sums(logits: FloatTensor<Self>, labels: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        let node = logits.node();
        let (logits, labels) = (logits.into_primitive(), labels.into_primitive());
        let sums = B::softmax_sums(logits.clone(), labels.clone(), shape);
        match of_layer(SoftmaxSumsBackward).prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((logits, labels, shape), sums),
            OpsKind::UnTracked(prep) => prep.finish(sums),
        }
    }

    fn softmax_sums_gradient(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        let [logits, labels, of_sums] = [logits, labels, of_sums].map(|t| t.into_primitive());
        Self::from_inner(B::softmax_sums_gradient(logits, labels, of_sums, shape))
    }
}

/// Runs the kernel; `None` where there is none.
pub fn softmax_sums(logits: Tensor<5>, labels: Tensor<5>, squared: bool, look: bool) -> Option<SoftmaxSums> {
    let [batch, classes, x, y, z] = logits.dims();
    let place = place::of(&logits)?;
    let fits = labels.dims() == [batch, 1, x, y, z] && place::of(&labels) == Some(place);
    if !fits || !place::takes_floats(&logits) || !place::takes_floats(&labels) {
        return None;
    }
    let shape = Shape { batch, classes, volume: x * y * z, squared };
    let sums = <Dispatch as SoftmaxSumsOps>::softmax_sums(logits.into_dispatch(), labels.into_dispatch(), shape);
    let sums = Tensor::<3>::from_dispatch(sums);
    let part = |index: usize| sums.clone().slice([0..batch, 0..classes, index..index + 1]).reshape([batch, classes]);
    // On the CPU the value is available without waiting.
    let odd =
        (look || place == Place::Cpu) && part(4).without_autodiff().into_data().iter::<f32>().any(|odd| odd != 0.0);
    Some(SoftmaxSums { both: part(0), prediction: part(1), target: part(2), entropy: part(3), odd })
}

//! The sums as an operation of the CPU backend, and their place in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::SoftmaxSums;
use super::cpu::{self, SUMS, Shape};
use crate::flex::{floats, has_floats, with};

/// The sums and their gradient.
#[backend_extension(Flex, Autodiff)]
pub trait SoftmaxSumsOps: Backend {
    /// `[B, C, SUMS]`, and 1 or 0 for whether anything is odd.
    fn softmax_sums(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradient with respect to the logits.
    fn softmax_sums_gradient(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self>;
}

impl SoftmaxSumsOps for Flex {
    fn softmax_sums(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (sums, odd) = with([logits, labels], |[logits, labels]| cpu::forward(logits, labels, &shape));
        (floats(sums, [shape.batch, shape.classes, SUMS]), floats(vec![f32::from(u8::from(odd))], [1]))
    }

    fn softmax_sums_gradient(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self> {
        let dims = logits.layout().shape().to_vec();
        let gradient = with([logits, labels, of_sums], |[x, y, g]| cpu::backward(x, y, g, &shape));
        floats(gradient, dims)
    }
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
    fn softmax_sums(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let node = logits.node();
        let (logits, labels) = (logits.into_primitive(), labels.into_primitive());
        let (sums, odd) = B::softmax_sums(logits.clone(), labels.clone(), shape);
        let sums = match SoftmaxSumsBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((logits, labels, shape), sums),
            OpsKind::UnTracked(prep) => prep.finish(sums),
        };
        (sums, Self::from_inner(odd))
    }

    fn softmax_sums_gradient(
        logits: FloatTensor<Self>,
        labels: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; a gradient of a gradient is not offered.
        let [logits, labels, of_sums] = [logits, labels, of_sums].map(|t| t.into_primitive());
        Self::from_inner(B::softmax_sums_gradient(logits, labels, of_sums, shape))
    }
}

/// Runs the operation on the CPU backend; `None` for anything else.
pub fn softmax_sums(logits: Tensor<5>, labels: Tensor<5>, squared: bool) -> Option<SoftmaxSums> {
    let [batch, classes, x, y, z] = logits.dims();
    if labels.dims() != [batch, 1, x, y, z] || !has_floats(&logits) || !has_floats(&labels) {
        return None;
    }
    let shape = Shape { batch, classes, volume: x * y * z, squared };
    let (sums, odd) = <Dispatch as SoftmaxSumsOps>::softmax_sums(logits.into_dispatch(), labels.into_dispatch(), shape);
    let sums = Tensor::<3>::from_dispatch(sums);
    let part = |index: usize| sums.clone().slice([0..batch, 0..classes, index..index + 1]).reshape([batch, classes]);
    let odd = Tensor::<1>::from_dispatch(odd).into_data().iter::<f32>().any(|odd| odd != 0.0);
    Some(SoftmaxSums { both: part(0), prediction: part(1), target: part(2), entropy: part(3), odd })
}

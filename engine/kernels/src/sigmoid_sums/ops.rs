//! The sums as an operation of backends, and their node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::shape::Shape;
use super::{Focal, SigmoidSums};
use crate::layer_range::of_layer;
use crate::place::{self, Place};

/// The sums and their gradients.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait SigmoidSumsOps: Backend {
    /// The sums, `[B, C, SUMS]`; only the first four have gradients.
    fn sigmoid_sums(logits: FloatTensor<Self>, targets: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self>;

    /// The gradient with respect to the logits, or to the targets where they are not class indices.
    fn sigmoid_sums_gradient(
        logits: FloatTensor<Self>,
        targets: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
        of_targets: bool,
    ) -> FloatTensor<Self>;
}

/// The backward pass.
#[derive(Debug)]
struct SigmoidSumsBackward;

impl<B: SigmoidSumsOps> Backward<B, 2> for SigmoidSumsBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Shape);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let of_sums = grads.consume::<B>(&ops.node);
        let (logits, targets, shape) = ops.state;
        for (node, of_targets) in ops.parents.into_iter().zip([false, true]) {
            // A class index has no gradient.
            if let Some(node) = node.filter(|_| !(of_targets && shape.indices)) {
                let (logits, targets, of_sums) = (logits.clone(), targets.clone(), of_sums.clone());
                grads.register::<B>(node.id, B::sigmoid_sums_gradient(logits, targets, of_sums, shape, of_targets));
            }
        }
    }
}

impl<B: SigmoidSumsOps, C: CheckpointStrategy> SigmoidSumsOps for Autodiff<B, C> {
    fn sigmoid_sums(logits: FloatTensor<Self>, targets: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        let nodes = [logits.node(), targets.node()];
        let (logits, targets) = (logits.into_primitive(), targets.into_primitive());
        let sums = B::sigmoid_sums(logits.clone(), targets.clone(), shape);
        match of_layer(SigmoidSumsBackward).prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((logits, targets, shape), sums),
            OpsKind::UnTracked(prep) => prep.finish(sums),
        }
    }

    fn sigmoid_sums_gradient(
        logits: FloatTensor<Self>,
        targets: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
        of_targets: bool,
    ) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        let [logits, targets, of_sums] = [logits, targets, of_sums].map(|t| t.into_primitive());
        Self::from_inner(B::sigmoid_sums_gradient(logits, targets, of_sums, shape, of_targets))
    }
}

/// Runs the kernel; `None` where there is none.
pub fn sigmoid_sums(
    logits: Tensor<5>,
    targets: Tensor<5>,
    squared: bool,
    focal: Option<Focal>,
    look: bool,
) -> Option<SigmoidSums> {
    let [batch, channels, x, y, z] = logits.dims();
    let place = place::of(&logits)?;
    let indices = channels > 1 && targets.dims() == [batch, 1, x, y, z];
    let fits = (indices || targets.dims() == logits.dims()) && place::of(&targets) == Some(place);
    if !fits || !place::takes_floats(&logits) || !place::takes_floats(&targets) {
        return None;
    }
    let shape = Shape { batch, channels, volume: x * y * z, indices, squared, focal };
    let sums = <Dispatch as SigmoidSumsOps>::sigmoid_sums(logits.into_dispatch(), targets.into_dispatch(), shape);
    let sums = Tensor::<3>::from_dispatch(sums);
    let part = |index: usize| sums.clone().slice([0..batch, 0..channels, index..index + 1]).reshape([batch, channels]);
    // On the CPU the value is available without waiting.
    let odd =
        (look || place == Place::Cpu) && part(4).without_autodiff().into_data().iter::<f32>().any(|odd| odd != 0.0);
    Some(SigmoidSums { both: part(0), prediction: part(1), target: part(2), focal: part(3), odd })
}

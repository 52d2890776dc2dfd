//! Attention as an operation of the CPU backend, and its node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::cpu::{self, Inputs, Shape};
use crate::flex::{floats, has_floats, with};
use crate::layer_range::of_layer;
use crate::ranges::kernel;

/// Attention, and its gradients.
#[backend_extension(Flex, Autodiff)]
pub trait AttentionOps: Backend {
    /// The output.
    fn attend(
        qkv: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        regions: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self>;

    /// The gradients with respect to qkv and bias.
    fn attend_gradient(
        qkv: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        regions: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

impl AttentionOps for Flex {
    fn attend(
        qkv: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        regions: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self> {
        let _range = kernel!("attention", [qkv, bias, regions, qkv], flop: shape.flop());
        let y = with([qkv, bias, regions], |[qkv, bias, regions]| cpu::forward(Inputs { qkv, bias, regions }, &shape));
        floats(y, [shape.batch, shape.places, shape.heads * shape.depth])
    }

    fn attend_gradient(
        qkv: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        regions: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let _range = kernel!("attention gradient", [qkv, bias, regions, dy, qkv], flop: 5 * shape.flop() / 2);
        let dims = qkv.layout().shape().to_vec();
        let [dx, db] = with([qkv, bias, regions, dy], |[qkv, bias, regions, dy]| {
            cpu::backward(Inputs { qkv, bias, regions }, dy, &shape)
        });
        // Without a bias there is one unused value.
        let (db, bias) =
            if shape.biased { (db, [shape.heads, shape.places, shape.places]) } else { (vec![0.0], [1; 3]) };
        (floats(dx, dims), floats(db, bias))
    }
}

/// The backward pass.
#[derive(Debug)]
struct AttentionBackward;

impl<B: AttentionOps> Backward<B, 2> for AttentionBackward {
    /// The state: qkv, bias, regions.
    type State = ([FloatTensor<B>; 3], Shape);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let ([qkv, bias, regions], shape) = ops.state;
        let (dx, db) = B::attend_gradient(qkv, bias, regions, dy, shape);
        for (parent, gradient) in ops.parents.into_iter().zip([dx, db]) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn attend(
        qkv: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        regions: FloatTensor<Self>,
        shape: Shape,
    ) -> FloatTensor<Self> {
        let nodes = [qkv.node(), bias.node()];
        let [qkv, bias, regions] = [qkv, bias, regions].map(|t| t.into_primitive());
        let y = B::attend(qkv.clone(), bias.clone(), regions.clone(), shape);
        match of_layer(AttentionBackward).prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(([qkv, bias, regions], shape), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn attend_gradient(
        qkv: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        regions: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        let [qkv, bias, regions, dy] = [qkv, bias, regions, dy].map(|t| t.into_primitive());
        let (dx, db) = B::attend_gradient(qkv, bias, regions, dy, shape);
        (Self::from_inner(dx), Self::from_inner(db))
    }
}

/// Whether the kernel supports these tensors: f32 on the CPU, not empty.
pub fn on_cpu(qkv: &Tensor<3>, bias: Option<&Tensor<3>>, regions: Option<&Tensor<2>>) -> bool {
    has_floats(qkv) && bias.is_none_or(has_floats) && regions.is_none_or(has_floats)
}

/// Runs the operation on the CPU backend.
pub fn attention(
    qkv: Tensor<3>,
    heads: usize,
    scale: f64,
    bias: Option<&Tensor<3>>,
    regions: Option<&Tensor<2>>,
) -> Tensor<3> {
    let [batch, places, features] = qkv.dims();
    assert!(
        heads > 0 && features % (3 * heads) == 0,
        "{features} features are not queries, keys and values of {heads} heads"
    );
    let shape = Shape {
        batch,
        places,
        heads,
        depth: features / (3 * heads),
        scale: scale as f32,
        biased: bias.is_some(),
        regions: regions.map_or(0, |regions| regions.dims()[0]),
    };
    assert!(
        bias.is_none_or(|bias| bias.dims() == [heads, places, places]) && regions.is_none_or(|r| r.dims()[1] == places),
        "attention of {places} places and {heads} heads with a bias of {:?} and regions of {:?}",
        bias.map(Tensor::dims),
        regions.map(Tensor::dims)
    );
    let device = qkv.device();
    let bias = bias.cloned().unwrap_or_else(|| Tensor::zeros([1; 3], &device));
    let regions = regions.cloned().unwrap_or_else(|| Tensor::zeros([1; 2], &device));
    // In a graph all tensors are on the autodiff backend, whether they are tracked or not.
    let regions = if qkv.is_autodiff() && !regions.is_autodiff() { Tensor::from_inner(regions) } else { regions };
    let (qkv, bias, regions) = (qkv.into_dispatch(), bias.into_dispatch(), regions.into_dispatch());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::attend(qkv, bias, regions, shape))
}

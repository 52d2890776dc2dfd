//! Pooling as an operation of backends, and its node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use super::windows::Pooling;
use crate::layer_range::of_layer;
use crate::place::{self, Place};

/// Maximum and average over the windows of a table, and their gradients; the first two axes are
/// batch and channel.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait PoolOps: Backend {
    /// The largest value of each window.
    fn pool_largest(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self>;

    /// The gradient of `pool_largest` with respect to `x`.
    fn pool_largest_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        planes: [usize; 2],
        pooling: Pooling,
    ) -> FloatTensor<Self>;

    /// The mean of each window.
    fn pool_mean(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self>;

    /// The gradient of `pool_mean` with respect to its input.
    fn pool_mean_gradient(dy: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self>;
}

/// The backward pass of the maximum.
#[derive(Debug)]
struct LargestBackward;

impl<B: PoolOps> Backward<B, 1> for LargestBackward {
    type State = (FloatTensor<B>, [usize; 2], Pooling);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (x, planes, pooling) = ops.state;
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, B::pool_largest_gradient(x.clone(), dy.clone(), planes, pooling.clone()));
        }
    }
}

/// The backward pass of the average.
#[derive(Debug)]
struct MeanBackward;

impl<B: PoolOps> Backward<B, 1> for MeanBackward {
    type State = ([usize; 2], Pooling);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (planes, pooling) = ops.state;
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, B::pool_mean_gradient(dy.clone(), planes, pooling.clone()));
        }
    }
}

impl<B: PoolOps, C: CheckpointStrategy> PoolOps for Autodiff<B, C> {
    fn pool_largest(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        match of_layer(LargestBackward).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let x = x.into_primitive();
                let out = B::pool_largest(x.clone(), planes, pooling.clone());
                prep.finish((x, planes, pooling), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::pool_largest(x.into_primitive(), planes, pooling)),
        }
    }

    fn pool_largest_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        planes: [usize; 2],
        pooling: Pooling,
    ) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        let (x, dy) = (x.into_primitive(), dy.into_primitive());
        Self::from_inner(B::pool_largest_gradient(x, dy, planes, pooling))
    }

    fn pool_mean(x: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        match of_layer(MeanBackward).prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let out = B::pool_mean(x.into_primitive(), planes, pooling.clone());
                prep.finish((planes, pooling), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::pool_mean(x.into_primitive(), planes, pooling)),
        }
    }

    fn pool_mean_gradient(dy: FloatTensor<Self>, planes: [usize; 2], pooling: Pooling) -> FloatTensor<Self> {
        Self::from_inner(B::pool_mean_gradient(dy.into_primitive(), planes, pooling))
    }
}

/// Whether this crate's kernels support this tensor; on the CPU it must be f32, and may be empty.
pub fn has_kernel(x: &Tensor<5>) -> bool {
    match place::of(x) {
        Some(Place::Cpu) => x.dtype() == DType::F32,
        _ => place::takes(x),
    }
}

fn planes(x: &Tensor<5>) -> [usize; 2] {
    [x.dims()[0], x.dims()[1]]
}

/// Runs the kernel; [`has_kernel`] must be true.
pub fn largest(x: Tensor<5>, pooling: Pooling) -> Tensor<5> {
    let planes = planes(&x);
    Tensor::from_dispatch(<Dispatch as PoolOps>::pool_largest(x.into_dispatch(), planes, pooling))
}

/// Runs the kernel; [`has_kernel`] must be true.
pub fn mean(x: Tensor<5>, pooling: Pooling) -> Tensor<5> {
    let planes = planes(&x);
    Tensor::from_dispatch(<Dispatch as PoolOps>::pool_mean(x.into_dispatch(), planes, pooling))
}

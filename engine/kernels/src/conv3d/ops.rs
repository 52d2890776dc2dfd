//! Convolution as an operation of backends, and its node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use super::geometry::Geometry;
use super::stored;
use crate::layer_range::of_layer;
use crate::ranges::kernel;

/// The sums that convolutions, transposed convolutions and their gradients consist of.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait ConvolutionOps: Backend {
    /// `[B, I, ...]` and `[O, I / groups, ...]` to `[B, O, ...]`.
    fn correlate(x: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self>;

    /// Same as `correlate`, plus a bias `[O]`.
    fn correlate_biased(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self>;

    /// `[B, O, ...]` and `[O, I / groups, ...]` to `[B, I, ...]`: the input gradient, and the
    /// transposed convolution.
    fn spread(dy: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self>;

    /// Same as `spread`, plus a bias `[I]`.
    fn spread_biased(
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self>;

    /// `[B, I, ...]` and `[B, O, ...]` to `[O, I / groups, ...]`: the weight gradient of both.
    fn weight_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self>;

    /// `[B, C, ...]` to `[C]`.
    fn channel_sums(x: FloatTensor<Self>, batch: usize, channels: usize) -> FloatTensor<Self>;
}

impl ConvolutionOps for Flex {
    fn correlate(x: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        let _range = g.range("conv").entered();
        stored::forward(x, weight, None, &g)
    }

    fn correlate_biased(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self> {
        let _range = g.range("conv").entered();
        stored::forward(x, weight, Some(bias), &g)
    }

    fn spread(dy: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        let _range = g.range("conv transposed").entered();
        stored::input_gradient(dy, weight, None, &g)
    }

    fn spread_biased(
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self> {
        let _range = g.range("conv transposed").entered();
        stored::input_gradient(dy, weight, Some(bias), &g)
    }

    fn weight_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        let _range = g.range("conv weight gradient").entered();
        stored::weight_gradient(x, dy, &g)
    }

    fn channel_sums(x: FloatTensor<Self>, batch: usize, channels: usize) -> FloatTensor<Self> {
        let _range = kernel!("conv bias gradient", [x]);
        stored::channel_sums(x, batch, channels)
    }
}

/// The direction of a convolution.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Forward,
    Transposed,
}

/// The backward pass of both directions; the third parent is the bias, where there is one.
#[derive(Debug)]
struct ConvolutionBackward<const N: usize>(Direction);

impl<B: ConvolutionOps, const N: usize> Backward<B, N> for ConvolutionBackward<N> {
    type State = (FloatTensor<B>, FloatTensor<B>, Geometry);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let (x, weight, g) = ops.state;
        let transposed = matches!(self.0, Direction::Transposed);
        for (index, parent) in ops.parents.into_iter().enumerate() {
            let Some(node) = parent else { continue };
            let value = match (index, transposed) {
                (0, false) => B::spread(gradient.clone(), weight.clone(), g),
                (0, true) => B::correlate(gradient.clone(), weight.clone(), g),
                (1, false) => B::weight_gradient(x.clone(), gradient.clone(), g),
                (1, true) => B::weight_gradient(gradient.clone(), x.clone(), g),
                (_, false) => B::channel_sums(gradient.clone(), g.batch, g.channels()[1]),
                (_, true) => B::channel_sums(gradient.clone(), g.batch, g.channels()[0]),
            };
            grads.register::<B>(node.id, value);
        }
    }
}

impl<B: ConvolutionOps, C: CheckpointStrategy> ConvolutionOps for Autodiff<B, C> {
    fn correlate(x: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        let step = of_layer(ConvolutionBackward::<2>(Direction::Forward));
        match step.prepare::<C>([x.node(), weight.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (x, w) = (x.primitive().clone(), weight.primitive().clone());
                let out = B::correlate(x.clone(), w.clone(), g);
                prep.finish((x, w, g), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::correlate(x.into_primitive(), weight.into_primitive(), g)),
        }
    }

    fn correlate_biased(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self> {
        let step = of_layer(ConvolutionBackward::<3>(Direction::Forward));
        match step.prepare::<C>([x.node(), weight.node(), bias.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (x, w) = (x.primitive().clone(), weight.primitive().clone());
                let out = B::correlate_biased(x.clone(), w.clone(), bias.into_primitive(), g);
                prep.finish((x, w, g), out)
            }
            OpsKind::UnTracked(prep) => {
                let (x, w, b) = (x.into_primitive(), weight.into_primitive(), bias.into_primitive());
                prep.finish(B::correlate_biased(x, w, b, g))
            }
        }
    }

    fn spread(dy: FloatTensor<Self>, weight: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        let step = of_layer(ConvolutionBackward::<2>(Direction::Transposed));
        match step.prepare::<C>([dy.node(), weight.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (x, w) = (dy.primitive().clone(), weight.primitive().clone());
                let out = B::spread(x.clone(), w.clone(), g);
                prep.finish((x, w, g), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::spread(dy.into_primitive(), weight.into_primitive(), g)),
        }
    }

    fn spread_biased(
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        g: Geometry,
    ) -> FloatTensor<Self> {
        let step = of_layer(ConvolutionBackward::<3>(Direction::Transposed));
        match step.prepare::<C>([dy.node(), weight.node(), bias.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (x, w) = (dy.primitive().clone(), weight.primitive().clone());
                let out = B::spread_biased(x.clone(), w.clone(), bias.into_primitive(), g);
                prep.finish((x, w, g), out)
            }
            OpsKind::UnTracked(prep) => {
                let (x, w, b) = (dy.into_primitive(), weight.into_primitive(), bias.into_primitive());
                prep.finish(B::spread_biased(x, w, b, g))
            }
        }
    }

    fn weight_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>, g: Geometry) -> FloatTensor<Self> {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        Self::from_inner(B::weight_gradient(x.into_primitive(), dy.into_primitive(), g))
    }

    fn channel_sums(x: FloatTensor<Self>, batch: usize, channels: usize) -> FloatTensor<Self> {
        Self::from_inner(B::channel_sums(x.into_primitive(), batch, channels))
    }
}

/// A bias is always f32, and so is its gradient.
fn in_f32(bias: Option<Tensor<1>>) -> Option<Tensor<1>> {
    bias.map(|bias| if bias.dtype() == DType::F32 { bias } else { bias.cast(DType::F32) })
}

/// Runs a convolution.
pub fn convolution(x: Tensor<5>, weight: Tensor<5>, bias: Option<Tensor<1>>, g: Geometry) -> Tensor<5> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(match in_f32(bias) {
        Some(bias) => <Dispatch as ConvolutionOps>::correlate_biased(x, weight, bias.into_dispatch(), g),
        None => <Dispatch as ConvolutionOps>::correlate(x, weight, g),
    })
}

/// Runs a transposed convolution.
pub fn transposed(x: Tensor<5>, weight: Tensor<5>, bias: Option<Tensor<1>>, g: Geometry) -> Tensor<5> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(match in_f32(bias) {
        Some(bias) => <Dispatch as ConvolutionOps>::spread_biased(x, weight, bias.into_dispatch(), g),
        None => <Dispatch as ConvolutionOps>::spread(x, weight, g),
    })
}

/// Runs a weight gradient.
pub fn weight_gradient(x: Tensor<5>, dy: Tensor<5>, g: Geometry) -> Tensor<5> {
    Tensor::from_dispatch(<Dispatch as ConvolutionOps>::weight_gradient(x.into_dispatch(), dy.into_dispatch(), g))
}

//! The linear layer as an operation of the CPU backend, and its node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::cpu;
use crate::flex::{floats, has_floats, with};
use crate::layer_range::of_layer;
use crate::ranges::kernel;

/// Rows, inputs and outputs.
type Sizes = [usize; 3];

/// The products of a linear layer; `x` is `[rows, I]`, `weight` `[O, I]`, `dy` `[rows, O]`.
#[backend_extension(Flex, Autodiff)]
pub trait LinearOps: Backend {
    /// The output, `[rows, O]`.
    fn by_matrix(x: FloatTensor<Self>, weight: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self>;

    /// Same as `by_matrix`, plus a bias `[O]`.
    fn by_matrix_biased(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        sizes: Sizes,
    ) -> FloatTensor<Self>;

    /// The input gradient, `[rows, I]`.
    fn by_matrix_input(dy: FloatTensor<Self>, weight: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self>;

    /// The weight gradient, `[O, I]`.
    fn by_matrix_weight(x: FloatTensor<Self>, dy: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self>;

    /// The bias gradient, `[O]`.
    fn by_matrix_bias(dy: FloatTensor<Self>, output: usize) -> FloatTensor<Self>;
}

/// The number of operations of each product.
fn flop([rows, inputs, outputs]: Sizes) -> u64 {
    2 * (rows * inputs * outputs) as u64
}

impl LinearOps for Flex {
    fn by_matrix(x: FloatTensor<Self>, weight: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self> {
        let _range = kernel!("linear", [x, weight], flop: flop(sizes));
        floats(with([x, weight], |[x, w]| cpu::forward(x, w, None, sizes)), [sizes[0], sizes[2]])
    }

    fn by_matrix_biased(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        sizes: Sizes,
    ) -> FloatTensor<Self> {
        let _range = kernel!("linear", [x, weight], flop: flop(sizes));
        let y = with([x, weight, bias], |[x, w, b]| cpu::forward(x, w, Some(b), sizes));
        floats(y, [sizes[0], sizes[2]])
    }

    fn by_matrix_input(dy: FloatTensor<Self>, weight: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self> {
        let _range = kernel!("linear input gradient", [dy, weight], flop: flop(sizes));
        floats(with([dy, weight], |[dy, w]| cpu::input_gradient(dy, w, sizes)), [sizes[0], sizes[1]])
    }

    fn by_matrix_weight(x: FloatTensor<Self>, dy: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self> {
        let _range = kernel!("linear weight gradient", [x, dy], flop: flop(sizes));
        floats(with([x, dy], |[x, dy]| cpu::weight_gradient(x, dy, sizes)), [sizes[2], sizes[1]])
    }

    fn by_matrix_bias(dy: FloatTensor<Self>, output: usize) -> FloatTensor<Self> {
        let _range = kernel!("linear bias gradient", [dy]);
        floats(with([dy], |[dy]| cpu::bias_gradient(dy, output)), [output])
    }
}

/// The backward pass; the third parent is the bias, where there is one.
#[derive(Debug)]
struct LinearBackward<const N: usize>;

impl<B: LinearOps, const N: usize> Backward<B, N> for LinearBackward<N> {
    type State = (FloatTensor<B>, FloatTensor<B>, Sizes);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (x, weight, sizes) = ops.state;
        for (index, parent) in ops.parents.into_iter().enumerate() {
            let Some(node) = parent else { continue };
            let value = match index {
                0 => B::by_matrix_input(dy.clone(), weight.clone(), sizes),
                1 => B::by_matrix_weight(x.clone(), dy.clone(), sizes),
                _ => B::by_matrix_bias(dy.clone(), sizes[2]),
            };
            grads.register::<B>(node.id, value);
        }
    }
}

impl<B: LinearOps, C: CheckpointStrategy> LinearOps for Autodiff<B, C> {
    fn by_matrix(x: FloatTensor<Self>, weight: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node()];
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        let y = B::by_matrix(x.clone(), weight.clone(), sizes);
        match of_layer(LinearBackward::<2>).prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((x, weight, sizes), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn by_matrix_biased(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        sizes: Sizes,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node(), bias.node()];
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        let y = B::by_matrix_biased(x.clone(), weight.clone(), bias.into_primitive(), sizes);
        match of_layer(LinearBackward::<3>).prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((x, weight, sizes), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    // Only the backward pass calls these, on plain tensors; second-order gradients are not
    // supported.
    fn by_matrix_input(dy: FloatTensor<Self>, weight: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self> {
        Self::from_inner(B::by_matrix_input(dy.into_primitive(), weight.into_primitive(), sizes))
    }

    fn by_matrix_weight(x: FloatTensor<Self>, dy: FloatTensor<Self>, sizes: Sizes) -> FloatTensor<Self> {
        Self::from_inner(B::by_matrix_weight(x.into_primitive(), dy.into_primitive(), sizes))
    }

    fn by_matrix_bias(dy: FloatTensor<Self>, output: usize) -> FloatTensor<Self> {
        Self::from_inner(B::by_matrix_bias(dy.into_primitive(), output))
    }
}

/// Whether the kernel supports these tensors: f32 on the CPU, not empty, and of matching shapes;
/// Burn reports the errors of others.
pub fn on_cpu<const D: usize>(x: &Tensor<D>, weight: &Tensor<2>, bias: Option<&Tensor<1>>) -> bool {
    let [output, input] = weight.dims();
    has_floats(x)
        && has_floats(weight)
        && x.dims()[D - 1] == input
        && bias.is_none_or(|bias| has_floats(bias) && bias.dims() == [output])
}

/// Runs the layer on the CPU backend.
pub fn linear<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    let [output, input] = weight.dims();
    let mut dims = x.dims();
    let rows = dims[..D - 1].iter().product();
    dims[D - 1] = output;
    let (x, weight, sizes) = (x.reshape([rows, input]).into_dispatch(), weight.into_dispatch(), [rows, input, output]);
    let y: Tensor<2> = Tensor::from_dispatch(match bias {
        Some(bias) => <Dispatch as LinearOps>::by_matrix_biased(x, weight, bias.into_dispatch(), sizes),
        None => <Dispatch as LinearOps>::by_matrix(x, weight, sizes),
    });
    y.reshape(dims)
}

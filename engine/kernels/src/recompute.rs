//! Gradient checkpointing: a block's inner values are recomputed in the backward pass instead of
//! being kept from the forward pass (Chen et al. 2016, <https://arxiv.org/abs/1604.06174>).
//!
//! Burn's own strategy (`Device::gradient_checkpointing`) recomputes cheap operations one at a
//! time; it keeps the values that a convolution, a matrix product or a kernel of this crate needs.
//! Here, a whole block is one operation of the graph: only its input is kept.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchKindConversion, DispatchTensor, backend_extension, tensor::FloatTensor,
};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::without_graph::{lower, without_graph};

/// A slot for the gradient of one parameter, filled by the backward pass of a block.
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<Mutex<Option<DispatchTensor>>>);

impl Slot {
    fn put(&self, gradient: Option<DispatchTensor>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = gradient;
    }

    fn take(&self) -> Option<DispatchTensor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Runs a block again: computes the gradient of its input, where it has one, from that of its
/// output.
#[derive(Clone)]
pub struct Replay(Arc<dyn Fn(Tensor<5>) -> Option<Tensor<5>> + Send + Sync>);

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replay")
    }
}

/// A block in the graph. It may have any number of parameters, but an operation of Burn's graph has
/// a fixed number of parents. Each parameter is therefore tied to a chain ("thread") of single
/// values, whose last value is the block's second parent.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait RecomputeOps: Backend {
    /// The thread, with one more parameter tied to it.
    fn tie(thread: FloatTensor<Self>, parameter: FloatTensor<Self>, slot: Slot) -> FloatTensor<Self>;

    /// Inserts the known output into the graph as a function of the block's input and the
    /// parameters on the thread.
    fn place(
        x: FloatTensor<Self>,
        thread: FloatTensor<Self>,
        output: FloatTensor<Self>,
        replay: Replay,
    ) -> FloatTensor<Self>;
}

without_graph!(RecomputeOps {
    fn tie(thread: FloatTensor<Self>, _: FloatTensor<Self>, _: Slot) -> FloatTensor<Self> {
        thread
    }

    fn place(_: FloatTensor<Self>, _: FloatTensor<Self>, output: FloatTensor<Self>, _: Replay) -> FloatTensor<Self> {
        output
    }
});

#[derive(Debug)]
struct TieBackward;

impl<B: RecomputeOps> Backward<B, 2> for TieBackward
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = Slot;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let thread = grads.consume::<B>(&ops.node);
        let [before, parameter] = ops.parents;
        if let Some(node) = before {
            grads.register::<B>(node.id, thread);
        }
        if let (Some(node), Some(gradient)) = (parameter, ops.state.take()) {
            grads.register::<B>(node.id, lower::<B>(gradient));
        }
    }
}

#[derive(Debug)]
struct PlaceBackward;

impl<B: RecomputeOps> Backward<B, 2> for PlaceBackward
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = (FloatTensor<B>, Replay);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let (thread, replay) = ops.state;
        let dy = Tensor::from_dispatch(DispatchTensor::from_backend(BackendTensor::<B>::Float(dy)));
        let dx = (replay.0)(dy);
        let [x, last] = ops.parents;
        if let (Some(node), Some(dx)) = (x, dx) {
            grads.register::<B>(node.id, lower::<B>(dx.into_dispatch()));
        }
        if let Some(node) = last {
            grads.register::<B>(node.id, thread);
        }
    }
}

impl<B: RecomputeOps, C: CheckpointStrategy> RecomputeOps for Autodiff<B, C>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    fn tie(thread: FloatTensor<Self>, parameter: FloatTensor<Self>, slot: Slot) -> FloatTensor<Self> {
        match TieBackward.prepare::<C>([thread.node(), parameter.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(slot, thread.into_primitive()),
            OpsKind::UnTracked(prep) => prep.finish(thread.into_primitive()),
        }
    }

    fn place(
        x: FloatTensor<Self>,
        thread: FloatTensor<Self>,
        output: FloatTensor<Self>,
        replay: Replay,
    ) -> FloatTensor<Self> {
        match PlaceBackward.prepare::<C>([x.node(), thread.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((thread.into_primitive(), replay), output.into_primitive()),
            OpsKind::UnTracked(prep) => prep.finish(output.into_primitive()),
        }
    }
}

/// Computes `forward(block, x)`, where the graph keeps only `x` and the output: the backward pass
/// runs `forward` a second time. Values and gradients are those of `forward` itself. The cost is
/// one more forward pass of the block.
///
/// `forward` must compute the same both times: random numbers must be drawn by keys, and a norm
/// with running statistics would count its batch twice. Outside a graph, and on devices without
/// kernels of this crate, it only calls `forward`.
///
/// ```
/// use burn::module::{Module, Param};
/// use burn::tensor::{Device, Tensor};
/// use hearth_kernels::recompute;
///
/// #[derive(Module, Debug)]
/// struct Scale {
///     by: Param<Tensor<1>>,
/// }
///
/// let device = Device::default().autodiff();
/// let scale = Scale { by: Param::from_tensor(Tensor::from_floats([3.0], &device)) };
/// let x = Tensor::ones([1, 1, 2, 2, 2], &device).require_grad();
/// let y = recompute(&scale, x.clone(), |scale, x| (x * scale.by.val().reshape([1, 1, 1, 1, 1])).exp());
/// let gradients = y.sum().backward();
/// let slope = scale.by.val().grad(&gradients).unwrap().into_scalar::<f32>();
/// assert!((slope - 8.0 * 3.0_f32.exp()).abs() < 1e-3);
/// assert!(x.grad(&gradients).is_some());
/// ```
pub fn recompute<M: Module + Sync + 'static>(
    block: &M,
    x: Tensor<5>,
    forward: impl Fn(&M, Tensor<5>) -> Tensor<5> + Send + Sync + 'static,
) -> Tensor<5> {
    if !x.is_autodiff() || crate::place::of(&x).is_none() {
        return forward(block, x);
    }
    let mut ties = Ties { thread: Tensor::<1>::zeros([1], &x.device()).into_dispatch(), slots: Vec::new() };
    block.visit(&mut ties);
    let Ties { thread, slots } = ties;
    // The kept block must not hold a reference to the graph. (Burn's `detach` would give each
    // parameter a separate graph.)
    let block = block.clone().map(&mut Detach);
    let input = x.clone().set_require_grad(false);
    let output = forward(&block, input.clone()).into_dispatch();
    let replay = move |dy: Tensor<5>| {
        let input = input.clone().require_grad();
        let block = block.clone().map(&mut Attach(slots.iter()));
        let output = forward(&block, input.clone());
        let mut gradients = (output * dy).sum().backward();
        let mut found = Found { gradients: &gradients, slots: slots.iter() };
        block.visit(&mut found);
        input.grad_remove(&mut gradients)
    };
    let replay = Replay(Arc::new(replay));
    Tensor::from_dispatch(<Dispatch as RecomputeOps>::place(x.into_dispatch(), thread, output, replay))
}

/// Ties every learned parameter to the thread, and records for each parameter whether it is
/// learned.
struct Ties {
    thread: DispatchTensor,
    slots: Vec<(bool, Slot)>,
}

impl ModuleVisitor for Ties {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let slot = Slot::default();
        let value = parameter.base();
        let learned = value.is_tracked();
        if learned {
            let thread = self.thread.clone();
            self.thread = <Dispatch as RecomputeOps>::tie(thread, value.into_dispatch(), slot.clone());
        }
        self.slots.push((learned, slot));
    }
}

/// Makes parameters constants.
struct Detach;

impl ModuleMapper for Detach {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = parameter.consume();
        Param::from_mapped_value(id, value.set_require_grad(false), mapper)
    }
}

/// Makes learned parameters leaves of a new graph.
struct Attach<'a>(std::slice::Iter<'a, (bool, Slot)>);

impl ModuleMapper for Attach<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let learned = self.0.next().is_some_and(|(learned, _)| *learned);
        let (id, value, mapper) = parameter.consume();
        Param::from_mapped_value(id, value.set_require_grad(learned), mapper)
    }
}

/// Stores the gradients in the slots from which the outer graph reads them.
struct Found<'a> {
    gradients: &'a burn::tensor::Gradients,
    slots: std::slice::Iter<'a, (bool, Slot)>,
}

impl ModuleVisitor for Found<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some((true, slot)) = self.slots.next() {
            slot.put(parameter.base().grad(self.gradients).map(Tensor::into_dispatch));
        }
    }
}

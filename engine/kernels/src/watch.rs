//! Observes gradients during the backward pass: [`Watch`].

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchKindConversion, DispatchTensor, backend_extension, tensor::FloatTensor,
};
use burn::tensor::{Device, Tensor};

use crate::without_graph::without_graph;

/// The function that is called with a gradient.
#[derive(Clone)]
pub struct See(Arc<dyn Fn(DispatchTensor) + Send + Sync>);

impl fmt::Debug for See {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("See")
    }
}

/// The identity, whose gradient is observed.
///
/// The backward pass runs operations by their depth, the deepest first. A parameter is a leaf, so
/// an operation on it alone would run last, whatever its layer. Therefore each is tied to a thread
/// of single values that grows with every parameter, which makes it as deep as the layer that uses
/// it.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait WatchOps: Backend {
    /// Returns the same tensor, as deep as the thread.
    fn watch(x: FloatTensor<Self>, thread: FloatTensor<Self>, see: See) -> FloatTensor<Self>;

    /// Returns the thread, one deeper.
    fn deepen(thread: FloatTensor<Self>) -> FloatTensor<Self>;
}

without_graph!(WatchOps {
    fn watch(x: FloatTensor<Self>, _: FloatTensor<Self>, _: See) -> FloatTensor<Self> {
        x
    }

    fn deepen(thread: FloatTensor<Self>) -> FloatTensor<Self> {
        thread
    }
});

#[derive(Debug)]
struct WatchBackward;

impl<B: WatchOps> Backward<B, 2> for WatchBackward
where
    DispatchTensor: DispatchKindConversion<B>,
{
    /// The function, and the thread's gradient, which is zero.
    type State = (See, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let (see, nothing) = ops.state;
        (see.0)(DispatchTensor::from_backend(BackendTensor::<B>::Float(gradient.clone())));
        let [x, thread] = ops.parents;
        if let Some(node) = x {
            grads.register::<B>(node.id, gradient);
        }
        if let Some(node) = thread {
            grads.register::<B>(node.id, nothing);
        }
    }
}

#[derive(Debug)]
struct DeepenBackward;

impl<B: WatchOps> Backward<B, 1> for DeepenBackward {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let nothing = grads.consume::<B>(&ops.node);
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, nothing.clone());
        }
    }
}

impl<B: WatchOps, C: CheckpointStrategy> WatchOps for Autodiff<B, C>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    fn watch(x: FloatTensor<Self>, thread: FloatTensor<Self>, see: See) -> FloatTensor<Self> {
        let nodes = [x.node(), thread.node()];
        match WatchBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((see, thread.into_primitive()), x.into_primitive()),
            OpsKind::UnTracked(prep) => prep.finish(x.into_primitive()),
        }
    }

    fn deepen(thread: FloatTensor<Self>) -> FloatTensor<Self> {
        let node = thread.node();
        match DeepenBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), thread.into_primitive()),
            OpsKind::UnTracked(prep) => prep.finish(thread.into_primitive()),
        }
    }
}

/// An upper bound of a network's operations per parameter.
const DEPTH: usize = 4;

/// The parameters of one forward pass, watched in the order of their use.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use burn::tensor::{Device, Tensor};
/// use hearth_kernels::Watch;
///
/// let seen = Arc::new(Mutex::new(None));
/// let keep = Arc::clone(&seen);
/// let device = Device::flex().autodiff();
/// let x = Tensor::<2>::ones([1, 2], &device).require_grad();
/// let watched = Watch::new(&device).watch(x.clone(), move |gradient| *keep.lock().unwrap() = Some(gradient));
/// let gradients = (watched.clone() * watched * 3.0).sum().backward();
/// let seen = seen.lock().unwrap().take().unwrap();
/// assert_eq!(seen.into_data(), x.grad(&gradients).unwrap().reshape([2]).into_data());
/// ```
#[derive(Debug)]
pub struct Watch(DispatchTensor);

impl Watch {
    /// Starts watching parameters on a device with autodiff.
    pub fn new(device: &Device) -> Self {
        Self(Tensor::<1>::zeros([1], device).require_grad().into_dispatch())
    }

    /// Returns the same tensor. `see` is called with its gradient, flattened, as soon as the
    /// backward pass has computed it, in the thread of the backward pass, so that work on it can
    /// start while the rest is computed.
    pub fn watch<const D: usize>(
        &mut self,
        x: Tensor<D>,
        see: impl Fn(Tensor<1>) + Send + Sync + 'static,
    ) -> Tensor<D> {
        if !x.is_autodiff() {
            return x;
        }
        for _ in 0..DEPTH {
            self.0 = <Dispatch as WatchOps>::deepen(self.0.clone());
        }
        let flat = move |gradient| {
            let gradient: Tensor<D> = Tensor::from_dispatch(gradient);
            let count = gradient.shape().num_elements();
            see(gradient.reshape([count]));
        };
        let see = See(Arc::new(flat));
        Tensor::from_dispatch(<Dispatch as WatchOps>::watch(x.into_dispatch(), self.0.clone(), see))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::exchange;

    /// Between two layers, an operation records when the backward pass reaches it.
    #[test]
    fn a_gradient_is_seen_before_the_layers_below_are_computed() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let events = Arc::clone(&events);
            move || events.lock().unwrap().push(name)
        };
        let device = Device::flex().autodiff();
        let parameter = || Tensor::<1>::full([2], 3.0, &device).require_grad();
        let mut watch = Watch::new(&device);
        let [first, second] = ["first", "second"].map(|name| {
            let note = note(name);
            watch.watch(parameter(), move |_| note())
        });
        let x = Tensor::<1>::ones([2], &device);
        let middle = note("middle");
        let between = exchange(x * first, move |values, of_gradient| {
            if of_gradient {
                middle();
            }
            values
        });
        (between.exp().sqrt() * second).sum().backward();
        assert_eq!(*events.lock().unwrap(), ["second", "middle", "first"]);
    }
}

//! Seeing a gradient while the backward pass goes on: [`watch`].

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchKindConversion, DispatchTensor, backend_extension, tensor::FloatTensor,
};
use burn::tensor::Tensor;

/// What is called with a gradient.
#[derive(Clone)]
pub struct See(Arc<dyn Fn(DispatchTensor) + Send + Sync>);

impl fmt::Debug for See {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("See")
    }
}

/// The identity, whose gradient is seen.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait WatchOps: Backend {
    /// The same tensor.
    fn watch(x: FloatTensor<Self>, see: See) -> FloatTensor<Self>;
}

/// Outside a graph there is no gradient.
macro_rules! without_graph {
    ($($(#[$when:meta])* $backend:ty),*) => { $(
        $(#[$when])*
        impl WatchOps for $backend {
            fn watch(x: FloatTensor<Self>, _: See) -> FloatTensor<Self> {
                x
            }
        }
    )* };
}

without_graph!(
    burn::backend::Flex,
    #[cfg(gpu_kernels)]
    burn_cubecl::CubeBackend
);

#[derive(Debug)]
struct WatchBackward;

impl<B: WatchOps> Backward<B, 1> for WatchBackward
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = See;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        (ops.state.0)(DispatchTensor::from_backend(BackendTensor::<B>::Float(gradient.clone())));
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, gradient.clone());
        }
    }
}

impl<B: WatchOps, C: CheckpointStrategy> WatchOps for Autodiff<B, C>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    fn watch(x: FloatTensor<Self>, see: See) -> FloatTensor<Self> {
        let node = x.node();
        match WatchBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(see, x.into_primitive()),
            OpsKind::UnTracked(prep) => prep.finish(x.into_primitive()),
        }
    }
}

/// The same tensor; `see` is called with its gradient, flat, as soon as the backward pass has all
/// of it, in the thread of the backward pass. So work on it can begin while the rest is computed.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use burn::tensor::{Device, Tensor};
/// use hearth_kernels::watch;
///
/// let seen = Arc::new(Mutex::new(None));
/// let keep = Arc::clone(&seen);
/// let x = Tensor::<2>::ones([1, 2], &Device::flex().autodiff()).require_grad();
/// let watched = watch(x.clone(), move |gradient| *keep.lock().unwrap() = Some(gradient));
/// let gradients = (watched.clone() * watched * 3.0).sum().backward();
/// let seen = seen.lock().unwrap().take().unwrap();
/// assert_eq!(seen.into_data(), x.grad(&gradients).unwrap().reshape([2]).into_data());
/// ```
pub fn watch<const D: usize>(x: Tensor<D>, see: impl Fn(Tensor<1>) + Send + Sync + 'static) -> Tensor<D> {
    if !x.is_autodiff() {
        return x;
    }
    let flat = move |gradient| {
        let gradient: Tensor<D> = Tensor::from_dispatch(gradient);
        let count = gradient.shape().num_elements();
        see(gradient.reshape([count]));
    };
    Tensor::from_dispatch(<Dispatch as WatchOps>::watch(x.into_dispatch(), See(Arc::new(flat))))
}

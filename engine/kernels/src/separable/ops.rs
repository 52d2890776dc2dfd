//! Routes to the kernel of the tensor's backend, and defines the operation's node in the autodiff
//! graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, Dispatch, DispatchDevice, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use super::AxisTaps;
use crate::layer_range::of_layer;

/// Backends with a kernel. `image` is f32, `[C, X, Y, Z]`, no axis empty; the tables read within
/// it.
#[backend_extension(
    Flex,
    Cube: cfg(feature = "cube"),
    Fusion: cfg(feature = "fused"),
    Autodiff,
)]
pub trait SeparableOps: Backend {
    /// Applies one table per axis.
    #[fusion(dtype = image, shape = [image[0], axes[0].len(), axes[1].len(), axes[2].len()].into())]
    fn separable(image: FloatTensor<Self>, axes: [AxisTaps; 3]) -> FloatTensor<Self>;
}

/// The gradient of a weighted sum uses the transposed weights: again a table per axis.
#[derive(Debug)]
struct SeparableBackward;

impl<B: SeparableOps> Backward<B, 1> for SeparableBackward {
    type State = [AxisTaps; 3];

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let [parent] = ops.parents;
        if let Some(node) = parent {
            grads.register::<B>(node.id, B::separable(gradient, ops.state));
        }
    }
}

impl<B: SeparableOps, C: CheckpointStrategy> SeparableOps for Autodiff<B, C> {
    fn separable(image: FloatTensor<Self>, axes: [AxisTaps; 3]) -> FloatTensor<Self> {
        match of_layer(SeparableBackward).prepare::<C>([image.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let shape = image.primitive().shape();
                let back = std::array::from_fn(|axis| axes[axis].transposed(shape[axis + 1]));
                let out = B::separable(image.into_primitive(), axes);
                prep.finish(back, out)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::separable(image.into_primitive(), axes)),
        }
    }
}

/// Whether the tensor's backend is one of those above.
pub(crate) fn has_kernel(image: &Tensor<4>) -> bool {
    if image.dtype() != DType::F32 {
        return false;
    }
    match image.device().without_autodiff().as_dispatch() {
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(_) => true,
        #[allow(unreachable_patterns, reason = "with some features all backends are named above")]
        _ => false,
    }
}

/// Runs the kernel; [`has_kernel`] must be true.
pub(super) fn separable(image: Tensor<4>, axes: &[AxisTaps; 3]) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as SeparableOps>::separable(image.into_dispatch(), axes.clone()))
}

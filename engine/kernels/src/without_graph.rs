//! Operations that are needed only within an autodiff graph.

use burn::backend::{Backend, DispatchKindConversion, DispatchTensor, tensor::FloatTensor};

/// Implements a trait of operations for all backends without a graph.
macro_rules! without_graph {
    ($operations:ident { $($body:tt)* }) => {
        impl $operations for burn::backend::Flex {
            $($body)*
        }

        #[cfg(gpu_kernels)]
        impl $operations for burn_cubecl::CubeBackend {
            $($body)*
        }
    };
}
pub(crate) use without_graph;

/// Converts a tensor of any backend to the type of this one.
pub(crate) fn lower<B: Backend>(tensor: DispatchTensor) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    match DispatchTensor::try_into_backend(tensor) {
        Ok(tensor) => tensor.float(),
        Err(error) => panic!("a gradient left its device: {error}"),
    }
}

//! Operations that are only needed within an autodiff graph.

use burn::backend::{Backend, DispatchKindConversion, DispatchTensor, tensor::FloatTensor};

/// Implements a trait of operations for the backends without a graph, alike.
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

/// Converts a tensor of any backend to this one.
pub(crate) fn lower<B: Backend>(tensor: DispatchTensor) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    match DispatchTensor::try_into_backend(tensor) {
        Ok(tensor) => tensor.float(),
        Err(error) => panic!("a gradient left its device: {error}"),
    }
}

//! Profiler ranges around kernels: `tracing` spans named `kernel` with the kernel's name, its
//! largest shape, and the minimum number of bytes and operations.

use burn::backend::{Flex, tensor::FloatTensor};

/// The number of bytes of tensors.
pub(crate) fn bytes(of: &[&FloatTensor<Flex>]) -> u64 {
    of.iter().map(|x| (x.layout().shape().num_elements() * x.dtype().size()) as u64).sum()
}

/// The shape of the largest tensor, `1x32x96x96x96`.
pub(crate) fn shape(of: &[&FloatTensor<Flex>]) -> String {
    let largest = of.iter().max_by_key(|x| x.layout().shape().num_elements());
    largest.map(|x| times(&x.layout().shape().to_vec())).unwrap_or_default()
}

pub(crate) fn times(lengths: &[usize]) -> String {
    lengths.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// Enters the range of a kernel that reads and writes these tensors; an output is represented by a
/// tensor of the same size. Without a profiler, it costs one branch.
macro_rules! kernel {
    ($name:expr, [$($tensor:expr),+]) => {
        kernel!($name, [$($tensor),+], flop: 0_u64)
    };
    ($name:expr, [$($tensor:expr),+], flop: $flop:expr) => {
        tracing::trace_span!(
            "kernel",
            name = $name,
            shape = $crate::ranges::shape(&[$(&$tensor),+]),
            bytes = $crate::ranges::bytes(&[$(&$tensor),+]),
            flop = $flop,
        )
        .entered()
    };
}
pub(crate) use kernel;

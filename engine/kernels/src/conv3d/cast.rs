//! Half precision on the CPU: stored as f16 or bf16, added up in f32.

use burn::tensor::{DType, Tensor};

use crate::flex::is_cpu;

/// Whether both are on the CPU and of the same half type.
pub fn is_half(x: &Tensor<5>, weight: &Tensor<5>) -> bool {
    matches!(x.dtype(), DType::F16 | DType::BF16) && weight.dtype() == x.dtype() && is_cpu(x)
}

/// What `run` makes of the same values in f32, in the type of `x`.
pub fn in_f32(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    run: impl FnOnce(Tensor<5>, Tensor<5>, Option<Tensor<1>>) -> Tensor<5>,
) -> Tensor<5> {
    let dtype = x.dtype();
    run(x.cast(DType::F32), weight.cast(DType::F32), bias.map(|bias| bias.cast(DType::F32))).cast(dtype)
}

//! Conversion between floating-point types, also within an autodiff graph, as mixed precision needs
//! it around every layer.

use burn::tensor::{DType, Tensor};

/// Converts `x` to another floating-point type; returns `x` itself where it already has that type.
/// Rounds to nearest, ties to even. The shape is unchanged.
///
/// On the CPU, f32, f16 and bf16 are converted on all threads. Other devices and types use Burn's
/// own conversion, which on the CPU converts one value at a time.
pub fn cast<const D: usize>(x: Tensor<D>, dtype: DType) -> Tensor<D> {
    if x.dtype() == dtype {
        return x;
    }
    let ours = |dtype: DType| matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    if ours(x.dtype()) && ours(dtype) && !x.dims().contains(&0) && crate::flex::is_cpu(&x) {
        return ops::cast(x, dtype);
    }
    x.cast(dtype)
}

/// The type of a half-precision tensor on the CPU, where this crate's kernels take f32.
pub(crate) fn half_on_cpu<const D: usize>(x: &Tensor<D>) -> Option<DType> {
    if matches!(x.dtype(), DType::F16 | DType::BF16) && crate::flex::is_cpu(x) {
        return Some(x.dtype());
    }
    let _ = x;
    None
}

/// Conversions of CPU tensors.
pub(crate) mod convert {
    use std::borrow::Cow;
    use std::mem::MaybeUninit;

    use burn::backend::{Flex, tensor::FloatTensor};
    use burn::tensor::{DType, TensorData};
    use half::slice::HalfFloatSliceExt;
    use half::{bf16, f16};
    use rayon::prelude::*;

    use crate::flex::floats;
    use crate::precision::rounded;
    use crate::simd::widest;

    /// Values per task.
    const PIECE: usize = 16 << 10;

    /// The number of values that are converted while they are in the first-level cache.
    const STEP: usize = 2 << 10;

    /// Applies `convert` to the values on all threads. Its output buffer is filled with `zero`.
    pub fn converted<T: Copy + Send + Sync, S: Sync>(
        from: &[S],
        zero: T,
        convert: impl Fn(&mut [T], &[S]) + Sync,
    ) -> Vec<T> {
        let mut out = Vec::with_capacity(from.len());
        // The buffer is not cleared at once: that would be one more pass over memory.
        let places = out.spare_capacity_mut()[..from.len()].par_chunks_mut(PIECE);
        places.zip(from.par_chunks(PIECE)).for_each(|(to, from)| {
            for (to, from) in to.chunks_mut(STEP).zip(from.chunks(STEP)) {
                to.fill(MaybeUninit::new(zero));
                // SAFETY: filled.
                convert(unsafe { to.assume_init_mut() }, from);
            }
        });
        // SAFETY: the pieces cover all values.
        unsafe { out.set_len(from.len()) };
        out
    }

    /// Half-precision values in row-major order; f32 is returned unchanged.
    pub fn in_order(t: FloatTensor<Flex>) -> FloatTensor<Flex> {
        let half = matches!(t.dtype(), DType::F16 | DType::BF16);
        if half && t.layout().contiguous_offsets().is_none() { t.to_contiguous() } else { t }
    }

    /// The same values in f32.
    pub fn wide(t: FloatTensor<Flex>) -> FloatTensor<Flex> {
        if t.dtype() == DType::F32 {
            return t;
        }
        let shape = t.layout().shape().to_vec();
        let t = in_order(t);
        if let Some(from) = t.as_slice::<bf16>() {
            let values = converted(from, 0.0, |to, from| {
                widest(
                    #[inline(always)]
                    move || {
                        for (to, from) in to.iter_mut().zip(from) {
                            *to = from.to_f32();
                        }
                    },
                );
            });
            return floats(values, shape);
        }
        let from = t.as_slice::<f16>().unwrap_or_default();
        floats(converted(from, 0.0, |to, from| from.convert_to_f32_slice(to)), shape)
    }

    /// Converts the values to `dtype`; f16 and bf16 round to nearest, ties to even.
    pub fn narrow(values: Cow<'_, [f32]>, shape: Vec<usize>, dtype: DType) -> FloatTensor<Flex> {
        let data = match dtype {
            DType::BF16 => {
                let convert = |to: &mut [bf16], from: &[f32]| {
                    widest(
                        #[inline(always)]
                        move || {
                            for (to, from) in to.iter_mut().zip(from) {
                                *to = rounded(*from);
                            }
                        },
                    );
                };
                TensorData::new(converted(&values, bf16::ZERO, convert), shape)
            }
            DType::F16 => {
                let convert = |to: &mut [f16], from: &[f32]| to.convert_from_f32_slice(from);
                TensorData::new(converted(&values, f16::ZERO, convert), shape)
            }
            _ => return floats(values.into_owned(), shape),
        };
        FloatTensor::<Flex>::from_data(data)
    }
}

mod ops {
    use burn::backend::autodiff::Autodiff;
    use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension, tensor::FloatTensor};
    use burn::tensor::{DType, Tensor};

    use super::convert::{narrow, wide};
    use crate::flex::with;
    use crate::layer_range::of_layer;
    use crate::ranges::kernel;

    /// The conversion.
    #[backend_extension(Flex, Autodiff)]
    pub trait CastOps: Backend {
        /// Converts the values to `dtype`.
        fn in_type(x: FloatTensor<Self>, dtype: DType) -> FloatTensor<Self>;
    }

    impl CastOps for Flex {
        fn in_type(x: FloatTensor<Self>, dtype: DType) -> FloatTensor<Self> {
            let _range = kernel!("cast", [x, x]);
            let shape = x.layout().shape().to_vec();
            let x = wide(x);
            if dtype == DType::F32 { x } else { with([x], |[x]| narrow(x.into(), shape, dtype)) }
        }
    }

    /// Converts gradients back.
    #[derive(Debug)]
    struct CastBackward;

    impl<B: CastOps> Backward<B, 1> for CastBackward {
        type State = DType;

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
            let dy = grads.consume::<B>(&ops.node);
            for node in ops.parents.into_iter().flatten() {
                grads.register::<B>(node.id, B::in_type(dy.clone(), ops.state));
            }
        }
    }

    impl<B: CastOps, C: CheckpointStrategy> CastOps for Autodiff<B, C> {
        fn in_type(x: FloatTensor<Self>, dtype: DType) -> FloatTensor<Self> {
            match of_layer(CastBackward).prepare::<C>([x.node()]).compute_bound().stateful() {
                OpsKind::Tracked(prep) => {
                    let before = x.dtype();
                    prep.finish(before, B::in_type(x.into_primitive(), dtype))
                }
                OpsKind::UnTracked(prep) => prep.finish(B::in_type(x.into_primitive(), dtype)),
            }
        }
    }

    /// Runs the conversion on the CPU backend.
    pub fn cast<const D: usize>(x: Tensor<D>, dtype: DType) -> Tensor<D> {
        Tensor::from_dispatch(<Dispatch as CastOps>::in_type(x.into_dispatch(), dtype))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Tensor, TensorData};

    use super::cast;

    /// Numbers of every magnitude, signs, zeros, subnormals, ties between two halves, and NaN.
    fn odd() -> Vec<f32> {
        let mut values: Vec<f32> =
            (0..1_u32 << 16).map(|high| f32::from_bits(high << 16 | (high * 40_503) & 0xffff)).collect();
        values.extend([1.0, 1.003_906_25, 1.001_953_125, 65_504.0, 65_520.0, 1e-8, -0.0, f32::MAX, f32::INFINITY]);
        values
    }

    #[test]
    fn values_are_rounded_as_burn_rounds_them() {
        let device = Device::flex();
        let values = odd();
        let x = Tensor::<2>::from_data(TensorData::new(values.clone(), [1, values.len()]), &device);
        for dtype in [DType::BF16, DType::F16] {
            let bits = |t: Tensor<2>| -> Vec<Option<u32>> {
                let values = t.cast(DType::F32).into_data().try_to_vec::<f32>().expect("f32");
                values.into_iter().map(|v| (!v.is_nan()).then_some(v.to_bits())).collect()
            };
            let (ours, burns) = (cast(x.clone(), dtype), x.clone().cast(dtype));
            assert_eq!(ours.dtype(), dtype);
            assert_eq!(bits(cast(ours.clone(), DType::F32)), bits(ours.clone()), "{dtype:?} and back");
            assert!(bits(ours) == bits(burns), "{dtype:?}");
            // A view that is not in memory order.
            let view = x.clone().reshape([5, values.len() / 5]).swap_dims(0, 1);
            assert!(bits(cast(view.clone(), dtype)) == bits(view.cast(dtype)), "a view as {dtype:?}");
        }
    }

    #[test]
    fn gradients_come_back_in_the_type_of_what_came_in() {
        let device = Device::flex().autodiff();
        let x = Tensor::<1>::from_floats([1.0, -2.0, 3.5], &device).require_grad();
        let half = cast(x.clone(), DType::BF16);
        let y = cast(half * 3.0, DType::F32);
        assert_eq!(y.dtype(), DType::F32);
        let weights = Tensor::<1>::from_floats([1.0, 0.5, 2.0], &device);
        let gradient = x.grad(&(y * weights).sum().backward()).expect("a gradient");
        assert_eq!(gradient.dtype(), DType::F32);
        assert_eq!(gradient.into_data().try_to_vec::<f32>().expect("f32"), [3.0, 1.5, 6.0]);
    }
}

//! Loops over f32 that read and write values of any precision: f16 and bf16 are converted piece by
//! piece in the first-level cache, f32 is used in place.

use std::mem::MaybeUninit;

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{Element, TensorData};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use crate::cast::convert::{in_order, narrow, wide};
use crate::flex::with;
use crate::simd::widest;

/// The number of values that are converted at a time.
const PIECE: usize = 2 << 10;

/// A buffer for a piece of converted values.
pub(crate) struct Buffer([MaybeUninit<f32>; PIECE]);

impl Buffer {
    const EMPTY: Self = Buffer([MaybeUninit::uninit(); PIECE]);

    /// The first values.
    ///
    /// # Safety
    /// These values must have been written.
    unsafe fn values(&self, count: usize) -> &[f32] {
        // SAFETY: the caller's promise.
        unsafe { self.0[..count].assume_init_ref() }
    }
}

/// How values are stored.
pub(crate) trait Precision: Element + Copy + Send + Sync {
    /// The maximum number of values that a loop receives at a time.
    const MOST: usize;

    /// The values of a tensor of this type in row-major order.
    fn slice(tensor: &FloatTensor<Flex>) -> Option<&[Self]>;

    /// The values as f32, converted into `buffer` where they have another type.
    fn read<'a>(values: &'a [Self], buffer: &'a mut Buffer) -> &'a [f32];

    /// Calls `fill`, which writes one f32 for each element of `places`, and stores the results
    /// there.
    fn write(places: &mut [MaybeUninit<Self>], buffer: &mut Buffer, fill: impl FnOnce(&mut [MaybeUninit<f32>]));
}

impl Precision for f32 {
    const MOST: usize = usize::MAX;

    fn slice(tensor: &FloatTensor<Flex>) -> Option<&[f32]> {
        tensor.as_slice()
    }

    fn read<'a>(values: &'a [f32], _: &'a mut Buffer) -> &'a [f32] {
        values
    }

    fn write(places: &mut [MaybeUninit<f32>], _: &mut Buffer, fill: impl FnOnce(&mut [MaybeUninit<f32>])) {
        fill(places);
    }
}

impl Precision for bf16 {
    const MOST: usize = PIECE;

    fn slice(tensor: &FloatTensor<Flex>) -> Option<&[bf16]> {
        tensor.as_slice()
    }

    fn read<'a>(values: &'a [bf16], buffer: &'a mut Buffer) -> &'a [f32] {
        widest(
            #[inline(always)]
            || {
                for (to, from) in buffer.0.iter_mut().zip(values) {
                    to.write(from.to_f32());
                }
            },
        );
        // SAFETY: `values.len()` values have been written.
        unsafe { buffer.values(values.len()) }
    }

    fn write(places: &mut [MaybeUninit<bf16>], buffer: &mut Buffer, fill: impl FnOnce(&mut [MaybeUninit<f32>])) {
        let count = places.len();
        fill(&mut buffer.0[..count]);
        // SAFETY: `fill` has written `count` values.
        let values = unsafe { buffer.values(count) };
        widest(
            #[inline(always)]
            move || {
                for (to, from) in places.iter_mut().zip(values) {
                    to.write(rounded(*from));
                }
            },
        );
    }
}

impl Precision for f16 {
    const MOST: usize = PIECE;

    fn slice(tensor: &FloatTensor<Flex>) -> Option<&[f16]> {
        tensor.as_slice()
    }

    fn read<'a>(values: &'a [f16], buffer: &'a mut Buffer) -> &'a [f32] {
        let places = &mut buffer.0[..values.len()];
        places.fill(MaybeUninit::new(0.0));
        // SAFETY: filled.
        values.convert_to_f32_slice(unsafe { places.assume_init_mut() });
        // SAFETY: `values.len()` values have been written.
        unsafe { buffer.values(values.len()) }
    }

    fn write(places: &mut [MaybeUninit<f16>], buffer: &mut Buffer, fill: impl FnOnce(&mut [MaybeUninit<f32>])) {
        let count = places.len();
        fill(&mut buffer.0[..count]);
        places.fill(MaybeUninit::new(f16::ZERO));
        // SAFETY: filled.
        let to = unsafe { places.assume_init_mut() };
        // SAFETY: `fill` has written `count` values.
        to.convert_from_f32_slice(unsafe { buffer.values(count) });
    }
}

/// Same as `bf16::from_f32`, but without a branch, so that registers are filled.
#[inline(always)]
pub(crate) fn rounded(value: f32) -> bf16 {
    let bits = value.to_bits();
    let half = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // NaN stays NaN.
    bf16::from_bits(if value.is_nan() { bits >> 16 | 0x40 } else { half } as u16)
}

/// Runs an expression with a name for the stored type of a tensor's values.
macro_rules! by_precision {
    ($dtype:expr, $name:ident => $run:expr) => {
        match $dtype {
            burn::tensor::DType::BF16 => {
                type $name = half::bf16;
                $run
            }
            burn::tensor::DType::F16 => {
                type $name = half::f16;
                $run
            }
            _ => {
                type $name = f32;
                $run
            }
        }
    };
}
pub(crate) use by_precision;

/// Calls `f` with the values of the tensors in row-major order, as `S`.
pub(crate) fn with_values<S: Precision, const N: usize, R>(
    tensors: [FloatTensor<Flex>; N],
    f: impl FnOnce([&[S]; N]) -> R,
) -> R {
    let ordered = tensors.map(|t| {
        let t = if t.dtype() == S::dtype() { t } else { converted::<S>(t) };
        if S::slice(&t).is_some() { t } else { crate::layout::packed(in_order(t)).to_contiguous() }
    });
    f(std::array::from_fn(|i| S::slice(&ordered[i]).unwrap_or_default()))
}

fn converted<S: Precision>(t: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let shape = t.layout().shape().to_vec();
    with([wide(t)], |[values]| narrow(values.into(), shape, S::dtype()))
}

/// Makes a tensor of these values.
pub(crate) fn tensor<S: Precision>(values: Vec<S>, shape: impl Into<Vec<usize>>) -> FloatTensor<Flex> {
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape.into()))
}

/// Calls `f` with up to `run` values of each list at a time.
#[inline(always)]
pub(crate) fn read<S: Precision, const N: usize>(lists: [&[S]; N], run: usize, mut f: impl FnMut([&[f32]; N])) {
    let mut buffers = [const { Buffer::EMPTY }; N];
    let (count, run) = (lists.first().map_or(0, |list| list.len()), run.min(S::MOST));
    let mut at = 0;
    while at < count {
        let end = at.saturating_add(run).min(count);
        let mut buffers = buffers.iter_mut();
        f(lists.map(|list| match buffers.next() {
            Some(buffer) => S::read(&list[at..end], buffer),
            None => unreachable!("there is a buffer for each list"),
        }));
        at = end;
    }
}

/// Writes the whole list with `f`, which receives the index of the first value, the target, and the
/// corresponding values of the lists.
#[inline(always)]
pub(crate) fn write<S: Precision, const N: usize>(
    places: &mut [MaybeUninit<S>],
    lists: [&[S]; N],
    mut f: impl FnMut(usize, &mut [MaybeUninit<f32>], [&[f32]; N]),
) {
    let mut out = Buffer::EMPTY;
    let count = places.len().min(S::MOST).max(1);
    let mut pieces = places.chunks_mut(count);
    let mut at = 0;
    read(lists, count, |values| {
        if let Some(places) = pieces.next() {
            let next = at + places.len();
            S::write(places, &mut out, |out| f(at, out, values));
            at = next;
        }
    });
}

/// Makes a list of the others' length, written by `f` on all threads, in tasks of `task` values, as
/// in [`write`].
pub(crate) fn each<S: Precision, const N: usize>(
    lists: [&[S]; N],
    task: usize,
    f: impl Fn(usize, &mut [MaybeUninit<f32>], [&[f32]; N]) + Sync,
) -> Vec<S> {
    filled(lists.first().map_or(0, |list| list.len()), |places| {
        places.par_chunks_mut(task).enumerate().for_each(|(number, places)| {
            let first = number * task;
            let lists = lists.map(|list| &list[first..][..places.len()]);
            write(places, lists, |at, out, values| f(first + at, out, values));
        });
    })
}

/// Makes a list whose values `fill` writes, all of them.
pub(crate) fn filled<S>(count: usize, fill: impl FnOnce(&mut [MaybeUninit<S>])) -> Vec<S> {
    let mut out = Vec::with_capacity(count);
    fill(&mut out.spare_capacity_mut()[..count]);
    // SAFETY: `fill` has written all of them.
    unsafe { out.set_len(count) };
    out
}

//! One chunk: conversion between values and bytes.

use half::f16;
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

use super::Storage;
use super::head::Codec;

/// The type of an image's stored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    U8,
    I16,
    F16,
    F32,
}

impl Kind {
    /// The number of bytes of a value.
    pub fn size(self) -> usize {
        match self {
            Kind::U8 => 1,
            Kind::I16 | Kind::F16 => 2,
            Kind::F32 => 4,
        }
    }

    /// Selects the type for these values; `None` if f16 is requested and they do not fit.
    pub fn choose(values: &[f32], storage: Storage) -> Option<Kind> {
        // 0.0 and -0.0 are equal, but not the same bits.
        let exact = |whole: fn(f32) -> f32| values.iter().all(|v| whole(*v).to_bits() == v.to_bits());
        match storage {
            Storage::F32 => Some(Kind::F32),
            _ if exact(|v| f32::from(v as u8)) => Some(Kind::U8),
            _ if exact(|v| f32::from(v as i16)) => Some(Kind::I16),
            Storage::Exact => Some(Kind::F32),
            Storage::F16 => {
                values.iter().all(|v| !v.is_finite() || v.abs() <= f32::from(f16::MAX)).then_some(Kind::F16)
            }
        }
    }

    /// Encodes the values as little-endian bytes.
    pub fn to_bytes(self, values: &[f32]) -> Vec<u8> {
        match self {
            Kind::U8 => values.iter().map(|v| *v as u8).collect(),
            Kind::I16 => values.iter().flat_map(|v| (*v as i16).to_le_bytes()).collect(),
            Kind::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
            Kind::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    /// Decodes one row of values from little-endian bytes.
    pub fn read_row(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Kind::U8 => out.iter_mut().zip(bytes).for_each(|(o, b)| *o = f32::from(*b)),
            Kind::I16 => {
                out.iter_mut().zip(bytes.as_chunks().0).for_each(|(o, b)| *o = f32::from(i16::from_le_bytes(*b)));
            }
            Kind::F16 => {
                // Many values are converted at a time, for which CPUs have an instruction.
                let mut halves = [f16::ZERO; 64];
                for (out, bytes) in out.chunks_mut(64).zip(bytes.chunks(128)) {
                    halves.iter_mut().zip(bytes.as_chunks().0).for_each(|(h, b)| *h = f16::from_le_bytes(*b));
                    halves[..out.len()].convert_to_f32_slice(out);
                }
            }
            Kind::F32 => out.iter_mut().zip(bytes.as_chunks().0).for_each(|(o, b)| *o = f32::from_le_bytes(*b)),
        }
    }
}

/// Packs values of `size` bytes each.
pub(super) fn pack(bytes: &[u8], size: usize) -> (Codec, Vec<u8>) {
    if let Some(first) = bytes.get(..size)
        && bytes.chunks_exact(size).all(|value| value == first)
    {
        return (Codec::Constant, first.to_vec());
    }
    let packed = lz4_flex::compress(&by_byte(bytes, size));
    // Data that hardly shrinks is faster to read uncompressed.
    if packed.len() * 16 < bytes.len() * 15 { (Codec::Lz4, packed) } else { (Codec::Raw, bytes.to_vec()) }
}

/// Unpacks `count` values of `size` bytes each. `None` if the bytes are not the output of [`pack`]
/// for that count.
pub(super) fn unpack(codec: Codec, packed: &[u8], size: usize, count: usize) -> Option<Vec<u8>> {
    let length = count.checked_mul(size)?;
    match codec {
        Codec::Raw => (packed.len() == length).then(|| packed.to_vec()),
        Codec::Constant => (packed.len() == size).then(|| packed.repeat(count)),
        Codec::Lz4 => {
            let mut planes = vec![0; length];
            (unlz4(packed, &mut planes)? == length).then(|| by_value(planes, size))
        }
    }
}

/// Unpacks lz4; the number of bytes.
///
/// Its loop takes a tenth longer where it is inlined into [`unpack`] and its callers.
#[inline(never)]
fn unlz4(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    lz4_flex::block::decompress_into(packed, out).ok()
}

/// Reorders bytes: all first bytes, then all second bytes, ... Neighbours have similar signs and
/// exponents, which are then adjacent.
fn by_byte(bytes: &[u8], size: usize) -> Vec<u8> {
    if size == 1 {
        return bytes.to_vec();
    }
    (0..size).flat_map(|byte| bytes.iter().skip(byte).step_by(size).copied()).collect()
}

/// Inverts [`by_byte`].
fn by_value(planes: Vec<u8>, size: usize) -> Vec<u8> {
    fn weave<const N: usize>(planes: &[u8]) -> Vec<u8> {
        let count = planes.len() / N;
        let mut out = vec![0; planes.len()];
        let plane: [&[u8]; N] = std::array::from_fn(|p| &planes[p * count..(p + 1) * count]);
        for (i, value) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            *value = std::array::from_fn(|p| plane[p][i]);
        }
        out
    }
    match size {
        2 => weave::<2>(&planes),
        4 => weave::<4>(&planes),
        8 => weave::<8>(&planes),
        _ => planes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_values_come_back(bytes in proptest::collection::vec(prop_oneof![Just(7_u8), any::<u8>()], 0..400), size in 0..4_u32) {
            let size = 1 << size;
            let whole = &bytes[..bytes.len() / size * size];
            let (codec, packed) = pack(whole, size);
            let back = unpack(codec, &packed, size, whole.len() / size);
            prop_assert_eq!(back.as_deref(), Some(whole));
        }

        #[test]
        fn any_bytes_unpack_or_don_t(bytes in proptest::collection::vec(any::<u8>(), 0..300), count in 0..200_usize) {
            for codec in [Codec::Raw, Codec::Lz4, Codec::Constant] {
                if let Some(out) = unpack(codec, &bytes, 4, count) {
                    prop_assert_eq!(out.len(), count * 4);
                }
            }
        }

        #[test]
        fn the_type_holds_the_values(values in proptest::collection::vec(prop_oneof![
            (-3..300_i32).prop_map(|v| v as f32), (-40_000..40_000_i32).prop_map(|v| v as f32), any::<f32>(), Just(-0.0)], 1..50)) {
            let kind = Kind::choose(&values, Storage::Exact).expect("always one");
            let mut back = vec![0.0; values.len()];
            kind.read_row(&kind.to_bytes(&values), &mut back);
            for (a, b) in values.iter().zip(&back) {
                prop_assert!(a.to_bits() == b.to_bits());
            }
        }
    }

    #[test]
    fn labels_and_ct_get_narrow_types() {
        let choose = |values: &[f32], storage| Kind::choose(values, storage);
        assert_eq!(choose(&[0.0, 1.0, 255.0], Storage::Exact), Some(Kind::U8));
        assert_eq!(choose(&[0.0, 256.0, -1024.0], Storage::Exact), Some(Kind::I16));
        assert_eq!(choose(&[0.5], Storage::Exact), Some(Kind::F32));
        assert_eq!(choose(&[-0.0], Storage::Exact), Some(Kind::F32));
        assert_eq!(choose(&[1.0], Storage::F32), Some(Kind::F32));
        assert_eq!(choose(&[1.0], Storage::F16), Some(Kind::U8));
        assert_eq!(choose(&[0.5, f32::NAN], Storage::F16), Some(Kind::F16));
        assert_eq!(choose(&[70_000.5], Storage::F16), None);
    }

    /// Rounding to f16 is to the nearest: 11 bits of every value.
    #[test]
    fn halves_are_near() {
        let values: Vec<f32> = (0..1000).map(|i| i as f32 / 999.0).collect();
        let mut back = vec![0.0; values.len()];
        Kind::F16.read_row(&Kind::F16.to_bytes(&values), &mut back);
        assert!(values.iter().zip(&back).all(|(a, b)| (a - b).abs() <= a / 2048.0 + 1e-7));
    }
}

//! Conversion of stored samples to numbers.

use std::sync::Arc;

use crate::pixels::{Lut, PixelFormat, StoredType};

/// Converts uncompressed bytes to the output format of codecs: little-endian, colours interleaved.
pub(super) fn native(mut bytes: Vec<u8>, format: &PixelFormat, big_endian: bool) -> Vec<u8> {
    let size = format.sample_bytes();
    if big_endian && size > 1 {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if format.planar { interleave(&bytes, format.rows * format.columns, format.samples, size) } else { bytes }
}

/// Converts planes to interleaved pixels.
pub(crate) fn interleave(planes: &[u8], pixels: usize, samples: usize, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(planes.len());
    for pixel in 0..pixels {
        for sample in 0..samples {
            let at = (sample * pixels + pixel) * size;
            out.extend_from_slice(planes.get(at..at + size).unwrap_or_default());
        }
    }
    out
}

/// Extracts the stored bits from the allocated ones and extends their sign. The other bits
/// (overlays of old files, leftovers) are not part of the value.
pub(super) fn to_stored_bits(bytes: &mut [u8], format: &PixelFormat) {
    let (allocated, stored) = (format.bits_allocated, format.bits_stored);
    if allocated == stored || allocated == 1 {
        return;
    }
    let right = format.high_bit + 1 - stored;
    let signed = format.signed;
    macro_rules! extract {
        ($signed:ty, $unsigned:ty, $size:literal) => {
            for chunk in bytes.as_chunks_mut::<$size>().0 {
                let up = <$unsigned>::from_le_bytes(*chunk) >> right << (allocated - stored);
                let value = if signed {
                    ((up as $signed) >> (allocated - stored)) as $unsigned
                } else {
                    up >> (allocated - stored)
                };
                *chunk = value.to_le_bytes();
            }
        };
    }
    match allocated {
        8 => extract!(i8, u8, 1),
        16 => extract!(i16, u16, 2),
        _ => extract!(i32, u32, 4),
    }
}

/// The conversion from stored values to the values of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub slope: f64,
    pub intercept: f64,
    /// A look-up table in place of slope and intercept.
    pub lut: Option<Arc<Lut>>,
    /// For MONOCHROME1: values are first replaced by `top - value`.
    pub invert: Option<f64>,
    /// The range of stored padding values, and their replacement.
    pub padding: Option<(f64, f64, f32)>,
}

impl Scale {
    fn apply(&self, stored: f64) -> f32 {
        if let Some((low, high, value)) = self.padding
            && (low..=high).contains(&stored)
        {
            return value;
        }
        let value = self.invert.map_or(stored, |top| top - stored);
        match &self.lut {
            Some(lut) => f32::from(lut.entry(value as i64)),
            None => (value * self.slope + self.intercept) as f32,
        }
    }

    /// The samples of a frame as values: channel after channel, rows within.
    pub fn values(&self, bytes: &[u8], stored_type: StoredType, channels: usize) -> Vec<f32> {
        macro_rules! convert {
            ($type:ty, $size:literal) => {{
                let samples = bytes.as_chunks::<$size>().0;
                let plain = self.lut.is_none() && self.invert.is_none() && self.padding.is_none();
                let one = |c: &[u8; $size]| <$type>::from_le_bytes(*c) as f64;
                let channel = |first: usize| samples.iter().skip(first).step_by(channels);
                let mut out = Vec::with_capacity(samples.len());
                for first in 0..channels {
                    if plain {
                        // A separate loop, because nearly every slice uses it.
                        out.extend(channel(first).map(|c| (one(c) * self.slope + self.intercept) as f32));
                    } else {
                        out.extend(channel(first).map(|c| self.apply(one(c))));
                    }
                }
                out
            }};
        }
        match stored_type {
            StoredType::U8 => convert!(u8, 1),
            StoredType::I8 => convert!(i8, 1),
            StoredType::U16 => convert!(u16, 2),
            StoredType::I16 => convert!(i16, 2),
            StoredType::U32 => convert!(u32, 4),
            StoredType::I32 => convert!(i32, 4),
            StoredType::F32 => convert!(f32, 4),
            StoredType::F64 => convert!(f64, 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::PixelKind;
    use crate::pixels::Photometric;

    fn format(allocated: u32, stored: u32, high: u32, signed: bool) -> PixelFormat {
        PixelFormat {
            rows: 1,
            columns: 1,
            samples: 1,
            frames: 1,
            bits_allocated: allocated,
            bits_stored: stored,
            high_bit: high,
            signed,
            planar: false,
            kind: PixelKind::Integer,
            photometric: Photometric::Monochrome2,
            palette: None,
        }
    }

    #[test]
    fn stored_bits_are_cut_out_and_signed() {
        // 12 bits stored in 16; the high nibble is an overlay.
        let mut bytes = [0xff, 0xaf, 0x01, 0x70].to_vec();
        to_stored_bits(&mut bytes, &format(16, 12, 11, false));
        assert_eq!(bytes, [0xff, 0x0f, 0x01, 0x00]);
        let mut bytes = [0xff, 0x0f, 0xff, 0x07].to_vec();
        to_stored_bits(&mut bytes, &format(16, 12, 11, true));
        assert_eq!(bytes, [0xff, 0xff, 0xff, 0x07], "-1 and 2047");
        // Values in the upper bits.
        let mut bytes = [0x50, 0x80].to_vec();
        to_stored_bits(&mut bytes, &format(16, 12, 15, false));
        assert_eq!(bytes, [0x05, 0x08]);
        let mut bytes = [0x3f].to_vec();
        to_stored_bits(&mut bytes, &format(8, 6, 5, true));
        assert_eq!(bytes, [0xff]);
    }

    #[test]
    fn the_largest_value_is_known_for_all_widths() {
        let top = |bits| format(bits, bits, bits - 1, false).top();
        assert_eq!([1, 8, 16, 32].map(top), [1.0, 255.0, 65_535.0, 4_294_967_295.0]);
        assert_eq!(top(64), u64::MAX as f64);
    }

    #[test]
    fn scaling_is_done_in_double_precision() {
        let scale = Scale { slope: 0.1, intercept: -1024.0, lut: None, invert: None, padding: None };
        assert_eq!(scale.values(&3_i16.to_le_bytes(), StoredType::I16, 1), [(0.1 * 3.0 - 1024.0_f64) as f32]);
        let scale =
            Scale { invert: Some(4095.0), padding: Some((0.0, 0.0, -7.0)), slope: 1.0, intercept: 0.0, lut: None };
        let stored: Vec<u8> = [0_u16, 5, 4095].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(scale.values(&stored, StoredType::U16, 1), [-7.0, 4090.0, 0.0]);
    }

    #[test]
    fn colours_become_channels() {
        let scale = Scale { slope: 1.0, intercept: 0.0, lut: None, invert: None, padding: None };
        assert_eq!(scale.values(&[1, 2, 3, 4, 5, 6], StoredType::U8, 3), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(interleave(&[1, 4, 2, 5, 3, 6], 2, 3, 1), [1, 2, 3, 4, 5, 6]);
    }
}

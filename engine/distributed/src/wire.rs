//! The type of values in transfers between ranks: [`Wire`].

use bytemuck::AnyBitPattern;
use half::bf16;

/// The type in which the values of an all-reduce are transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// 4 bytes per value, unchanged.
    #[default]
    F32,
    /// 2 bytes per value. Each rank's values are rounded once; the sum is accumulated in f64 and
    /// rounded once more (for NCCL, see [`Order::Any`](crate::Order)).
    Bf16,
}

impl Wire {
    /// Bytes of one value.
    pub fn bytes_per_value(self) -> usize {
        match self {
            Wire::F32 => 4,
            Wire::Bf16 => 2,
        }
    }
}

/// f32 values as bf16, rounded to nearest, ties to even; NaN stays NaN. `half` converts in the same
/// way, value by value; this loop is vectorized.
pub(crate) fn to_bf16(values: &[f32]) -> Vec<bf16> {
    let word = |value: &f32| {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let nan = bits >> 16 | 0x40;
        bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded } as u16)
    };
    values.iter().map(word).collect()
}

/// bf16 values as f32.
pub(crate) fn from_bf16(words: &[bf16]) -> Vec<f32> {
    words.iter().map(|word| f32::from_bits(u32::from(word.to_bits()) << 16)).collect()
}

/// The values that these bytes encode. Bytes of an incomplete value at the end are ignored.
pub(crate) fn values_of<T: AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// Values as the other ranks receive them.
pub(crate) fn rounded(values: Vec<f32>, wire: Wire) -> Vec<f32> {
    match wire {
        Wire::F32 => values,
        Wire::Bf16 => from_bf16(&to_bf16(&values)),
    }
}

/// The sum of the parts in their order, accumulated in f64. All parts have the same length.
pub(crate) fn sum_in_order(parts: &[&[f32]]) -> Vec<f32> {
    let length = parts.first().map_or(0, |part| part.len());
    // A block of f64 sums that stays in the cache.
    let mut block = [0.0_f64; 1024];
    let mut sums = Vec::with_capacity(length);
    for start in (0..length).step_by(block.len()) {
        let width = block.len().min(length - start);
        let block = &mut block[..width];
        block.fill(0.0);
        for part in parts {
            block.iter_mut().zip(&part[start..start + width]).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        sums.extend(block.iter().map(|sum| *sum as f32));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_accumulated_in_f64() {
        let (large, small, minus) = ([1e8_f32; 1500], [1.0_f32; 1500], [-1e8_f32; 1500]);
        assert_eq!(sum_in_order(&[&large, &small, &minus]), [1.0; 1500]);
        assert!(sum_in_order(&[]).is_empty());
    }

    #[test]
    fn bf16_is_rounded_as_half_rounds() {
        let values: Vec<f32> = (0..=u16::MAX)
            .flat_map(|high| [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | low))
            .map(f32::from_bits)
            .collect();
        let words = to_bf16(&values);
        for (value, word) in values.iter().zip(&words) {
            assert_eq!(word.to_bits(), bf16::from_f32(*value).to_bits(), "{value:e}");
        }
        for (word, value) in words.iter().zip(from_bf16(&words)) {
            assert_eq!(value.to_bits(), u32::from(word.to_bits()) << 16);
        }
    }

    #[test]
    fn bf16_keeps_eight_bits_and_non_finite_values() {
        let values = rounded(vec![1.0, 1.003, f32::NAN, f32::INFINITY, -0.0], Wire::Bf16);
        assert_eq!(values[..2], [1.0, 1.0]);
        assert!(values[2].is_nan() && values[3] == f32::INFINITY && values[4].is_sign_negative());
        assert_eq!(rounded(vec![1.003], Wire::F32), [1.003]);
    }
}

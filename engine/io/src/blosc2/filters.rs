//! Filters of blocks, and how to undo them.

/// A filter that was applied to a block before compression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Filter {
    /// Shuffle: the first bytes of all values of this many bytes, then all second bytes, ...
    Shuffle(usize),
    /// Bit shuffle: all first bits, then all second bits, ...
    BitShuffle(usize),
}

impl Filter {
    /// Returns the filter for a code and option in a chunk's header; `None` if there is nothing to
    /// undo.
    pub fn of(code: u8, option: u8, value_size: usize) -> Result<Option<Self>, String> {
        match code {
            // Truncated precision: the lost bits cannot be restored.
            0 | 4 => Ok(None),
            1 => Ok(Some(Filter::Shuffle(if option == 0 { value_size } else { usize::from(option) }))),
            2 => Ok(Some(Filter::BitShuffle(value_size))),
            3 => Err("filtered by differences (delta), which is not supported".to_owned()),
            other => Err(format!("filtered by the Blosc2 plugin {other}, which is not supported")),
        }
    }

    /// Undoes the filter, from one buffer into another of the same length.
    pub fn undo(self, from: &[u8], out: &mut [u8]) {
        match self {
            Filter::Shuffle(1) => out.copy_from_slice(from),
            Filter::Shuffle(2) => weave::<2>(from, out),
            Filter::Shuffle(4) => weave::<4>(from, out),
            Filter::Shuffle(8) => weave::<8>(from, out),
            Filter::Shuffle(size) => {
                let count = from.len() / size;
                for (number, value) in out.chunks_exact_mut(size).enumerate() {
                    value.iter_mut().enumerate().for_each(|(byte, out)| *out = from[byte * count + number]);
                }
                out[count * size..].copy_from_slice(&from[count * size..]);
            }
            Filter::BitShuffle(size) => unite_bits(size, from, out),
        }
    }
}

fn weave<const N: usize>(from: &[u8], out: &mut [u8]) {
    let count = from.len() / N;
    let planes: [&[u8]; N] = std::array::from_fn(|plane| &from[plane * count..][..count]);
    let (values, rest) = out.as_chunks_mut::<N>();
    for (number, value) in values.iter_mut().enumerate() {
        *value = std::array::from_fn(|byte| planes[byte][number]);
    }
    rest.copy_from_slice(&from[count * N..]);
}

/// Undoes bit shuffle for eight values at a time; the remainder of a block is unchanged.
fn unite_bits(size: usize, from: &[u8], out: &mut [u8]) {
    // Number of bytes of a row, which has one bit of each value.
    let row = from.len() / size / 8;
    let whole = row * 8 * size;
    for byte in 0..size {
        let rows: [&[u8]; 8] = std::array::from_fn(|bit| &from[(byte * 8 + bit) * row..][..row]);
        for eight in 0..row {
            let bits = u64::from_le_bytes(rows.map(|row| row[eight]));
            for (number, value) in transposed(bits).to_le_bytes().into_iter().enumerate() {
                out[(eight * 8 + number) * size + byte] = value;
            }
        }
    }
    out[whole..].copy_from_slice(&from[whole..]);
}

/// Transposes bits: bit `i` of byte `j` becomes bit `j` of byte `i` (Hacker's Delight, 7-3).
fn transposed(mut bits: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let swapped = (bits ^ (bits >> shift)) & mask;
        bits ^= swapped ^ (swapped << shift);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_values_come_together_again() {
        for size in [1, 2, 3, 4, 8] {
            let values: Vec<u8> = (0..5 * size as u8).collect();
            let planes: Vec<u8> = (0..size).flat_map(|byte| values.iter().skip(byte).step_by(size).copied()).collect();
            // Trailing bytes that do not form a value.
            let rest = &[254, 255][..if size < 3 { 0 } else { 2 }];
            let mut out = vec![0; planes.len() + rest.len()];
            Filter::Shuffle(size).undo(&[&planes[..], rest].concat(), &mut out);
            assert_eq!(out, [&values[..], rest].concat(), "{size}");
        }
    }

    #[test]
    fn bits_of_values_come_together_again() {
        for size in [1, 2, 4] {
            let values: Vec<u8> = (0..16 * size as u32 + 1).map(|at| (at * 97 + 13) as u8).collect();
            let bit = |value: usize, bit: usize| values[value * size + bit / 8] >> (bit % 8) & 1;
            let mut packed: Vec<u8> = (0..8 * size)
                .flat_map(|of| (0..2).map(move |eight| (eight, of)))
                .map(|(eight, of)| (0..8).map(|at| bit(eight * 8 + at, of) << at).sum())
                .collect();
            packed.push(values[16 * size]);
            let mut out = vec![0; packed.len()];
            Filter::BitShuffle(size).undo(&packed, &mut out);
            assert_eq!(out, values, "{size}");
        }
    }

    #[test]
    fn what_is_not_read_is_named() {
        assert!(Filter::of(3, 0, 4).expect_err("delta").contains("delta"));
        assert!(Filter::of(35, 0, 4).expect_err("a plugin").contains("35"));
        assert_eq!(Filter::of(4, 10, 4), Ok(None));
        assert_eq!(Filter::of(1, 2, 4), Ok(Some(Filter::Shuffle(2))));
    }
}

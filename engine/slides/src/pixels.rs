//! Converts stored samples to pixels: byte order, small samples, palettes, colours.

/// Converts full-range BT.601 (JFIF) YCbCr to RGB, in place, in 16-bit fixed point.
pub(crate) fn ycbcr_to_rgb(pixels: &mut [u8]) {
    for p in pixels.chunks_exact_mut(3) {
        let (y, cb, cr) = (i32::from(p[0]) << 16, i32::from(p[1]) - 128, i32::from(p[2]) - 128);
        let clamp = |v: i32| ((v + (1 << 15)) >> 16).clamp(0, 255) as u8;
        p[0] = clamp(y + 91_881 * cr);
        p[1] = clamp(y - 22_554 * cb - 46_802 * cr);
        p[2] = clamp(y + 116_130 * cb);
    }
}

/// Reverses the bytes of each sample.
pub(crate) fn swap(bytes: &mut [u8], size: usize) {
    match size {
        2 => bytes.chunks_exact_mut(2).for_each(|b| b.swap(0, 1)),
        4 | 8 => bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
        _ => {}
    }
}

/// Unpacks samples of 1, 2 or 4 bits, with rows starting at a byte, to one byte each.
pub(crate) fn unpack_bits(bytes: &[u8], row_bytes: usize, row_samples: usize, bits: usize) -> Vec<u8> {
    let mask = (1u8 << bits) - 1;
    let per_byte = 8 / bits;
    let rows = bytes.chunks_exact(row_bytes);
    rows.flat_map(|row| (0..row_samples).map(move |i| row[i / per_byte] >> (8 - bits * (i % per_byte + 1)) & mask))
        .collect()
}

/// Scales values of a few bits to the full range of u8.
pub(crate) fn stretch(values: &mut [u8], bits: usize) {
    let factor = 255 / ((1u16 << bits) - 1) as u8;
    values.iter_mut().for_each(|v| *v *= factor);
}

/// Converts indices of one or two bytes to RGB. The table contains all reds, then all greens, then
/// all blues.
pub(crate) fn look_up(indices: &[u8], size: usize, palette: &[u64]) -> Vec<u8> {
    let entries = palette.len() / 3;
    // Tables have 16 bits; some writers store 8-bit values.
    let shift = if palette.iter().all(|v| *v < 256) { 0 } else { 8 };
    let color = |i: usize| [0, 1, 2].map(|c| (palette[c * entries + i] >> shift).min(255) as u8);
    if size == 1 {
        indices.iter().flat_map(|i| color(usize::from(*i))).collect()
    } else {
        indices.chunks_exact(2).flat_map(|i| color(usize::from(u16::from_ne_bytes([i[0], i[1]])))).collect()
    }
}

/// Copies one plane of samples of `size` bytes into its channel.
pub(crate) fn interleave(out: &mut [u8], plane: &[u8], channel: usize, channels: usize, size: usize) {
    let places = out.chunks_exact_mut(channels * size).zip(plane.chunks_exact(size));
    for (pixel, sample) in places {
        pixel[channel * size..][..size].copy_from_slice(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The corners of the JFIF specification's conversion.
    #[test]
    fn colours_convert_as_in_jfif() {
        let mut pixels = [255, 128, 128, 0, 128, 128, 76, 85, 255, 150, 44, 21, 29, 255, 107];
        ycbcr_to_rgb(&mut pixels);
        assert_eq!(pixels, [255, 255, 255, 0, 0, 0, 254, 0, 0, 0, 255, 1, 0, 0, 254]);
    }

    #[test]
    fn small_samples_unpack_from_the_highest_bit() {
        assert_eq!(unpack_bits(&[0b1010_0000, 0xFF], 1, 3, 1), [1, 0, 1, 1, 1, 1]);
        assert_eq!(unpack_bits(&[0x1B], 1, 4, 2), [0, 1, 2, 3]);
        assert_eq!(unpack_bits(&[0x4F, 0x20], 2, 3, 4), [4, 15, 2]);
        let mut values = [0, 1, 2, 3];
        stretch(&mut values, 2);
        assert_eq!(values, [0, 85, 170, 255]);
    }
}

//! Luminance and chrominance to red, green, blue.

use crate::pixels::PixelFormat;

/// Pairs of pixels `Y Y Cb Cr` to one `Y Cb Cr` per pixel.
pub(super) fn spread_422(bytes: &[u8], format: &PixelFormat) -> Result<Vec<u8>, String> {
    if format.bits_allocated != 8 || format.columns % 2 == 1 {
        return Err("YBR_FULL_422 needs 8 bits and an even number of columns".to_owned());
    }
    let pair = |p: &[u8; 4]| [p[0], p[2], p[3], p[1], p[2], p[3]];
    Ok(bytes.as_chunks::<4>().0.iter().flat_map(pair).collect())
}

/// The full-range conversion of DICOM PS3.3 C.7.6.3.1.2 (that of JPEG), rounded and clipped.
pub(super) fn ybr_to_rgb(bytes: &mut [u8], format: &PixelFormat) {
    let top = (1_u64 << format.bits_stored) as f64 - 1.0;
    let middle = (1_u64 << (format.bits_stored - 1)) as f64;
    let convert = |[y, cb, cr]: [f64; 3]| {
        let (cb, cr) = (cb - middle, cr - middle);
        let rgb = [y + 1.402 * cr, y - 0.344_136 * cb - 0.714_136 * cr, y + 1.772 * cb];
        rgb.map(|v| (v + 0.5).floor().clamp(0.0, top))
    };
    match format.sample_bytes() {
        1 => {
            for pixel in bytes.as_chunks_mut::<3>().0 {
                *pixel = convert(pixel.map(f64::from)).map(|v| v as u8);
            }
        }
        2 => {
            for pixel in bytes.as_chunks_mut::<6>().0 {
                let word = |i: usize| f64::from(u16::from_le_bytes([pixel[i], pixel[i + 1]]));
                let rgb = convert([word(0), word(2), word(4)]).map(|v| (v as u16).to_le_bytes());
                pixel.copy_from_slice(rgb.as_flattened());
            }
        }
        // Chrominance of 32 bits does not exist.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::PixelKind;
    use crate::pixels::Photometric;

    #[test]
    fn primary_colours_come_out() {
        let format = PixelFormat {
            rows: 1,
            columns: 4,
            samples: 3,
            frames: 1,
            bits_allocated: 8,
            bits_stored: 8,
            high_bit: 7,
            signed: false,
            planar: false,
            kind: PixelKind::Integer,
            photometric: Photometric::YbrFull,
            palette: None,
        };
        // JFIF's values for red, green, blue, grey.
        let mut bytes = [76, 85, 255, 150, 44, 21, 29, 255, 107, 128, 128, 128].to_vec();
        ybr_to_rgb(&mut bytes, &format);
        let expected = [[254, 0, 0], [0, 255, 1], [0, 0, 254], [128, 128, 128]];
        for (got, wanted) in bytes.iter().zip(expected.as_flattened()) {
            assert!(got.abs_diff(*wanted) <= 1, "{bytes:?}");
        }
        assert_eq!(spread_422(&[1, 2, 9, 8], &format).expect("even"), [1, 9, 8, 2, 9, 8]);
    }
}

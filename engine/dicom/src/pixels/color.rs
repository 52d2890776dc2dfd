//! Conversion of other colour spaces to red, green, blue.

use crate::pixels::PixelFormat;

/// Converts pairs of pixels `Y Y Cb Cr` to one `Y Cb Cr` per pixel.
pub(super) fn spread_422(bytes: &[u8], format: &PixelFormat) -> Result<Vec<u8>, String> {
    if format.bits_allocated != 8 || format.columns % 2 == 1 {
        return Err("YBR_FULL_422 needs 8 bits and an even number of columns".to_owned());
    }
    let pair = |p: &[u8; 4]| [p[0], p[2], p[3], p[1], p[2], p[3]];
    Ok(bytes.as_chunks::<4>().0.iter().flat_map(pair).collect())
}

/// The full-range conversion of DICOM PS3.3 C.7.6.3.1.2 (that of JPEG), rounded and clipped.
pub(super) fn ybr_to_rgb(bytes: &mut [u8], format: &PixelFormat) {
    let top = format.top();
    let middle = (top + 1.0) / 2.0;
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
        // There is no 32-bit chrominance.
        _ => {}
    }
}

/// CIELab as DICOM stores it (PS3.3 C.10.7.1.1: 16 bits, white point D65) to red, green, blue of
/// sRGB.
pub(crate) fn lab_to_rgb([l, a, b]: [f64; 3]) -> [u8; 3] {
    let (l, a, b) = (l / 65_535.0 * 100.0, a / 65_535.0 * 255.0 - 128.0, b / 65_535.0 * 255.0 - 128.0);
    let y = (l + 16.0) / 116.0;
    let cube = |t: f64| if t > 6.0 / 29.0 { t.powi(3) } else { 3.0 * (6.0_f64 / 29.0).powi(2) * (t - 4.0 / 29.0) };
    let [x, y, z] = [0.950_47 * cube(y + a / 500.0), cube(y), 1.088_83 * cube(y - b / 200.0)];
    let linear = [
        3.240_454_2 * x - 1.537_138_5 * y - 0.498_531_4 * z,
        -0.969_266 * x + 1.876_010_8 * y + 0.041_556 * z,
        0.055_643_4 * x - 0.204_025_9 * y + 1.057_225_2 * z,
    ];
    linear.map(|v: f64| {
        let v = v.clamp(0.0, 1.0);
        let s = if v <= 0.003_130_8 { 12.92 * v } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 };
        (s * 255.0).round() as u8
    })
}

/// The inverse of [`lab_to_rgb`].
pub(crate) fn rgb_to_lab(rgb: [u8; 3]) -> [u16; 3] {
    let [r, g, b] = rgb.map(|v| {
        let v = f64::from(v) / 255.0;
        if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    });
    let root = |t: f64| {
        let edge = 6.0_f64 / 29.0;
        if t > edge.powi(3) { t.cbrt() } else { t / (3.0 * edge * edge) + 4.0 / 29.0 }
    };
    let x = root((0.412_456_4 * r + 0.357_576_1 * g + 0.180_437_5 * b) / 0.950_47);
    let y = root(0.212_672_9 * r + 0.715_152_2 * g + 0.072_175 * b);
    let z = root((0.019_333_9 * r + 0.119_192 * g + 0.950_304_1 * b) / 1.088_83);
    let lab = [(116.0 * y - 16.0) / 100.0, (500.0 * (x - y) + 128.0) / 255.0, (200.0 * (y - z) + 128.0) / 255.0];
    lab.map(|v| (v.clamp(0.0, 1.0) * 65_535.0).round() as u16)
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

    #[test]
    fn colours_are_those_of_other_viewers() {
        // The liver of 3D Slicer's table is (221, 130, 101).
        assert_eq!(lab_to_rgb([41661.0, 41167.0, 40792.0]), [221, 130, 101]);
        assert_eq!(lab_to_rgb([65_535.0, 32_896.0, 32_896.0]), [255, 255, 255]);
        assert_eq!(lab_to_rgb([0.0, 32_896.0, 32_896.0]), [0, 0, 0]);
        for color in [[221, 130, 101], [0, 0, 0], [255, 255, 255], [230, 159, 0], [0, 0, 255], [3, 2, 1]] {
            assert_eq!(lab_to_rgb(rgb_to_lab(color).map(f64::from)), color);
        }
    }
}

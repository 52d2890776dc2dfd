//! JPEG: baseline, extended (12 bits), progressive, and lossless (process 14, 2 to 16 bits).

use libjpeg_turbo_rs::precision::{decompress_12bit_with_limits, decompress_lossless_arbitrary};
use libjpeg_turbo_rs::{DecodeLimits, Decoder, probe};

use super::{CodecError, Decoded, check_size, contain};
use crate::pixels::{Photometric, PixelFormat};

pub(super) fn decode(bytes: &[u8], format: &PixelFormat) -> Result<Decoded, CodecError> {
    let wrong = |e: libjpeg_turbo_rs::JpegError| CodecError::Wrong(e.to_string());
    let info = probe(bytes).map_err(wrong)?;
    check_size(format, info.width, info.height, info.components)?;
    let color = info.components == 3;
    if info.lossless {
        let image = decompress_lossless_arbitrary(bytes).map_err(wrong)?;
        let bits = u32::from(info.precision);
        return contain(image.data.iter().map(|v| i64::from(*v)), bits, format, false);
    }
    let said_rgb;
    let bytes = if color && format.photometric == Photometric::Rgb && says_nothing_of_color(bytes) {
        said_rgb = [&bytes[..2], &ADOBE_RGB, &bytes[2..]].concat();
        &said_rgb
    } else {
        bytes
    };
    let limits = DecodeLimits { max_pixels: (format.rows * format.columns) as u64, ..DecodeLimits::default() };
    if info.precision == 12 {
        let image = decompress_12bit_with_limits(bytes, &limits).map_err(wrong)?;
        return contain(image.data.iter().map(|v| i64::from(*v)), 12, format, color);
    }
    let image = Decoder::new_with_limits(bytes, limits).and_then(|d| d.decode_image()).map_err(wrong)?;
    contain(image.data.iter().map(|v| i64::from(*v)), 8, format, color)
}

/// Adobe's marker for components red, green, blue.
const ADOBE_RGB: [u8; 16] = *b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00";

/// Whether neither a JFIF nor an Adobe marker defines the colour space. DICOM's header then
/// decides; a decoder by default assumes luminance and chrominance.
fn says_nothing_of_color(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let [0xff, marker, high, low, ..] = *rest {
        match marker {
            0xe0 if rest.get(4..8) == Some(b"JFIF") => return false,
            0xee if rest.get(4..9) == Some(b"Adobe") => return false,
            0xda => return true,
            _ => {}
        }
        let length = 2 + usize::from(u16::from_be_bytes([high, low]));
        rest = rest.get(length..).unwrap_or_default();
    }
    true
}

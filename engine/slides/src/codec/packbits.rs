//! PackBits, the run-length encoding of TIFF 6.0, section 9.

use super::Shape;
use crate::error::Fault;

pub(super) fn unpack(bytes: &[u8], shape: Shape) -> Result<Vec<u8>, Fault> {
    let room = shape.height * shape.row_bytes();
    let mut out = Vec::with_capacity(room);
    let mut rest = bytes;
    while let ([head, tail @ ..], true) = (rest, out.len() < room) {
        let left = room - out.len();
        let used = match *head {
            n @ 0..=127 => {
                let n = usize::from(n) + 1;
                let run = tail.get(..n).ok_or_else(|| Fault::damaged("PackBits: the data end within a run"))?;
                out.extend_from_slice(&run[..n.min(left)]);
                n
            }
            128 => 0,
            n => {
                let value = tail.first().ok_or_else(|| Fault::damaged("PackBits: the data end within a run"))?;
                out.extend(std::iter::repeat_n(*value, (257 - usize::from(n)).min(left)));
                1
            }
        };
        rest = &tail[used..];
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(width: usize) -> Shape {
        Shape { width, height: 1, rows: 1, samples: 1, bits: 8 }
    }

    /// The example of Apple's technical note 1023.
    #[test]
    fn the_published_example_unpacks() {
        let packed = [0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0xFD, 0xAA, 0x03, 0x80, 0x00, 0x2A, 0x22, 0xF7, 0xAA];
        let expected = [
            0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0x22, 0xAA, 0xAA, 0xAA, 0xAA,
            0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA,
        ];
        assert_eq!(unpack(&packed, shape(24)).expect("sound"), expected);
        // No more bytes than pixels are written.
        assert_eq!(unpack(&packed, shape(2)).expect("sound"), expected[..2]);
    }

    #[test]
    fn a_cut_run_is_an_error() {
        assert!(unpack(&[0x05, 1, 2], shape(6)).is_err());
        assert!(unpack(&[0xFE], shape(6)).is_err());
    }
}

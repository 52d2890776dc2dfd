//! Records of TensorBoard's event files: the messages that handlers write, and their frames.
//!
//! `tensorboard-rs` would bring a `protobuf` and an `image` with known advisories for what is one page. Its
//! messages, by the same schema, are what the tests read these with.

/// A message of Protocol Buffers under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn int(mut self, field: u64, value: u64) -> Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    fn double(mut self, field: u64, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn float(mut self, field: u64, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }
}

/// What a step has under a tag: `Summary.Value`.
pub(crate) enum Value<'a> {
    /// A point of a curve.
    Scalar(f32),
    /// A picture: width, height, and a PNG file of three channels.
    Image(u32, u32, &'a [u8]),
}

/// The first record of a file: `Event` with `wall_time` and `file_version`.
pub(crate) fn version(wall_time: f64) -> Vec<u8> {
    framed(&Message::default().double(1, wall_time).bytes(3, b"brain.Event:2").0)
}

/// The record of a value: `Event` with `wall_time`, `step` and `summary`.
pub(crate) fn summary(wall_time: f64, step: u64, tag: &str, value: &Value<'_>) -> Vec<u8> {
    let tagged = Message::default().bytes(1, tag.as_bytes());
    let tagged = match value {
        Value::Scalar(number) => tagged.float(2, *number),
        Value::Image(width, height, png) => {
            let size = Message::default().int(1, u64::from(*height)).int(2, u64::from(*width));
            tagged.bytes(4, &size.int(3, 3).bytes(4, png).0)
        }
    };
    let summary = Message::default().bytes(1, &tagged.0);
    framed(&Message::default().double(1, wall_time).int(2, step).bytes(5, &summary.0).0)
}

/// A record of a TFRecord file: its length and its bytes, each with a checksum.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let [of_length, of_bytes] = [&length[..], bytes].map(|part| masked(crc32c(part)).to_le_bytes());
    [&length[..], &of_length, bytes, &of_bytes].concat()
}

/// The checksum as TensorFlow stores it: checksums of data that contain checksums would be weak.
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), a byte at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!0_u32, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const fn table() -> [u32; 256] {
    let mut table = [0_u32; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogue of CRCs, and 32 zeros of RFC 3720, B.4.
    #[test]
    fn checksums_are_the_published_ones() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }
}

//! The part of the Protocol Buffers encoding that ONNX needs.

/// A message under construction.
#[derive(Default)]
pub(crate) struct Message(pub Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Message::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    /// Adds an `int64`, an `int32`, or an enumeration.
    pub fn int(mut self, field: u32, value: i64) -> Self {
        self.key(field, 0);
        self.varint(value as u64);
        self
    }

    pub fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(self, field: u32, value: Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// Adds repeated integers, packed.
    pub fn ints(self, field: u32, values: &[i64]) -> Self {
        let mut packed = Message::new();
        values.iter().for_each(|value| packed.varint(*value as u64));
        self.bytes(field, &packed.0)
    }

    /// Adds repeated integers of a field that `proto2` does not pack.
    pub fn each_int(self, field: u32, values: &[i64]) -> Self {
        values.iter().fold(self, |message, value| message.int(field, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples in the documentation of the encoding
    /// (protobuf.dev/programming-guides/encoding).
    #[test]
    fn values_are_encoded_as_documented() {
        assert_eq!(Message::new().int(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().text(2, "testing").0, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        assert_eq!(Message::new().message(3, Message::new().int(1, 150)).0, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::new().ints(6, &[3, 270, 86_942]).0, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        let minus_two = [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Message::new().int(1, -2).0, minus_two);
    }
}

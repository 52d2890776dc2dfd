//! MessagePack fields, as far as frames use them: big-endian numbers, each after a byte with its
//! type.

/// Bytes that are read from start to end.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Signed, 32 bits.
    pub const INT32: u8 = 0xd2;
    /// Signed, 64 bits.
    pub const INT64: u8 = 0xd3;
    /// Unsigned, 16 bits.
    pub const UINT16: u8 = 0xcd;
    /// A map with a 16-bit number of entries.
    pub const MAP16: u8 = 0xde;
    /// Bytes with a 32-bit length.
    pub const BIN32: u8 = 0xc6;
    /// A string with a 32-bit length.
    pub const STR32: u8 = 0xdb;
    /// A short string; the lower five bits are its length.
    pub const SHORT_STRING: u8 = 0xa0;
    /// A short array; the lower four bits are its length.
    pub const SHORT_ARRAY: u8 = 0x90;

    pub fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes }
    }

    /// Reads the next bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (front, rest) = self.bytes.split_at_checked(count).ok_or("its header ends within a field")?;
        self.bytes = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (front, rest) = self.bytes.split_first_chunk().ok_or("its header ends within a field")?;
        self.bytes = rest;
        Ok(*front)
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads one byte, which must have this value.
    pub fn tag(&mut self, tag: u8) -> Result<(), String> {
        let found = self.byte()?;
        if found == tag { Ok(()) } else { Err(format!("its header has {found:#04x} instead of {tag:#04x}")) }
    }

    pub fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Reads 32 bits as a size.
    pub fn size(&mut self) -> Result<usize, String> {
        let value = i32::from_be_bytes(self.array()?);
        usize::try_from(value).map_err(|_| format!("its header has a size of {value}"))
    }

    /// Reads 64 bits as a size.
    pub fn long(&mut self) -> Result<u64, String> {
        let value = i64::from_be_bytes(self.array()?);
        u64::try_from(value).map_err(|_| format!("its header has a size of {value}"))
    }
}

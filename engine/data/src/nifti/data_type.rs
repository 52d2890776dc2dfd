//! Types of stored values.

/// Type of the values in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DataType {
    /// `uint8`
    U8,
    /// `int8`
    I8,
    /// `uint16`
    U16,
    /// `int16`
    I16,
    /// `uint32`
    U32,
    /// `int32`
    I32,
    /// `uint64`
    U64,
    /// `int64`
    I64,
    /// `float32`
    F32,
    /// `float64`
    F64,
}

const TABLE: [(DataType, i16, usize, &str); 10] = [
    (DataType::U8, 2, 1, "uint8"),
    (DataType::I16, 4, 2, "int16"),
    (DataType::I32, 8, 4, "int32"),
    (DataType::F32, 16, 4, "float32"),
    (DataType::F64, 64, 8, "float64"),
    (DataType::I8, 256, 1, "int8"),
    (DataType::U16, 512, 2, "uint16"),
    (DataType::U32, 768, 4, "uint32"),
    (DataType::I64, 1024, 8, "int64"),
    (DataType::U64, 1280, 8, "uint64"),
];

impl DataType {
    fn row(self) -> &'static (DataType, i16, usize, &'static str) {
        // Every type has its row, see the test.
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[0])
    }

    /// The code of nifti1.h.
    pub fn code(self) -> i16 {
        self.row().1
    }

    /// Bytes of one value.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// numpy's name.
    pub fn name(self) -> &'static str {
        self.row().3
    }

    /// Reads a code; the error names what it stands for.
    pub(super) fn from_code(code: i16) -> Result<Self, String> {
        if let Some(row) = TABLE.iter().find(|row| row.1 == code) {
            return Ok(row.0);
        }
        let name = match code {
            0 => return Err("0 (unknown)".to_owned()),
            1 => "binary",
            32 => "complex64",
            128 => "rgb24",
            1536 => "float128",
            1792 => "complex128",
            2048 => "complex256",
            2304 => "rgba32",
            _ => return Err(format!("{code} is no type code")),
        };
        Err(format!("{code} ({name})"))
    }

    /// Whether a code is one of the standard, scalar or not.
    pub(super) fn is_known(code: i16) -> bool {
        TABLE.iter().any(|row| row.1 == code) || [1, 32, 128, 1536, 1792, 2048, 2304].contains(&code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_row() {
        for (t, code, size, name) in TABLE {
            assert_eq!((t.code(), t.size(), t.name()), (code, size, name));
            assert_eq!(DataType::from_code(code), Ok(t));
        }
        assert_eq!(DataType::from_code(128), Err("128 (rgb24)".to_owned()));
    }
}

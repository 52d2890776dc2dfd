//! Types of stored values.

use nifti::{NiftiHeader, NiftiType};

/// Type of the values in a file: every scalar type of 64 bits or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
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

impl DataType {
    /// The name in the NIfTI-1 standard.
    fn standard(self) -> NiftiType {
        match self {
            DataType::U8 => NiftiType::Uint8,
            DataType::I8 => NiftiType::Int8,
            DataType::U16 => NiftiType::Uint16,
            DataType::I16 => NiftiType::Int16,
            DataType::U32 => NiftiType::Uint32,
            DataType::I32 => NiftiType::Int32,
            DataType::U64 => NiftiType::Uint64,
            DataType::I64 => NiftiType::Int64,
            DataType::F32 => NiftiType::Float32,
            DataType::F64 => NiftiType::Float64,
        }
    }

    /// The code in nifti1.h.
    pub fn code(self) -> i16 {
        self.standard() as i16
    }

    /// The number of bytes of a value.
    pub fn size(self) -> usize {
        self.standard().size_of()
    }

    /// The name in numpy.
    pub fn name(self) -> &'static str {
        match self {
            DataType::U8 => "uint8",
            DataType::I8 => "int8",
            DataType::U16 => "uint16",
            DataType::I16 => "int16",
            DataType::U32 => "uint32",
            DataType::I32 => "int32",
            DataType::U64 => "uint64",
            DataType::I64 => "int64",
            DataType::F32 => "float32",
            DataType::F64 => "float64",
        }
    }

    /// Returns the type of a code.
    ///
    /// # Errors
    /// If the code is not of a scalar type; the message is the code's meaning.
    pub fn from_code(code: i16) -> Result<Self, String> {
        Ok(match standard(code) {
            Some(NiftiType::Uint8) => DataType::U8,
            Some(NiftiType::Int8) => DataType::I8,
            Some(NiftiType::Uint16) => DataType::U16,
            Some(NiftiType::Int16) => DataType::I16,
            Some(NiftiType::Uint32) => DataType::U32,
            Some(NiftiType::Int32) => DataType::I32,
            Some(NiftiType::Uint64) => DataType::U64,
            Some(NiftiType::Int64) => DataType::I64,
            Some(NiftiType::Float32) => DataType::F32,
            Some(NiftiType::Float64) => DataType::F64,
            Some(other) => return Err(format!("{code} ({})", format!("{other:?}").to_lowercase())),
            None if code == 0 => return Err("0 (unknown)".to_owned()),
            None if code == 1 => return Err("1 (binary)".to_owned()),
            None => return Err(format!("{code} is not a type code")),
        })
    }

    /// Whether the standard has this code, scalar or not.
    pub fn is_known(code: i16) -> bool {
        standard(code).is_some() || code == 1
    }
}

/// The meaning of a code; the `nifti` crate has no name for 0 (unknown) and 1 (binary).
fn standard(code: i16) -> Option<NiftiType> {
    NiftiHeader { datatype: code, ..NiftiHeader::default() }.data_type().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_comes_back_from_its_code() {
        // Codes, sizes and names of nifti1.h and numpy.
        let table = [
            (2, 1, "uint8"),
            (4, 2, "int16"),
            (8, 4, "int32"),
            (16, 4, "float32"),
            (64, 8, "float64"),
            (256, 1, "int8"),
            (512, 2, "uint16"),
            (768, 4, "uint32"),
            (1024, 8, "int64"),
            (1280, 8, "uint64"),
        ];
        for (code, size, name) in table {
            let t = DataType::from_code(code).expect("a scalar type");
            assert_eq!((t.code(), t.size(), t.name()), (code, size, name));
        }
        assert_eq!(DataType::from_code(128), Err("128 (rgb24)".to_owned()));
        assert_eq!(DataType::from_code(1), Err("1 (binary)".to_owned()));
        assert!(DataType::is_known(1) && !DataType::is_known(0) && !DataType::is_known(3));
    }
}

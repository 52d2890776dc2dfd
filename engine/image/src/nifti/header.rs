//! The fields of a header.

use super::DataType;

/// A NIfTI header. An image carries it, so that a written file keeps the units and description.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// Version of the format, 1 or 2.
    pub version: u8,
    /// Whether the byte order is big-endian.
    pub big_endian: bool,
    /// Lengths of the axes, in file order (first fastest).
    pub dim: Vec<usize>,
    /// Code of the type of the values.
    pub datatype: i16,
    /// `qfac`, then the voxel size per axis.
    pub pixdim: [f64; 8],
    /// Byte offset of the values in the file.
    pub vox_offset: u64,
    /// Factor of the values; 0 or non-finite means no factor.
    pub scl_slope: f64,
    /// Offset added to the values.
    pub scl_inter: f64,
    /// Code of the space of the quaternion affine; 0 means that it is missing.
    pub qform_code: i32,
    /// Code of the space of the matrix affine; 0 means that it is missing.
    pub sform_code: i32,
    /// Quaternion components b, c, d.
    pub quatern: [f64; 3],
    /// Translation of the quaternion affine.
    pub qoffset: [f64; 3],
    /// The matrix affine.
    pub srow: [[f64; 4]; 3],
    /// Units of space and time.
    pub xyzt_units: i32,
    /// Intended display range: maximum, minimum.
    pub cal: [f64; 2],
    /// Free-text description.
    #[serde(with = "free_text")]
    pub descrip: [u8; 80],
    /// Auxiliary file name.
    pub aux_file: [u8; 24],
    /// Code of what the values mean; 0 for nothing in particular.
    #[serde(default)]
    pub intent_code: i32,
    /// Parameters of the meaning.
    #[serde(default)]
    pub intent_p: [f64; 3],
    /// Name of the meaning.
    #[serde(default)]
    pub intent_name: [u8; 16],
    /// Time of the first frame.
    #[serde(default)]
    pub toffset: f64,
    /// The axes of frequency, phase and slices.
    #[serde(default)]
    pub dim_info: u8,
    /// First and last slice of the timing.
    #[serde(default)]
    pub slices: [i64; 2],
    /// Code of the order of the slices' timing.
    #[serde(default)]
    pub slice_code: i32,
    /// Time to acquire a slice.
    #[serde(default)]
    pub slice_duration: f64,
    /// Whether the file is of Analyze 7.5, which does not state the orientation.
    #[serde(default)]
    pub analyze: bool,
    /// Whether header and values are in the same file.
    pub single_file: bool,
    /// Axes (from 1) whose voxel size in the file was 0, negative or NaN, and was repaired in
    /// `pixdim`.
    pub repaired: Vec<usize>,
}

impl Default for Header {
    fn default() -> Self {
        Header {
            version: 1,
            big_endian: false,
            dim: Vec::new(),
            datatype: DataType::F32.code(),
            pixdim: [1.0; 8],
            vox_offset: 352,
            scl_slope: 1.0,
            scl_inter: 0.0,
            qform_code: 0,
            sform_code: 0,
            quatern: [0.0; 3],
            qoffset: [0.0; 3],
            srow: [[0.0; 4]; 3],
            // Millimetres and seconds.
            xyzt_units: 2 | 8,
            cal: [0.0; 2],
            descrip: [0; 80],
            aux_file: [0; 24],
            intent_code: 0,
            intent_p: [0.0; 3],
            intent_name: [0; 16],
            toffset: 0.0,
            dim_info: 0,
            slices: [0; 2],
            slice_code: 0,
            slice_duration: 0.0,
            analyze: false,
            single_file: true,
            repaired: Vec::new(),
        }
    }
}

/// serde supports arrays of up to 32 elements only.
mod free_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(text: &[u8; 80], out: S) -> Result<S::Ok, S::Error> {
        text.as_slice().serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 80], D::Error> {
        Vec::deserialize(from)?.try_into().map_err(|_| D::Error::custom("the description is not 80 bytes long"))
    }
}

impl Header {
    /// The slope and offset of the values; `None` if there are none.
    pub fn scaling(&self) -> Option<(f64, f64)> {
        (self.scl_slope != 0.0 && self.scl_slope.is_finite()).then_some((self.scl_slope, self.scl_inter))
    }

    /// The number of values; `None` if it overflows.
    pub fn count(&self) -> Option<u64> {
        self.dim.iter().try_fold(1_u64, |n, d| n.checked_mul(*d as u64))
    }
}

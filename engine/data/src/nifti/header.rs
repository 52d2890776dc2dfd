//! The header: 348 bytes (NIfTI-1, read by the crate `nifti`) or 540 (NIfTI-2, which it does not
//! support), either byte order.

use std::path::Path;

use super::{DataType, NiftiError};

/// A NIfTI header. It is carried along with an image, so that a written file keeps the units and
/// description.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// 1 or 2.
    pub version: u8,
    /// Byte order.
    pub big_endian: bool,
    /// Lengths of the axes, in file order (first fastest).
    pub dim: Vec<usize>,
    /// Type of the values, by its code.
    pub datatype: i16,
    /// `qfac`, then the voxel size per axis.
    pub pixdim: [f64; 8],
    /// The offset of the values.
    pub vox_offset: u64,
    /// Factor of the values; 0 or not finite: none.
    pub scl_slope: f64,
    /// Offset of the values.
    pub scl_inter: f64,
    /// Meaning of the quaternion affine; 0: none.
    pub qform_code: i32,
    /// Meaning of the matrix affine; 0: none.
    pub sform_code: i32,
    /// Quaternion b, c, d.
    pub quatern: [f64; 3],
    /// Translation of the quaternion affine.
    pub qoffset: [f64; 3],
    /// The matrix affine.
    pub srow: [[f64; 4]; 3],
    /// Units of space and time.
    pub xyzt_units: i32,
    /// Intended display range: maximum, minimum.
    pub cal: [f64; 2],
    /// Free text.
    #[serde(with = "free_text")]
    pub descrip: [u8; 80],
    /// Auxiliary file name.
    pub aux_file: [u8; 24],
    /// Whether the values are in the same file.
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
            single_file: true,
            repaired: Vec::new(),
        }
    }
}

/// serde knows arrays of up to 32 elements.
mod free_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(text: &[u8; 80], out: S) -> Result<S::Ok, S::Error> {
        text.as_slice().serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 80], D::Error> {
        Vec::deserialize(from)?.try_into().map_err(|_| D::Error::custom("the description is not 80 bytes long"))
    }
}

/// Bytes needed to read any header.
pub(super) const LONGEST: usize = 540;

struct Fields<'a> {
    bytes: &'a [u8],
    big: bool,
}

macro_rules! number {
    ($name:ident, $type:ty) => {
        fn $name(&self, at: usize) -> $type {
            let mut raw = [0; size_of::<$type>()];
            if let Some(bytes) = self.bytes.get(at..at + raw.len()) {
                raw.copy_from_slice(bytes);
            }
            if self.big { <$type>::from_be_bytes(raw) } else { <$type>::from_le_bytes(raw) }
        }
    };
}

impl Fields<'_> {
    number!(i16, i16);
    number!(i32, i32);
    number!(i64, i64);
    number!(f64, f64);

    fn text<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        if let Some(bytes) = self.bytes.get(at..at + N) {
            out.copy_from_slice(bytes);
        }
        out
    }
}

impl Header {
    /// Parses the first bytes of a file.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Header, NiftiError> {
        let not = |what: String| NiftiError::NotNifti { path: path.to_owned(), what };
        let damaged = |what: String| NiftiError::Damaged { path: path.to_owned(), what };
        if bytes.len() < 4 {
            return Err(damaged(format!("only {} bytes, too few for a header", bytes.len())));
        }
        let (little, big) = (Fields { bytes, big: false }, Fields { bytes, big: true });
        let (version, fields) = match (little.i32(0), big.i32(0)) {
            (348, _) => (1, little),
            (_, 348) => (1, big),
            (540, _) => (2, little),
            (_, 540) => (2, big),
            (other, _) => {
                return Err(not(format!("not a NIfTI file: sizeof_hdr is {other}, expected 348 or 540")));
            }
        };
        let length = if version == 1 { 348 } else { 540 };
        if bytes.len() < length {
            return Err(damaged(format!("the header ends after {} of {length} bytes", bytes.len())));
        }
        let magic = if version == 1 { &bytes[344..348] } else { &bytes[4..8] };
        let single_file = match magic {
            b"n+1\0" | b"n+2\0" => true,
            b"ni1\0" | b"ni2\0" => false,
            _ if version == 1 && magic == [0; 4] => {
                return Err(not("an Analyze 7.5 header, not NIfTI (no magic); convert the image to NIfTI".to_owned()));
            }
            _ => return Err(not(format!("not a NIfTI file: magic is {:?}", String::from_utf8_lossy(magic)))),
        };
        let (mut header, dim, offset) = match version {
            1 => Self::version1(&fields, path)?,
            _ => Self::version2(&fields),
        };
        header.version = version;
        header.big_endian = fields.big;
        header.single_file = single_file;
        header.read_dim(dim, path)?;
        header.settle(offset, path)?;
        Ok(header)
    }

    /// The header, the entries of `dim` and the offset of the values.
    fn version1(f: &Fields<'_>, path: &Path) -> Result<(Header, [i64; 8], f64), NiftiError> {
        let raw = nifti::NiftiHeader::from_reader(f.bytes)
            .map_err(|e| NiftiError::Damaged { path: path.to_owned(), what: e.to_string() })?;
        if raw.sizeof_hdr != 348 {
            // The crate takes the byte order from dim[0] alone: where that is out of range, it has
            // read the wrong one.
            let what = format!("{} axes, expected 1 to 7", f.i16(40));
            return Err(NiftiError::Field { path: path.to_owned(), field: "dim", what });
        }
        let mut descrip = [0; 80];
        descrip.iter_mut().zip(&raw.descrip).for_each(|(to, from)| *to = *from);
        let header = Header {
            datatype: raw.datatype,
            pixdim: raw.pixdim.map(f64::from),
            scl_slope: raw.scl_slope.into(),
            scl_inter: raw.scl_inter.into(),
            qform_code: raw.qform_code.into(),
            sform_code: raw.sform_code.into(),
            quatern: [raw.quatern_b, raw.quatern_c, raw.quatern_d].map(f64::from),
            qoffset: [raw.quatern_x, raw.quatern_y, raw.quatern_z].map(f64::from),
            srow: [raw.srow_x, raw.srow_y, raw.srow_z].map(|row| row.map(f64::from)),
            xyzt_units: raw.xyzt_units.into(),
            cal: [raw.cal_max, raw.cal_min].map(f64::from),
            descrip,
            aux_file: raw.aux_file,
            ..Header::default()
        };
        // The standard's dim is signed.
        Ok((header, raw.dim.map(|d| i64::from(d as i16)), raw.vox_offset.into()))
    }

    fn version2(f: &Fields<'_>) -> (Header, [i64; 8], f64) {
        let f64s = |at: usize, i: usize| f.f64(at + 8 * i);
        let header = Header {
            datatype: f.i16(12),
            pixdim: std::array::from_fn(|i| f64s(104, i)),
            scl_slope: f64s(176, 0),
            scl_inter: f64s(184, 0),
            qform_code: f.i32(344),
            sform_code: f.i32(348),
            quatern: std::array::from_fn(|i| f64s(352, i)),
            qoffset: std::array::from_fn(|i| f64s(376, i)),
            srow: std::array::from_fn(|r| std::array::from_fn(|c| f64s(400 + 32 * r, c))),
            xyzt_units: f.i32(500),
            cal: std::array::from_fn(|i| f64s(192, i)),
            descrip: f.text(240),
            aux_file: f.text(320),
            ..Header::default()
        };
        (header, std::array::from_fn(|i| f.i64(16 + 8 * i)), f.i64(168) as f64)
    }

    fn read_dim(&mut self, entries: [i64; 8], path: &Path) -> Result<(), NiftiError> {
        let wrong = |what: String| NiftiError::Field { path: path.to_owned(), field: "dim", what };
        let count = entries[0];
        if !(1..=7).contains(&count) {
            return Err(wrong(format!("{count} axes, expected 1 to 7")));
        }
        let mut dim = Vec::new();
        for (axis, length) in entries.into_iter().enumerate().skip(1).take(count as usize) {
            if length <= 0 {
                return Err(wrong(format!("axis {axis} has {length} voxels")));
            }
            dim.push(length as usize);
        }
        self.dim = dim;
        Ok(())
    }

    /// Checks type and offset, and repairs `pixdim` as nibabel does.
    fn settle(&mut self, offset: f64, path: &Path) -> Result<(), NiftiError> {
        let wrong = |field: &'static str, what: String| NiftiError::Field { path: path.to_owned(), field, what };
        if !DataType::is_known(self.datatype) {
            return Err(wrong("datatype", format!("{} is not a type code", self.datatype)));
        }
        if !(0.0..=1e15).contains(&offset) || offset.fract() != 0.0 {
            return Err(wrong("vox_offset", format!("{offset} is not an offset in a file")));
        }
        self.vox_offset = offset as u64;
        let least = if self.version == 1 { 352 } else { 544 };
        if self.single_file {
            if self.vox_offset == 0 {
                self.vox_offset = least;
            }
            // Some writers put the values directly after the 348 bytes of the header.
            if self.vox_offset < least - 4 {
                return Err(wrong(
                    "vox_offset",
                    format!("{} lies within the header of {least} bytes", self.vox_offset),
                ));
            }
        }
        for (axis, value) in self.pixdim.iter_mut().enumerate().skip(1).take(3) {
            // This includes NaN; axes that the image does not have may hold any value.
            if (value.is_nan() || *value <= 0.0) && axis <= self.dim.len() {
                self.repaired.push(axis);
            }
            if *value == 0.0 || value.is_nan() {
                *value = 1.0;
            }
            *value = value.abs();
        }
        if self.pixdim[0] != -1.0 {
            self.pixdim[0] = 1.0;
        }
        if self.scaling().is_some() && !self.scl_inter.is_finite() {
            return Err(wrong("scl_inter", format!("{} with a valid scl_slope", self.scl_inter)));
        }
        Ok(())
    }

    /// Slope and offset of the values; `None` where there is none.
    pub fn scaling(&self) -> Option<(f64, f64)> {
        (self.scl_slope != 0.0 && self.scl_slope.is_finite()).then_some((self.scl_slope, self.scl_inter))
    }

    /// Number of values; `None` where it overflows.
    pub(super) fn count(&self) -> Option<u64> {
        self.dim.iter().try_fold(1_u64, |n, d| n.checked_mul(*d as u64))
    }

    /// The bytes of this header, little endian, values in the same file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0_u8; if self.version == 1 { 352 } else { 544 }];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let size = self.datatype_bits();
        if self.version == 1 {
            put(0, &348_i32.to_le_bytes());
            put(38, b"r");
            put(40, &(self.dim.len() as i16).to_le_bytes());
            (1..8).for_each(|i| put(40 + 2 * i, &(self.dim.get(i - 1).map_or(1, |d| *d as i16)).to_le_bytes()));
            put(70, &self.datatype.to_le_bytes());
            put(72, &size.to_le_bytes());
            let mut f32s = |at: usize, values: &[f64]| {
                values.iter().enumerate().for_each(|(i, v)| put(at + 4 * i, &(*v as f32).to_le_bytes()));
            };
            f32s(76, &self.pixdim);
            f32s(108, &[352.0, self.scl_slope, self.scl_inter]);
            f32s(124, &self.cal);
            f32s(256, &self.quatern);
            f32s(268, &self.qoffset);
            f32s(280, self.srow.as_flattened());
            put(123, &[self.xyzt_units as u8]);
            put(148, &self.descrip);
            put(228, &self.aux_file);
            put(252, &(self.qform_code as i16).to_le_bytes());
            put(254, &(self.sform_code as i16).to_le_bytes());
            put(344, b"n+1\0");
        } else {
            put(0, &540_i32.to_le_bytes());
            put(4, b"n+2\0\r\n\x1a\n");
            put(12, &self.datatype.to_le_bytes());
            put(14, &size.to_le_bytes());
            put(16, &(self.dim.len() as i64).to_le_bytes());
            (1..8).for_each(|i| put(16 + 8 * i, &(self.dim.get(i - 1).map_or(1, |d| *d as i64)).to_le_bytes()));
            let mut f64s = |at: usize, values: &[f64]| {
                values.iter().enumerate().for_each(|(i, v)| put(at + 8 * i, &v.to_le_bytes()));
            };
            f64s(104, &self.pixdim);
            f64s(176, &[self.scl_slope, self.scl_inter]);
            f64s(192, &self.cal);
            f64s(352, &self.quatern);
            f64s(376, &self.qoffset);
            f64s(400, self.srow.as_flattened());
            put(168, &544_i64.to_le_bytes());
            put(240, &self.descrip);
            put(320, &self.aux_file);
            put(344, &self.qform_code.to_le_bytes());
            put(348, &self.sform_code.to_le_bytes());
            put(500, &self.xyzt_units.to_le_bytes());
        }
        out
    }

    fn datatype_bits(&self) -> i16 {
        DataType::from_code(self.datatype).map_or(0, |t| 8 * t.size() as i16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), version in 0..4) {
            if bytes.len() > 348 {
                let size: i32 = if version % 2 == 0 { 348 } else { 540 };
                bytes[..4].copy_from_slice(&if version < 2 { size.to_le_bytes() } else { size.to_be_bytes() });
                if size == 348 { bytes[344..348].copy_from_slice(b"n+1\0") } else { bytes[4..8].copy_from_slice(b"n+2\0") }
            }
            if let Ok(header) = Header::parse(&bytes, Path::new("x.nii")) {
                prop_assert!((1..=7).contains(&header.dim.len()));
                prop_assert!(header.vox_offset >= 348);
            }
        }
    }

    #[test]
    fn both_versions_come_back_from_bytes() {
        for version in [1, 2] {
            let header = Header {
                version,
                dim: vec![3, 4, 5],
                pixdim: [-1.0, 0.5, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0],
                vox_offset: if version == 1 { 352 } else { 544 },
                scl_slope: 2.0,
                scl_inter: -7.0,
                qform_code: 1,
                sform_code: 2,
                quatern: [0.5, 0.25, 0.125],
                qoffset: [1.0, 2.0, 3.0],
                srow: [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]],
                ..Header::default()
            };
            let back = Header::parse(&header.to_bytes(), Path::new("x.nii")).expect("a sound header");
            assert_eq!(back, header);
        }
    }
}

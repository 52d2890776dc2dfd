//! Converts a header to and from bytes: 348 (NIfTI-1, parsed by the crate `nifti`) or 540 (NIfTI-2,
//! which that crate does not support), in either byte order.

use std::path::Path;

use super::{DataType, Header, NiftiError, analyze};

/// The number of bytes needed to parse any header.
pub(super) const LONGEST: usize = 540;
/// The number of bytes of a header of NIfTI-1 or Analyze.
pub(super) const LENGTH_1: usize = 348;

pub(super) struct Fields<'a> {
    pub bytes: &'a [u8],
    pub big: bool,
}

macro_rules! number {
    ($name:ident, $type:ty) => {
        pub(super) fn $name(&self, at: usize) -> $type {
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
    number!(f32, f32);
    number!(f64, f64);

    fn text<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        if let Some(bytes) = self.bytes.get(at..at + N) {
            out.copy_from_slice(bytes);
        }
        out
    }
}

/// Whether the first bytes of a file are a NIfTI header.
pub(super) fn is_nifti(start: &[u8]) -> bool {
    matches!(start.get(344..348), Some(b"n+1\0" | b"ni1\0")) || matches!(start.get(4..8), Some(b"n+2\0" | b"ni2\0"))
}

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
    let length = if version == 1 { LENGTH_1 } else { LONGEST };
    if bytes.len() < length {
        return Err(damaged(format!("the header ends after {} of {length} bytes", bytes.len())));
    }
    let magic = if version == 1 { &bytes[344..348] } else { &bytes[4..8] };
    let single_file = match magic {
        b"n+1\0" | b"n+2\0" => true,
        b"ni1\0" | b"ni2\0" => false,
        _ if version == 1 && analyze::is_header(path, magic) => return of_analyze(&fields, path),
        _ if version == 1 && magic == [0; 4] => {
            let what = "not a NIfTI file: it has no magic; a header of Analyze 7.5 has a name that ends in .hdr, and an \
                        .img with the values next to it";
            return Err(not(what.to_owned()));
        }
        _ => return Err(not(format!("not a NIfTI file: magic is {:?}", String::from_utf8_lossy(magic)))),
    };
    let (mut header, dim, offset) = match version {
        1 => version1(&fields, path)?,
        _ => version2(&fields),
    };
    header.version = version;
    header.big_endian = fields.big;
    header.single_file = single_file;
    header.dim = lengths(dim, path)?;
    settle(&mut header, offset, path)?;
    Ok(header)
}

/// The header of an Analyze 7.5 pair. Its first axis runs from right to left, as nibabel and SPM assume;
/// its origin is the voxel that SPM stores, else the centre.
fn of_analyze(fields: &Fields<'_>, path: &Path) -> Result<Header, NiftiError> {
    let bytes = analyze::as_nifti(fields);
    let (mut header, dim, offset) = version1(&Fields { bytes: &bytes, big: fields.big }, path)?;
    header.big_endian = fields.big;
    header.single_file = false;
    header.analyze = true;
    header.xyzt_units = Header::default().xyzt_units;
    header.dim = lengths(dim, path)?;
    settle(&mut header, offset, path)?;
    if let Some(origin) = analyze::origin(fields, &header.dim) {
        header.srow = [[0.0; 4]; 3];
        for (axis, origin) in origin.into_iter().enumerate() {
            let size = if axis < header.dim.len() { header.pixdim[axis + 1] } else { 1.0 };
            let size = if axis == 0 { -size } else { size };
            (header.srow[axis][axis], header.srow[axis][3]) = (size, -origin * size);
        }
        // Aligned to something that the file does not name.
        header.sform_code = 2;
    }
    Ok(header)
}

/// The header, the entries of `dim`, and the offset of the values.
fn version1(f: &Fields<'_>, path: &Path) -> Result<(Header, [i64; 8], f64), NiftiError> {
    let raw = nifti::NiftiHeader::from_reader(f.bytes)
        .map_err(|e| NiftiError::Damaged { path: path.to_owned(), what: e.to_string() })?;
    if raw.sizeof_hdr != 348 {
        // The crate takes the byte order from dim[0] alone: an out-of-range value means that it
        // used the wrong order.
        let what = format!("{} axes, expected 1 to 7", f.i16(40));
        return Err(NiftiError::Field { path: path.to_owned(), field: "dim", what });
    }
    let mut descrip = [0; 80];
    descrip.iter_mut().zip(&raw.descrip).for_each(|(to, from)| *to = *from);
    let mut header = Header::default();
    header.datatype = raw.datatype;
    header.pixdim = raw.pixdim.map(f64::from);
    header.scl_slope = raw.scl_slope.into();
    header.scl_inter = raw.scl_inter.into();
    header.qform_code = raw.qform_code.into();
    header.sform_code = raw.sform_code.into();
    header.quatern = [raw.quatern_b, raw.quatern_c, raw.quatern_d].map(f64::from);
    header.qoffset = [raw.quatern_x, raw.quatern_y, raw.quatern_z].map(f64::from);
    header.srow = [raw.srow_x, raw.srow_y, raw.srow_z].map(|row| row.map(f64::from));
    header.xyzt_units = raw.xyzt_units.into();
    header.cal = [raw.cal_max, raw.cal_min].map(f64::from);
    header.descrip = descrip;
    header.aux_file = raw.aux_file;
    header.intent_code = raw.intent_code.into();
    header.intent_p = [raw.intent_p1, raw.intent_p2, raw.intent_p3].map(f64::from);
    header.intent_name = raw.intent_name;
    header.toffset = raw.toffset.into();
    header.dim_info = raw.dim_info;
    header.slices = [raw.slice_start.into(), raw.slice_end.into()];
    header.slice_code = raw.slice_code.into();
    header.slice_duration = raw.slice_duration.into();
    // The standard's dim is signed.
    Ok((header, raw.dim.map(|d| i64::from(d as i16)), raw.vox_offset.into()))
}

fn version2(f: &Fields<'_>) -> (Header, [i64; 8], f64) {
    let f64s = |at: usize, i: usize| f.f64(at + 8 * i);
    let mut header = Header::default();
    header.datatype = f.i16(12);
    header.pixdim = std::array::from_fn(|i| f64s(104, i));
    header.scl_slope = f64s(176, 0);
    header.scl_inter = f64s(184, 0);
    header.qform_code = f.i32(344);
    header.sform_code = f.i32(348);
    header.quatern = std::array::from_fn(|i| f64s(352, i));
    header.qoffset = std::array::from_fn(|i| f64s(376, i));
    header.srow = std::array::from_fn(|r| std::array::from_fn(|c| f64s(400 + 32 * r, c)));
    header.xyzt_units = f.i32(500);
    header.cal = std::array::from_fn(|i| f64s(192, i));
    header.descrip = f.text(240);
    header.aux_file = f.text(320);
    header.intent_code = f.i32(504);
    header.intent_p = std::array::from_fn(|i| f64s(80, i));
    header.intent_name = f.text(508);
    header.toffset = f64s(216, 0);
    header.dim_info = f.bytes.get(524).copied().unwrap_or(0);
    header.slices = [f.i64(224), f.i64(232)];
    header.slice_code = f.i32(496);
    header.slice_duration = f64s(208, 0);
    (header, std::array::from_fn(|i| f.i64(16 + 8 * i)), f.i64(168) as f64)
}

/// The lengths of the axes.
fn lengths(entries: [i64; 8], path: &Path) -> Result<Vec<usize>, NiftiError> {
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
    Ok(dim)
}

/// Checks type and offset, and repairs `pixdim` as nibabel does.
fn settle(header: &mut Header, offset: f64, path: &Path) -> Result<(), NiftiError> {
    let wrong = |field: &'static str, what: String| NiftiError::Field { path: path.to_owned(), field, what };
    if !DataType::is_known(header.datatype) {
        return Err(wrong("datatype", format!("{} is not a type code", header.datatype)));
    }
    if !(0.0..=1e15).contains(&offset) || offset.fract() != 0.0 {
        return Err(wrong("vox_offset", format!("{offset} is not an offset in a file")));
    }
    header.vox_offset = offset as u64;
    let least = if header.version == 1 { 352 } else { 544 };
    if header.single_file {
        if header.vox_offset == 0 {
            header.vox_offset = least;
        }
        // Some writers put the values directly after the 348 bytes of the header.
        if header.vox_offset < least - 4 {
            return Err(wrong("vox_offset", format!("{} lies within the header of {least} bytes", header.vox_offset)));
        }
    }
    for (axis, value) in header.pixdim.iter_mut().enumerate().skip(1).take(3) {
        // This includes NaN; unused axes may hold any value.
        if (value.is_nan() || *value <= 0.0) && axis <= header.dim.len() {
            header.repaired.push(axis);
        }
        if *value == 0.0 || value.is_nan() {
            *value = 1.0;
        }
        *value = value.abs();
    }
    if header.pixdim[0] != -1.0 {
        header.pixdim[0] = 1.0;
    }
    if header.scaling().is_some() && !header.scl_inter.is_finite() {
        return Err(wrong("scl_inter", format!("{} with a valid scl_slope", header.scl_inter)));
    }
    Ok(())
}

/// Encodes this header, little endian, for a file that includes the values.
pub(super) fn to_bytes(header: &Header) -> Vec<u8> {
    let mut out = vec![0_u8; if header.version == 1 { 352 } else { 544 }];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    let size = datatype_bits(header);
    if header.version == 1 {
        put(0, &348_i32.to_le_bytes());
        put(38, b"r");
        put(40, &(header.dim.len() as i16).to_le_bytes());
        (1..8).for_each(|i| put(40 + 2 * i, &(header.dim.get(i - 1).map_or(1, |d| *d as i16)).to_le_bytes()));
        put(70, &header.datatype.to_le_bytes());
        put(72, &size.to_le_bytes());
        let mut f32s = |at: usize, values: &[f64]| {
            values.iter().enumerate().for_each(|(i, v)| put(at + 4 * i, &(*v as f32).to_le_bytes()));
        };
        f32s(76, &header.pixdim);
        f32s(108, &[352.0, header.scl_slope, header.scl_inter]);
        f32s(56, &header.intent_p);
        f32s(124, &header.cal);
        f32s(132, &[header.slice_duration, header.toffset]);
        f32s(256, &header.quatern);
        f32s(268, &header.qoffset);
        f32s(280, header.srow.as_flattened());
        put(39, &[header.dim_info]);
        put(68, &(header.intent_code as i16).to_le_bytes());
        put(74, &(header.slices[0] as i16).to_le_bytes());
        put(120, &(header.slices[1] as i16).to_le_bytes());
        put(122, &[header.slice_code as u8]);
        put(328, &header.intent_name);
        put(123, &[header.xyzt_units as u8]);
        put(148, &header.descrip);
        put(228, &header.aux_file);
        put(252, &(header.qform_code as i16).to_le_bytes());
        put(254, &(header.sform_code as i16).to_le_bytes());
        put(344, b"n+1\0");
    } else {
        put(0, &540_i32.to_le_bytes());
        put(4, b"n+2\0\r\n\x1a\n");
        put(12, &header.datatype.to_le_bytes());
        put(14, &size.to_le_bytes());
        put(16, &(header.dim.len() as i64).to_le_bytes());
        (1..8).for_each(|i| put(16 + 8 * i, &(header.dim.get(i - 1).map_or(1, |d| *d as i64)).to_le_bytes()));
        let mut f64s = |at: usize, values: &[f64]| {
            values.iter().enumerate().for_each(|(i, v)| put(at + 8 * i, &v.to_le_bytes()));
        };
        f64s(104, &header.pixdim);
        f64s(176, &[header.scl_slope, header.scl_inter]);
        f64s(80, &header.intent_p);
        f64s(192, &header.cal);
        f64s(208, &[header.slice_duration, header.toffset]);
        f64s(352, &header.quatern);
        f64s(376, &header.qoffset);
        f64s(400, header.srow.as_flattened());
        put(168, &544_i64.to_le_bytes());
        put(224, &header.slices[0].to_le_bytes());
        put(232, &header.slices[1].to_le_bytes());
        put(496, &header.slice_code.to_le_bytes());
        put(504, &header.intent_code.to_le_bytes());
        put(508, &header.intent_name);
        put(524, &[header.dim_info]);
        put(240, &header.descrip);
        put(320, &header.aux_file);
        put(344, &header.qform_code.to_le_bytes());
        put(348, &header.sform_code.to_le_bytes());
        put(500, &header.xyzt_units.to_le_bytes());
    }
    out
}

fn datatype_bits(header: &Header) -> i16 {
    DataType::from_code(header.datatype).map_or(0, |t| 8 * t.size() as i16)
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
            if let Ok(header) = parse(&bytes, Path::new("x.nii")) {
                prop_assert!((1..=7).contains(&header.dim.len()));
                prop_assert!(header.vox_offset >= 348);
            }
        }
    }

    #[test]
    fn both_versions_come_back_from_bytes() {
        for version in [1, 2] {
            let mut header = Header::default();
            header.version = version;
            header.dim = vec![3, 4, 5];
            header.pixdim = [-1.0, 0.5, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0];
            header.vox_offset = if version == 1 { 352 } else { 544 };
            header.scl_slope = 2.0;
            header.scl_inter = -7.0;
            header.qform_code = 1;
            header.sform_code = 2;
            header.quatern = [0.5, 0.25, 0.125];
            header.qoffset = [1.0, 2.0, 3.0];
            header.srow = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]];
            (header.intent_code, header.intent_p, header.intent_name) = (1002, [1.0, 2.0, 3.0], *b"labels of organs");
            (header.cal, header.aux_file, header.toffset) = ([240.0, -160.0], [b'a'; 24], 2.5);
            (header.dim_info, header.slices, header.slice_code, header.slice_duration) = (57, [1, 4], 3, 0.5);
            let back = parse(&to_bytes(&header), Path::new("x.nii")).expect("a sound header");
            assert_eq!(back, header);
        }
    }
}

//! Analyze 7.5, from which NIfTI descends: its header as one of NIfTI, by the rules of SPM2.

use std::path::Path;

use super::header_bytes::{Fields, LENGTH_1};

/// Places of fields that mean something else in NIfTI: `hkey_un0`, units and unused fields, `dim_un0`,
/// `funused3`, `compressed` and `verified`, and all from `orient` on.
const OTHERS: [std::ops::Range<usize>; 5] = [39..40, 56..70, 74..76, 120..124, 132..140];
const HISTORY: std::ops::Range<usize> = 252..344;
const MAGIC: usize = 344;

/// Whether a header without NIfTI's magic is one of Analyze: that of a pair of files.
pub(super) fn is_header(path: &Path, magic: &[u8]) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    magic == [0; 4] && (name.ends_with(".hdr") || name.ends_with(".hdr.gz"))
}

/// The header as that of a NIfTI pair without affine, and with the scaling of SPM2.
pub(super) fn as_nifti(fields: &Fields<'_>) -> Vec<u8> {
    let mut bytes = fields.bytes[..LENGTH_1].to_vec();
    OTHERS.into_iter().chain([HISTORY]).for_each(|range| bytes[range].fill(0));
    bytes[MAGIC..].copy_from_slice(b"ni1\0");
    let (slope, inter) = scaling(fields).unwrap_or((0.0, 0.0));
    for (at, value) in [(112, slope), (116, inter)] {
        let value = value as f32;
        bytes[at..at + 4].copy_from_slice(&if fields.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }
    bytes
}

/// Slope and offset: in `funused1` and `funused2`, else from the ranges of stored and of calibrated values.
fn scaling(fields: &Fields<'_>) -> Option<(f64, f64)> {
    let float = |at: usize| f64::from(fields.f32(at));
    let (slope, inter) = (float(112), float(116));
    if slope.is_finite() && slope != 0.0 {
        return Some((slope, if inter.is_finite() { inter } else { 0.0 }));
    }
    let [max, min] = [140, 144].map(|at| f64::from(fields.i32(at)));
    let [high, low] = [124, 128].map(float);
    let known = max != min && high != low && (high - low).is_finite();
    known.then(|| (high - low) / (max - min)).map(|slope| (slope, low - slope * min))
}

/// The voxel at the origin, from 0, if the header has a sensible one.
pub(super) fn origin(fields: &Fields<'_>, dim: &[usize]) -> Option<[f64; 3]> {
    let origin: [i64; 3] = std::array::from_fn(|axis| i64::from(fields.i16(253 + 2 * axis)));
    let sensible = |axis: usize| {
        let length = dim.get(axis).copied().unwrap_or(1) as i64;
        origin[axis] > -length && origin[axis] < 2 * length
    };
    (origin != [0; 3] && (0..3).all(sensible)).then(|| origin.map(|place| place as f64 - 1.0))
}

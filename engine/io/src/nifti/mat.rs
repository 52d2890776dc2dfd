//! The affine that SPM stores in a `.mat` file next to an Analyze image: MATLAB's formats 4 and 5.

use std::io::Read;
use std::path::{Path, PathBuf};

use hearth_image::{Affine, affine};

/// The largest file, and the most that its variables unpack to, in bytes: affines of 100,000 frames.
const MOST: u64 = 16 << 20;

/// The file of an Analyze header's affine, if there is one.
pub(super) fn path_of(header: &Path) -> Option<PathBuf> {
    let name = header.to_string_lossy();
    let stem = [".hdr.gz", ".hdr", ".img.gz", ".img"].iter().find_map(|end| name.strip_suffix(end))?;
    Some(PathBuf::from(format!("{stem}.mat"))).filter(|path| path.is_file())
}

/// The affine in RAS, as by SPM2 and nibabel: the variable `mat`, else `M`, whose first axis runs from right to
/// left. The first of several frames decides. SPM's first voxel is 1.
pub(super) fn affine_of(path: &Path) -> Result<Affine, String> {
    let mut bytes = Vec::new();
    let file = hearth_files::open(path).map_err(|error| error.to_string())?;
    file.take(MOST).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let variables = variables(&bytes)?;
    let named = |name: &str| variables.iter().find(|variable| variable.name == name);
    let (variable, flip) = match (named("mat"), named("M")) {
        (Some(variable), _) => (variable, 1.0),
        (None, Some(variable)) => (variable, -1.0),
        (None, None) => return Err("it has neither mat nor M".to_owned()),
    };
    let [4, 4, ref frames @ ..] = variable.sizes[..] else {
        return Err(format!("{} has the size {:?}; expected 4 x 4", variable.name, variable.sizes));
    };
    let first = variable.values.get(..16).ok_or_else(|| format!("{} has less than 16 numbers", variable.name))?;
    if frames.iter().any(|count| *count > 1) && variable.values.chunks(16).any(|other| other != first) {
        tracing::warn!("{}: frames have different affines; that of the first is used", path.display());
    }
    let mut out: Affine = std::array::from_fn(|row| std::array::from_fn(|column| first[4 * column + row]));
    out[0] = out[0].map(|value| flip * value);
    for row in &mut out[..3] {
        row[3] += row[0] + row[1] + row[2];
    }
    let is_affine = out.as_flattened().iter().all(|value| value.is_finite()) && out[3] == affine::IDENTITY[3];
    if !is_affine || affine::inverse(&out).is_none() {
        return Err(format!("{} is no affine: {first:?}", variable.name));
    }
    Ok(out)
}

/// The variables that hold affines. No other one takes memory: a byte of it would become eight.
const AFFINES: [&[u8]; 2] = [b"mat", b"M"];

/// An array of real numbers, the first axis fastest.
struct Variable {
    name: String,
    sizes: Vec<usize>,
    values: Vec<f64>,
}

fn variables(bytes: &[u8]) -> Result<Vec<Variable>, String> {
    match bytes.get(124..128) {
        Some([0, 1, b'I', b'M']) => elements(&bytes[128..], false),
        Some([1, 0, b'M', b'I']) => elements(&bytes[128..], true),
        Some([_, 2, b'I', b'M']) => Err("it is of MATLAB 7.3 (HDF5); save it with -v6".to_owned()),
        _ => version_4(bytes),
    }
    .map_err(|what| format!("no variables of MATLAB 4 or 5: {what}"))
}

/// Bytes that are left.
struct Left<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> Left<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let taken = self.bytes.split_at_checked(count);
        let (taken, rest) = taken.ok_or_else(|| format!("it ends {} bytes early", count - self.bytes.len()))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, String> {
        let big = self.big;
        self.take(4).map(|bytes| number(bytes, big, [u32::from_le_bytes, u32::from_be_bytes]))
    }

    /// The type and the bytes of an element of format 5. Those of a short one are within its tag.
    fn element(&mut self) -> Result<(u32, &'a [u8]), String> {
        let tag = self.word()?;
        if tag >> 16 != 0 {
            let bytes = self.take(4)?;
            return Ok((tag & 0xffff, &bytes[..4.min((tag >> 16) as usize)]));
        }
        let size = self.word()? as usize;
        let bytes = self.take(size)?;
        // Elements start at multiples of 8, unless they are packed.
        if tag != PACKED {
            self.take((size.next_multiple_of(8) - size).min(self.bytes.len()))?;
        }
        Ok((tag, bytes))
    }
}

/// Types of elements in format 5.
const MATRIX: u32 = 14;
const PACKED: u32 = 15;

fn number<const N: usize, T>(bytes: &[u8], big: bool, [little_endian, big_endian]: [fn([u8; N]) -> T; 2]) -> T {
    let bytes = std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0));
    if big { big_endian(bytes) } else { little_endian(bytes) }
}

/// The numbers of an element of format 5.
fn numbers(kind: u32, bytes: &[u8], big: bool) -> Option<Vec<f64>> {
    fn all<const N: usize, T: Into<f64>>(bytes: &[u8], big: bool, of: [fn([u8; N]) -> T; 2]) -> Vec<f64> {
        bytes.chunks_exact(N).map(|bytes| number(bytes, big, of).into()).collect()
    }
    Some(match kind {
        1 => bytes.iter().map(|byte| f64::from(*byte as i8)).collect(),
        2 => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        3 => all(bytes, big, [i16::from_le_bytes, i16::from_be_bytes]),
        4 => all(bytes, big, [u16::from_le_bytes, u16::from_be_bytes]),
        5 => all(bytes, big, [i32::from_le_bytes, i32::from_be_bytes]),
        6 => all(bytes, big, [u32::from_le_bytes, u32::from_be_bytes]),
        7 => all(bytes, big, [f32::from_le_bytes, f32::from_be_bytes]),
        9 => all(bytes, big, [f64::from_le_bytes, f64::from_be_bytes]),
        _ => return None,
    })
}

/// The variables of format 5 that hold affines; those that are no arrays of real numbers are skipped.
fn elements(bytes: &[u8], big: bool) -> Result<Vec<Variable>, String> {
    let mut left = Left { bytes, big };
    let (mut found, mut room) = (Vec::new(), MOST);
    while !left.bytes.is_empty() {
        let (kind, bytes) = left.element()?;
        let mut unpacked = Vec::new();
        let bytes = if kind == PACKED {
            let unpack = flate2::read::ZlibDecoder::new(bytes).take(room).read_to_end(&mut unpacked);
            room -= unpack.map_err(|error| error.to_string())? as u64;
            let (_, bytes) = Left { bytes: &unpacked, big }.element()?;
            bytes
        } else if kind == MATRIX {
            bytes
        } else {
            continue;
        };
        let mut parts = Left { bytes, big };
        let (_, flags) = parts.element()?;
        let (kind, sizes) = parts.element()?;
        let sizes = numbers(kind, sizes, big).unwrap_or_default();
        let (_, name) = parts.element()?;
        let flags = number(flags, big, [u32::from_le_bytes, u32::from_be_bytes]);
        // Doubles, singles and integers; not complex.
        if AFFINES.contains(&name) && (6..=15).contains(&(flags & 0xff)) && flags & 0x800 == 0 {
            let (kind, values) = parts.element()?;
            if let Some(values) = numbers(kind, values, big) {
                let name = String::from_utf8_lossy(name).into_owned();
                found.push(Variable { name, sizes: sizes.iter().map(|size| *size as usize).collect(), values });
            }
        }
    }
    Ok(found)
}

/// The variables of format 4 that hold affines, up to the first that is no array of real numbers.
fn version_4(bytes: &[u8]) -> Result<Vec<Variable>, String> {
    let mut found = Vec::new();
    let mut left = Left { bytes, big: false };
    while !left.bytes.is_empty() {
        let kind = left.word()?;
        // Thousands: the byte order; tens: the type of the numbers; ones: a full matrix.
        left.big = kind > 9999;
        let kind = if left.big { kind.swap_bytes() } else { kind };
        let (type_of, size) = match kind % 1000 {
            0 => (9, 8),
            10 => (7, 4),
            20 => (5, 4),
            30 => (3, 2),
            40 => (4, 2),
            50 => (2, 1),
            other => return Err(format!("the kind {other} of a variable")),
        };
        let [rows, columns, complex, name] = [left.word()?, left.word()?, left.word()?, left.word()?];
        let name = left.take(name as usize)?;
        let count = (rows as usize).checked_mul(columns as usize).and_then(|count| count.checked_mul(size));
        let values = left.take(count.unwrap_or(usize::MAX))?;
        if complex != 0 {
            return Err("a variable of complex numbers".to_owned());
        }
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        if AFFINES.contains(&name.as_bytes()) {
            let values = numbers(type_of, values, left.big).unwrap_or_default();
            found.push(Variable { name, sizes: vec![rows as usize, columns as usize], values });
        }
        left.big = false;
    }
    Ok(found)
}

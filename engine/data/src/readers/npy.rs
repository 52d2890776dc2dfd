use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::panic::catch_unwind;
use std::path::Path;

use npyz::{NpyFile, NpyHeader, Order, TypeChar};

use super::{Probe, ReadError, ReadOptions, Reader};
use crate::{Image, Meta, affine, host_device};

/// The most values of an array.
const MAX_VALUES: u64 = 8 << 30;

/// The most bytes of a header, as in NumPy; those of numbers have about a hundred.
const MAX_HEADER: usize = 10_000;

/// NPY and NPZ arrays of two to four axes, with an identity affine.
///
/// Two axes are a 2-D image, three a volume. Of four the last holds the channels, as in NIfTI; for
/// any other order use `EnsureChannelFirst` with `channel_dim` on an array of up to three axes.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct NumpyReader;

impl Reader for NumpyReader {
    fn name(&self) -> &'static str {
        "NumpyReader"
    }

    fn precedence(&self) -> u32 {
        1
    }

    fn suffixes(&self) -> &[&str] {
        &[".npy", ".npz"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        probe.start.starts_with(b"\x93NUMPY")
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        let error = |e: std::io::Error| ReadError::new(path, e);
        let mut file = BufReader::new(File::open(path).map_err(error)?);
        let mut magic = [0; 2];
        file.read_exact(&mut magic).map_err(error)?;
        file.rewind().map_err(error)?;
        let array = if &magic == b"PK" {
            from_npz(file, options.npz_key.as_deref())
        } else {
            let length = file.get_ref().metadata().map_err(error)?.len();
            Array::read(file, length)
        };
        array.map_err(|what| ReadError::new(path, what))?.image(path)
    }
}

hearth_registry::entry!(dyn Reader => NumpyReader, example: "", build: |_| Ok(Box::new(NumpyReader)));

fn from_npz(file: BufReader<File>, key: Option<&str>) -> Result<Array, String> {
    let mut archive = npyz::zip::ZipArchive::new(file).map_err(|e| format!("not an NPZ file: {e}"))?;
    let names: Vec<String> = archive.file_names().filter(|n| n.ends_with(".npy")).map(str::to_owned).collect();
    let first = || names.iter().min().cloned();
    let name = key.map(|k| format!("{k}.npy")).or_else(first).ok_or("an archive without arrays")?;
    let entry = archive.by_name(&name).map_err(|_| {
        let names: Vec<&str> = names.iter().map(|n| n.trim_end_matches(".npy")).collect();
        format!("no array `{}`; there are {names:?}", name.trim_end_matches(".npy"))
    })?;
    let length = entry.size();
    Array::read(entry, length)
}

struct Array {
    shape: Vec<usize>,
    fortran: bool,
    values: Vec<f32>,
    dtype: String,
}

impl Array {
    /// `length`: the most bytes available, including the header.
    fn read(mut source: impl Read, length: u64) -> Result<Array, String> {
        let header = header(&mut source)?;
        let file = NpyFile::with_header(header, source);
        let shape: Vec<u64> = file.shape().to_vec();
        let count = shape.iter().try_fold(1_u64, |n, d| n.checked_mul(*d)).filter(|n| *n <= MAX_VALUES);
        let count =
            count.ok_or_else(|| format!("an array of shape {shape:?} is over the limit of {MAX_VALUES} values"))?;
        if count == 0 {
            // The other axes may then have any length, which would make a loop over them unbounded.
            return Err(format!("an array of shape {shape:?} has no values"));
        }
        let fortran = file.order() == Order::Fortran;
        let npyz::DType::Plain(dtype) = file.dtype() else {
            return Err("an array of records; expected one number per element".to_owned());
        };
        let size = dtype.size_field();
        if count.checked_mul(size).is_none_or(|bytes| bytes > length) {
            return Err(format!("the header promises {shape:?} values of {size} bytes, the file has {length} bytes"));
        }
        let values = match (dtype.type_char(), size) {
            (TypeChar::Bool, 1) => convert::<bool>(file, |v| f32::from(u8::from(v))),
            (TypeChar::Uint, 1) => convert::<u8>(file, f32::from),
            (TypeChar::Uint, 2) => convert::<u16>(file, f32::from),
            (TypeChar::Uint, 4) => convert::<u32>(file, |v| v as f32),
            (TypeChar::Uint, 8) => convert::<u64>(file, |v| v as f32),
            (TypeChar::Int, 1) => convert::<i8>(file, f32::from),
            (TypeChar::Int, 2) => convert::<i16>(file, f32::from),
            (TypeChar::Int, 4) => convert::<i32>(file, |v| v as f32),
            (TypeChar::Int, 8) => convert::<i64>(file, |v| v as f32),
            (TypeChar::Float, 2) => convert::<half::f16>(file, f32::from),
            (TypeChar::Float, 4) => convert::<f32>(file, |v| v),
            (TypeChar::Float, 8) => convert::<f64>(file, |v| v as f32),
            _ => return Err(format!("elements of type {dtype}; expected whole or real numbers")),
        }
        .map_err(|e| format!("the array can't be read: {e}"))?;
        if values.len() as u64 != count {
            return Err(format!("the array ends after {} of {count} values", values.len()));
        }
        let shape = shape.iter().map(|d| *d as usize).collect();
        Ok(Array { shape, fortran, values, dtype: dtype.to_string() })
    }

    fn image(self, path: &Path) -> Result<Image, ReadError> {
        let Array { shape, fortran, values, dtype } = self;
        let [x, y, z, c] = match shape[..] {
            [x, y] => [x, y, 1, 1],
            [x, y, z] => [x, y, z, 1],
            [x, y, z, c] => [x, y, z, c],
            _ => return Err(ReadError::new(path, format!("an array of shape {shape:?}; expected 2 to 4 axes"))),
        };
        // From (x, y, z, c) in either order to (c, x, y, z) with z fastest.
        let step = if fortran { [1, x, x * y, x * y * z] } else { [y * z * c, z * c, c, 1] };
        let values = if c == 1 && !fortran {
            values
        } else {
            let mut out = Vec::with_capacity(values.len());
            for (l, i, j) in (0..c).flat_map(|l| (0..x).flat_map(move |i| (0..y).map(move |j| (l, i, j)))) {
                let start = l * step[3] + i * step[0] + j * step[1];
                out.extend((0..z).map(|k| values[start + k * step[2]]));
            }
            out
        };
        let mut image = Image::from_values(values, [c, x, y, z], affine::IDENTITY, &host_device());
        image.meta = Meta {
            path: Some(path.to_owned()),
            spatial_dims: if shape.len() == 2 { 2 } else { 3 },
            stored_type: dtype,
            original_channel_dim: (shape.len() == 4).then_some(-1),
            original_shape: shape,
            ..Meta::default()
        };
        Ok(image)
    }
}

/// The header of an array of numbers. It is checked before npyz parses it, because npyz allocates
/// memory for the stated length, and takes exponential time for nested brackets.
fn header(source: &mut impl Read) -> Result<NpyHeader, String> {
    let not = |what: &str| format!("not an NPY file: {what}");
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>, count: usize| {
        source.take(count as u64).read_to_end(bytes).map(drop).map_err(|e| not(&e.to_string()))
    };
    more(&mut bytes, 8)?;
    let Some(version) = bytes.strip_prefix(b"\x93NUMPY").and_then(<[u8]>::first) else {
        return Err(not("it begins with other bytes"));
    };
    // Version 1 has two bytes for the length, those after it four.
    let size = if *version == 1 { 2 } else { 4 };
    more(&mut bytes, size)?;
    if bytes.len() < 8 + size {
        return Err(not("it ends within its header"));
    }
    let length = bytes[8..].iter().rev().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    if length > MAX_HEADER {
        return Err(format!("a header of {length} bytes; the limit is {MAX_HEADER}"));
    }
    more(&mut bytes, length)?;
    // One pair around all, one around the shape.
    if bytes[8 + size..].iter().filter(|byte| b"([{".contains(byte)).count() > 2 {
        return Err("an array of records, or a damaged header; expected one number per element".to_owned());
    }
    // It multiplies the lengths of axes, which panics on overflow in checked builds.
    let parsed = catch_unwind(|| NpyHeader::from_reader(&bytes[..]));
    let parsed = parsed.map_err(|_| "an array that is over any limit".to_owned())?;
    parsed.map_err(|e| not(&e.to_string()))
}

fn convert<T: npyz::Deserialize>(file: NpyFile<impl Read>, to: impl Fn(T) -> f32) -> std::io::Result<Vec<f32>> {
    file.data::<T>().map_err(|e| std::io::Error::other(e.to_string()))?.map(|v| v.map(&to)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(version: u8, dict: &str) -> String {
        let mut bytes = [b"\x93NUMPY".as_slice(), &[version, 0]].concat();
        let length = (dict.len() as u32).to_le_bytes();
        bytes.extend(&length[..if version == 1 { 2 } else { 4 }]);
        bytes.extend(dict.bytes());
        let length = bytes.len() as u64;
        Array::read(&bytes[..], length).err().expect("no image")
    }

    fn of_shape(shape: &str) -> String {
        error(1, &format!("{{'descr': '<f4', 'fortran_order': True, 'shape': ({shape}), }}\n"))
    }

    #[test]
    fn an_array_without_values_is_an_error_however_long_its_axes_are() {
        assert!(of_shape("0, 1099511627776, 1099511627776, 2").contains("no values"));
        assert!(of_shape("1099511627776, 1099511627776, 0, 2").contains("limit"));
    }

    #[test]
    fn the_header_is_checked_before_it_is_parsed() {
        // Both would never end, or exhaust memory.
        assert!(error(1, &"{".repeat(100)).contains("damaged header"));
        assert!(error(2, &"(".repeat(9_999)).contains("damaged header"));
        assert!(error(2, &" ".repeat(10_001)).contains("the limit is 10000"));
        assert!(error(1, "[('a', '<f4'), ('b', '<i2')]").contains("records"));
        let huge = [b"\x93NUMPY\x03\x00".as_slice(), &[0xff; 4]].concat();
        assert!(Array::read(&huge[..], 12).err().expect("no image").contains("4294967295"));
        for end in 0..12 {
            assert!(Array::read(&huge[..end], end as u64).is_err(), "{end}");
        }
    }
}

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use hearth_files::{NpyKind, NpyType, npy_header};
use hearth_image::{Image, affine, host_device};
use rayon::prelude::*;
use zip::ZipArchive;

use super::{Probe, ReadError, ReadOptions, Reader, check_room};
use crate::nifti::{DataType, voxels};

/// The maximum number of values of an array.
const MAX_VALUES: u64 = 8 << 30;

/// Reads NPY and NPZ arrays of two to four axes, with an identity affine.
///
/// Two axes are a 2-D image, three a volume. The last of four axes holds the channels, as in NIfTI;
/// for any other order use `EnsureChannelFirst` with `channel_dim` on an array of up to three axes.
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
        open(path, options.npz_key.as_deref())?.image(path)
    }
}

hearth_registry::entry!(dyn Reader => NumpyReader, example: "", build: |_| Ok(Box::new(NumpyReader)));

/// Reads shape and values of an NPY file with any number of axes, or of the first array of an NPZ
/// file; the last axis is the fastest.
///
/// # Errors
/// If the file is neither, is damaged, holds values that are not numbers, or is larger than the
/// memory that this process may use.
pub fn read_array(path: &Path) -> Result<(Vec<usize>, Vec<f32>), ReadError> {
    open(path, None)?.values().map_err(|what| ReadError::new(path, what))
}

/// Reads the array with this name in an NPZ file, like [`read_array`].
pub(super) fn read_named(path: &Path, name: &str) -> Result<(Vec<usize>, Vec<f32>), ReadError> {
    open(path, Some(name))?.values().map_err(|what| ReadError::new(path, what))
}

/// Reads the shape of the array with this name in an NPZ file, without its values.
///
/// # Errors
/// If the file is not an NPZ file, is damaged, or has no such array.
pub(super) fn array_shape(path: &Path, name: &str) -> Result<Vec<usize>, ReadError> {
    let file = BufReader::new(hearth_files::open(path).map_err(|e| ReadError::new(path, e))?);
    let shape = || -> Result<Vec<usize>, String> {
        let mut archive = ZipArchive::new(file).map_err(|e| format!("not an NPZ file: {e}"))?;
        let mut entry = archive.by_name(&format!("{name}.npy")).map_err(|_| format!("no array `{name}`"))?;
        Ok(npy_header(&mut entry)?.shape.iter().map(|length| *length as usize).collect())
    };
    shape().map_err(|what| ReadError::new(path, what))
}

/// An array of a file, checked.
fn open(path: &Path, key: Option<&str>) -> Result<Array, ReadError> {
    let error = |e: std::io::Error| ReadError::new(path, e);
    let mut file = BufReader::new(hearth_files::open(path).map_err(error)?);
    let mut magic = [0; 2];
    file.read_exact(&mut magic).map_err(error)?;
    file.rewind().map_err(error)?;
    let array = if &magic == b"PK" {
        from_npz(file, key)
    } else {
        let length = file.get_ref().metadata().map_err(error)?.len();
        Array::read(file, length)
    };
    array.map_err(|what| ReadError::new(path, what))
}

fn from_npz(file: BufReader<File>, key: Option<&str>) -> Result<Array, String> {
    let mut archive = ZipArchive::new(file).map_err(|e| format!("not an NPZ file: {e}"))?;
    let names: Vec<String> = archive.file_names().filter(|n| n.ends_with(".npy")).map(str::to_owned).collect();
    let first = || names.iter().min().cloned();
    let name = key.map(|k| format!("{k}.npy")).or_else(first).ok_or("the archive has no arrays")?;
    let entry = archive.by_name(&name).map_err(|_| {
        let names: Vec<&str> = names.iter().map(|n| n.trim_end_matches(".npy")).collect();
        format!("no array `{}`; there are {names:?}", name.trim_end_matches(".npy"))
    })?;
    // Deflate compresses at most 1032 to 1: an archive that states more is invalid.
    let length = entry.size().min(entry.compressed_size().saturating_mul(1032).max(1024));
    Array::read(entry, length)
}

/// How a number is stored.
#[derive(Clone, Copy)]
enum Element {
    /// A number type of NIfTI.
    Number(DataType),
    /// A boolean byte, 0 or not.
    Flag,
    Half,
}

impl Element {
    fn of(NpyType { kind, size, .. }: NpyType) -> Option<Self> {
        Some(Element::Number(match (kind, size) {
            (NpyKind::Bool, 1) => return Some(Element::Flag),
            (NpyKind::Float, 2) => return Some(Element::Half),
            (NpyKind::Uint, 1) => DataType::U8,
            (NpyKind::Uint, 2) => DataType::U16,
            (NpyKind::Uint, 4) => DataType::U32,
            (NpyKind::Uint, 8) => DataType::U64,
            (NpyKind::Int, 1) => DataType::I8,
            (NpyKind::Int, 2) => DataType::I16,
            (NpyKind::Int, 4) => DataType::I32,
            (NpyKind::Int, 8) => DataType::I64,
            (NpyKind::Float, 4) => DataType::F32,
            (NpyKind::Float, 8) => DataType::F64,
            _ => return None,
        }))
    }

    /// Values in the order of the file.
    fn in_order(self, bytes: &[u8], big: bool) -> Result<Vec<f32>, String> {
        Ok(match self {
            Element::Number(data_type) => voxels::in_order(bytes, data_type, big, None)?,
            Element::Flag => bytes.par_iter().map(|byte| f32::from(u8::from(*byte != 0))).collect(),
            Element::Half => {
                let read = |raw: &[u8; 2]| {
                    let bits = if big { u16::from_be_bytes(*raw) } else { u16::from_le_bytes(*raw) };
                    f32::from(half::f16::from_bits(bits))
                };
                bytes.as_chunks::<2>().0.par_iter().map(read).collect()
            }
        })
    }
}

/// Parses the type of an array's numbers, by NumPy's name (`<f4`), for arrays in other formats.
pub(super) struct Numbers {
    stored: Element,
    big: bool,
}

impl Numbers {
    /// `size` is the number of bytes of a value that the file states next to the name.
    pub fn named(name: &str, size: usize) -> Result<Self, String> {
        let known = NpyType::parse(name).filter(|known| known.size == size as u64);
        let known = known.and_then(|known| Some(Numbers { stored: Element::of(known)?, big: known.big_endian }));
        known.ok_or_else(|| format!("elements of type {name:?} in {size} bytes; expected whole or real numbers"))
    }

    /// Converts bytes to values, in their order.
    ///
    /// # Errors
    /// A whole number that f32 cannot hold.
    pub fn values(&self, bytes: &[u8]) -> Result<Vec<f32>, String> {
        self.stored.in_order(bytes, self.big)
    }
}

struct Array {
    shape: Vec<usize>,
    fortran: bool,
    bytes: Vec<u8>,
    stored: Element,
    big: bool,
    dtype: String,
}

impl Array {
    /// Reads an array. `length` is the number of bytes available, including the header.
    fn read(mut source: impl Read, length: u64) -> Result<Array, String> {
        let header = npy_header(&mut source)?;
        let shape = header.shape;
        let count = shape.iter().try_fold(1_u64, |n, d| n.checked_mul(*d)).filter(|n| *n <= MAX_VALUES);
        let count =
            count.ok_or_else(|| format!("an array of shape {shape:?} is over the limit of {MAX_VALUES} values"))?;
        if count == 0 {
            // The other axes may have any length, so a loop over them would be unbounded.
            return Err(format!("an array of shape {shape:?} has no values"));
        }
        let (fortran, dtype) = (header.fortran_order, header.descr);
        let size = dtype.size;
        let Some(all) = count.checked_mul(size).filter(|bytes| *bytes <= length) else {
            return Err(format!("the header promises {shape:?} values of {size} bytes, the file has {length} bytes"));
        };
        let stored =
            Element::of(dtype).ok_or_else(|| format!("elements of type {dtype}; expected whole or real numbers"))?;
        // The bytes, the values, and the values in another order.
        check_room(all + 2 * 4 * count)?;
        let mut bytes = Vec::with_capacity(all as usize);
        let read = source.take(all).read_to_end(&mut bytes).map_err(|e| format!("the array can't be read: {e}"))?;
        if (read as u64) < all {
            return Err(format!("the array can't be read: it ends after {} of {count} values", read as u64 / size));
        }
        let shape = shape.iter().map(|d| *d as usize).collect();
        Ok(Array { shape, fortran, bytes, stored, big: dtype.big_endian, dtype: dtype.to_string() })
    }

    /// The shape and values, with the last axis the fastest.
    fn values(self) -> Result<(Vec<usize>, Vec<f32>), String> {
        let Array { shape, fortran, bytes, stored, big, .. } = self;
        let values = stored.in_order(&bytes, big)?;
        if !fortran {
            return Ok((shape, values));
        }
        let mut out = Vec::with_capacity(values.len());
        let mut place = vec![0; shape.len()];
        for _ in 0..values.len() {
            let at = place.iter().zip(&shape).rev().fold(0, |at, (index, length)| at * length + index);
            out.push(values[at]);
            for (index, length) in place.iter_mut().zip(&shape).rev() {
                *index += 1;
                if *index < *length {
                    break;
                }
                *index = 0;
            }
        }
        Ok((shape, out))
    }

    fn image(self, path: &Path) -> Result<Image, ReadError> {
        let Array { shape, fortran, bytes, stored, big, dtype } = self;
        let [x, y, z, c] = match shape[..] {
            [x, y] => [x, y, 1, 1],
            [x, y, z] => [x, y, z, 1],
            [x, y, z, c] => [x, y, z, c],
            _ => return Err(ReadError::new(path, format!("an array of shape {shape:?}; expected 2 to 4 axes"))),
        };
        // From (x, y, z, c) in either order to (c, x, y, z) with z fastest.
        let wrong = |what: String| ReadError::new(path, what);
        let step = if fortran { [1, x, x * y, x * y * z] } else { [y * z * c, z * c, c, 1] };
        let values = if let (true, Element::Number(data_type)) = (fortran, stored) {
            // NIfTI's order.
            voxels::unpack(&bytes, data_type, big, None, [c, x, y, z]).map_err(wrong)?
        } else if c == 1 && !fortran {
            stored.in_order(&bytes, big).map_err(wrong)?
        } else {
            let values = stored.in_order(&bytes, big).map_err(wrong)?;
            let mut out = Vec::with_capacity(values.len());
            for (l, i, j) in (0..c).flat_map(|l| (0..x).flat_map(move |i| (0..y).map(move |j| (l, i, j)))) {
                let start = l * step[3] + i * step[0] + j * step[1];
                out.extend((0..z).map(|k| values[start + k * step[2]]));
            }
            out
        };
        let mut image = Image::from_values(values, [c, x, y, z], affine::IDENTITY, &host_device());
        image.meta.path = Some(path.to_owned());
        image.meta.spatial_dims = if shape.len() == 2 { 2 } else { 3 };
        image.meta.stored_type = dtype;
        image.meta.original_channel_dim = (shape.len() == 4).then_some(-1);
        image.meta.original_shape = shape;
        Ok(image)
    }
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

    #[test]
    fn values_come_in_the_order_of_c_whatever_the_file_has() {
        for (fortran, stored) in [("False", [0_u8, 1, 2, 3, 4, 5]), ("True", [0, 3, 1, 4, 2, 5])] {
            let dict = format!("{{'descr': '|u1', 'fortran_order': {fortran}, 'shape': (1, 2, 3), }}\n");
            let head = [b"\x93NUMPY\x01\x00".as_slice(), &(dict.len() as u16).to_le_bytes(), dict.as_bytes()];
            let bytes = [head.concat().as_slice(), &stored].concat();
            let length = bytes.len() as u64;
            let read = Array::read(&bytes[..], length).expect("an array").values();
            assert_eq!(read.expect("values"), (vec![1, 2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
        }
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
        assert!(error(2, &"(".repeat(9_999)).contains("no dictionary"));
        assert!(error(2, &" ".repeat(10_001)).contains("the limit is 10000"));
        assert!(error(1, "{'descr': [('a', '<f4'), ('b', '<i2')]}").contains("records"));
        let huge = [b"\x93NUMPY\x03\x00".as_slice(), &[0xff; 4]].concat();
        assert!(Array::read(&huge[..], 12).err().expect("no image").contains("4294967295"));
        for end in 0..12 {
            assert!(Array::read(&huge[..end], end as u64).is_err(), "{end}");
        }
    }
}

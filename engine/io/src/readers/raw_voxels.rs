//! Voxels in the form of NRRD and MetaImage files: numbers of one type, the first axis fastest.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use hearth_image::{Affine, Image, host_device};

use super::{ReadError, check_room};
use crate::nifti::{DataType, voxels};

/// The maximum number of bytes of a header's line, and of lines.
const MAX_LINE: u64 = 1 << 16;
const MAX_LINES: usize = 10_000;

/// Reads the next line of a header, without its line end; `None` at the end of the file. `number`
/// counts lines.
pub(super) fn line(file: &mut impl BufRead, number: &mut usize) -> Result<Option<String>, String> {
    *number += 1;
    if *number > MAX_LINES {
        return Err(format!("the header has more than {MAX_LINES} lines"));
    }
    let mut line = Vec::new();
    let read = file.take(MAX_LINE).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&line);
    Ok((read > 0).then(|| text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// The file of the voxels that a header names; it must be in the same folder.
pub(super) fn data_file(header: &Path, key: &str, name: &str) -> Result<BufReader<File>, ReadError> {
    // `%` marks a pattern for many files.
    if name.is_empty() || name.contains(['/', '\\', '%']) || name.to_uppercase().starts_with("LIST") {
        let what = "expected the name of one file in the same folder";
        return Err(ReadError::new(header, format!("{key} is {name:?}; {what}")));
    }
    let data = header.with_file_name(name);
    hearth_files::open(&data).map(BufReader::new).map_err(|error| ReadError::new(&data, error))
}

/// The maximum number of values of an image.
const MAX_VALUES: usize = 8 << 30;

/// How the bytes are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Raw,
    Gzip,
    Zlib,
    /// Numbers as text.
    Text,
}

/// An image as described by its header.
#[derive(Clone, Debug)]
pub(super) struct RawVoxels {
    /// Number of voxels along x, y and z.
    pub shape: [usize; 3],
    /// Number of spatial axes, 2 or 3.
    pub spatial_dims: usize,
    pub channels: usize,
    /// Whether the channels of a voxel are adjacent; otherwise each channel is contiguous.
    pub interleaved: bool,
    pub data_type: DataType,
    pub big_endian: bool,
    pub packing: Packing,
    /// Affine from voxel to mm, RAS.
    pub affine: Affine,
}

impl RawVoxels {
    /// The number of bytes of the voxels, unpacked.
    pub fn bytes(&self) -> u64 {
        let sizes = self.shape.iter().chain([&self.channels]);
        sizes.fold(self.data_type.size() as u64, |bytes, length| bytes.saturating_mul(*length as u64))
    }

    /// Reads the values after the header onto the CPU.
    pub fn image(self, data: impl Read, path: &Path) -> Result<Image, ReadError> {
        let wrong = |what: String| ReadError::new(path, what);
        let sizes = self.shape.iter().chain([&self.channels]);
        let count = sizes.clone().try_fold(1_usize, |n, length| n.checked_mul(*length));
        let count = count.filter(|count| (1..=MAX_VALUES).contains(count)).ok_or_else(|| {
            wrong(format!("{:?} voxels of {} channels; expected 1 to 2^33 values", self.shape, self.channels))
        })?;
        // The bytes, those in the other order, and the values.
        check_room(2 * self.bytes() + 4 * count as u64).map_err(wrong)?;
        let bytes = match self.packing {
            Packing::Raw => self.unpacked(data),
            Packing::Gzip => self.unpacked(flate2::read::MultiGzDecoder::new(data)),
            Packing::Zlib => self.unpacked(flate2::read::ZlibDecoder::new(data)),
            Packing::Text => text(data, count),
        };
        let mut bytes = bytes.map_err(wrong)?;
        // Text was already converted to numbers.
        let (data_type, big) = match self.packing {
            Packing::Text => (DataType::F32, false),
            _ => (self.data_type, self.big_endian),
        };
        if self.interleaved && self.channels > 1 {
            bytes = swapped(&bytes, count / self.channels, self.channels, data_type.size());
        }
        let [nx, ny, nz] = self.shape;
        let out = voxels::unpack(&bytes, data_type, big, None, [self.channels, nx, ny, nz]);
        let mut image = Image::from_values(out, [self.channels, nx, ny, nz], self.affine, &host_device());
        let axes = &self.shape[..self.spatial_dims];
        let several = self.channels > 1;
        image.meta.path = Some(path.to_owned());
        image.meta.spatial_dims = self.spatial_dims;
        image.meta.stored_type = self.data_type.name().to_owned();
        image.meta.original_shape = axes.iter().copied().chain(several.then_some(self.channels)).collect();
        image.meta.original_channel_dim = several.then_some(-1);
        Ok(image)
    }

    fn unpacked(&self, data: impl Read) -> Result<Vec<u8>, String> {
        let length = self.bytes();
        // Memory grows with the data that is present, whatever the header states.
        let mut bytes = Vec::new();
        data.take(length).read_to_end(&mut bytes).map_err(|error| format!("the voxels can't be read: {error}"))?;
        if (bytes.len() as u64) < length {
            return Err(format!("the voxels end after {} of {length} bytes", bytes.len()));
        }
        Ok(bytes)
    }
}

/// Transposes a table of `rows` times `columns` elements of `size` bytes from row-major to
/// column-major: from interleaved channels to contiguous ones, and back.
pub(crate) fn swapped(bytes: &[u8], rows: usize, columns: usize, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for column in 0..columns {
        for row in 0..rows {
            out.extend_from_slice(&bytes[(row * columns + column) * size..][..size]);
        }
    }
    out
}

/// Converts numbers in text to f32 in little-endian order.
fn text(data: impl Read, count: usize) -> Result<Vec<u8>, String> {
    let mut text = String::new();
    // A number has at most about 30 characters.
    let most = (count as u64).saturating_mul(64);
    data.take(most).read_to_string(&mut text).map_err(|error| format!("the voxels can't be read: {error}"))?;
    let mut bytes = Vec::new();
    for word in text.split_ascii_whitespace().take(count) {
        let number: f32 = word.parse().map_err(|error| format!("a voxel is not a number: {error}"))?;
        bytes.extend(number.to_le_bytes());
    }
    let found = bytes.len() / size_of::<f32>();
    if found < count {
        return Err(format!("the voxels end after {found} of {count} numbers"));
    }
    Ok(bytes)
}

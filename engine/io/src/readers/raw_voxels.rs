//! Voxels in the form of NRRD and MetaImage files: numbers of one type, the first axis fastest.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use hearth_image::{Affine, Image, host_device};

use super::nifti::read_error;
use super::{ReadError, check_room};
use crate::nifti::bytes::checked;
use crate::nifti::{DataType, MAX_BYTES, voxels};

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

/// Where the voxels are stored.
#[derive(Debug)]
pub(super) enum Source {
    /// After the header.
    Here(BufReader<File>),
    /// In these files, each with the same number of voxels, in their order.
    Files(Vec<PathBuf>),
}

/// The place of the voxels in each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// After this number of bytes.
    After(u64),
    /// After this number of lines, and then of bytes.
    AfterLines(u64, u64),
    /// At the end of the file.
    Last,
}

/// An image as described by its header.
#[derive(Clone, Debug)]
pub(super) struct RawVoxels {
    /// Number of voxels along x, y and z.
    pub shape: [usize; 3],
    /// Number of spatial axes, 2 or 3.
    pub spatial_dims: usize,
    /// Number of channels of a voxel that are adjacent.
    pub adjacent: usize,
    /// Number of images, each with all its voxels, that follow one another: the axes after the third.
    pub following: usize,
    pub data_type: DataType,
    pub big_endian: bool,
    pub packing: Packing,
    /// Affine from voxel to mm, RAS.
    pub affine: Affine,
}

impl RawVoxels {
    /// Reads the values onto the CPU. The channels of the image are those of its voxels, and for each of
    /// them the axes after the third.
    ///
    /// # Errors
    /// A file that is missing, damaged or too short, and values that the image cannot hold.
    pub fn image(self, source: Source, start: Start, path: &Path) -> Result<Image, ReadError> {
        let wrong = |what: String| ReadError::new(path, what);
        let sizes = self.shape.iter().chain([&self.adjacent, &self.following]);
        let count = sizes.clone().try_fold(1_usize, |n, length| n.checked_mul(*length));
        let channels = self.adjacent.saturating_mul(self.following);
        let count = count.filter(|count| (1..=MAX_VALUES).contains(count)).ok_or_else(|| {
            wrong(format!("{:?} voxels of {channels} channels; expected 1 to 2^33 values", self.shape))
        })?;
        // The bytes, those in the other order, and the values.
        check_room((2 * self.data_type.size() as u64 + 4) * count as u64).map_err(wrong)?;
        // Text is converted to numbers as it is read.
        let (data_type, big) = match self.packing {
            Packing::Text => (DataType::F32, false),
            _ => (self.data_type, self.big_endian),
        };
        let mut bytes = Vec::new();
        match source {
            Source::Here(file) => self.part(file, path, start, count, &mut bytes).map_err(wrong)?,
            Source::Files(files) => {
                let each = count / files.len().max(1);
                if each * files.len() != count {
                    return Err(wrong(format!("{count} values in {} files of one size", files.len())));
                }
                for file in files {
                    let wrong = |what: String| wrong(format!("its voxels in {}: {what}", file.display()));
                    let open = hearth_files::open(&file).map_err(|error| wrong(error.to_string()))?;
                    self.part(BufReader::new(open), &file, start, each, &mut bytes).map_err(wrong)?;
                }
            }
        }
        if self.adjacent > 1 {
            bytes = swapped(&bytes, count / self.adjacent, self.adjacent, data_type.size());
        }
        let [nx, ny, nz] = self.shape;
        let out = voxels::unpack(&bytes, data_type, big, None, [channels, nx, ny, nz]).map_err(wrong)?;
        let mut image = Image::from_values(out, [channels, nx, ny, nz], self.affine, &host_device());
        let axes = &self.shape[..self.spatial_dims];
        let several = channels > 1;
        image.meta.path = Some(path.to_owned());
        image.meta.spatial_dims = self.spatial_dims;
        image.meta.stored_type = self.data_type.name().to_owned();
        image.meta.original_shape = axes.iter().copied().chain(several.then_some(channels)).collect();
        image.meta.original_channel_dim = several.then_some(-1);
        Ok(image)
    }

    /// Appends the bytes of `count` values of a file. Packed files are read to their end, so that their
    /// checksums are compared.
    fn part(
        &self,
        mut file: BufReader<File>,
        path: &Path,
        start: Start,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let length = count as u64 * self.data_type.size() as u64;
        let io = |error: std::io::Error| format!("the voxels can't be read: {error}");
        if let Start::AfterLines(lines, _) = start {
            for _ in 0..lines {
                let skipped = file.skip_until(b'\n').map_err(io)?;
                if skipped == 0 {
                    return Err(format!("the file has less than the {lines} lines to skip before the voxels"));
                }
            }
        }
        match start {
            Start::After(bytes) | Start::AfterLines(_, bytes) => {
                file.seek_relative(i64::try_from(bytes).unwrap_or(i64::MAX)).map_err(io)?;
            }
            Start::Last => {
                let all = file.get_ref().metadata().map_err(io)?.len();
                file.seek(SeekFrom::Start(all.saturating_sub(length))).map_err(io)?;
            }
        }
        let before = out.len();
        // Memory grows with the data that is present, whatever the header states.
        match self.packing {
            Packing::Raw => file.take(length).read_to_end(out),
            Packing::Gzip => {
                let mut packed = Vec::new();
                let read = file.read_to_end(&mut packed);
                let unpacked = checked(&packed, length as usize, path);
                let wrong = |error| format!("the voxels can't be read: {}", read_error(path, error).why());
                out.append(&mut unpacked.map_err(wrong)?);
                read
            }
            Packing::Zlib => {
                let mut unpacked = flate2::read::ZlibDecoder::new(file);
                let read = (&mut unpacked).take(length).read_to_end(out);
                read.and_then(|_| std::io::copy(&mut unpacked.take(MAX_BYTES), &mut std::io::sink())).map(|_| 0)
            }
            Packing::Text => return text(file, count, self.data_type, out),
        }
        .map_err(io)?;
        let found = (out.len() - before) as u64;
        if found < length {
            return Err(format!("the voxels end after {found} of {length} bytes"));
        }
        Ok(())
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

/// Appends numbers in text as f32 in little-endian order.
fn text(data: impl Read, count: usize, data_type: DataType, out: &mut Vec<u8>) -> Result<(), String> {
    let mut text = String::new();
    // A number has at most about 30 characters.
    let most = (count as u64).saturating_mul(64);
    data.take(most).read_to_string(&mut text).map_err(|error| format!("the voxels can't be read: {error}"))?;
    let mut found = 0;
    let words = text.split(|c: char| c.is_ascii_whitespace() || c == ',').filter(|word| !word.is_empty());
    for word in words.take(count) {
        let number: f32 = word.parse().map_err(|error| format!("a voxel is not a number: {error}"))?;
        if !matches!(data_type, DataType::F32 | DataType::F64)
            && let Ok(whole) = word.parse::<i128>()
        {
            voxels::check_whole(whole)?;
        }
        out.extend(number.to_le_bytes());
        found += 1;
    }
    if found < count {
        return Err(format!("the voxels end after {found} of {count} numbers"));
    }
    Ok(())
}

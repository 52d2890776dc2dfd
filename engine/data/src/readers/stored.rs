//! Voxels as NRRD and MetaImage files hold them: numbers of a type, the first axis fastest.

use std::io::Read;
use std::path::Path;

use super::{ReadError, check_room};
use crate::{Affine, Image, Meta, host_device};

/// The most values of an image.
const MAX_VALUES: usize = 8 << 30;

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    pub fn size(self) -> usize {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Number::I8 => "int8",
            Number::U8 => "uint8",
            Number::I16 => "int16",
            Number::U16 => "uint16",
            Number::I32 => "int32",
            Number::U32 => "uint32",
            Number::I64 => "int64",
            Number::U64 => "uint64",
            Number::F32 => "float32",
            Number::F64 => "float64",
        }
    }

    /// Numbers of bytes, most significant first where `big`.
    fn read(self, bytes: &[u8], big: bool) -> Vec<f32> {
        macro_rules! read {
            ($type:ty) => {
                bytes
                    .as_chunks::<{ size_of::<$type>() }>()
                    .0
                    .iter()
                    .map(|b| (if big { <$type>::from_be_bytes(*b) } else { <$type>::from_le_bytes(*b) }) as f32)
                    .collect()
            };
        }
        match self {
            Number::I8 => read!(i8),
            Number::U8 => read!(u8),
            Number::I16 => read!(i16),
            Number::U16 => read!(u16),
            Number::I32 => read!(i32),
            Number::U32 => read!(u32),
            Number::I64 => read!(i64),
            Number::U64 => read!(u64),
            Number::F32 => read!(f32),
            Number::F64 => read!(f64),
        }
    }
}

/// How the bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Raw,
    Gzip,
    Zlib,
    /// Numbers as text.
    Text,
}

/// An image as its header describes it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Voxels along x, y and z.
    pub shape: [usize; 3],
    /// 2 or 3.
    pub spatial_dims: usize,
    pub channels: usize,
    /// Whether the channels of a voxel lie side by side; otherwise each channel is whole.
    pub interleaved: bool,
    pub number: Number,
    pub big_endian: bool,
    pub packing: Packing,
    /// Voxel to mm, RAS.
    pub affine: Affine,
}

impl Stored {
    /// Bytes of the voxels, unpacked.
    pub fn bytes(&self) -> u64 {
        let sizes = self.shape.iter().chain([&self.channels]);
        sizes.fold(self.number.size() as u64, |bytes, length| bytes.saturating_mul(*length as u64))
    }

    /// The values that follow the header, onto the CPU.
    pub fn image(self, data: impl Read, path: &Path) -> Result<Image, ReadError> {
        let wrong = |what: String| ReadError::new(path, what);
        let sizes = self.shape.iter().chain([&self.channels]);
        let count = sizes.clone().try_fold(1_usize, |n, length| n.checked_mul(*length));
        let count = count.filter(|count| (1..=MAX_VALUES).contains(count)).ok_or_else(|| {
            wrong(format!("{:?} voxels of {} channels; expected 1 to 2^33 values", self.shape, self.channels))
        })?;
        // The bytes, their numbers, and those in the order of an image.
        check_room(self.bytes().saturating_add(count as u64 * 8)).map_err(wrong)?;
        let values = match self.packing {
            Packing::Raw => self.numbers(data, count),
            Packing::Gzip => self.numbers(flate2::read::MultiGzDecoder::new(data), count),
            Packing::Zlib => self.numbers(flate2::read::ZlibDecoder::new(data), count),
            Packing::Text => text(data, count),
        };
        let values = values.map_err(wrong)?;
        let [nx, ny, nz] = self.shape;
        let voxels = nx * ny * nz;
        let mut out = Vec::with_capacity(count);
        for channel in 0..self.channels {
            for x in 0..nx {
                for y in 0..ny {
                    out.extend((0..nz).map(|z| {
                        let voxel = (z * ny + y) * nx + x;
                        values
                            [if self.interleaved { voxel * self.channels + channel } else { channel * voxels + voxel }]
                    }));
                }
            }
        }
        let mut image = Image::from_values(out, [self.channels, nx, ny, nz], self.affine, &host_device());
        let axes = &self.shape[..self.spatial_dims];
        let several = self.channels > 1;
        image.meta = Meta {
            path: Some(path.to_owned()),
            spatial_dims: self.spatial_dims,
            stored_type: self.number.name().to_owned(),
            original_affine: self.affine,
            original_shape: axes.iter().copied().chain(several.then_some(self.channels)).collect(),
            original_channel_dim: several.then_some(-1),
            ..Meta::default()
        };
        Ok(image)
    }

    fn numbers(&self, data: impl Read, count: usize) -> Result<Vec<f32>, String> {
        let length = count * self.number.size();
        // Memory grows with what is there, whatever the header promises.
        let mut bytes = Vec::new();
        data.take(length as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("the voxels can't be read: {error}"))?;
        if bytes.len() < length {
            return Err(format!("the voxels end after {} of {length} bytes", bytes.len()));
        }
        Ok(self.number.read(&bytes, self.big_endian))
    }
}

fn text(data: impl Read, count: usize) -> Result<Vec<f32>, String> {
    let mut text = String::new();
    // A number has at most some 30 letters.
    let most = (count as u64).saturating_mul(64);
    data.take(most).read_to_string(&mut text).map_err(|error| format!("the voxels can't be read: {error}"))?;
    let numbers = text.split_ascii_whitespace().take(count).map(str::parse::<f32>);
    let values = numbers.collect::<Result<Vec<f32>, _>>().map_err(|error| format!("a voxel is no number: {error}"))?;
    if values.len() < count {
        return Err(format!("the voxels end after {} of {count} numbers", values.len()));
    }
    Ok(values)
}

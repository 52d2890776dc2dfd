use std::path::Path;

use hearth_image::{Affine, Image, affine, host_device};

use super::nifti::read_error;
use super::{Probe, ReadError, ReadOptions, Reader, check_room};
use crate::nifti::bytes::FileBytes;
use crate::nifti::{DataType, MAX_BYTES, voxels};

/// The number of bytes before the values.
const HEADER: usize = 284;

/// Reads volumes of FreeSurfer: `.mgh`, and gzip as `.mgz`. Frames become channels. Without an orientation
/// in the file, slices are coronal, voxels have 1 mm, and the centre is at 0, as in nibabel.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct MghReader;

impl Reader for MghReader {
    fn name(&self) -> &'static str {
        "MghReader"
    }

    fn precedence(&self) -> u32 {
        1
    }

    fn suffixes(&self) -> &[&str] {
        &[".mgh", ".mgz", ".mgh.gz"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        Header::parse(probe.start).is_ok_and(|header| header.data_type().is_ok())
    }

    fn read(&self, path: &Path, _: &ReadOptions) -> Result<Image, ReadError> {
        let error = |error| read_error(path, error);
        let wrong = |what: String| ReadError::new(path, what);
        let stored = FileBytes::open(path).map_err(error)?;
        let header = Header::parse(&stored.head(HEADER, path).map_err(error)?).map_err(wrong)?;
        let data_type = header.data_type().map_err(wrong)?;
        let affine = header.affine().map_err(wrong)?;
        let [x, y, z, frames] = header.dims;
        let count = header.dims.iter().try_fold(1_u64, |n, length| n.checked_mul(*length as u64));
        let size = count.and_then(|count| count.checked_mul(data_type.size() as u64));
        let Some((count, size)) = count.zip(size).filter(|(_, size)| *size <= MAX_BYTES - HEADER as u64) else {
            return Err(wrong(format!("{:?} voxels are more than the limit of {MAX_BYTES} bytes", header.dims)));
        };
        let mut bytes = stored.take(HEADER + size as usize, path).map_err(error)?;
        check_room(4 * count).map_err(wrong)?;
        bytes.drain(..HEADER);
        let shape = [frames, x, y, z];
        let values = voxels::unpack(&bytes, data_type, true, None, shape).map_err(wrong)?;
        let mut image = Image::from_values(values, shape, affine, &host_device());
        image.meta.path = Some(path.to_owned());
        image.meta.stored_type = data_type.name().to_owned();
        image.meta.original_shape = if frames > 1 { vec![x, y, z, frames] } else { vec![x, y, z] };
        image.meta.original_channel_dim = (frames > 1).then_some(-1);
        if !header.is_placed {
            tracing::warn!(
                "{}: it has no orientation; coronal slices of 1 mm are assumed, as by nibabel",
                path.display()
            );
        }
        Ok(image)
    }
}

hearth_registry::entry!(dyn Reader => MghReader, example: "", build: |_| Ok(Box::new(MghReader)));

/// The fields before the values, which are big-endian.
struct Header {
    /// Numbers of voxels, and of frames.
    dims: [usize; 4],
    /// Code of the type of the values.
    kind: i32,
    /// Whether the fields below are set.
    is_placed: bool,
    /// Sizes of a voxel in mm.
    delta: [f64; 3],
    /// Directions of the three axes in RAS.
    directions: [[f64; 3]; 3],
    /// Position of the centre of the volume: of voxel `dims / 2`.
    centre: [f64; 3],
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < HEADER {
            return Err(format!("the header ends after {} of {HEADER} bytes", bytes.len()));
        }
        let word = |at: usize| std::array::from_fn(|place| bytes[at + place]);
        let int = |at: usize| i32::from_be_bytes(word(at));
        let floats = |at: usize| -> [f64; 3] {
            std::array::from_fn(|place| f64::from(f32::from_be_bytes(word(at + 4 * place))))
        };
        if int(0) != 1 {
            return Err(format!("not a volume of FreeSurfer: its version is {}, expected 1", int(0)));
        }
        let dims = [4, 8, 12, 16].map(int);
        if let Some(length) = dims.iter().find(|length| **length <= 0) {
            return Err(format!("{dims:?} voxels and frames, with {length} of one; expected 1 or more"));
        }
        Ok(Header {
            dims: dims.map(|length| length as usize),
            kind: int(20),
            is_placed: i16::from_be_bytes([bytes[28], bytes[29]]) != 0,
            delta: floats(30),
            directions: [42, 54, 66].map(floats),
            centre: floats(78),
        })
    }

    fn data_type(&self) -> Result<DataType, String> {
        Ok(match self.kind {
            0 => DataType::U8,
            1 => DataType::I32,
            3 => DataType::F32,
            4 => DataType::I16,
            10 => DataType::U16,
            other => {
                let known = "0 (uint8), 1 (int32), 3 (float32), 4 (int16) and 10 (uint16) are supported";
                return Err(format!("the type of its values is {other}; {known}"));
            }
        })
    }

    /// From voxel to RAS.
    fn affine(&self) -> Result<Affine, String> {
        let (delta, directions, centre) = match self.is_placed {
            true => (self.delta, self.directions, self.centre),
            false => ([1.0; 3], [[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]], [0.0; 3]),
        };
        let mut out = affine::IDENTITY;
        for row in 0..3 {
            for column in 0..3 {
                out[row][column] = directions[column][row] * delta[column];
            }
            let to_centre: f64 = (0..3).map(|column| out[row][column] * self.dims[column] as f64 / 2.0).sum();
            out[row][3] = centre[row] - to_centre;
        }
        if affine::inverse(&out).is_none() || out.as_flattened().iter().any(|value| !value.is_finite()) {
            return Err(format!("voxels of {delta:?} mm along {directions:?} make no volume; the header is damaged"));
        }
        Ok(out)
    }
}

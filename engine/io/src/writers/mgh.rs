//! FreeSurfer's MGH and MGZ files.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use hearth_image::Image;

use crate::nifti::{DataType, NiftiOptions, voxels};

/// The number of bytes before the values.
const HEADER: usize = 284;

/// An image as the bytes of an MGH file, which is big-endian; channels become frames. Types that MGH lacks
/// become a larger one, also `uint16`, which older versions of FreeSurfer do not read.
pub(super) fn encode(image: &Image, options: &NiftiOptions) -> Result<Vec<u8>, String> {
    let shape @ [channels, nx, ny, nz] = image.data.dims();
    let values = image.to_vec();
    let (data_type, code) = match options.type_of(&values) {
        DataType::U8 => (DataType::U8, 0),
        DataType::I8 | DataType::I16 => (DataType::I16, 4),
        DataType::U16 | DataType::I32 | DataType::U32 | DataType::I64 | DataType::U64 => (DataType::I32, 1),
        DataType::F32 | DataType::F64 => (DataType::F32, 3),
    };
    let mut out = vec![0; HEADER];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &1_i32.to_be_bytes());
    for (place, length) in [nx, ny, nz, channels].into_iter().enumerate() {
        let length = i32::try_from(length).map_err(|_| format!("an axis of {length} voxels does not fit into MGH"))?;
        put(4 + 4 * place, &length.to_be_bytes());
    }
    put(20, &i32::to_be_bytes(code));
    // The fields below are set.
    put(28, &1_i16.to_be_bytes());
    let affine = &image.affine;
    let axis_of = |column: usize| [0, 1, 2].map(|row: usize| affine[row][column]);
    for column in 0..3 {
        let axis = axis_of(column);
        let length = axis.iter().map(|part| part * part).sum::<f64>().sqrt();
        put(30 + 4 * column, &(length as f32).to_be_bytes());
        for (row, part) in axis.into_iter().enumerate() {
            put(42 + 12 * column + 4 * row, &((part / length) as f32).to_be_bytes());
        }
    }
    for (row, line) in affine.iter().enumerate().take(3) {
        let middle: f64 = line.iter().zip(&shape[1..]).map(|(part, length)| part * *length as f64 / 2.0).sum();
        put(78 + 4 * row, &((line[3] + middle) as f32).to_be_bytes());
    }
    let mut bytes = voxels::pack(&values, data_type, None, shape)?;
    bytes.chunks_exact_mut(data_type.size()).for_each(<[u8]>::reverse);
    out.append(&mut bytes);
    Ok(out)
}

/// Writes an encoded file, packed as in `.mgz` or not.
pub(super) fn write(encoded: &[u8], is_packed: bool, file: &mut impl Write) -> io::Result<()> {
    if !is_packed {
        return file.write_all(encoded);
    }
    let mut packed = GzEncoder::new(file, Compression::new(4));
    packed.write_all(encoded)?;
    packed.finish().map(|_| ())
}

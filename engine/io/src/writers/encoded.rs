//! Voxels and grids in the form of NRRD and MetaImage files: little-endian, in LPS.

use hearth_image::Image;

use crate::nifti::{DataType, NiftiOptions, voxels};
use crate::readers::swapped;

/// Voxels as bytes, and the formats' names of their type.
pub(super) struct Encoded {
    pub bytes: Vec<u8>,
    pub nrrd: &'static str,
    pub meta: &'static str,
}

/// Encodes the values, channels fastest, then x. Integers are checked for their range.
pub(super) fn encode(image: &Image, options: &NiftiOptions) -> Result<Encoded, String> {
    let shape @ [channels, nx, ny, nz] = image.data.dims();
    let values = image.to_vec();
    let data_type = options.type_of(&values);
    let mut bytes = voxels::pack(&values, data_type, None, shape)?;
    if channels > 1 {
        bytes = swapped(&bytes, channels, nx * ny * nz, data_type.size());
    }
    let (nrrd, meta) = match data_type {
        DataType::U8 => ("uint8", "MET_UCHAR"),
        DataType::I8 => ("int8", "MET_CHAR"),
        DataType::U16 => ("uint16", "MET_USHORT"),
        DataType::I16 => ("int16", "MET_SHORT"),
        DataType::U32 => ("uint32", "MET_UINT"),
        DataType::I32 => ("int32", "MET_INT"),
        DataType::U64 => ("uint64", "MET_ULONG_LONG"),
        DataType::I64 => ("int64", "MET_LONG_LONG"),
        DataType::F32 => ("float", "MET_FLOAT"),
        DataType::F64 => ("double", "MET_DOUBLE"),
    };
    Ok(Encoded { bytes, nrrd, meta })
}

/// Columns of the grid and its origin in LPS.
pub(super) fn grid(image: &Image) -> ([[f64; 3]; 3], [f64; 3]) {
    let signs = [-1.0, -1.0, 1.0];
    let column = |column: usize| std::array::from_fn(|row| signs[row] * image.affine[row][column] + 0.0);
    ([column(0), column(1), column(2)], column(3))
}

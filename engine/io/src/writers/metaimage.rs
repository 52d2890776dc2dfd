//! MetaImage files.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use hearth_image::Image;

use super::encoded::{Encoded, grid};

/// Encodes a MetaImage that contains its voxels.
pub(super) fn write(image: &Image, encoded: &Encoded, file: &mut impl Write) -> io::Result<()> {
    let [channels, nx, ny, nz] = image.data.dims();
    let (columns, origin) = grid(image);
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::new(4));
    packed.write_all(&encoded.bytes)?;
    let packed = packed.finish()?;
    let length = |column: &[f64; 3]| column.iter().map(|part| part * part).sum::<f64>().sqrt();
    let words = |numbers: &[f64]| numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
    let spacing: Vec<f64> = columns.iter().map(length).collect();
    let directions: Vec<f64> = columns
        .iter()
        .zip(&spacing)
        .flat_map(|(column, length)| column.map(|part| if *length > 0.0 { part / length } else { part }))
        .collect();
    writeln!(file, "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False")?;
    writeln!(file, "CompressedData = True\nCompressedDataSize = {}", packed.len())?;
    writeln!(file, "TransformMatrix = {}\nOffset = {}", words(&directions), words(&origin))?;
    writeln!(file, "CenterOfRotation = 0 0 0\nElementSpacing = {}\nDimSize = {nx} {ny} {nz}", words(&spacing))?;
    if channels > 1 {
        writeln!(file, "ElementNumberOfChannels = {channels}")?;
    }
    writeln!(file, "ElementType = {}\nElementDataFile = LOCAL", encoded.meta)?;
    file.write_all(&packed)
}

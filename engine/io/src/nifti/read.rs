//! Reads NIfTI files.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use hearth_image::Image;

use super::bytes::{FileBytes, exists};
use super::{DataType, Header, MAX_BYTES, NiftiError, header_bytes, mat, voxels};
use crate::readers::check_room;

/// Reads an image onto the CPU.
///
/// Axes beyond the third become channels; a file without them has one channel. A 2-D file has
/// `Z = 1` and `spatial_dims = 2`.
///
/// # Errors
/// If the file is missing, damaged, not NIfTI, or holds colours, complex numbers, or a whole number that
/// f32 cannot hold; the error names file and header field.
pub fn read_nifti(path: impl AsRef<Path>) -> Result<Image, NiftiError> {
    read_nifti_on(path, &hearth_image::host_device())
}

/// Reads an image onto a device.
///
/// # Errors
/// Those of [`read_nifti`].
pub fn read_nifti_on(path: impl AsRef<Path>, device: &Device) -> Result<Image, NiftiError> {
    let path = path.as_ref();
    let (header, data_type, bytes) = stored(path)?;
    let (shape, spatial_dims) = shape(&header);
    let values = voxels::unpack(&bytes, data_type, header.big_endian, header.scaling(), shape);
    let values = values.map_err(|what| NiftiError::Unsupported { path: path.to_owned(), what })?;
    let affine = header.rectified_affine();
    // SPM's affine states the sides.
    if header.analyze && header.sform_code == 0 {
        let path = path.display();
        tracing::warn!(
            "{path}: Analyze 7.5 does not state which side is left; the first axis is taken to run from right to left, \
             as by nibabel and SPM"
        );
    }
    if !header.analyze && header.sform_code <= 0 && header.qform_code <= 0 && spatial_dims == 3 {
        let path = path.display();
        tracing::warn!(
            "{path}: its header states no orientation (sform and qform codes are 0): the axes are taken to run from right \
             to left, back to front and feet to head, as by nibabel"
        );
    }
    for what in header.unusable() {
        tracing::warn!("{}: {what}", path.display());
    }
    if let Some(apart) = header.conflict() {
        let used = if affine == header.sform() { "sform" } else { "qform" };
        let path = path.display();
        tracing::warn!(
            "{path}: its sform and qform lie {apart:.2} voxels apart; the {used} is used, others may use the other"
        );
    }
    let mut image = Image::from_values(values, shape, affine, device);
    image.meta.path = Some(path.to_owned());
    image.meta.spatial_dims = spatial_dims;
    image.meta.stored_type = data_type.name().to_owned();
    image.meta.original_shape = header.dim.clone();
    image.meta.original_channel_dim = (header.dim.len() > 3).then_some(-1);
    image.meta.header = Some(header.into());
    Ok(image)
}

/// Reads the header, and the values in the order of the file: the first axis fastest.
///
/// # Errors
/// Those of [`read_nifti`].
pub fn read_nifti_values(path: impl AsRef<Path>) -> Result<(Header, Vec<f32>), NiftiError> {
    let path = path.as_ref();
    let (header, data_type, bytes) = stored(path)?;
    let values = voxels::in_order(&bytes, data_type, header.big_endian, header.scaling());
    let values = values.map_err(|what| NiftiError::Unsupported { path: path.to_owned(), what })?;
    Ok((header, values))
}

/// Reads the header, and the number of bytes of values that it states.
fn stored(path: &Path) -> Result<(Header, DataType, Vec<u8>), NiftiError> {
    let (header, stored, at) = open(path)?;
    let data_type = DataType::from_code(header.datatype).map_err(|what| NiftiError::Unsupported {
        path: path.to_owned(),
        what: format!("header field datatype is {what}; expected one number per voxel (integer or float)"),
    })?;
    let too_large = || NiftiError::Field {
        path: path.to_owned(),
        field: "dim",
        what: format!("{:?} voxels are more than the limit of {MAX_BYTES} bytes", header.dim),
    };
    let count = header.count().filter(|n| *n <= MAX_BYTES / 4).ok_or_else(too_large)?;
    let size = count
        .checked_mul(data_type.size() as u64)
        .and_then(|n| n.checked_add(header.vox_offset))
        .filter(|n| *n <= MAX_BYTES)
        .ok_or_else(too_large)?;
    let mut bytes = stored.take(size as usize, &at)?;
    check_room(4 * count).map_err(|what| NiftiError::Unsupported { path: path.to_owned(), what })?;
    // Drops everything before the values.
    bytes.drain(..header.vox_offset as usize);
    Ok((header, data_type, bytes))
}

/// Reads the header only.
///
/// # Errors
/// Those of [`read_nifti`], but values are not checked.
pub fn read_header(path: impl AsRef<Path>) -> Result<Header, NiftiError> {
    let path = path.as_ref();
    let path = header_path(path);
    parse(&FileBytes::open(&path)?, &path)
}

/// The header of a file; that of Analyze with the affine that SPM stored next to it.
fn parse(stored: &FileBytes, path: &Path) -> Result<Header, NiftiError> {
    /// NIfTI's code of an affine to another image's space.
    const ALIGNED: i32 = 2;
    let mut header = header_bytes::parse(&stored.head(header_bytes::LONGEST, path)?, path)?;
    if let Some(matrix) = mat::path_of(path).filter(|_| header.analyze) {
        match mat::affine_of(&matrix) {
            Ok(affine) => header.set_affine(&affine, ALIGNED),
            Err(what) => tracing::warn!(
                "{}: the affine that SPM stored in {} cannot be read, and is not used: {what}",
                path.display(),
                matrix.display()
            ),
        }
    }
    Ok(header)
}

/// The shape `[C, X, Y, Z]` and the number of spatial axes.
fn shape(header: &Header) -> ([usize; 4], usize) {
    let axis = |i: usize| header.dim.get(i).copied().unwrap_or(1);
    let channels = header.dim.iter().skip(3).product();
    ([channels, axis(0), axis(1), axis(2)], if header.dim.len() < 3 { 2 } else { 3 })
}

/// Opens the header, and the file that holds its values.
fn open(path: &Path) -> Result<(Header, FileBytes, PathBuf), NiftiError> {
    let header_at = header_path(path);
    if header_at == path
        && let Some(stem) = [".img", ".img.gz"].iter().find_map(|end| path.to_str()?.strip_suffix(end))
        && !header_bytes::is_nifti(&FileBytes::open(path)?.head(header_bytes::LONGEST, path)?)
    {
        let what = format!("the values of a pair (NIfTI or Analyze), but there is no {stem}.hdr with the header");
        return Err(NiftiError::NotNifti { path: path.to_owned(), what });
    }
    let stored = FileBytes::open(&header_at)?;
    let header = parse(&stored, &header_at)?;
    if header.single_file {
        return Ok((header, stored, header_at));
    }
    let name = header_at.to_string_lossy().into_owned();
    let stem = name.strip_suffix(".hdr.gz").or_else(|| name.strip_suffix(".hdr")).unwrap_or(&name);
    let found = [".img", ".img.gz"].iter().map(|s| PathBuf::from(format!("{stem}{s}"))).find(|p| exists(p));
    let Some(values_at) = found else {
        return Err(NiftiError::Damaged {
            path: header_at,
            what: format!(
                "the header of {} pair, but there is no {stem}.img (nor .img.gz) with the values",
                if header.analyze { "an Analyze 7.5" } else { "a NIfTI" }
            ),
        });
    };
    // The rest of the header's file is not read, so its checksum is compared now.
    stored.take(0, &header_at)?;
    let stored = FileBytes::open(&values_at)?;
    Ok((header, stored, values_at))
}

/// The `.hdr` that belongs to an `.img`.
fn header_path(path: &Path) -> PathBuf {
    let name = path.to_string_lossy();
    for suffix in [".img", ".img.gz"] {
        if let Some(stem) = name.strip_suffix(suffix) {
            let found = [".hdr", ".hdr.gz"].iter().map(|s| PathBuf::from(format!("{stem}{s}"))).find(|p| exists(p));
            if let Some(found) = found {
                return found;
            }
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_whose_product_overflows_are_an_error() {
        let mut header = Header::default();
        header.version = 2;
        header.dim = vec![1, 1, 1, 1 << 40, 1 << 40];
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), header_bytes::to_bytes(&header)).expect("written");
        let error = read_nifti(file.path()).expect_err("too many").to_string();
        assert!(error.contains("more than the limit"), "{error}");
    }
}

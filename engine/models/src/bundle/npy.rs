//! Arrays as NumPy files.

use hearth_data::Image;

/// The values of an image as `numpy.save` writes them: `[channel, spatial axes...]`, little-endian f32.
pub(crate) fn encode(image: &Image) -> Vec<u8> {
    let dims = image.data.dims();
    let shape: Vec<u64> = dims[..=image.meta.spatial_dims].iter().map(|length| *length as u64).collect();
    let mut bytes = hearth_files::npy_start(&shape);
    bytes.extend(image.to_vec().into_iter().flat_map(f32::to_le_bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use hearth_data::{Image, affine, host_device, read_image};

    use super::encode;

    #[test]
    fn arrays_are_read_back() {
        let values: Vec<f32> = (0..12).map(|value| value as f32 / 4.0).collect();
        let image = Image::from_values(values.clone(), [3, 2, 2, 1], affine::IDENTITY, &host_device());
        let bytes = encode(&image.with_spatial_dims(2));
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert!(bytes.len() == 128 + 48 && bytes[127] == b'\n');
        assert!(String::from_utf8_lossy(&bytes[10..128]).contains("'shape': (3, 2, 2), }"));
        let file = tempfile::Builder::new().suffix(".npy").tempfile().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        assert_eq!(read_image(file.path()).expect("an array").to_vec().len(), values.len());
    }
}

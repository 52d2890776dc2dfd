//! Arrays as NumPy files.

use hearth_data::Image;

/// The values of an image as `numpy.save` writes them: `[channel, spatial axes...]`, little-endian f32.
pub(crate) fn encode(image: &Image) -> Vec<u8> {
    let dims = image.data.dims();
    let shape: Vec<String> = dims[..=image.meta.spatial_dims].iter().map(usize::to_string).collect();
    let mut head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", shape.join(", "));
    // The values begin at a multiple of 64 bytes, after 10 bytes and a line break.
    let gap = (head.len() + 11).next_multiple_of(64) - head.len() - 11;
    head.extend(std::iter::repeat_n(' ', gap));
    head.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
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

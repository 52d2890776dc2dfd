//! Limits of the memory that a file may request.

use crate::error::Fault;

/// Limits of the memory that a file can make the reader allocate. Checked before memory is
/// allocated; a file that needs more is a [`SlideError::Limit`](crate::SlideError::Limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of tag values (offsets of tiles, strings, tables) in the whole file. Default 256 MiB.
    pub tag_bytes: u64,
    /// Bytes of one decoded tile or strip. Default 1 GiB.
    pub tile_bytes: u64,
    /// Bytes of one image or region. Default 8 GiB.
    pub image_bytes: u64,
    /// Number of pages (directories), including nested ones. Default 65,536.
    pub pages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { tag_bytes: 256 << 20, tile_bytes: 1 << 30, image_bytes: 8 << 30, pages: 65_536 }
    }
}

/// The product of `sizes`, if it is at most `limit`.
pub(crate) fn checked_bytes(what: &str, sizes: &[u64], limit: u64) -> Result<usize, Fault> {
    let product = sizes.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    match product.filter(|bytes| *bytes <= limit).map(usize::try_from) {
        Some(Ok(bytes)) => Ok(bytes),
        _ => {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            Err(Fault::Limit(format!("{what} needs {} bytes, {limit} are allowed", sizes.join(" x "))))
        }
    }
}

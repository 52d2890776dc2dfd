//! The header of a NIfTI file, which an image carries along: its fields, its affine, its type of
//! values. The crate `hearth-io` reads and writes it.

mod data_type;
mod geometry;
mod header;

pub use data_type::DataType;
pub use header::Header;

//! The header of a NIfTI file, which an image carries: its fields, affine and value type. The crate
//! `hearth-io` reads and writes it.

mod data_type;
mod geometry;
mod header;

pub use data_type::DataType;
pub use header::Header;

//! The result of the deterministic steps for one case, encoded as bytes: in a file, in a database
//! or in memory.
//!
//! ```text
//!  0  8   magic and version of the format
//!  8  8   length of everything, little-endian
//! 16  4   length of the head
//! 20 32   blake3 of the head
//! 52      head: key, and per sample its values: shape, affine, history, and a table of chunks
//!         chunks, one after the other
//! ```
//!
//! An image is cut into chunks of at most 32768 voxels (32 x 32 x 32 where it is large enough),
//! each compressed separately and with its own checksum, so that a crop reads only the chunks it
//! touches. By default values have the narrowest type that holds them exactly. Lists of voxel
//! indices are cut into blocks of differences.
//!
//! Any mismatch (length, checksum, key, a table that points outside the file) makes the entry
//! [`EntryError::Damaged`], and its owner writes it again.

mod bytes;
mod chunk;
mod head;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use bytes::{Bytes, Counter, FileBytes, MemoryBytes, slice};
pub(crate) use read::{Entry, EntryError};
pub(crate) use write::encode;

use serde::{Deserialize, Serialize};

/// The first bytes of an entry. The last one is the version of the format.
const MAGIC: [u8; 8] = *b"HEARTHE\x01";
/// The number of bytes before the head.
const PREFIX: usize = 52;
/// The maximum number of voxels in a chunk.
const CHUNK: usize = 32 * 32 * 32;
/// The minimum number of entries in a block of indices; long lists have larger blocks, so that
/// their table stays short.
const BLOCK: usize = 8192;
/// The approximate maximum number of blocks of a list.
const BLOCKS: usize = 1024;

/// The type of stored values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// 32-bit floats.
    #[default]
    F32,
    /// The narrowest type that holds an image's values exactly: u8 for most labels, i16 for
    /// unscaled CT, else f32. It is lossless.
    Exact,
    /// Like `Exact`, but f16 in place of f32: 11 bits of every value, up to 65504. Larger values
    /// are an error.
    F16,
}

//! What the deterministic steps made of one case, as bytes: in a file, in a database or in memory.
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
//! each compressed for itself and with a checksum of its own, so that a crop reads the chunks it
//! touches. Values have the narrowest type that holds them exactly, unless asked otherwise. Lists
//! of voxel indices are cut into blocks of differences.
//!
//! Whatever does not match (length, checksum, key, a table that leaves the file) makes the entry [`EntryError::Damaged`]:
//! the owner makes it anew.

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

/// First bytes of an entry. The last one is the version of the format.
const MAGIC: [u8; 8] = *b"HEARTHE\x01";
/// Bytes before the head.
const PREFIX: usize = 52;
/// Voxels in a chunk, at most.
const CHUNK: usize = 32 * 32 * 32;
/// Entries in a block of indices, at least; long lists have larger blocks, so that their table
/// stays short.
const BLOCK: usize = 8192;
/// A list has about this many blocks at most.
const BLOCKS: usize = 1024;

/// In which type values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// f32.
    #[default]
    F32,
    /// The narrowest type that holds an image's values exactly: u8 for most labels, i16 for CT as
    /// it is read, else f32. Nothing is lost.
    Exact,
    /// The same, but f16 in place of f32: 11 bits of every value, up to 65504. Larger values are an
    /// error.
    F16,
}

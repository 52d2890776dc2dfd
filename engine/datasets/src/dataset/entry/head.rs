//! The head of an entry: everything except the voxels.

use std::path::PathBuf;
use std::sync::Arc;

use hearth_image::{Affine, Applied, Meta, Space};
use hearth_io::nifti::{Header, MAX_BYTES};
use serde::{Deserialize, Serialize};

use super::CHUNK;
use super::chunk::Kind;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub key: [u8; 32],
    pub samples: Vec<SampleHead>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SampleHead {
    pub case: String,
    pub values: Vec<(String, ValueHead)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "nearly every value is an image; there are a few per case")]
pub(super) enum ValueHead {
    Image(ImageHead),
    Indices(IndicesHead),
    Lists(Vec<IndicesHead>),
    Path(PathBuf),
    Number(f64),
    Numbers(Vec<f64>),
    Text(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ImageHead {
    pub shape: [usize; 4],
    pub kind: Kind,
    /// Number of voxels of a whole chunk, per axis.
    pub edges: [usize; 3],
    pub affine: Affine,
    pub meta: MetaHead,
    /// Chunks by channel, x, y, z; z fastest.
    pub chunks: Vec<ChunkHead>,
}

/// The part of [`Meta`] that outlives a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MetaHead {
    path: Option<PathBuf>,
    spatial_dims: usize,
    stored_type: String,
    original_affine: Affine,
    original_shape: Vec<usize>,
    original_channel_dim: Option<i64>,
    space: Space,
    applied: Vec<Applied>,
    header: Option<Header>,
}

impl From<&Meta> for MetaHead {
    fn from(meta: &Meta) -> Self {
        MetaHead {
            path: meta.path.clone(),
            spatial_dims: meta.spatial_dims,
            stored_type: meta.stored_type.clone(),
            original_affine: meta.original_affine,
            original_shape: meta.original_shape.clone(),
            original_channel_dim: meta.original_channel_dim,
            space: meta.space,
            applied: meta.applied.clone(),
            header: meta.header.as_deref().cloned(),
        }
    }
}

impl From<&MetaHead> for Meta {
    fn from(head: &MetaHead) -> Self {
        let mut meta = Meta::default();
        meta.path = head.path.clone();
        meta.spatial_dims = head.spatial_dims;
        meta.stored_type = head.stored_type.clone();
        meta.original_affine = head.original_affine;
        meta.original_shape = head.original_shape.clone();
        meta.original_channel_dim = head.original_channel_dim;
        meta.space = head.space;
        meta.applied = head.applied.clone();
        meta.header = head.header.clone().map(Arc::new);
        meta
    }
}

/// The position and encoding of a chunk.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ChunkHead {
    pub at: u64,
    pub size: u32,
    pub codec: Codec,
    pub checksum: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Codec {
    /// Uncompressed.
    Raw,
    /// lz4 of the first bytes of all values, then the second bytes, ...
    Lz4,
    /// One value for all voxels.
    Constant,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct IndicesHead {
    pub length: usize,
    /// Number of entries of a whole block.
    pub block: usize,
    pub blocks: Vec<BlockHead>,
}

/// The first entry of a block, and the differences of those that follow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct BlockHead {
    pub first: u64,
    pub rest: ChunkHead,
}

impl ImageHead {
    /// Number of chunks per spatial axis.
    pub fn grid(&self) -> [usize; 3] {
        std::array::from_fn(|a| self.shape[a + 1].div_ceil(self.edges[a].max(1)))
    }

    /// Whether shape, edges and table are consistent, and every chunk lies within `end` bytes.
    pub fn is_sound(&self, end: u64) -> bool {
        let voxels = self.shape.iter().try_fold(1_usize, |n, s| n.checked_mul(*s));
        let chunks = self.grid().iter().try_fold(self.shape[0], |n, g| n.checked_mul(*g));
        let edges = self.edges.iter().try_fold(1_usize, |n, e| n.checked_mul(*e));
        voxels.is_some_and(|n| n as u64 <= MAX_BYTES / 4)
            && edges.is_some_and(|n| (1..=CHUNK).contains(&n))
            && chunks == Some(self.chunks.len())
            && self.chunks.iter().all(|c| c.lies_within(end))
    }
}

impl IndicesHead {
    pub fn is_sound(&self, end: u64) -> bool {
        self.block > 0
            && self.length as u64 <= MAX_BYTES / 8
            && self.block as u64 <= MAX_BYTES / 8
            && self.blocks.len() == self.length.div_ceil(self.block)
            && self.blocks.iter().all(|b| b.rest.lies_within(end))
    }
}

impl ChunkHead {
    fn lies_within(&self, end: u64) -> bool {
        self.at.checked_add(u64::from(self.size)).is_some_and(|e| e <= end)
    }
}

/// The edges of chunks: as close to a cube as the image allows, so that a flat image has no tiny
/// chunks.
pub(super) fn edges(shape: [usize; 3]) -> [usize; 3] {
    let mut edges: [usize; 3] = shape.map(|n| n.clamp(1, 32));
    // If some axes are shorter than 32, the others may be longer.
    while edges.iter().product::<usize>() * 2 <= CHUNK {
        let Some(axis) = (0..3).filter(|a| edges[*a] < shape[*a]).min_by_key(|a| edges[*a]) else { break };
        edges[axis] *= 2;
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cubes_where_that_is_possible() {
        assert_eq!(edges([512, 512, 90]), [32, 32, 32]);
        assert_eq!(edges([512, 512, 1]), [256, 128, 1]);
        assert_eq!(edges([5, 6, 7]), [5, 6, 7]);
        assert_eq!(edges([0, 0, 0]), [1, 1, 1]);
        for shape in [[1, 1, 1_000_000], [40, 1, 33], [31, 33, 2]] {
            let edges = edges(shape);
            assert!(edges.iter().product::<usize>() <= CHUNK, "{shape:?}: {edges:?}");
        }
    }
}

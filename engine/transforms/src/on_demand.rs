//! Values that are read on demand: an image in a cache's file of which a crop needs only a part, or
//! an image in memory in a type narrower than f32.
//!
//! A pipeline passes them unread to a step that [reads boxes](crate::Transform::reads_boxes); for
//! every other step they are read completely first.

use std::fmt::Debug;
use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_image::{Affine, Applied, Image, Meta, TransformError, affine};

/// The source of the values of a [`StoredImage`].
pub trait BoxSource: Send + Sync + Debug {
    /// Reads the values from `start` (inclusive) to `end` (exclusive), as f32 `[C, X, Y, Z]`. The
    /// box lies within the image.
    ///
    /// # Errors
    /// If the values can no longer be read.
    fn read_box(&self, start: [usize; 3], end: [usize; 3]) -> Result<Tensor<4>, TransformError>;

    /// The number of bytes of memory of the stored values.
    fn bytes(&self) -> usize {
        0
    }
}

/// An image without its values, and their source.
#[derive(Clone, Debug)]
pub struct StoredImage {
    /// Affine from voxel index to mm, RAS+.
    pub affine: Affine,
    /// Metadata of the file, and the transforms applied since.
    pub meta: Meta,
    shape: [usize; 4],
    source: Arc<dyn BoxSource>,
}

impl StoredImage {
    /// Creates an image of `[C, X, Y, Z]` values that `source` reads.
    pub fn new(source: Arc<dyn BoxSource>, shape: [usize; 4], affine: Affine, meta: Meta) -> Self {
        StoredImage { affine, meta, shape, source }
    }

    /// The shape `[X, Y, Z]`.
    pub fn shape(&self) -> [usize; 3] {
        let [_, x, y, z] = self.shape;
        [x, y, z]
    }

    /// The number of channels.
    pub fn channels(&self) -> usize {
        self.shape[0]
    }

    /// The number of bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.source.bytes()
    }

    /// Reads the whole image.
    ///
    /// # Errors
    /// If its values can no longer be read.
    pub fn read(&self) -> Result<Image, TransformError> {
        let data = self.source.read_box([0; 3], self.shape())?;
        Ok(Image { data, affine: self.affine, meta: self.meta.clone() })
    }

    /// Reads a part: the result equals [`crop`](hearth_image::spatial::crop) of the whole image,
    /// without reading the rest.
    ///
    /// # Errors
    /// If the box does not lie within the image, or its values can no longer be read.
    pub fn read_box(&self, start: [usize; 3], end: [usize; 3]) -> Result<Image, TransformError> {
        let shape = self.shape();
        if (0..3).any(|a| start[a] > end[a] || end[a] > shape[a]) {
            return Err(TransformError::new(format!(
                "the box {start:?}..{end:?} does not lie within {shape:?} voxels"
            )));
        }
        let mut image = Image {
            data: self.source.read_box(start, end)?,
            affine: affine::compose(&self.affine, &affine::translation(start.map(|v| v as f64))),
            meta: self.meta.clone(),
        };
        image.meta.applied.push(Applied::Crop { start, shape });
        Ok(image)
    }
}

/// The source of the entries of a [`StoredIndices`].
pub trait IndexSource: Send + Sync + Debug {
    /// Reads one entry; `place` is below the length of the list.
    ///
    /// # Errors
    /// If it can no longer be read.
    fn get(&self, place: usize) -> Result<u64, TransformError>;

    /// Reads all entries.
    ///
    /// # Errors
    /// If they can no longer be read.
    fn all(&self) -> Result<Vec<u64>, TransformError>;

    /// The number of bytes of memory of the stored entries.
    fn bytes(&self) -> usize {
        0
    }
}

/// A list of voxel indices that is not in memory.
#[derive(Clone, Debug)]
pub struct StoredIndices {
    length: usize,
    source: Arc<dyn IndexSource>,
}

impl StoredIndices {
    /// Creates a list of `length` entries that `source` reads.
    pub fn new(source: Arc<dyn IndexSource>, length: usize) -> Self {
        StoredIndices { length, source }
    }

    /// The number of bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.source.bytes()
    }

    /// Reads all entries.
    ///
    /// # Errors
    /// If they can no longer be read.
    pub fn read(&self) -> Result<Arc<[u64]>, TransformError> {
        Ok(self.source.all()?.into())
    }
}

/// A list of voxel indices of a sample, in memory or stored.
#[derive(Clone, Debug)]
pub enum IndexList {
    /// A list in memory.
    Memory(Arc<[u64]>),
    /// A stored list.
    Stored(StoredIndices),
}

impl IndexList {
    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            IndexList::Memory(list) => list.len(),
            IndexList::Stored(list) => list.length,
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one entry.
    ///
    /// # Errors
    /// If the list is shorter, or can no longer be read.
    pub fn get(&self, place: usize) -> Result<u64, TransformError> {
        let beyond = || TransformError::new(format!("there is no entry {place}, the list has {}", self.len()));
        match self {
            IndexList::Memory(list) => list.get(place).copied().ok_or_else(beyond),
            IndexList::Stored(list) if place < list.length => list.source.get(place),
            IndexList::Stored(_) => Err(beyond()),
        }
    }
}

impl From<Vec<u64>> for IndexList {
    fn from(list: Vec<u64>) -> Self {
        IndexList::Memory(list.into())
    }
}

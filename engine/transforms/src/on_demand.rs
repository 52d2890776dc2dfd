//! Values that are read on demand: an image in a cache's file of which a crop needs only a part, or
//! an image in memory in a narrower type than f32.
//!
//! A pipeline passes them unread to a step that [reads boxes](crate::Transform::reads_boxes); for
//! every other step they are read in full first.

use std::fmt::Debug;
use std::sync::Arc;

use burn::tensor::Tensor;
use hearth_image::{Affine, Applied, Image, Meta, TransformError, affine};

/// The source of the values of a [`StoredImage`].
pub trait BoxSource: Send + Sync + Debug {
    /// The values from `start` (included) to `end` (not included), as f32 `[C, X, Y, Z]`. The box
    /// lies within the image.
    ///
    /// # Errors
    /// Where they can no longer be read.
    fn read_box(&self, start: [usize; 3], end: [usize; 3]) -> Result<Tensor<4>, TransformError>;

    /// Bytes of memory of the stored values.
    fn bytes(&self) -> usize {
        0
    }
}

/// An image without its values, and their source.
#[derive(Clone, Debug)]
pub struct StoredImage {
    /// Voxel index to mm, RAS+.
    pub affine: Affine,
    /// What the file said and what was done since.
    pub meta: Meta,
    shape: [usize; 4],
    source: Arc<dyn BoxSource>,
}

impl StoredImage {
    /// An image of `[C, X, Y, Z]` values that `source` reads.
    pub fn new(source: Arc<dyn BoxSource>, shape: [usize; 4], affine: Affine, meta: Meta) -> Self {
        StoredImage { affine, meta, shape, source }
    }

    /// `[X, Y, Z]`.
    pub fn shape(&self) -> [usize; 3] {
        let [_, x, y, z] = self.shape;
        [x, y, z]
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.shape[0]
    }

    /// Bytes of memory it uses.
    pub fn bytes(&self) -> usize {
        self.source.bytes()
    }

    /// Reads the whole image.
    ///
    /// # Errors
    /// Where its values can no longer be read.
    pub fn read(&self) -> Result<Image, TransformError> {
        let data = self.source.read_box([0; 3], self.shape())?;
        Ok(Image { data, affine: self.affine, meta: self.meta.clone() })
    }

    /// Reads a part: equal to [`crop`](hearth_image::spatial::crop) of the whole image, without reading
    /// the rest.
    ///
    /// # Errors
    /// Where the box does not lie within the image, or its values can no longer be read.
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
    /// One entry; `place` is below the length of the list.
    ///
    /// # Errors
    /// Where it can no longer be read.
    fn get(&self, place: usize) -> Result<u64, TransformError>;

    /// All of them.
    ///
    /// # Errors
    /// Where they can no longer be read.
    fn all(&self) -> Result<Vec<u64>, TransformError>;

    /// Bytes of memory of the stored entries.
    fn bytes(&self) -> usize {
        0
    }
}

/// A list of voxel indices that is not unpacked.
#[derive(Clone, Debug)]
pub struct StoredIndices {
    length: usize,
    source: Arc<dyn IndexSource>,
}

impl StoredIndices {
    /// A list of `length` entries that `source` reads.
    pub fn new(source: Arc<dyn IndexSource>, length: usize) -> Self {
        StoredIndices { length, source }
    }

    /// Bytes of memory it uses.
    pub fn bytes(&self) -> usize {
        self.source.bytes()
    }

    /// All entries.
    ///
    /// # Errors
    /// Where they can no longer be read.
    pub fn read(&self) -> Result<Arc<[u64]>, TransformError> {
        Ok(self.source.all()?.into())
    }
}

/// A list of voxel indices of a sample, unpacked or not.
#[derive(Clone, Debug)]
pub enum IndexList {
    /// In memory.
    Memory(Arc<[u64]>),
    /// Stored.
    Stored(StoredIndices),
}

impl IndexList {
    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            IndexList::Memory(list) => list.len(),
            IndexList::Stored(list) => list.length,
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One entry.
    ///
    /// # Errors
    /// Where the list is shorter, or can no longer be read.
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

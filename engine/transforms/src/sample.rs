//! [`Sample`]: the named values of one case in a pipeline.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hearth_image::{Image, Meta, TransformError};
use hearth_io::Parts;

use crate::on_demand::{IndexList, StoredImage, StoredIndices};

/// One value of a sample.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly every value is an image; a box would only cost an allocation")]
pub enum Value {
    /// An image or a label map.
    Image(Image),
    /// Flat voxel indices, row-major over the spatial axes.
    Indices(Arc<[u64]>),
    /// Several lists of indices: one per class, or one per axis for coordinates.
    Lists(Vec<Arc<[u64]>>),
    /// A file that is not loaded yet.
    Path(PathBuf),
    /// Several files that are one image, not loaded yet.
    Parts(Parts),
    /// A number.
    Number(f64),
    /// Several numbers: a label of several classes, a position on a slide.
    Numbers(Arc<[f64]>),
    /// A string.
    Text(String),
    /// An image whose values are read on demand.
    Stored(StoredImage),
    /// Voxel indices that are read on demand.
    StoredIndices(StoredIndices),
    /// Several lists of indices that are read on demand.
    StoredLists(Vec<StoredIndices>),
}

impl Value {
    /// A short description of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Image(_) => "an image",
            Value::Indices(_) => "voxel indices",
            Value::Lists(_) => "several lists of indices",
            Value::Path(_) => "a path (not loaded yet)",
            Value::Parts(_) => "paths of several files (not loaded yet)",
            Value::Number(_) => "a number",
            Value::Numbers(_) => "a list of numbers",
            Value::Text(_) => "a text",
            Value::Stored(_) => "a stored image (not read yet)",
            Value::StoredIndices(_) => "stored voxel indices (not read yet)",
            Value::StoredLists(_) => "several stored lists of indices (not read yet)",
        }
    }
}

/// The named values of one case. MONAI's dictionary of a case.
///
/// ```
/// use hearth_transforms::{Sample, Value, tiny};
/// let mut sample = Sample::new("case_1")
///     .with_image("image", tiny::line([1.0, 2.0, 3.0]))
///     .with("age", Value::Number(54.0));
/// sample.update("image", |image| Ok(image.map(|values| values * 2.0)))?;
/// assert_eq!(sample.image("image")?.to_vec(), [2.0, 4.0, 6.0]);
/// assert_eq!(sample.image("age").unwrap_err().to_string(), "`age` is a number; expected an image");
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Name of the case, for messages and for random draws.
    pub case: String,
    /// Values by key: `image`, `label`, ...
    pub values: BTreeMap<String, Value>,
}

impl Sample {
    /// Creates an empty sample.
    pub fn new(case: impl Into<String>) -> Self {
        Sample { case: case.into(), values: BTreeMap::new() }
    }

    /// Adds or replaces a value.
    pub fn with(mut self, key: impl Into<String>, value: Value) -> Self {
        self.values.insert(key.into(), value);
        self
    }

    /// Adds or replaces an image.
    pub fn with_image(self, key: impl Into<String>, image: Image) -> Self {
        self.with(key, Value::Image(image))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// If the key is missing; the message lists the existing keys.
    pub fn get(&self, key: &str) -> Result<&Value, TransformError> {
        self.values.get(key).ok_or_else(|| {
            let known: Vec<_> = self.values.keys().map(String::as_str).collect();
            TransformError::new(format!("no value `{key}` in the sample")).expected(format!("one of {known:?}"))
        })
    }

    /// Returns an image.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn image(&self, key: &str) -> Result<&Image, TransformError> {
        match self.get(key)? {
            Value::Image(image) => Ok(image),
            other => Err(not_an_image(key, other)),
        }
    }

    /// Returns a mutable image.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn image_mut(&mut self, key: &str) -> Result<&mut Image, TransformError> {
        self.get(key)?;
        match self.values.get_mut(key) {
            Some(Value::Image(image)) => Ok(image),
            Some(other) => Err(not_an_image(key, other)),
            None => Err(TransformError::new(format!("no value `{key}` in the sample"))),
        }
    }

    /// Removes an image and returns it.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn take_image(&mut self, key: &str) -> Result<Image, TransformError> {
        self.image(key)?;
        match self.values.remove(key) {
            Some(Value::Image(image)) => Ok(image),
            _ => Err(TransformError::new(format!("no image `{key}` in the sample"))),
        }
    }

    /// Returns voxel indices.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn indices(&self, key: &str) -> Result<&Arc<[u64]>, TransformError> {
        match self.get(key)? {
            Value::Indices(indices) => Ok(indices),
            other => Err(TransformError::new(format!("`{key}` is {}", other.kind())).expected("voxel indices")),
        }
    }

    /// Returns voxel indices, in memory or stored.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn index_list(&self, key: &str) -> Result<IndexList, TransformError> {
        match self.get(key)? {
            Value::StoredIndices(list) => Ok(IndexList::Stored(list.clone())),
            _ => Ok(IndexList::Memory(self.indices(key)?.clone())),
        }
    }

    /// Returns several lists of indices, in memory or stored.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn index_lists(&self, key: &str) -> Result<Vec<IndexList>, TransformError> {
        match self.get(key)? {
            Value::StoredLists(lists) => Ok(lists.iter().cloned().map(IndexList::Stored).collect()),
            _ => Ok(self.lists(key)?.iter().cloned().map(IndexList::Memory).collect()),
        }
    }

    /// Returns the shape `[X, Y, Z]` of an image, stored or not.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn shape(&self, key: &str) -> Result<[usize; 3], TransformError> {
        match self.get(key)? {
            Value::Stored(image) => Ok(image.shape()),
            _ => Ok(self.image(key)?.shape()),
        }
    }

    /// Returns the metadata of an image, stored or not.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn meta(&self, key: &str) -> Result<&Meta, TransformError> {
        match self.get(key)? {
            Value::Stored(image) => Ok(&image.meta),
            _ => Ok(&self.image(key)?.meta),
        }
    }

    /// Crops `start..end` from an image; only that part of a stored image is read.
    ///
    /// # Errors
    /// If the key does not exist or has another kind of value, or a stored image can no longer be
    /// read.
    pub fn crop(&mut self, key: &str, start: [usize; 3], end: [usize; 3]) -> Result<(), TransformError> {
        if let Value::Stored(image) = self.get(key).map_err(|e| e.at(key))? {
            let image = image.read_box(start, end).map_err(|e| e.at(key))?;
            self.values.insert(key.to_owned(), Value::Image(image));
            return Ok(());
        }
        self.update(key, |image| Ok(hearth_image::spatial::crop(image, start, end)))
    }

    /// Reads stored values, except those whose key `may_stay`.
    ///
    /// # Errors
    /// If a stored value can no longer be read.
    pub fn read_stored(&mut self, may_stay: impl Fn(&str) -> bool) -> Result<(), TransformError> {
        for (key, value) in &mut self.values {
            *value = match value {
                Value::Stored(image) if !may_stay(key) => Value::Image(image.read().map_err(|e| e.at(key))?),
                Value::StoredIndices(list) if !may_stay(key) => Value::Indices(list.read().map_err(|e| e.at(key))?),
                Value::StoredLists(lists) if !may_stay(key) => {
                    let lists: Result<Vec<_>, _> = lists.iter().map(StoredIndices::read).collect();
                    Value::Lists(lists.map_err(|e| e.at(key))?)
                }
                _ => continue,
            };
        }
        Ok(())
    }

    /// Returns several lists of indices.
    ///
    /// # Errors
    /// Where the key does not exist or has another kind of value.
    pub fn lists(&self, key: &str) -> Result<&[Arc<[u64]>], TransformError> {
        match self.get(key)? {
            Value::Lists(lists) => Ok(lists),
            other => {
                Err(TransformError::new(format!("`{key}` is {}", other.kind())).expected("several lists of indices"))
            }
        }
    }

    /// Replaces the image of a key by the result of `change`.
    ///
    /// # Errors
    /// If the key does not exist or has no image, or if `change` fails.
    pub fn update(
        &mut self,
        key: &str,
        change: impl FnOnce(Image) -> Result<Image, TransformError>,
    ) -> Result<(), TransformError> {
        let image = self.take_image(key).map_err(|e| e.at(key))?;
        let image = change(image).map_err(|e| e.at(key))?;
        self.values.insert(key.to_owned(), Value::Image(image));
        Ok(())
    }

    /// Changes every image by value; on an error the images after it are unchanged.
    pub(crate) fn map_images(
        &mut self,
        mut change: impl FnMut(&str, Image) -> Result<Image, TransformError>,
    ) -> Result<(), TransformError> {
        for (key, value) in &mut self.values {
            *value = match std::mem::replace(value, Value::Number(0.0)) {
                Value::Image(image) => Value::Image(change(key, image).map_err(|e| e.at(key))?),
                other => other,
            };
        }
        Ok(())
    }

    /// The number of bytes of all images and lists of indices.
    pub fn bytes(&self) -> usize {
        self.values
            .values()
            .map(|v| match v {
                Value::Image(image) => image.bytes(),
                Value::Indices(indices) => indices.len() * 8,
                Value::Lists(lists) => lists.iter().map(|list| list.len() * 8).sum(),
                Value::Numbers(numbers) => numbers.len() * 8,
                Value::Stored(image) => image.bytes(),
                Value::StoredIndices(list) => list.bytes(),
                Value::StoredLists(lists) => lists.iter().map(StoredIndices::bytes).sum(),
                _ => 0,
            })
            .sum()
    }
}

fn not_an_image(key: &str, value: &Value) -> TransformError {
    TransformError::new(format!("`{key}` is {}", value.kind())).expected("an image")
}

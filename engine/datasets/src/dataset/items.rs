//! [`Items`]: creates a data set from a list of cases in one call.

use hearth_transforms::Pipeline;

use super::{CacheDataset, CacheOptions, Item, TransformDataset};
use crate::DataError;

/// A list of cases that can be converted to a data set: a `Vec<Item>`.
///
/// ```no_run
/// use hearth_transforms::transforms::{EnsureChannelFirst, LoadImage, RandFlip};
/// use hearth_datasets::{DecathlonDataset, Items};
/// use hearth_transforms::Pipeline;
/// let steps = Pipeline::new((LoadImage::new("image"), EnsureChannelFirst::new("image"), RandFlip::new("image")))?;
/// let (train, validate) = DecathlonDataset::open("Task09_Spleen")?.split_last(9)?;
/// let (train, validate) = (train.cached(&steps)?, validate.cached(&steps.without_random())?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Items: Sized {
    /// Runs the steps before the first random one once, and keeps the results in memory.
    ///
    /// # Errors
    /// Those of [`CacheDataset::new`].
    fn cached(self, steps: &Pipeline) -> Result<CacheDataset, DataError> {
        self.cached_with(steps, CacheOptions::default())
    }

    /// Caches like `cached`, with options.
    ///
    /// # Errors
    /// Those of [`CacheDataset::new`].
    fn cached_with(self, steps: &Pipeline, options: CacheOptions) -> Result<CacheDataset, DataError>;

    /// Runs all steps at each access.
    ///
    /// # Errors
    /// Those of [`TransformDataset::new`].
    fn transformed(self, steps: &Pipeline) -> Result<TransformDataset, DataError>;
}

impl Items for Vec<Item> {
    fn cached_with(self, steps: &Pipeline, options: CacheOptions) -> Result<CacheDataset, DataError> {
        CacheDataset::new(self, steps.clone(), options)
    }

    fn transformed(self, steps: &Pipeline) -> Result<TransformDataset, DataError> {
        TransformDataset::new(self, steps.clone())
    }
}

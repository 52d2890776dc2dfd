//! [`PersistentDataset`] and [`CacheNTransDataset`]: a file per case, read partially.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hearth_transforms::{Pipeline, Sample};

use super::cases::Cases;
use super::entry::{Bytes, Counter, FileBytes};
use super::stored_cases::{Store, StoreOptions, StoredCases, stored_dataset};
use super::{Dataset, Item, epoch_again};
use crate::DataError;

/// File name extension of an entry.
const SUFFIX: &str = "hearth";

/// Keeps each case after the pipeline's deterministic steps in a file of a folder, across runs.
///
/// A file is written at the first access, or by [`fill`](PersistentDataset::fill). Its name is the
/// blake3 hash of the steps with all their parameters, of this crate's version and of the source
/// files, so that a change in any of them leads to a new file. A damaged file is replaced, with a
/// warning. Values are compressed in chunks of 32 x 32 x 32: where the first random step is a crop,
/// only the chunks that it touches are read.
///
/// Several data sets and processes may use one folder at the same time.
#[derive(Debug)]
pub struct PersistentDataset(StoredCases<Folder>);

impl PersistentDataset {
    /// Creates a data set of cases, a pipeline and the folder, which is created if it does not
    /// exist.
    ///
    /// # Errors
    /// If the folder cannot be created, or a case lacks a file that the pipeline loads.
    pub fn new(
        items: Vec<Item>,
        pipeline: impl Into<Arc<Pipeline>>,
        dir: impl Into<PathBuf>,
        options: StoreOptions,
    ) -> Result<Self, DataError> {
        Self::of(Cases::new(items, pipeline)?, dir.into(), options)
    }

    fn of(cases: Cases, dir: PathBuf, options: StoreOptions) -> Result<Self, DataError> {
        fs::create_dir_all(&dir).map_err(|source| DataError::Io { path: dir.clone(), source })?;
        Ok(PersistentDataset(StoredCases::new(cases, Folder(dir), options)))
    }

    /// Removes the entries of the folder that belong to other steps or other files. Returns the
    /// number of bytes freed.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn remove_others(&self) -> Result<u64, DataError> {
        let dir = &self.0.store().0;
        let mine: HashSet<PathBuf> = self.0.keys().iter().map(|key| self.0.store().path(key)).collect();
        let io = |source| DataError::Io { path: dir.clone(), source };
        let mut freed = 0;
        for file in fs::read_dir(dir).map_err(io)? {
            let path = file.map_err(io)?.path();
            let entry = path.extension().is_some_and(|e| e == SUFFIX);
            if entry && !mine.contains(&path) {
                let length = fs::metadata(&path).map_or(0, |m| m.len());
                fs::remove_file(&path).map_err(|source| DataError::Io { path, source })?;
                freed += length;
            }
        }
        Ok(freed)
    }
}

stored_dataset!(PersistentDataset);

/// A [`PersistentDataset`] that caches the result of the first `n` steps, random or not: a cached
/// draw is the same in every epoch.
#[derive(Debug)]
pub struct CacheNTransDataset(PersistentDataset);

impl CacheNTransDataset {
    /// Creates a data set of cases, a pipeline, the number of cached steps, and the folder.
    ///
    /// # Errors
    /// If the pipeline has fewer steps, and those of [`PersistentDataset::new`].
    pub fn new(
        items: Vec<Item>,
        pipeline: impl Into<Arc<Pipeline>>,
        n: usize,
        dir: impl Into<PathBuf>,
        options: StoreOptions,
    ) -> Result<Self, DataError> {
        let cases = Cases::new(items, pipeline)?.with_split(n)?;
        Ok(CacheNTransDataset(PersistentDataset::of(cases, dir.into(), options)?))
    }
}

impl std::ops::Deref for CacheNTransDataset {
    type Target = PersistentDataset;

    fn deref(&self) -> &PersistentDataset {
        &self.0
    }
}

impl Dataset for CacheNTransDataset {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn case(&self, index: usize) -> &str {
        self.0.case(index)
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        self.0.get(index, epoch)
    }

    fn get_again(&self, index: usize, epoch: u64, before: u64) -> Result<Vec<Sample>, DataError> {
        self.get(index, epoch_again(epoch, before))
    }
}

/// A folder of entries, each in a file named by its key.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn path(&self, key: &[u8; 32]) -> PathBuf {
        self.0.join(format!("{}.{SUFFIX}", blake3::Hash::from(*key).to_hex()))
    }
}

impl Store for Folder {
    fn open(&self, key: &[u8; 32], counter: &Counter) -> io::Result<Option<(Box<dyn Bytes>, u64)>> {
        let file = match hearth_files::open(self.path(key)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        Ok(Some((Box::new(FileBytes::new(file, counter.clone())), length)))
    }

    fn put(&self, key: &[u8; 32], bytes: &[u8]) -> io::Result<()> {
        hearth_files::replace(&self.path(key), bytes)
    }

    fn name(&self, key: &[u8; 32]) -> String {
        self.path(key).display().to_string()
    }
}

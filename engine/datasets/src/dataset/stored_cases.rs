//! Data sets that keep cases outside memory: the shared part of
//! [`PersistentDataset`](super::PersistentDataset) and [`LmdbDataset`](super::LmdbDataset).

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use burn::tensor::Device;
use derive_setters::Setters;
use hearth_transforms::Sample;

use super::cases::{Cases, for_each};
use super::entry::{Bytes, Counter, Entry, EntryError, MemoryBytes, Storage, encode};
use super::identity::{Identity, KeyMaker, Stamp};
use crate::{DataError, Progress};

/// The storage of entries.
pub(crate) trait Store: Send + Sync + Debug {
    /// Returns the bytes of an entry and their number, if it exists. Reads are counted.
    fn open(&self, key: &[u8; 32], counter: &Counter) -> io::Result<Option<(Box<dyn Bytes>, u64)>>;

    /// Writes an entry, replacing an older one.
    fn put(&self, key: &[u8; 32], bytes: &[u8]) -> io::Result<()>;

    /// The name of an entry in messages.
    fn name(&self, key: &[u8; 32]) -> String;
}

/// The options for keeping cases on disk.
#[derive(Clone, Debug, Setters)]
#[setters(strip_option)]
pub struct StoreOptions {
    /// How a changed source file is detected.
    pub identity: Identity,
    /// Type of stored values. The lossless `Exact` is the default on disk.
    pub storage: Storage,
    /// Device that images are read to; by default the CPU.
    pub device: Option<Device>,
    /// Version that changes the key of every entry. Raise it when a custom transform changes
    /// without a change in its parameters.
    #[setters(into)]
    pub version: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions { identity: Identity::Content, storage: Storage::Exact, device: None, version: String::new() }
    }
}

/// Implements a data set for a type that holds [`StoredCases`].
macro_rules! stored_dataset {
    ($type:ident) => {
        impl $type {
            /// Writes the missing entries, on `workers` threads (0 means the number of cores).
            ///
            /// # Errors
            /// The error of the first case that fails.
            pub fn fill(&self, workers: usize, progress: crate::Progress) -> Result<(), crate::DataError> {
                self.0.fill(workers, progress)
            }

            /// The number of bytes read from entries so far.
            pub fn bytes_read(&self) -> u64 {
                self.0.bytes_read()
            }
        }

        impl crate::Dataset for $type {
            fn len(&self) -> usize {
                self.0.cases().len()
            }

            fn case(&self, index: usize) -> &str {
                self.0.cases().name(index)
            }

            fn get(&self, index: usize, epoch: u64) -> Result<Vec<hearth_transforms::Sample>, crate::DataError> {
                self.0.get(index, epoch)
            }

            fn get_again(
                &self,
                index: usize,
                epoch: u64,
                before: u64,
            ) -> Result<Vec<hearth_transforms::Sample>, crate::DataError> {
                self.get(index, crate::dataset::epoch_again(epoch, before))
            }
        }
    };
}
pub(super) use stored_dataset;

/// The last known state of a case's files, and its key.
type Known = Option<(Stamp, [u8; 32])>;

/// Cases whose first steps are kept in a store.
#[derive(Debug)]
pub(crate) struct StoredCases<S> {
    cases: Cases,
    store: S,
    options: StoreOptions,
    keys: KeyMaker,
    /// The last known state of each case's files, and its key. Locked while an entry is written.
    known: Vec<Mutex<Known>>,
    counter: Counter,
    warned: AtomicBool,
}

/// A prepared case.
enum Ready {
    Entry(Entry),
    /// The entry could not be stored.
    Samples(Vec<Sample>),
}

impl<S: Store> StoredCases<S> {
    pub fn new(cases: Cases, store: S, options: StoreOptions) -> Self {
        cases.warn_if_all_is_random();
        let what = format!("{} {:?} {}", cases.describe_fixed(), options.storage, options.version);
        let keys = KeyMaker::new(&what, options.identity);
        let known = (0..cases.len()).map(|_| Mutex::default()).collect();
        StoredCases { cases, store, options, keys, known, counter: Counter::default(), warned: false.into() }
    }

    pub fn cases(&self) -> &Cases {
        &self.cases
    }

    pub fn store(&self) -> &S {
        &self.store
    }

    pub fn bytes_read(&self) -> u64 {
        self.counter.get()
    }

    /// Writes every missing entry.
    pub fn fill(&self, workers: usize, progress: Progress) -> Result<(), DataError> {
        let bar = progress.start("cache", self.cases.len() as u64);
        let done = for_each(0..self.cases.len(), workers, &bar, |index| {
            self.ready(index, false)?;
            Ok(true)
        });
        bar.finish();
        done
    }

    /// Lists the keys of all cases, without those whose files cannot be read.
    pub fn keys(&self) -> Vec<[u8; 32]> {
        (0..self.cases.len()).filter_map(|i| self.key(i, &mut self.lock(i)).ok()).collect()
    }

    pub fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let entry = match self.ready(index, false)? {
            Ready::Entry(entry) => entry,
            Ready::Samples(samples) => return self.cases.rest(index, epoch, samples),
        };
        let done = self.cases.rest(index, epoch, self.samples(&entry));
        if !entry.is_damaged() {
            return done;
        }
        // A chunk was damaged. Draws have no state, so a retry returns the same result.
        let why = done.err().map_or_else(|| "a chunk is damaged".to_owned(), |e| e.to_string());
        tracing::warn!(case = self.cases.name(index), "computed again: {why}");
        match self.ready(index, true)? {
            Ready::Entry(entry) => self.cases.rest(index, epoch, self.samples(&entry)),
            Ready::Samples(samples) => self.cases.rest(index, epoch, samples),
        }
    }

    fn samples(&self, entry: &Entry) -> Vec<Sample> {
        entry.samples(|_, _| self.options.device.clone().unwrap_or_else(hearth_image::host_device))
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Option<(Stamp, [u8; 32])>> {
        self.known[index].lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The key of a case; files are read again only when their size or time has changed.
    fn key(&self, index: usize, known: &mut Known) -> io::Result<[u8; 32]> {
        let item = self.cases.item(index).map_err(io::Error::other)?;
        let stamp = Stamp::of(item)?;
        if let Some((before, key)) = known
            && *before == stamp
        {
            return Ok(*key);
        }
        let key = self.keys.key(item, &stamp)?;
        *known = Some((stamp, key));
        Ok(key)
    }

    /// Returns the entry of a case, which is written if there is no valid one.
    fn ready(&self, index: usize, anew: bool) -> Result<Ready, DataError> {
        // Fails for an index that does not exist.
        self.cases.item(index)?;
        let mut known = self.lock(index);
        let Ok(key) = self.key(index, &mut known) else {
            // The step that needs a file reports that it cannot be read.
            return Ok(Ready::Samples(self.cases.fixed(index)?));
        };
        let name = self.store.name(&key);
        if !anew {
            let found = self.store.open(&key, &self.counter).map_err(EntryError::from);
            let entry = found.and_then(|found| match found {
                Some((bytes, length)) => Entry::open(bytes, length, &key, name.clone()).map(Some),
                None => Ok(None),
            });
            match entry {
                Ok(Some(entry)) => return Ok(Ready::Entry(entry)),
                Ok(None) => {}
                Err(error) => tracing::warn!(case = self.cases.name(index), "{name} is written again: {error}"),
            }
        }
        let samples = self.cases.fixed(index)?;
        let bytes = match encode(&samples, key, self.options.storage) {
            Ok(bytes) => bytes,
            Err(what) => {
                self.warn_once(&format!(
                    "{}: {what}; cases like this are computed at each access",
                    self.cases.name(index)
                ));
                return Ok(Ready::Samples(samples));
            }
        };
        if let Err(error) = self.store.put(&key, &bytes) {
            self.warn_once(&format!("{name} can't be written: {error}; missing cases are computed at each access"));
        }
        // The encoded values, which later accesses read, are also used in this access.
        let length = bytes.len() as u64;
        let entry = Entry::open(Box::new(MemoryBytes::new(bytes)), length, &key, name.clone());
        Ok(Ready::Entry(entry.map_err(|e| DataError::Cache(format!("{name}: {e}")))?))
    }

    fn warn_once(&self, what: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("cache: {what}");
        }
    }
}

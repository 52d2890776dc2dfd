//! [`LmdbDataset`]: all cases in one database file.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, RwLock, Weak};

use hearth_transforms::Pipeline;
use heed::types::Bytes as Blob;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, WithoutTls};

use super::Item;
use super::cases::Cases;
use super::entry::{Bytes, Counter, slice};
use super::stored_cases::{Store, StoreOptions, StoredCases, stored_dataset};
use crate::DataError;

/// The name of the database's file in its folder.
const FILE: &str = "hearth.lmdb";
/// The initial size of the map. It grows with its content.
const FIRST_SIZE: usize = 64 << 20;
/// The maximum number of readers at the same time, over all processes.
const READERS: u32 = 1024;

/// Keeps each case after the pipeline's deterministic steps in an LMDB database, one file in a
/// folder: for file systems that handle many files badly, and for many readers.
///
/// Keys and entries are those of [`PersistentDataset`](super::PersistentDataset), with the same
/// properties: a changed case gets a new entry, a damaged entry is replaced, and a crop reads only
/// the chunks it touches. The file grows as needed; it never shrinks.
#[derive(Debug)]
pub struct LmdbDataset(StoredCases<Lmdb>);

impl LmdbDataset {
    /// Creates a data set of cases, a pipeline and the folder of the database, which is created if
    /// it does not exist.
    ///
    /// # Errors
    /// If the database can't be opened, or a case lacks a file that the pipeline loads.
    pub fn new(
        items: Vec<Item>,
        pipeline: impl Into<Arc<Pipeline>>,
        dir: impl AsRef<Path>,
        options: StoreOptions,
    ) -> Result<Self, DataError> {
        let dir = dir.as_ref();
        let store = Lmdb::open(dir).map_err(|source| DataError::Io { path: dir.join(FILE), source })?;
        Ok(LmdbDataset(StoredCases::new(Cases::new(items, pipeline)?, store, options)))
    }
}

stored_dataset!(LmdbDataset);

/// An open database.
#[derive(Debug)]
struct Inner {
    path: PathBuf,
    env: Env<WithoutTls>,
    entries: Database<'static, Blob, Blob>,
    /// A lock that is held for reading during a transaction, and for writing while the map changes
    /// its size.
    resizing: RwLock<()>,
}

#[derive(Clone, Debug)]
struct Lmdb(Arc<Inner>);

/// LMDB must not open a file twice in one process: data sets of one folder share it.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Inner>>>> = LazyLock::new(Mutex::default);

fn other(error: heed::Error) -> io::Error {
    match error {
        heed::Error::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

impl Lmdb {
    fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let path = dir.canonicalize()?.join(FILE);
        let mut open = OPEN.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(inner) = open.get(&path).and_then(Weak::upgrade) {
            return Ok(Lmdb(inner));
        }
        let length = std::fs::metadata(&path).map_or(0, |m| m.len()) as usize;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(whole_pages(length.max(FIRST_SIZE))).max_readers(READERS);
        // SAFETY: The file is mapped, so it must change only through LMDB: it lies in a folder
        // reserved for this cache, under its own name. `OPEN` ensures that this process opens it
        // once. Neither flag weakens a lock.
        #[expect(unsafe_code, reason = "heed maps a file into memory")]
        let env = unsafe {
            options.flags(EnvFlags::NO_SUB_DIR | EnvFlags::NO_READ_AHEAD);
            options.open(&path)
        };
        let env = env.map_err(other)?;
        let transaction = env.write_txn().map_err(other)?;
        let made = env.create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, Infallible>::Commit)
        });
        let entries = match made.map_err(other)? {
            CommitOrAbort::Commit(entries) => entries,
            CommitOrAbort::Abort(never) => match never {},
        };
        let inner = Arc::new(Inner { path: path.clone(), env, entries, resizing: RwLock::new(()) });
        open.insert(path, Arc::downgrade(&inner));
        Ok(Lmdb(inner))
    }
}

/// Rounds up to a size that LMDB accepts: a multiple of any page size in use.
fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(1 << 20)
}

impl Inner {
    /// Grows the map to at least this size.
    fn grow(&self, bytes: usize) -> io::Result<()> {
        let _alone = self.resizing.write().unwrap_or_else(|p| p.into_inner());
        if self.env.info().map_size >= bytes {
            return Ok(());
        }
        // SAFETY: No transaction of this process is active: each holds `resizing` for reading
        // during its lifetime.
        #[expect(unsafe_code, reason = "heed maps a file into memory")]
        let resized = unsafe { self.env.resize(whole_pages(bytes)) };
        resized.map_err(other)
    }

    /// Runs a transaction, and grows the map if needed.
    fn transact<T>(&self, mut work: impl FnMut() -> heed::Result<T>) -> io::Result<T> {
        loop {
            let done = {
                let _in_use = self.resizing.read().unwrap_or_else(|p| p.into_inner());
                work()
            };
            match done {
                Err(heed::Error::Mdb(MdbError::MapFull)) => self.grow(self.env.info().map_size * 2)?,
                // Another process has grown the file.
                Err(heed::Error::Mdb(MdbError::MapResized)) => {
                    let length = std::fs::metadata(&self.path)?.len() as usize;
                    self.grow(length.max(self.env.info().map_size + 1))?;
                }
                done => return done.map_err(other),
            }
        }
    }

    /// Passes an entry to `look` during a transaction.
    fn look(&self, key: &[u8; 32], look: &mut dyn FnMut(Option<&[u8]>)) -> io::Result<()> {
        self.transact(|| {
            let transaction = self.env.read_txn()?;
            look(self.entries.get(&transaction, key)?);
            Ok(())
        })
    }
}

impl Store for Lmdb {
    fn open(&self, key: &[u8; 32], counter: &Counter) -> io::Result<Option<(Box<dyn Bytes>, u64)>> {
        let mut length = None;
        self.0.look(key, &mut |entry| length = entry.map(<[u8]>::len))?;
        let Some(length) = length else { return Ok(None) };
        let bytes = LmdbBytes { inner: self.0.clone(), key: *key, counter: counter.clone() };
        Ok(Some((Box::new(bytes), length as u64)))
    }

    fn put(&self, key: &[u8; 32], bytes: &[u8]) -> io::Result<()> {
        self.0.transact(|| {
            let mut transaction = self.0.env.write_txn()?;
            self.0.entries.put(&mut transaction, key, bytes)?;
            transaction.commit()
        })
    }

    fn name(&self, key: &[u8; 32]) -> String {
        format!("{}, entry {}", self.0.path.display(), blake3::Hash::from(*key).to_hex())
    }
}

/// An entry of the database; each read is a separate transaction.
#[derive(Debug)]
struct LmdbBytes {
    inner: Arc<Inner>,
    key: [u8; 32],
    counter: Counter,
}

impl Bytes for LmdbBytes {
    fn with(&self, at: u64, length: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut found = Err(io::ErrorKind::NotFound.into());
        self.inner.look(&self.key, &mut |entry| {
            found = entry.ok_or_else(|| io::ErrorKind::NotFound.into()).and_then(|entry| {
                look(slice(entry, at, length)?);
                Ok(())
            });
        })?;
        self.counter.add(length);
        found
    }
}

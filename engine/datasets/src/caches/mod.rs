//! The caches of cases between epochs, as configured in a recipe:
//! `[data] cache = { kind = "cache", rate = 0.5 }`.
//!
//! ```
//! use hearth_datasets::caches::Cache;
//! use hearth_registry::{Fault, Named, Node};
//!
//! let half = Named::<dyn Cache>::new(&Node::empty().with("kind", "cache").with("rate", 0.5))?;
//! assert_eq!((half.kept(10), half.on_device()), (5, false));
//! # Ok::<(), Fault>(())
//! ```

mod budget;
mod lmdb;
mod memory;
mod none;
mod on_disk;
mod persistent;
mod place;
mod rate;
mod smart;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_registry::{Fault, Kind, Place};

use budget::Budget;

pub use lmdb::LmdbCache;
pub use memory::MemoryCache;
pub use none::NoCache;
pub use on_disk::OnDisk;
pub use persistent::PersistentCache;
pub use place::CachePlace;
pub use rate::Rate;
pub use smart::SmartCache;

use crate::{DataError, Dataset, Item, Progress, Storage};
use hearth_transforms::Pipeline;

/// A kind of cache for cases after the deterministic transforms.
pub trait Cache: Debug + Send + Sync {
    /// Creates the filled data set of these cases after these steps.
    ///
    /// # Errors
    /// If a case fails, the cache does not fit, or its folder cannot be written.
    fn dataset(&self, cases: Vec<Item>, steps: Arc<Pipeline>, run: &CacheRun) -> Result<Arc<dyn Dataset>, DataError>;

    /// The number of `cases` cases that are kept at a time.
    fn kept(&self, cases: usize) -> usize;

    /// The type of the kept values.
    fn storage(&self) -> Storage {
        Storage::F32
    }

    /// The cache's folder, if it has one.
    fn dir(&self) -> Option<&Path> {
        None
    }

    /// Whether cases are kept on the training device.
    fn on_device(&self) -> bool {
        false
    }

    /// The maximum number of bytes of memory, if exceeding it is an error; `None` if the cache
    /// keeps what fits, or uses no memory.
    fn limit(&self, run: &CacheRun) -> Option<u64> {
        let _ = run;
        None
    }

    /// Whether epochs use different parts of the cases.
    fn moves(&self) -> bool {
        false
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// The first invalid parameter.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// The properties of the run that a cache needs.
#[derive(Clone, Debug)]
pub struct CacheRun {
    /// Training device.
    pub device: Device,
    /// How the progress of filling is shown.
    pub progress: Progress,
    /// Whether every case is needed in every epoch, as for validation.
    pub whole: bool,
    /// Free bytes of the device, if known.
    pub free: Option<u64>,
    /// Estimated bytes of host memory that the training of one rank needs in addition to the cache.
    pub beside: u64,
    /// Number of ranks on this machine, which share its memory; 1 for a single process.
    pub ranks_here: usize,
}

impl Kind for dyn Cache {
    const WORD: &'static str = "cache";

    const TAG: &'static str = "kind";

    const DEFAULT: Option<&'static str> = Some("cache");

    fn check(&self) -> Result<(), Fault> {
        Cache::check(self)
    }

    fn place(&self) -> Option<Place> {
        Some(Place::Host)
    }
}

/// Values on a device are f32 or f16.
fn check_storage(storage: Storage, place: CachePlace) -> Result<(), Fault> {
    if storage == Storage::Exact && place == CachePlace::Same {
        let message = "exact is for a cache in host memory; with device = \"same\" use f32 or f16";
        return Err(Fault::at("storage", message));
    }
    Ok(())
}

/// The default of `device_part`.
fn half() -> f64 {
    Budget::PART
}

/// The default number of threads that fill a cache.
fn two() -> usize {
    2
}

//! The caches of cases between epochs, as a recipe names them:
//! `[data] cache = { kind = "cache", rate = 0.5 }`.

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

/// How cases are kept after the deterministic transforms.
pub trait Cache: Debug + Send + Sync {
    /// The filled data set of these cases after these steps.
    ///
    /// # Errors
    /// Where a case fails, the cache does not fit, or its folder cannot be written.
    fn dataset(&self, cases: Vec<Item>, steps: Arc<Pipeline>, run: &CacheRun) -> Result<Arc<dyn Dataset>, DataError>;

    /// How many of `cases` cases it keeps at a time.
    fn kept(&self, cases: usize) -> usize;

    /// The type of the values that it keeps.
    fn storage(&self) -> Storage {
        Storage::F32
    }

    /// The cache's folder, where it has one.
    fn dir(&self) -> Option<&Path> {
        None
    }

    /// Whether it keeps them on the training device.
    fn on_device(&self) -> bool {
        false
    }

    /// The most bytes of memory that it may take, where more are an error; `None` where it keeps what fits,
    /// or takes no memory.
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
    /// The first invalid one.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// The run's properties that a cache needs.
#[derive(Clone, Debug)]
pub struct CacheRun {
    /// The training device.
    pub device: Device,
    /// How the progress of filling is shown.
    pub progress: Progress,
    /// Whether every case is needed in every epoch, as for validation.
    pub whole: bool,
    /// Bytes that the device has free, where that is known.
    pub free: Option<u64>,
    /// Bytes of host memory that the training takes beside the cache, an estimate; of one rank.
    pub beside: u64,
    /// Ranks on this machine, which share its memory; 1 where there is one process.
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

/// The default of threads that fill a cache.
fn two() -> usize {
    2
}

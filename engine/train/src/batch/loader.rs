//! Where batches come from: [`Loader`].

use hearth_data::{Batch, DataError};

/// One pass over the data.
pub type BatchStream = Box<dyn Iterator<Item = Result<Batch, DataError>> + Send>;

/// Whatever hands out batches, pass after pass. The loaders of `hearth-data` are loaders; so is
/// your own.
pub trait Loader: Send {
    /// BatchStream of a whole pass, where known.
    fn batches(&self) -> Option<u64>;

    /// Pass number `pass` (the epoch, from 1) without its first `skip` batches. Asked for the same
    /// pass again, it must give the same batches: that is what makes a resumed run equal to an
    /// uninterrupted one.
    fn pass(&self, pass: u64, skip: u64) -> BatchStream;
}

impl Loader for hearth_data::DataLoader {
    fn batches(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.epoch(pass, skip))
    }
}

impl Loader for hearth_data::ThreadDataLoader {
    fn batches(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.epoch(pass, skip))
    }
}

impl Loader for hearth_data::PatchLoader {
    /// How many patches a case gives is known when it is made.
    fn batches(&self) -> Option<u64> {
        None
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.epoch(pass, skip))
    }
}

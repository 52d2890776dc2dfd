//! The source of batches: [`Loader`].

use hearth_data::{Batch, DataError};

/// One pass over the data.
pub type BatchStream = Box<dyn Iterator<Item = Result<Batch, DataError>> + Send>;

/// A source of batches, pass after pass. The loaders of `hearth-data` implement it; so may your own
/// type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of batches",
    note = "`DataLoader::new(data, LoaderOptions::default())?` makes batches of a data set; a type of your own implements \
            `Loader`"
)]
pub trait Loader: Send {
    /// The number of batches in a whole pass, where it is known.
    fn batches(&self) -> Option<u64>;

    /// Pass number `pass` (the epoch, from 1) without its first `skip` batches. The same pass must
    /// return the same batches each time: a resumed run then equals an uninterrupted one.
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
    /// The number of patches of a case is known only once they are made.
    fn batches(&self) -> Option<u64> {
        None
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.epoch(pass, skip))
    }
}

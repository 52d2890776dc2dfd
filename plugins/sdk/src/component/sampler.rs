//! [`Sampler`].

use std::collections::BTreeMap;

use hearth_engine::HandlerError;

use super::Draw;

/// The order of the cases of each epoch.
pub trait Sampler: Send + Sync {
    /// Returns the indices of the cases of an epoch, in their order. A case may occur several times, and is
    /// then cropped and augmented differently each time. All epochs have the same number of cases.
    ///
    /// # Errors
    /// The reason why there is no order.
    fn order(&self, epoch: &Epoch<'_>, draw: Draw) -> Result<Vec<usize>, HandlerError>;
}

/// An epoch whose order is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Epoch<'a> {
    /// The names of all cases.
    pub cases: &'a [String],
    /// The number of the epoch, from 0.
    pub number: u64,
    /// The last loss of each case, as far as it is known.
    pub losses: &'a BTreeMap<String, f64>,
}

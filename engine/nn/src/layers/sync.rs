//! Batch norms with statistics over the batches of several ranks, as `torch.nn.SyncBatchNorm`.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use hearth_kernels::exchange;

/// A function that sums values over all ranks. The name identifies the operation and is the same on
/// all ranks.
pub type SumOverRanks = dyn Fn(&str, &[f32]) -> Result<Vec<f32>, String> + Send + Sync;

/// The exchange of batch norm statistics between ranks, in one forward pass and its backward pass.
pub struct SyncedNorms {
    sum: Box<SumOverRanks>,
    /// Whether every batch norm takes part, or only `syncbatch`.
    all: bool,
    norms: AtomicU64,
    fault: Mutex<Option<String>>,
}

impl fmt::Debug for SyncedNorms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncedNorms").field("all", &self.all).finish_non_exhaustive()
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<SyncedNorms>>> = const { RefCell::new(None) };
}

impl SyncedNorms {
    /// Creates the exchange, with `sum` as the sum over ranks. It applies to `all` batch norms, or
    /// to those named `syncbatch`.
    pub fn new(all: bool, sum: impl Fn(&str, &[f32]) -> Result<Vec<f32>, String> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { sum: Box::new(sum), all, norms: AtomicU64::new(0), fault: Mutex::new(None) })
    }

    /// Runs a forward pass whose batch norms take part.
    pub fn within<T>(self: &Arc<Self>, forward: impl FnOnce() -> T) -> T {
        struct Restore(Option<Arc<SyncedNorms>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.replace(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(Arc::clone(self))));
        forward()
    }

    /// Reports the first failure since the last call: a pass cannot be stopped within a layer.
    ///
    /// # Errors
    /// Returns the error of `sum`. The values of the pass are then invalid.
    pub fn check(&self) -> Result<(), String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// The exchange that a batch norm of this thread takes part in.
    pub(super) fn current(named: bool) -> Option<Arc<Self>> {
        CURRENT.with_borrow(|current| current.clone()).filter(|current| current.all || named)
    }

    /// The number of the next norm of the pass.
    pub(super) fn next(&self) -> u64 {
        self.norms.fetch_add(1, Ordering::Relaxed)
    }

    /// The sum of `values` over the ranks, with its gradient.
    pub(super) fn sum(self: &Arc<Self>, norm: u64, part: &'static str, values: Tensor<1>) -> Tensor<1> {
        let synced = Arc::clone(self);
        exchange(values, move |values, of_gradient| {
            let (device, count) = (values.device(), values.dims()[0]);
            let name = format!("{part} of batch norm {norm}{}", if of_gradient { ", gradient" } else { "" });
            let own = values.into_data().convert::<f32>().try_into_vec::<f32>();
            let sums = own.map_err(|why| format!("{why:?}")).and_then(|own| (synced.sum)(&name, &own));
            let sums = sums.unwrap_or_else(|why| {
                synced.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                vec![f32::NAN; count]
            });
            Tensor::from_data(TensorData::new(sums, [count]), &device)
        })
    }
}

//! Ends a computation between two windows: [`stoppable`].

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::InferError;

thread_local! {
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Restores the flag of an outer call, after a panic too.
struct Restored(Option<Arc<AtomicBool>>);

impl Drop for Restored {
    fn drop(&mut self) {
        STOP.set(self.0.take());
    }
}

/// Calls `work`, in which inferers of this thread end with [`InferError::Stopped`] before the next window
/// once `stop` is true.
///
/// ```
/// # use std::sync::Arc;
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::{InferError, Inferer, SlidingWindowInferer, stoppable};
/// let stop = Arc::new(AtomicBool::new(false));
/// let x = Tensor::ones([1, 1, 8, 8, 8], &Device::default());
/// let found = stoppable(&stop, || {
///     SlidingWindowInferer::new(&[4, 4, 4]).infer(x, &|window| {
///         stop.store(true, Ordering::Relaxed);
///         window
///     })
/// });
/// assert_eq!(found.err(), Some(InferError::Stopped));
/// ```
pub fn stoppable<T>(stop: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let _outer = Restored(STOP.replace(Some(stop.clone())));
    work()
}

/// Fails if the computation of this thread is no longer wanted.
///
/// # Errors
/// [`InferError::Stopped`].
pub fn check_stop() -> Result<(), InferError> {
    let stopped = STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)));
    if stopped { Err(InferError::Stopped) } else { Ok(()) }
}

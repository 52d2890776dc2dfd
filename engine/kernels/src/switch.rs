//! Turns the kernels of networks off, for comparison.

use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(true);

/// Enables or disables the kernels. With `false`, convolutions, norms, activations, dropout,
/// pooling, attention, the sums of losses and optimizers run as Burn's own operations on every
/// device, from the next call on and in the whole process. Gradients of earlier operations are
/// unchanged. Resampling, filters and labels are not affected.
///
/// Values differ by rounding. Use it for comparisons (`hearth bench ladder`), and for checking
/// whether a kernel causes a problem.
pub fn use_kernels(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Whether the kernels are enabled, which is the default.
pub fn uses_kernels() -> bool {
    ON.load(Ordering::Relaxed)
}

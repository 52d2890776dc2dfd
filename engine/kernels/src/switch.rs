//! Turning the kernels of networks off, to see what they are worth.

use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(true);

/// With `false`, convolutions, norms, activations, dropout, pooling, attention, the sums of losses
/// and optimizers run as Burn's own operations on every device, from the next call on and in the
/// whole process; gradients of what ran before are unchanged. Resampling, filters and labels are
/// not touched.
///
/// Values differ by rounding. For comparisons (`hearth bench ladder`) and for finding out whether a
/// kernel is to blame.
pub fn use_kernels(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Whether they are used; they are from the start.
pub fn uses_kernels() -> bool {
    ON.load(Ordering::Relaxed)
}

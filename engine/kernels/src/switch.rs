//! Turning the CPU kernels of networks off, to see what they are worth.

use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(true);

/// With `false`, convolutions, norms, activations, pooling, attention and the sums of losses run as Burn's own operations on CPUs too, from the next
/// call on and in the whole process; gradients of what ran before are unchanged. Resampling, filters and labels are not touched.
///
/// Values differ by rounding. For comparisons (`hearth bench ladder`) and for finding out whether a kernel is to blame.
pub fn use_cpu_kernels(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Whether they are used; they are from the start.
pub fn uses_cpu_kernels() -> bool {
    ON.load(Ordering::Relaxed)
}

//! The number of windows that a device computes at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::Tensor;
use hearth_kernels::device_error::is_out_of_memory;
use hearth_kernels::host;

/// The target of messages that users see (`hearth_engine::NOTICE_TARGET`).
const NOTICE_TARGET: &str = "hearth::notice";

/// The number of windows that fit into the device's memory, shared by all passes with an inferer
/// and its clones. It does not take part in comparisons of inferers.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// 0 until an allocation fails.
    most: Arc<AtomicUsize>,
}

impl PartialEq for Room {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The number of windows per network call in one pass. It starts at the requested number and is
/// halved each time the device runs out of memory.
pub(super) struct AtOnce<'a> {
    room: &'a Room,
    size: usize,
    /// The largest number that was computed successfully.
    proven: usize,
}

impl<'a> AtOnce<'a> {
    pub(super) fn new(asked: usize, room: &'a Room) -> Self {
        let size = match room.most.load(Ordering::Relaxed) {
            0 => asked,
            most => most.min(asked),
        };
        Self { room, size, proven: 0 }
    }

    /// The number of windows of the next call, at least 1.
    pub(super) fn size(&self) -> usize {
        self.size.max(1)
    }

    /// Whether the device ran out of memory for these outputs of `count` windows. If so,
    /// [`size`](Self::size) is reduced, and the windows must be computed again. To find out, one
    /// value is read back until this number of windows has been computed once; nothing is read on
    /// the CPU. A failure with a single window is not handled; it surfaces when the result is read.
    pub(super) fn exceeded(&mut self, outputs: &[Tensor<5>], count: usize) -> bool {
        if count <= self.proven.max(1) || !outputs.iter().any(no_memory_for) {
            self.proven = self.proven.max(count);
            return false;
        }
        self.size = count / 2;
        self.room.most.store(self.size, Ordering::Relaxed);
        tracing::warn!(
            target: NOTICE_TARGET,
            "the device has not enough memory for {count} windows at a time; using {}. To start with this number, \
             set sw_batch_size = {} in the inferer",
            self.size,
            self.size
        );
        true
    }
}

/// Whether a tensor was not computed because the device had no memory. Any other error surfaces
/// when the result is read.
fn no_memory_for(output: &Tensor<5>) -> bool {
    if host::is_host(&output.device().without_autodiff()) || output.dims().contains(&0) {
        return false;
    }
    let first = output.clone().slice([0..1, 0..1, 0..1, 0..1, 0..1]);
    first.try_into_data().is_err_and(|error| is_out_of_memory(&error.to_string()))
}

//! How many windows a device computes at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::Tensor;
use hearth_kernels::device_error::is_out_of_memory;
use hearth_kernels::host;

/// What users of a run are shown (`hearth_engine::NOTICE_TARGET`).
const NOTICE_TARGET: &str = "hearth::notice";

/// How many windows the device had memory for, of all passes with one inferer and its clones. Inferers
/// with equal options are equal, whatever they have found.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// 0 where nothing failed yet.
    most: Arc<AtomicUsize>,
}

impl PartialEq for Room {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The windows of one pass: as many at a time as asked for, and half as many each time the device has no
/// memory for them.
pub(super) struct AtOnce<'a> {
    room: &'a Room,
    size: usize,
    /// The most that were computed.
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

    /// At least 1.
    pub(super) fn size(&self) -> usize {
        self.size.max(1)
    }

    /// Whether the device had no memory for these outputs of `count` windows: they are to be computed
    /// again, [`size`](Self::size) at a time, which is less now. One value is read back, until as many
    /// windows were computed once; nothing on the CPU. A single window that fails is left to
    /// whoever reads the result.
    pub(super) fn exceeded(&mut self, outputs: &[Tensor<5>], count: usize) -> bool {
        if count <= self.proven.max(1) || !outputs.iter().any(no_memory_for) {
            self.proven = self.proven.max(count);
            return false;
        }
        self.size = count / 2;
        self.room.most.store(self.size, Ordering::Relaxed);
        tracing::warn!(
            target: NOTICE_TARGET,
            "the device has no memory for {count} windows at a time, {} are taken: sw_batch_size = {} of the inferer \
             says so from the start",
            self.size,
            self.size
        );
        true
    }
}

/// Whether a tensor was not computed since the device had no memory. Any other error is left to
/// whoever reads the result.
fn no_memory_for(output: &Tensor<5>) -> bool {
    if host::is_host(&output.device().without_autodiff()) || output.dims().contains(&0) {
        return false;
    }
    let first = output.clone().slice([0..1, 0..1, 0..1, 0..1, 0..1]);
    first.try_into_data().is_err_and(|error| is_out_of_memory(&error.to_string()))
}

//! Deferred initial weights, for networks whose weights are read from a file: [`awaiting_weights`].

use std::cell::Cell;

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Shape, Tensor};
use hearth_kernels::scoped;

thread_local! {
    static AWAITED: Cell<bool> = const { Cell::new(false) };
}

/// Builds networks whose weights are read from a file right after construction. Initial weights are
/// drawn on first use, so that replaced ones are never drawn: drawing 31 million values takes
/// longer than reading them.
pub fn awaiting_weights<R>(build: impl FnOnce() -> R) -> R {
    scoped(&AWAITED, true, build)
}

/// Whether this thread is within [`awaiting_weights`].
pub(super) fn are_awaited() -> bool {
    AWAITED.get()
}

/// A parameter whose initial values are computed on first use.
pub(super) fn when_used<const D: usize>(
    shape: [usize; D],
    device: &Device,
    values: impl FnOnce(&Device) -> Tensor<D> + Send + Sync + 'static,
) -> Param<Tensor<D>> {
    let values = move |device: &Device, trains: bool| values(device).set_require_grad(trains);
    Param::uninitialized(ParamId::new(), values, device.clone(), true, Shape::from(shape))
}

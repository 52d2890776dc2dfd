//! Networks whose initial weights are not used: [`awaiting_weights`] for those whose weights are read from a
//! file, [`without_draws`] for those that are counted.

use std::cell::Cell;

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Shape, Tensor};
use hearth_kernels::scoped;

thread_local! {
    static AWAITED: Cell<bool> = const { Cell::new(false) };
    static UNDRAWN: Cell<bool> = const { Cell::new(false) };
}

/// Builds networks whose weights are read from a file right after construction. Initial weights are
/// drawn on first use, so that replaced ones are never drawn: drawing 31 million values takes
/// longer than reading them.
pub fn awaiting_weights<R>(build: impl FnOnce() -> R) -> R {
    scoped(&AWAITED, true, build)
}

/// Builds networks whose drawn initial weights are 0 instead, for counts and shapes: drawing takes most of the
/// time of building a network.
pub fn without_draws<R>(build: impl FnOnce() -> R) -> R {
    scoped(&UNDRAWN, true, build)
}

/// Whether this thread is within [`without_draws`].
pub(super) fn are_undrawn() -> bool {
    UNDRAWN.get()
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

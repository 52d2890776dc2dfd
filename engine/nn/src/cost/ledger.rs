//! The record of a forward pass: the output of each layer and its number of multiply-adds.

use std::cell::RefCell;

use burn::module::ParamId;
use burn::tensor::{Device, Tensor};

/// The record of one layer.
pub(super) struct Entry {
    /// A parameter of the layer, which identifies its position in the network; `None` for a layer
    /// without parameters.
    pub param: Option<ParamId>,
    pub multiply_adds: u64,
    pub output: Vec<usize>,
}

thread_local! {
    static OPEN: RefCell<Option<Vec<Entry>>> = const { RefCell::new(None) };
}

/// Runs `forward` with an open ledger, and returns its result and the entries.
pub(super) fn while_open<T>(forward: impl FnOnce() -> T) -> (T, Vec<Entry>) {
    /// Closes the ledger on drop. A panic in `forward` must not leave it open: later passes on this
    /// thread would compute nothing.
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            OPEN.take();
        }
    }
    OPEN.set(Some(Vec::new()));
    let close = Close;
    let result = forward();
    let entries = OPEN.take().unwrap_or_default();
    drop(close);
    (result, entries)
}

/// Whether a ledger is open.
fn is_open() -> bool {
    OPEN.with_borrow(Option::is_some)
}

/// Whether fused layers run one by one: a ledger is open, or a pass is [recorded](crate::trace).
pub(crate) fn apart() -> bool {
    is_open() || crate::trace::is_open()
}

/// Appends an entry, if a ledger is open.
fn write(param: Option<ParamId>, multiply_adds: u64, output: &[usize]) -> bool {
    OPEN.with_borrow_mut(|open| match open {
        Some(entries) => {
            entries.push(Entry { param, multiply_adds, output: output.to_vec() });
            true
        }
        None => false,
    })
}

/// Returns the result of a convolution, linear layer or matrix product. With an open ledger the
/// operation is recorded and the result is zeros of its shape: the cost of a network does not
/// depend on values.
pub(crate) fn product<const D: usize>(
    param: Option<ParamId>,
    multiply_adds: u64,
    output: [usize; D],
    device: &Device,
    compute: impl FnOnce() -> Tensor<D>,
) -> Tensor<D> {
    if write(param, multiply_adds, &output) { Tensor::zeros(output, device) } else { compute() }
}

/// Returns the result of any other layer, and records it if a ledger is open.
pub(crate) fn output<const D: usize>(param: Option<ParamId>, y: Tensor<D>) -> Tensor<D> {
    write(param, 0, &y.dims());
    y
}

//! The record of a forward pass: what each layer gave and how many multiply-adds it took.

use std::cell::RefCell;

use burn::module::ParamId;
use burn::tensor::{Device, Tensor};

/// What one layer did.
pub(super) struct Entry {
    /// One of the layer's parameters, by which its place in the network is known; none for a layer
    /// without any.
    pub param: Option<ParamId>,
    pub multiply_adds: u64,
    pub output: Vec<usize>,
}

thread_local! {
    static OPEN: RefCell<Option<Vec<Entry>>> = const { RefCell::new(None) };
}

/// Runs `forward` with an open ledger, and gives its result and what was written.
pub(super) fn while_open<T>(forward: impl FnOnce() -> T) -> (T, Vec<Entry>) {
    /// A panic inside must not leave the ledger open: later passes of this thread would compute
    /// nothing.
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

/// Whether a ledger is open: then layers that could run as one write what each of them does.
pub(crate) fn is_open() -> bool {
    OPEN.with_borrow(Option::is_some)
}

/// Writes an entry, where a ledger is open.
fn write(param: Option<ParamId>, multiply_adds: u64, output: &[usize]) -> bool {
    OPEN.with_borrow_mut(|open| match open {
        Some(entries) => {
            entries.push(Entry { param, multiply_adds, output: output.to_vec() });
            true
        }
        None => false,
    })
}

/// A convolution, linear layer or matrix product. With an open ledger it is written down, and zeros
/// of its shape stand in for its result: what the network costs does not depend on values.
pub(crate) fn product<const D: usize>(
    param: Option<ParamId>,
    multiply_adds: u64,
    output: [usize; D],
    device: &Device,
    compute: impl FnOnce() -> Tensor<D>,
) -> Tensor<D> {
    if write(param, multiply_adds, &output) { Tensor::zeros(output, device) } else { compute() }
}

/// The result of any other layer.
pub(crate) fn output<const D: usize>(param: Option<ParamId>, y: Tensor<D>) -> Tensor<D> {
    write(param, 0, &y.dims());
    y
}

//! Outputs of layers during a forward pass: their list, and one of them as a leaf of the autodiff graph.

use std::cell::RefCell;

use burn::tensor::Tensor;

/// An output of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// State-dict path of the layer; empty for one without parameters.
    pub path: String,
    /// `[b, c, x, y, z]`
    pub shape: [usize; 5],
}

/// The state of a pass.
#[derive(Default)]
struct Tap {
    seen: Vec<Output>,
    /// The place of the output that becomes a leaf.
    wanted: Option<usize>,
    leaf: Option<Tensor<5>>,
}

thread_local! {
    static OPEN: RefCell<Option<Tap>> = const { RefCell::new(None) };
}

/// Whether outputs are listed; if so, fused layers run one by one.
pub(super) fn is_open() -> bool {
    OPEN.with_borrow(Option::is_some)
}

/// Takes note of the output of a layer, and returns it, or the leaf with its values.
pub(super) fn pass(path: &str, output: Tensor<5>) -> Tensor<5> {
    OPEN.with_borrow_mut(|open| {
        let Some(tap) = open.as_mut() else { return output };
        tap.seen.push(Output { path: path.to_owned(), shape: output.dims() });
        if tap.wanted != Some(tap.seen.len() - 1) {
            return output;
        }
        tap.leaf.insert(output.without_autodiff().autodiff().require_grad()).clone()
    })
}

/// Runs a forward pass under autodiff, and lists the outputs of its layers in their order.
pub(crate) fn outputs(forward: impl FnOnce() -> Tensor<5>) -> Vec<Output> {
    while_open(None, forward).1.seen
}

/// Runs a forward pass under autodiff in which the output at this place is a leaf. Returns the network's
/// output and the leaf, if the pass has that place.
pub(crate) fn with_leaf(place: usize, forward: impl FnOnce() -> Tensor<5>) -> (Tensor<5>, Option<Tensor<5>>) {
    let (output, tap) = while_open(Some(place), forward);
    (output, tap.leaf)
}

fn while_open(wanted: Option<usize>, forward: impl FnOnce() -> Tensor<5>) -> (Tensor<5>, Tap) {
    /// Closes the tap on drop, also after a panic in `forward`.
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            OPEN.take();
        }
    }
    OPEN.set(Some(Tap { wanted, ..Tap::default() }));
    let close = Close;
    let output = forward();
    let tap = OPEN.take().unwrap_or_default();
    drop(close);
    (output, tap)
}

//! Ranges of the profiler around layers of a network: [`layer_range`] for the forward pass, and
//! [`of_layer`] for the steps of the backward pass that belong to it.

use std::cell::RefCell;
use std::sync::Arc;

use burn::backend::Backend;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use tracing::span::EnteredSpan;

thread_local! {
    /// The innermost layer whose forward pass this thread runs.
    static LAYER: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// A profiler range of a layer's forward pass, until it is dropped.
#[derive(Debug)]
pub struct LayerRange {
    /// The layer around it.
    outer: Option<Arc<str>>,
    _span: EnteredSpan,
}

/// Enters the range `layer` of a layer's forward pass, with its path and its own number of
/// operations. Steps that are recorded meanwhile for the backward pass run in ranges
/// `layer backward` of the same path.
pub fn layer_range(path: &Arc<str>, flop: u64) -> LayerRange {
    let span = tracing::trace_span!("layer", name = &**path, flop).entered();
    let outer = LAYER.with(|layer| layer.replace(Some(path.clone())));
    LayerRange { outer, _span: span }
}

impl Drop for LayerRange {
    fn drop(&mut self) {
        let outer = self.outer.take();
        LAYER.with(|layer| layer.replace(outer));
    }
}

/// A step of the backward pass, within the range of its layer.
#[derive(Debug)]
pub(crate) struct OfLayer<S> {
    step: S,
    layer: Option<Arc<str>>,
}

/// Assigns a step of the backward pass to the layer whose forward pass this thread runs.
pub(crate) fn of_layer<S>(step: S) -> OfLayer<S> {
    OfLayer { step, layer: LAYER.with(|layer| layer.borrow().clone()) }
}

impl<B: Backend, S: Backward<B, N>, const N: usize> Backward<B, N> for OfLayer<S> {
    type State = S::State;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let range = self.layer.map(|path| tracing::trace_span!("layer backward", name = &*path).entered());
        self.step.backward(ops, grads, checkpointer);
        drop(range);
    }
}

//! The path of a layer in its network, [`LayerPath`], and profiler ranges of layers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hearth_kernels::{LayerRange, layer_range};

use super::Scope;

/// Whether layer ranges are recorded.
static RANGES: AtomicBool = AtomicBool::new(false);

/// Turns the profiler ranges of layers on or off: `tracing` spans named `layer` (forward) and
/// `layer backward` (for each kernel that the layer recorded), with the layer's path as in state
/// dicts (`model.1.conv.unit0`). In the forward pass, the range of a layer contains the ranges of
/// its sublayers. While ranges are off, a layer costs one branch.
///
/// ```
/// hearth_nn::layers::layer_ranges(true);
/// assert!(hearth_nn::layers::has_layer_ranges());
/// # hearth_nn::layers::layer_ranges(false);
/// ```
pub fn layer_ranges(on: bool) {
    RANGES.store(on, Ordering::Relaxed);
}

/// Whether layer ranges are recorded.
pub fn has_layer_ranges() -> bool {
    RANGES.load(Ordering::Relaxed)
}

/// The path of a layer, taken from the scope in which it is built. A layer converted from another
/// library has no path and no range.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerPath(Option<Arc<str>>);

impl LayerPath {
    /// The path of the layer under construction.
    pub fn of(scope: &Scope) -> Self {
        LayerPath((!scope.path().is_empty()).then(|| scope.path().into()))
    }

    /// The path as in state dicts; empty if the layer has none.
    pub fn name(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Opens the range of a layer, which lasts until the result is dropped. `flop` is the number of
    /// operations of the layer itself.
    pub fn enter(&self, flop: u64) -> Option<LayerRange> {
        if !has_layer_ranges() {
            return None;
        }
        Some(layer_range(self.0.as_ref()?, flop))
    }
}

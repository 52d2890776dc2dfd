//! Where a layer is in its network: [`LayerPath`], and its range for a profiler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hearth_kernels::{LayerRange, layer_range};

use super::Scope;

/// Whether layers are ranges.
static RANGES: AtomicBool = AtomicBool::new(false);

/// Makes the passes of each layer ranges from now on, or no longer: `tracing` spans named `layer` (forward)
/// and `layer backward` (of each kernel that the layer recorded) with the layer's path, as state dicts have it
/// (`model.1.conv.unit0`). A layer that consists of others is around theirs, in the forward pass. As long as
/// this is off, a layer costs one branch.
///
/// ```
/// hearth_nn::layers::layer_ranges(true);
/// assert!(hearth_nn::layers::has_layer_ranges());
/// # hearth_nn::layers::layer_ranges(false);
/// ```
pub fn layer_ranges(on: bool) {
    RANGES.store(on, Ordering::Relaxed);
}

/// Whether layers are ranges.
pub fn has_layer_ranges() -> bool {
    RANGES.load(Ordering::Relaxed)
}

/// The path of a layer, which it has from the scope it was built in; a layer that was made of
/// another library's has none, and is no range.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerPath(Option<Arc<str>>);

impl LayerPath {
    /// That of the layer under construction.
    pub fn of(scope: &Scope) -> Self {
        LayerPath((!scope.path().is_empty()).then(|| scope.path().into()))
    }

    /// The path as state dicts have it; empty of a layer that has none.
    pub fn name(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The range of a layer that takes so many operations itself, as long as it is held.
    pub fn enter(&self, flop: u64) -> Option<LayerRange> {
        if !has_layer_ranges() {
            return None;
        }
        Some(layer_range(self.0.as_ref()?, flop))
    }
}

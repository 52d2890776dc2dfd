//! Metrics of plugins, computed on host memory: `mine.Sharpness`.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;
use hearth_registry::component::{self, Component, ComponentKind, HostArray};
use hearth_registry::{Fault, Node};
use serde::Deserialize;

use super::{Metric, MetricError, PerItem, read};

/// The options that all plugin metrics have in a recipe, in addition to their own.
#[derive(Deserialize)]
struct Shared {
    #[serde(default)]
    higher_is_better: Option<bool>,
    #[serde(default = "yes")]
    include_background: bool,
}

fn yes() -> bool {
    true
}

/// A metric that calls a plugin for each item.
struct OfPlugin {
    name: &'static str,
    shared: Shared,
    /// The plugin's own options.
    options: Node,
    /// The places of plugins of the recipe.
    places: Vec<PathBuf>,
    /// Loaded by [`PerItem::load`]: commands that do not measure need no plugin.
    component: OnceLock<Arc<dyn Component>>,
}

/// Builds the metric for a name with a dot, from its table without the name.
pub(super) fn build(name: &str, table: &Node) -> Result<Box<dyn Metric>, Fault> {
    let mut options = table.clone();
    let mut own = Node::empty();
    for key in ["higher_is_better", "include_background"] {
        if let Some(value) = options.remove(key) {
            own.insert(key, value);
        }
    }
    let shared: Shared = hearth_registry::read(&own)?;
    // Leaks one name per metric of a recipe, which is read only a few times in a process.
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let places = component::places();
    Ok(Box::new(OfPlugin { name, shared, options, places, component: OnceLock::new() }.gathered()))
}

impl OfPlugin {
    fn component(&self) -> Result<&Arc<dyn Component>, Fault> {
        if let Some(component) = self.component.get() {
            return Ok(component);
        }
        let find = || component::find(ComponentKind::Metric, self.name, &self.options);
        let found = component::with_places(self.places.clone(), find)?;
        Ok(self.component.get_or_init(|| found))
    }

    /// The items of a batch in host memory, each `[C, X, Y, Z]`.
    fn items(&self, batch: &Tensor<5>) -> Result<(Vec<f32>, [usize; 5]), MetricError> {
        Ok((read(self.name, batch.clone())?, batch.dims()))
    }
}

/// The affine of voxels of this size.
fn affine([x, y, z]: [f64; 3]) -> [[f64; 4]; 4] {
    [[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, z, 0.0], [0.0, 0.0, 0.0, 1.0]]
}

impl PerItem for OfPlugin {
    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let failed = |why: String| MetricError::new(self.name, why);
        let (pred, pred_shape) = self.items(pred)?;
        let (label, label_shape) = self.items(label)?;
        let component = self.component().map_err(|fault| failed(fault.to_string()))?;
        let items = pred_shape[0];
        let sizes = |shape: [usize; 5]| shape[1..].iter().product::<usize>().max(1);
        let pairs = pred.chunks(sizes(pred_shape)).zip(label.chunks(sizes(label_shape)));
        let mut rows: Vec<Vec<f32>> = Vec::with_capacity(items);
        for (index, (pred, label)) in pairs.enumerate() {
            let affine = affine(spacing.get(index).or(spacing.first()).copied().unwrap_or([1.0; 3]));
            let array = |values, shape: [usize; 5]| HostArray { shape: shape[1..].to_vec(), values, affine };
            let inputs = [array(pred.into(), pred_shape), array(label.into(), label_shape)];
            let row = component.run(&inputs, "").map_err(|why| failed(component::reports(&why)))?.pop();
            let row = row.ok_or_else(|| failed("the plugin returned nothing: expected a row of numbers".to_owned()))?;
            if row.values.is_empty() || rows.first().is_some_and(|first| first.len() != row.values.len()) {
                let expected = rows.first().map_or_else(|| "at least 1".to_owned(), |first| first.len().to_string());
                let what = format!("the plugin returned {} numbers for an item: expected {expected}", row.values.len());
                return Err(failed(what));
            }
            rows.push(row.values.into_owned());
        }
        Ok(rows)
    }

    fn load(&self) -> Result<(), Fault> {
        self.component().map(drop)
    }

    fn higher_is_better(&self) -> Option<bool> {
        self.shared.higher_is_better
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn includes_background(&self) -> bool {
        self.shared.include_background
    }
}

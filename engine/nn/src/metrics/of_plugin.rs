//! Metrics of plugins, computed on host memory: `mine.Sharpness`.

use std::sync::OnceLock;

use burn::tensor::Tensor;
use hearth_registry::component::{self, ComponentKind, HostArray, Late};
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
    component: Late,
    shared: Shared,
    /// The length of the first row.
    length: OnceLock<usize>,
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
    let component = Late::new(ComponentKind::Metric, name, options);
    Ok(Box::new(OfPlugin { component, shared, length: OnceLock::new() }.gathered()))
}

impl OfPlugin {
    /// The items of a batch in host memory, each `[C, X, Y, Z]`.
    fn items(&self, batch: &Tensor<5>) -> Result<(Vec<f32>, [usize; 5]), MetricError> {
        Ok((read(self.name(), batch.clone())?, batch.dims()))
    }
}

/// The affine of voxels of this size.
fn affine([x, y, z]: [f64; 3]) -> [[f64; 4]; 4] {
    [[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, z, 0.0], [0.0, 0.0, 0.0, 1.0]]
}

impl PerItem for OfPlugin {
    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let failed = |why: String| MetricError::new(self.name(), why);
        let (pred, pred_shape) = self.items(pred)?;
        let (label, label_shape) = self.items(label)?;
        let component = self.component.get().map_err(|fault| failed(fault.to_string()))?;
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
            let length = row.values.len();
            let before = if length == 0 { 1 } else { *self.length.get_or_init(|| length) };
            if length != before {
                let item = if items == 1 { "an item".to_owned() } else { format!("item {} of {items}", index + 1) };
                let expected = if length == 0 { "at least 1".to_owned() } else { format!("{before}, as before") };
                return Err(failed(format!("the plugin returned {length} numbers for {item}: expected {expected}")));
            }
            rows.push(row.values.into_owned());
        }
        Ok(rows)
    }

    fn load(&self) -> Result<(), Fault> {
        self.component.get().map(drop)
    }

    fn higher_is_better(&self) -> Option<bool> {
        self.shared.higher_is_better
    }

    fn name(&self) -> &'static str {
        self.component.name()
    }

    fn includes_background(&self) -> bool {
        self.shared.include_background
    }
}

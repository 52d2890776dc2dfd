use std::collections::BTreeSet;

use burn::tensor::Device;
use hearth_image::TransformError;
use hearth_registry::{Fault, Node, entry};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::from_tables::build_transform;
use crate::transform::Transform;
use crate::{Draw, Effect, Sample};

/// A named profiling span around any transform.
///
/// ```toml
/// [[transforms]]
/// name = "Range"
/// range = "load"
/// transform = { name = "LoadImage", keys = ["image", "label"] }
/// ```
///
/// ```
/// # use hearth_transforms::tiny;
/// # use hearth_transforms::transforms::{Flip, Range};
/// let image = tiny::apply(Range::new("flip", Flip::new("image")), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.to_vec(), [2.0, 1.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Debug)]
pub struct Range {
    range: String,
    transform: Box<dyn Transform>,
}

impl Range {
    /// Wraps a transform.
    pub fn new(range: impl Into<String>, transform: impl Transform + 'static) -> Self {
        Range { range: range.into(), transform: Box::new(transform) }
    }
}

impl Transform for Range {
    fn name(&self) -> &'static str {
        self.transform.name()
    }

    fn is_random(&self) -> bool {
        self.transform.is_random()
    }

    fn is_lazy(&self) -> bool {
        self.transform.is_lazy()
    }

    fn requires_current_data(&self) -> bool {
        self.transform.requires_current_data()
    }

    fn other_keys(&self) -> Vec<&str> {
        self.transform.other_keys()
    }

    fn reads_boxes(&self, key: &str) -> bool {
        self.transform.reads_boxes(key)
    }

    fn maps_labels(&self) -> bool {
        self.transform.maps_labels()
    }

    fn effect(&self) -> Effect {
        self.transform.effect()
    }

    fn through_host(&self) -> bool {
        self.transform.through_host()
    }

    fn mixes_cases(&self) -> bool {
        self.transform.mixes_cases()
    }

    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let span = tracing::info_span!("range", name = %self.range, transform = self.transform.name());
        let _entered = span.enter();
        self.transform.apply(sample, draw)
    }

    fn apply_to_batch(&self, sample: Sample, entries: usize, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let span = tracing::info_span!("range", name = %self.range, transform = self.transform.name());
        let _entered = span.enter();
        self.transform.apply_to_batch(sample, entries, draw)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.transform.check(known)
    }

    fn place(&mut self, device: Option<&Device>) {
        self.transform.place(device);
    }

    fn describe(&self) -> serde_json::Value {
        json!({ "name": "Range", "range": self.range, "transform": self.transform.describe() })
    }
}

/// A named profiling span around any transform.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RangeTable {
    /// Name of the span; by default that of the transform.
    #[serde(default)]
    range: Option<String>,
    /// Transform: a table with its `name` and parameters.
    transform: Node,
}

entry!(
    dyn Transform => RangeTable,
    name: "Range",
    example: r#"range = "flip"
transform = { name = "Flip", keys = ["image"], spatial_axis = 0 }"#,
    build: |node| {
        let RangeTable { range, transform } = hearth_registry::read(node)?;
        let transform = build_transform(&transform).map_err(|fault| fault.within(&transform).under("transform"))?;
        let range = range.unwrap_or_else(|| transform.name().to_owned());
        Ok(Box::new(Range { range, transform }))
    }
);

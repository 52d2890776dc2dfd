use std::collections::BTreeSet;

use serde_json::json;

use crate::transform::Transform;
use crate::{CheckError, Draw, Sample, TransformError};

/// A named profiling span around any transform.
///
/// ```toml
/// [[transforms]]
/// name = "Range"
/// range = "load"
/// transform = { name = "LoadImage", keys = ["image", "label"] }
/// ```
#[derive(Debug)]
pub struct Range {
    range: String,
    transform: Box<dyn Transform>,
}

impl Range {
    /// Wraps a transform.
    pub fn new(range: impl Into<String>, transform: Box<dyn Transform>) -> Self {
        Range { range: range.into(), transform }
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

    fn reads_boxes(&self, key: &str) -> bool {
        self.transform.reads_boxes(key)
    }

    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let span = tracing::info_span!("range", name = %self.range, transform = self.transform.name());
        let _entered = span.enter();
        self.transform.apply(sample, draw)
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CheckError> {
        self.transform.check(known)
    }

    fn describe(&self) -> serde_json::Value {
        json!({ "name": "Range", "range": self.range, "transform": self.transform.describe() })
    }
}

//! Average precision (`monai.metrics.AveragePrecisionMetric`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::{self, Average, Scored, ranked};
use super::per_item::{PerItem, keeps_rows};
use super::{Aggregate, MetricError, Rows};

/// Average precision, the area under the curve of precision over recall, over all items.
///
/// Scores and labels are `[b, classes, 1, 1, 1]`, labels 0 or 1. NaN if a class is always or never
/// present.
///
/// ```
/// # use burn::tensor::{Device, Tensor, TensorData};
/// # use hearth_nn::metrics::{AveragePrecisionMetric, Metric};
/// let column = |v: [f32; 3]| Tensor::<5>::from_data(TensorData::new(v.to_vec(), [3, 1, 1, 1, 1]), &Device::default());
/// let mut precision = AveragePrecisionMetric::default();
/// precision.update(&column([0.2, 0.7, 0.9]), &column([0.0, 1.0, 0.0]))?;
/// assert_eq!(precision.aggregate()?.scalar(), 0.5);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct AveragePrecisionMetric {
    /// How classes are combined.
    pub average: Average,
    /// The scores and labels collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

/// The mean of the precision at every positive item.
fn area(scored: Vec<Scored>) -> f64 {
    let (mut items, mut positives, mut sum) = (0.0, 0.0, 0.0);
    for (positive, negative) in ranked(scored, true) {
        items += positive + negative;
        positives += positive;
        sum += positive * positives / items;
    }
    sum / positives
}

impl AveragePrecisionMetric {
    const NAME: &'static str = "AveragePrecisionMetric";
}

impl PerItem for AveragePrecisionMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn takes_scores(&self) -> bool {
        true
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        curve::rows(Self::NAME, pred, label)
    }

    /// Empty: a single item has no area.
    fn values_of(&self, _: &[f32]) -> Vec<f32> {
        Vec::new()
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        curve::aggregate(rows, self.average, area)
    }
}

keeps_rows!(AveragePrecisionMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => AveragePrecisionMetric,
    example: ""
);

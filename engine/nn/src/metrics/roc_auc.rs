//! Area under the receiver operating characteristic (`monai.metrics.ROCAUCMetric`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::{self, Average, Scored, ranked};
use super::per_item::{PerItem, keeps_rows};
use super::{Aggregate, MetricError, Rows};

/// Area under the receiver operating characteristic, over all items.
///
/// Scores and labels are `[b, classes, 1, 1, 1]`, labels 0 or 1. NaN if a class is always or never
/// present.
///
/// ```
/// # use burn::tensor::{Device, Tensor, TensorData};
/// # use hearth_nn::metrics::{Metric, RocAucMetric};
/// let column = |v: [f32; 3]| Tensor::<5>::from_data(TensorData::new(v.to_vec(), [3, 1, 1, 1, 1]), &Device::default());
/// let mut auc = RocAucMetric::default();
/// auc.update(&column([0.2, 0.7, 0.4]), &column([0.0, 1.0, 0.0]))?;
/// assert_eq!(auc.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct RocAucMetric {
    /// How classes are combined.
    pub average: Average,
    /// The scores and labels collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

/// The share of pairs of a positive and a negative item in which the positive one has the higher
/// score; ties count half.
fn area(scored: Vec<Scored>) -> f64 {
    let (mut below, mut pairs, mut positives) = (0.0, 0.0, 0.0);
    for (positive, negative) in ranked(scored, false) {
        pairs += positive * (below + negative / 2.0);
        below += negative;
        positives += positive;
    }
    pairs / (below * positives)
}

impl RocAucMetric {
    const NAME: &'static str = "ROCAUCMetric";
}

impl PerItem for RocAucMetric {
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

keeps_rows!(RocAucMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => RocAucMetric,
    name: "ROCAUCMetric",
    example: ""
);

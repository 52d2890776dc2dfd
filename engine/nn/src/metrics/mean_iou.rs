//! Mean intersection over union (`monai.metrics.MeanIoU`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inputs::{Compared, compared, count, read};
use super::per_item::{PerItem, keeps_rows, summary};
use super::{Aggregate, MetricError, MetricReduction, Rows};

/// Intersection over union of binarised predictions, per item and class.
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{MeanIoU, Metric};
/// let mut iou = MeanIoU::default();
/// let mask = Tensor::ones([1, 2, 4, 4, 4], &Device::default());
/// iou.update(&mask, &mask)?;
/// assert_eq!(iou.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct MeanIoU {
    /// Whether class 0, the background, is included.
    pub include_background: bool,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// Whether a class that is missing in the label is NaN and ignored. Otherwise it scores 1 if it
    /// is also missing in the prediction, and 0 if not.
    pub ignore_empty: bool,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Default for MeanIoU {
    fn default() -> Self {
        MeanIoU {
            include_background: true,
            reduction: MetricReduction::Mean,
            ignore_empty: true,
            ignore_index: None,
            rows: Rows::default(),
        }
    }
}

impl MeanIoU {
    const NAME: &'static str = "MeanIoU";
}

impl PerItem for MeanIoU {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let both = compared(Self::NAME, (pred, label), self.include_background, self.ignore_index)?;
        let Compared { pred, label, .. } = both;
        let classes = pred.dims()[1].max(1);
        let counts = vec![count(pred.clone() * label.clone()), count(label), count(pred)];
        let counts = read(Self::NAME, Tensor::stack::<3>(counts, 2))?;
        let score = |counts: &[f32]| {
            let [overlap, present, predicted] = [counts[0], counts[1], counts[2]];
            let union = present + predicted - overlap;
            match self.ignore_empty {
                true if present > 0.0 => overlap / union,
                true => f32::NAN,
                false if union > 0.0 => overlap / union,
                false => 1.0,
            }
        };
        Ok(counts.chunks(3 * classes).map(|item| item.chunks(3).map(score).collect()).collect())
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, usize::from(!self.include_background))
    }
}

keeps_rows!(MeanIoU);

hearth_registry::entry!(
    dyn crate::metrics::Metric => MeanIoU,
    paper: "Jaccard 1912, doi:10.1111/j.1469-8137.1912.tb05611.x",
    example: ""
);

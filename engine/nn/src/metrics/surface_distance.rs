//! Average surface distance (`monai.metrics.SurfaceDistanceMetric`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::per_item::{PerItem, keeps_rows, summary};
use super::surface::{DistanceMetric, Masks, Side, spacing_of};
use super::{Aggregate, MetricError, MetricReduction, Rows};

/// Average distance from the predicted to the true surface, per item and class.
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class; an image with `z = 1` has
/// two axes. Euclidean distances are in mm if the size of a voxel is known, all others in voxels.
/// Infinite if one mask is empty, NaN if both are. Read back from the device and computed on the
/// CPU.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Metric, SurfaceDistanceMetric};
/// let mut distance = SurfaceDistanceMetric { symmetric: true, ..SurfaceDistanceMetric::default() };
/// let mask = |x| Tensor::zeros([1, 1, 8, 8, 8], &Device::default()).slice_fill([0..1, 0..1, x..x + 1, 2..4, 2..4], 1.0);
/// distance.update(&mask(1), &mask(3))?;
/// assert_eq!(distance.aggregate()?.scalar(), 2.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct SurfaceDistanceMetric {
    /// Whether class 0, the background, is included.
    pub include_background: bool,
    /// Whether the average is over the distances in both directions.
    pub symmetric: bool,
    /// How distance is measured.
    pub distance_metric: DistanceMetric,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl SurfaceDistanceMetric {
    const NAME: &'static str = "SurfaceDistanceMetric";
}

impl PerItem for SurfaceDistanceMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(false)
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let masks = Masks::new(Self::NAME, (pred, label), self.include_background, self.ignore_index)?;
        let sides: &[Side] = if self.symmetric { &[Side::Pred, Side::Label] } else { &[Side::Pred] };
        let mut rows = Vec::with_capacity(masks.items);
        for item in 0..masks.items {
            let spacing = spacing_of(Self::NAME, spacing, item, masks.items)?;
            let average = |class: usize| {
                let surfaces = masks.pair(item, class).surfaces()?;
                let (mut sum, mut count) = (0.0_f64, 0);
                for side in sides {
                    let distances = surfaces.distances(*side, self.distance_metric, spacing)?;
                    sum += distances.iter().map(|d| f64::from(*d)).sum::<f64>();
                    count += distances.len();
                }
                Ok(if count == 0 { f32::NAN } else { (sum / count as f64) as f32 })
            };
            let row: Result<Vec<f32>, _> = (0..masks.classes).map(average).collect();
            rows.push(row.map_err(|e| MetricError::from_label(Self::NAME, e))?);
        }
        Ok(rows)
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, usize::from(!self.include_background))
    }
}

keeps_rows!(SurfaceDistanceMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => SurfaceDistanceMetric,
    paper: "Heimann et al. 2009, doi:10.1109/TMI.2009.2013851",
    example: ""
);

//! Hausdorff distance (`monai.metrics.HausdorffDistanceMetric`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::per_item::{PerItem, keeps_rows, summary};
use super::surface::{DistanceMetric, Masks, Side, spacing_of};
use super::{Aggregate, MetricError, MetricReduction, Rows};

/// Hausdorff distance of binarised predictions, per item and class: the largest distance from the
/// surface of one mask to that of the other.
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class; an image with `z = 1` has
/// two axes. Euclidean distances are in mm if the size of a voxel is known, all others in voxels.
/// Infinite if one mask is empty, NaN if both are. Read back from the device and computed on the
/// CPU.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{HausdorffDistanceMetric, Metric};
/// let mut distance = HausdorffDistanceMetric { percentile: Some(95.0), ..HausdorffDistanceMetric::default() };
/// let mask = |x| Tensor::zeros([1, 1, 8, 8, 8], &Device::default()).slice_fill([0..1, 0..1, x..x + 2, 2..4, 2..4], 1.0);
/// distance.update_spaced(&mask(1), &mask(3), &[[1.5, 1.0, 1.0]])?;
/// assert_eq!(distance.aggregate()?.scalar(), 3.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct HausdorffDistanceMetric {
    /// Whether class 0, the background, is included.
    pub include_background: bool,
    /// How distance is measured.
    pub distance_metric: DistanceMetric,
    /// Percentile of the distances to use instead of the largest, from 0 to 100; 0 also selects the
    /// largest, as in MONAI.
    pub percentile: Option<f64>,
    /// Whether only distances from the prediction to the label are used, instead of the larger of
    /// both directions.
    pub directed: bool,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// Voxels with this label are ignored, and the class is NaN.
    pub ignore_index: Option<i64>,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl HausdorffDistanceMetric {
    /// Checks the options.
    ///
    /// # Errors
    /// Fails for a percentile outside 0 to 100.
    pub fn check(&self) -> Result<(), MetricError> {
        match self.percentile.filter(|percentile| !(0.0..=100.0).contains(percentile)) {
            Some(percentile) => {
                let reason = format!("`percentile` is {percentile}: expected 0 to 100");
                Err(MetricError::Option { key: "percentile", metric: Self::NAME, reason })
            }
            None => Ok(()),
        }
    }

    fn farthest(&self, mut distances: Vec<f32>) -> f32 {
        let percent = self.percentile.unwrap_or(0.0);
        match distances.as_slice() {
            [] => f32::NAN,
            all if percent == 0.0 => all.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            _ => quantile(&mut distances, (percent / 100.0) as f32),
        }
    }
}

/// `torch.quantile`: linear interpolation between the two nearest order statistics. Infinite values
/// give NaN, as in PyTorch.
fn quantile(values: &mut [f32], q: f32) -> f32 {
    let last = values.len() - 1;
    let rank = q * last as f32;
    let below = (rank.floor() as usize).min(last);
    let weight = rank - rank.floor();
    let (_, low, above) = values.select_nth_unstable_by(below, f32::total_cmp);
    let low = *low;
    let high = if weight > 0.0 { above.iter().copied().fold(f32::INFINITY, f32::min) } else { low };
    if weight < 0.5 { low + weight * (high - low) } else { high - (high - low) * (1.0 - weight) }
}

impl HausdorffDistanceMetric {
    const NAME: &'static str = "HausdorffDistanceMetric";
}

impl PerItem for HausdorffDistanceMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(false)
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        HausdorffDistanceMetric::check(self)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        self.check()?;
        let masks = Masks::new(Self::NAME, (pred, label), self.include_background, self.ignore_index)?;
        let sides: &[Side] = if self.directed { &[Side::Pred] } else { &[Side::Pred, Side::Label] };
        let mut rows = Vec::with_capacity(masks.items);
        for item in 0..masks.items {
            let spacing = spacing_of(Self::NAME, spacing, item, masks.items)?;
            let mut row = Vec::with_capacity(masks.classes);
            for class in 0..masks.classes {
                if self.ignore_index == Some((class + masks.first) as i64) {
                    row.push(f32::NAN);
                    continue;
                }
                let measured = masks.pair(item, class).surfaces().and_then(|surfaces| {
                    let of = |side: &Side| surfaces.distances(*side, self.distance_metric, spacing);
                    sides.iter().map(of).collect::<Result<Vec<_>, _>>()
                });
                let distances = measured.map_err(|e| MetricError::from_label(Self::NAME, e))?;
                let farthest = distances.into_iter().map(|distances| self.farthest(distances));
                // NaN stays NaN.
                row.push(farthest.fold(f32::NEG_INFINITY, |a, b| if b.is_nan() || b > a { b } else { a }));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, usize::from(!self.include_background))
    }
}

keeps_rows!(HausdorffDistanceMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => HausdorffDistanceMetric,
    paper: "Huttenlocher et al. 1993, doi:10.1109/34.232073",
    example: "percentile = 95"
);

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_lie_between_the_nearest_values() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&mut [4.0, 1.0], 0.25), 1.75);
        assert_eq!(quantile(&mut [4.0, 1.0], 1.0), 4.0);
        assert_eq!(quantile(&mut [7.0], 0.95), 7.0);
    }
}

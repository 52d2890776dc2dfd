//! Reduction of values per item and class to a result; NaN means that a value is ignored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The axes over which values are averaged or summed (`monai.utils.MetricReduction`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricReduction {
    /// No reduction: one number per item and class.
    None,
    /// Over classes, then over the items that have values: one number.
    #[default]
    Mean,
    /// Over all values: one number.
    Sum,
    /// Over items: one number per class.
    MeanBatch,
    /// Over items: one number per class.
    SumBatch,
    /// Over classes: one number per item.
    MeanChannel,
    /// Over classes: one number per item.
    SumChannel,
}

/// Values with MONAI's shape: `[items, classes]`, `[items]`, `[classes]`, `[1]` or none for a single
/// number.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced {
    /// Length of the axes: items, classes, `[1]` or none.
    pub shape: Vec<usize>,
    /// The values, row-major.
    pub values: Vec<f32>,
}

/// The result of a metric: what [`Metric::aggregate`](super::Metric::aggregate) returns.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{DiceMetric, Metric, MetricReduction};
/// let mut dice = DiceMetric::default().reduction(MetricReduction::MeanBatch);
/// let mask = Tensor::ones([3, 2, 4, 4, 4], &Device::default());
/// dice.update(&mask, &mask)?;
/// let result = dice.aggregate()?;
/// assert_eq!((result.value.values, result.not_nans.values), (vec![1.0, 1.0], vec![3.0, 3.0]));
/// assert_eq!(result.labels, ["label_0", "label_1"]);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The reduced values.
    pub value: Reduced,
    /// The number of non-NaN values behind each result, in the same order; for
    /// [`Mean`](MetricReduction::Mean) the number of items that have a value.
    pub not_nans: Reduced,
    /// One name per value (`label_1`) for [`MeanBatch`](MetricReduction::MeanBatch) and
    /// [`SumBatch`](MetricReduction::SumBatch); otherwise empty.
    pub labels: Vec<String>,
}

impl Aggregate {
    /// The result as one number: the value itself, or the mean of the non-NaN values (NaN if there
    /// are none).
    pub fn scalar(&self) -> f32 {
        let counted: Vec<f32> = self.value.values.iter().copied().filter(|v| !v.is_nan()).collect();
        counted.iter().sum::<f32>() / counted.len() as f32
    }
}

/// Values and counts for a reduction of rows `[items][classes]`. NaN is skipped; a mean of nothing is
/// 0, as in MONAI.
///
/// # Panics
/// If a row is shorter than the first.
pub fn reduce(rows: &[Vec<f32>], reduction: MetricReduction) -> (Reduced, Reduced) {
    let classes = rows.first().map_or(0, Vec::len);
    // Sum and count of the non-NaN values.
    let totals = |values: &mut dyn Iterator<Item = f32>| {
        values.filter(|v| !v.is_nan()).fold((0.0_f32, 0.0_f32), |(sum, count), v| (sum + v, count + 1.0))
    };
    let mean = |(sum, count): (f32, f32)| if count > 0.0 { sum / count } else { 0.0 };
    let per_item: Vec<(f32, f32)> = rows.iter().map(|row| totals(&mut row.iter().copied())).collect();
    let per_class: Vec<(f32, f32)> = (0..classes).map(|c| totals(&mut rows.iter().map(|row| row[c]))).collect();
    let split = |pairs: &[(f32, f32)], value: &dyn Fn((f32, f32)) -> f32| {
        let shape = vec![pairs.len()];
        let values = pairs.iter().map(|pair| value(*pair)).collect();
        let counts = pairs.iter().map(|pair| pair.1).collect();
        (Reduced { shape: shape.clone(), values }, Reduced { shape, values: counts })
    };
    let sum = |(sum, _): (f32, f32)| sum;
    match reduction {
        MetricReduction::None => {
            let shape = vec![rows.len(), classes];
            let values: Vec<f32> = rows.concat();
            let counts = values.iter().map(|v| if v.is_nan() { 0.0 } else { 1.0 }).collect();
            (Reduced { shape: shape.clone(), values }, Reduced { shape, values: counts })
        }
        MetricReduction::Mean => {
            let present = per_item.iter().filter(|(_, count)| *count > 0.0).map(|pair| mean(*pair));
            let total = present.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
            let value = Reduced { shape: vec![1], values: vec![mean(total)] };
            (value, Reduced { shape: Vec::new(), values: vec![total.1] })
        }
        MetricReduction::Sum => {
            let (sum, count) = per_item.iter().fold((0.0, 0.0), |(sum, count), pair| (sum + pair.0, count + pair.1));
            (Reduced { shape: Vec::new(), values: vec![sum] }, Reduced { shape: Vec::new(), values: vec![count] })
        }
        MetricReduction::MeanBatch => split(&per_class, &mean),
        MetricReduction::SumBatch => split(&per_class, &sum),
        MetricReduction::MeanChannel => split(&per_item, &mean),
        MetricReduction::SumChannel => split(&per_item, &sum),
    }
}

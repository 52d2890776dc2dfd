//! The common part of areas under curves: collects scores and labels of all items, and ranks each
//! class.

use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inputs::read;
use super::{Aggregate, MetricError, Reduced};

/// The average over several classes (`monai.utils.Average`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Average {
    /// The mean over classes.
    #[default]
    Macro,
    /// The mean over classes, weighted by the frequency of each class.
    Weighted,
    /// One curve over all classes pooled.
    Micro,
    /// One value per class.
    None,
}

/// A score, and 1 if the class is present, otherwise 0.
pub(super) type Scored = (f32, f32);

/// One row per item: the scores of all classes, followed by their labels. `pred` and `label` are
/// `[b, classes, 1, 1, 1]`.
pub(super) fn rows(metric: &'static str, pred: &Tensor<5>, label: &Tensor<5>) -> Result<Vec<Vec<f32>>, MetricError> {
    let (shape, got) = (pred.dims(), label.dims());
    if shape != got || shape[2..] != [1; 3] {
        let expected = "expected the same shape, [items, classes, 1, 1, 1]".to_owned();
        return Err(MetricError::Shape { metric, pred: shape, label: got, expected });
    }
    let classes = shape[1].max(1);
    let (scores, labels) = (read(metric, pred.clone())?, read(metric, label.clone())?);
    Ok(scores.chunks(classes).zip(labels.chunks(classes)).map(|(s, l)| [s, l].concat()).collect())
}

/// The result from rows of scores and labels. `area` computes the area under the curve of one
/// class.
pub(super) fn aggregate(rows: &[Vec<f32>], average: Average, area: impl Fn(Vec<Scored>) -> f64) -> Aggregate {
    let classes = rows.first().map_or(0, |row| row.len() / 2);
    let class = |c: usize| -> Vec<Scored> { rows.iter().map(|row| (row[c], row[classes + c])).collect() };
    // NaN if a class is always or never present, or if a label is neither 0 nor 1.
    let guarded = |scored: Vec<Scored>| {
        let both = [0.0, 1.0].iter().all(|label| scored.iter().any(|(_, l)| l == label));
        let only = scored.iter().all(|(_, label)| *label == 0.0 || *label == 1.0);
        if both && only { area(scored) } else { f64::NAN }
    };
    let each = || -> Vec<f64> { (0..classes).map(|c| guarded(class(c))).collect() };
    let (shape, values) = match average {
        _ if classes == 1 => (Vec::new(), vec![guarded(class(0))]),
        Average::Micro => (Vec::new(), vec![guarded((0..classes).flat_map(class).collect())]),
        Average::Macro => (Vec::new(), vec![each().iter().sum::<f64>() / classes as f64]),
        Average::Weighted => {
            let weights: Vec<f64> =
                (0..classes).map(|c| class(c).iter().map(|(_, label)| f64::from(*label)).sum()).collect();
            let sum: f64 = each().iter().zip(&weights).map(|(value, weight)| value * weight).sum();
            (Vec::new(), vec![sum / weights.iter().sum::<f64>()])
        }
        Average::None => (vec![classes], each()),
    };
    let labels = if shape.is_empty() { Vec::new() } else { (0..classes).map(|c| format!("label_{c}")).collect() };
    let counted = values.iter().map(|value| if value.is_nan() { 0.0 } else { 1.0 }).collect();
    let value = Reduced { shape: shape.clone(), values: values.into_iter().map(|value| value as f32).collect() };
    Aggregate { value, not_nans: Reduced { shape, values: counted }, labels }
}

/// Counts the positive and negative items of each score, from the highest if `highest_first`, else from
/// the lowest.
pub(super) fn ranked(mut scored: Vec<Scored>, highest_first: bool) -> Vec<(f64, f64)> {
    scored.sort_unstable_by(|a, b| if highest_first { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
    let groups = scored.chunk_by(|a, b| a.0 == b.0);
    groups
        .map(|group| {
            let positive: f64 = group.iter().map(|(_, label)| f64::from(*label)).sum();
            (positive, group.len() as f64 - positive)
        })
        .collect()
}

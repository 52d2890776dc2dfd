//! The confusion matrix and the rates computed from it (`monai.metrics.ConfusionMatrixMetric`,
//! `monai.metrics.FBetaScore`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::confusion_name::{ConfusionName, ConfusionNames, Counts};
use super::inputs::{Compared, compared, count, indicator, read};
use super::per_item::{PerItem, keeps_rows};
use super::{Aggregate, MetricError, MetricReduction, Reduced, Rows, reduce};

/// True and false positives and negatives of binarised predictions, and the rates computed from
/// them.
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class; for classification the
/// spatial axes have length 1. A row holds true positives, false positives, true negatives and
/// false negatives, class by class.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{ConfusionMatrixMetric, Metric};
/// let mut recall = ConfusionMatrixMetric::default();
/// let mask = Tensor::ones([1, 2, 4, 4, 4], &Device::default());
/// recall.update(&mask, &mask)?;
/// assert_eq!(recall.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct ConfusionMatrixMetric {
    /// Whether class 0, the background, is included.
    pub include_background: bool,
    /// The rates to compute: one name or several.
    pub metric_name: ConfusionNames,
    /// Whether the rates of each item and class are computed before the reduction, instead of from
    /// reduced counts. No effect for classification, where an item is one voxel.
    pub compute_sample: bool,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Default for ConfusionMatrixMetric {
    fn default() -> Self {
        ConfusionMatrixMetric {
            include_background: true,
            metric_name: ConfusionNames::One(ConfusionName::Sensitivity),
            compute_sample: false,
            reduction: MetricReduction::Mean,
            ignore_index: None,
            rows: Rows::default(),
        }
    }
}

impl ConfusionMatrixMetric {
    /// One result per name, in the order of the names.
    ///
    /// # Errors
    /// Fails if no item was added yet.
    pub fn aggregates(&self) -> Result<Vec<Aggregate>, MetricError> {
        if self.rows.is_empty() {
            return Err(MetricError::Empty { metric: Self::NAME });
        }
        // An item of one voxel has no rate.
        let voxels: f32 = self.rows[0].iter().take(4).sum();
        let per_item = self.compute_sample && voxels > 1.0;
        let first = usize::from(!self.include_background);
        Ok(self
            .metric_name
            .iter()
            .map(|name| rate(&self.rows, self.reduction, per_item, first, &|c| name.of(c)))
            .collect())
    }
}

/// Computes a rate from rows of counts.
fn rate(
    rows: &[Vec<f32>],
    reduction: MetricReduction,
    per_item: bool,
    first: usize,
    of: &dyn Fn(Counts) -> f32,
) -> Aggregate {
    if per_item {
        let rates: Vec<Vec<f32>> =
            rows.iter().map(|row| row.chunks(4).map(|c| of([c[0], c[1], c[2], c[3]])).collect()).collect();
        return super::per_item::summary(&rates, reduction, first);
    }
    // Each of the four counts is reduced separately.
    let parts: [(Reduced, Reduced); 4] = std::array::from_fn(|kind| {
        let counts: Vec<Vec<f32>> =
            rows.iter().map(|row| row.iter().skip(kind).step_by(4).copied().collect()).collect();
        reduce(&counts, reduction)
    });
    let values = (0..parts[0].0.values.len()).map(|i| of(std::array::from_fn(|kind| parts[kind].0.values[i])));
    // MONAI returns a single number as a list of one here.
    let shape = match parts[0].0.shape.as_slice() {
        [] => vec![1],
        shape => shape.to_vec(),
    };
    let value = Reduced { shape, values: values.collect() };
    let mut counts = parts[0].1.shape.clone();
    counts.push(4);
    let each = (0..parts[0].1.values.len()).flat_map(|i| parts.iter().map(move |part| part.1.values[i]));
    let not_nans = Reduced { shape: counts, values: each.collect() };
    let labels = match reduction {
        MetricReduction::MeanBatch | MetricReduction::SumBatch => {
            (0..value.values.len()).map(|c| format!("label_{}", c + first)).collect()
        }
        _ => Vec::new(),
    };
    Aggregate { value, not_nans, labels }
}

/// True positives, false positives, true negatives and false negatives per item and class:
/// `[b, 4 c]`.
fn matrix(metric: &'static str, both: Compared) -> Result<Vec<Vec<f32>>, MetricError> {
    let Compared { pred, label, mask } = both;
    let [items, classes, x, y, z] = pred.dims();
    let device = pred.device();
    let sum = pred + label.clone();
    let hits = count(indicator(sum.clone().equal_elem(2.0)));
    let rest = indicator(sum.equal_elem(0.0));
    let (rest, voxels) = match mask {
        Some(mask) => (rest * mask.clone(), count(mask).expand([items, classes])),
        None => (rest, Tensor::full([items, classes], (x * y * z) as f32, &device)),
    };
    let counts = vec![hits, count(rest), count(label), voxels];
    let counts = read(metric, Tensor::stack::<3>(counts, 2))?;
    let row = |item: &[f32]| {
        let of = |c: &[f32]| {
            let [hits, rest, present, voxels] = [c[0], c[1], c[2], c[3]];
            [hits, voxels - present - rest, rest, present - hits]
        };
        item.chunks(4).flat_map(of).collect()
    };
    Ok(counts.chunks(4 * classes.max(1)).map(row).collect())
}

impl ConfusionMatrixMetric {
    const NAME: &'static str = "ConfusionMatrixMetric";
}

impl PerItem for ConfusionMatrixMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        let mut names = self.metric_name.iter().map(|name| name.higher_is_better());
        let first = names.next().flatten();
        first.filter(|_| names.all(|name| name == first))
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        match self.metric_name.iter().next() {
            Some(_) => Ok(()),
            None => {
                let reason = "`metric_name` is empty: name at least one rate".to_owned();
                Err(MetricError::Option { key: "metric_name", metric: "ConfusionMatrixMetric", reason })
            }
        }
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        matrix(Self::NAME, compared(Self::NAME, (pred, label), self.include_background, self.ignore_index)?)
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        let mut names = self.metric_name.iter();
        match (names.next(), names.next()) {
            (Some(name), None) => row.chunks(4).map(|c| name.of([c[0], c[1], c[2], c[3]])).collect(),
            _ => Vec::new(),
        }
    }

    /// For several names: their concatenated values, each labelled with its name.
    fn summarize(&self, _: &[Vec<f32>]) -> Aggregate {
        let mut all = self.aggregates().unwrap_or_default();
        if all.len() == 1 {
            return all.swap_remove(0);
        }
        let mut labels = Vec::new();
        for (name, one) in self.metric_name.iter().zip(&all) {
            let name = name.name();
            match one.labels.as_slice() {
                [] => labels.extend(one.value.values.iter().map(|_| name.to_owned())),
                own => labels.extend(own.iter().map(|label| format!("{name}_{label}"))),
            }
        }
        let flat = |values: Vec<f32>| Reduced { shape: vec![values.len()], values };
        Aggregate {
            value: flat(all.iter().flat_map(|one| one.value.values.clone()).collect()),
            not_nans: flat(all.iter().flat_map(|one| one.not_nans.values.clone()).collect()),
            labels,
        }
    }
}

/// F-beta score of binarised predictions: the weighted harmonic mean of precision and recall, where
/// recall has `beta` times the weight.
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class. Rows are those of
/// [`ConfusionMatrixMetric`].
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{FBetaScore, Metric};
/// let mut score = FBetaScore { beta: 2.0, ..FBetaScore::default() };
/// let mask = Tensor::ones([1, 2, 4, 4, 4], &Device::default());
/// score.update(&mask, &mask)?;
/// assert_eq!(score.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct FBetaScore {
    /// Weight of recall relative to precision.
    pub beta: f64,
    /// Whether class 0, the background, is included.
    pub include_background: bool,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Default for FBetaScore {
    fn default() -> Self {
        FBetaScore { beta: 1.0, include_background: true, reduction: MetricReduction::Mean, rows: Rows::default() }
    }
}

impl FBetaScore {
    /// The score from counts; NaN if it divides by zero.
    fn score(&self, [tp, fp, _, missed]: Counts) -> f32 {
        let square = (self.beta * self.beta) as f32;
        let whole = (1.0 + square) * tp + square * missed + fp;
        if whole == 0.0 { f32::NAN } else { (1.0 + square) * tp / whole }
    }
}

impl FBetaScore {
    const NAME: &'static str = "FBetaScore";
}

impl PerItem for FBetaScore {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        if !(self.beta.is_finite() && self.beta > 0.0) {
            let reason = format!("`beta` is {}: expected a number above 0", self.beta);
            return Err(MetricError::Option { key: "beta", metric: "FBetaScore", reason });
        }
        Ok(())
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        matrix(Self::NAME, compared(Self::NAME, (pred, label), self.include_background, None)?)
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        row.chunks(4).map(|c| self.score([c[0], c[1], c[2], c[3]])).collect()
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        rate(rows, self.reduction, false, usize::from(!self.include_background), &|counts| self.score(counts))
    }
}

keeps_rows!(ConfusionMatrixMetric, FBetaScore);

hearth_registry::entry!(
    dyn crate::metrics::Metric => ConfusionMatrixMetric,
    example: r#"metric_name = "sensitivity""#
);

hearth_registry::entry!(
    dyn crate::metrics::Metric => FBetaScore,
    example: "beta = 2.0"
);

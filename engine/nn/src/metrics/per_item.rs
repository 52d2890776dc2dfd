//! What metrics have in common that measure each item on its own and keep the rows.

use burn::tensor::Tensor;

use super::{Aggregate, Metric, MetricError, MetricReduction, Rows, reduce};

/// A metric that is a function from one batch to one row per item.
///
/// Everything that is one is a [`Metric`].
pub(crate) trait PerItem: Send {
    const NAME: &'static str;

    /// One row per item. `spacing` has one entry for all items or one per item, or none where voxels have side 1.
    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError>;

    /// The rows so far.
    fn kept(&self) -> &Rows;

    /// The rows so far, to change.
    fn kept_mut(&mut self) -> &mut Rows;

    /// See [`Metric::higher_is_better`].
    fn higher_is_better(&self) -> Option<bool>;

    /// See [`Metric::includes_background`].
    fn includes_background(&self) -> bool;

    /// See [`Metric::check_for`].
    fn check_for(&self, classes: usize) -> Result<(), MetricError>;

    /// See [`Metric::takes_scores`].
    fn takes_scores(&self) -> bool {
        false
    }

    /// See [`Metric::values_of`].
    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        row.to_vec()
    }

    /// The result over rows, of which there is at least one.
    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate;
}

impl<M: PerItem> Metric for M {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        PerItem::higher_is_better(self)
    }

    fn includes_background(&self) -> bool {
        PerItem::includes_background(self)
    }

    fn check_for(&self, classes: usize) -> Result<(), MetricError> {
        PerItem::check_for(self, classes)
    }

    fn takes_scores(&self) -> bool {
        PerItem::takes_scores(self)
    }

    fn update(&mut self, pred: &Tensor<5>, label: &Tensor<5>) -> Result<&[Vec<f32>], MetricError> {
        self.update_spaced(pred, label, &[])
    }

    fn update_spaced(
        &mut self,
        pred: &Tensor<5>,
        label: &Tensor<5>,
        spacing: &[[f64; 3]],
    ) -> Result<&[Vec<f32>], MetricError> {
        let (pred, label) = (pred.clone().without_autodiff(), label.clone().without_autodiff());
        let rows = self.measure(&pred, &label, spacing)?;
        let first = self.kept().len();
        self.kept_mut().extend(M::NAME, rows)?;
        Ok(&self.kept()[first..])
    }

    fn merge(&mut self, rows: Vec<Vec<f32>>) -> Result<(), MetricError> {
        self.kept_mut().extend(M::NAME, rows)
    }

    fn rows(&self) -> &[Vec<f32>] {
        self.kept()
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        PerItem::values_of(self, row)
    }

    fn aggregate(&self) -> Result<Aggregate, MetricError> {
        match self.kept().is_empty() {
            true => Err(MetricError::Empty { metric: M::NAME }),
            false => Ok(self.summarize(self.kept())),
        }
    }

    fn reset(&mut self) {
        self.kept_mut().clear();
    }
}

/// The result of a reduction, with names for values that stand for a class; `first` is the first class that counts.
pub(crate) fn summary(rows: &[Vec<f32>], reduction: MetricReduction, first: usize) -> Aggregate {
    let (value, not_nans) = reduce(rows, reduction);
    let labels = match reduction {
        MetricReduction::MeanBatch | MetricReduction::SumBatch => {
            (0..value.values.len()).map(|c| format!("label_{}", c + first)).collect()
        }
        _ => Vec::new(),
    };
    Aggregate { value, not_nans, labels }
}

//! Metrics that gather a row per item over a whole evaluation and put the rows together at its end.

mod dice;
mod reduction;
mod rows;

pub use dice::DiceMetric;
pub use reduction::{Aggregate, MetricReduction, Reduced, reduce};
pub use rows::Rows;

use burn::tensor::Tensor;

/// Inputs or options a metric cannot work with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// Prediction and label do not fit each other.
    #[error("{metric}: label of shape {label:?} does not fit a prediction of shape {pred:?}: {expected}")]
    Shape {
        /// The metric.
        metric: &'static str,
        /// Shape of the prediction.
        pred: [usize; 5],
        /// Shape of the label.
        label: [usize; 5],
        /// What is needed.
        expected: String,
    },
    /// Nothing was added yet.
    #[error("{metric}: there is nothing to aggregate; the evaluation saw no item")]
    Empty {
        /// The metric.
        metric: &'static str,
    },
    /// Rows of another metric or number of classes.
    #[error("{metric}: a row of {got} values does not fit rows of {expected}")]
    Row {
        /// The metric.
        metric: &'static str,
        /// Values in the row.
        got: usize,
        /// Values in the rows so far.
        expected: usize,
    },
    /// The device did not hand out the result.
    #[error("{metric}: reading the result back from the device failed: {reason}")]
    Read {
        /// The metric.
        metric: &'static str,
        /// What the device said.
        reason: String,
    },
}

/// A metric over a whole evaluation.
pub trait Metric: Send {
    /// MONAI's name.
    fn name(&self) -> &'static str;

    /// Adds the items of a batch: `pred` and `label` as `[b, c, x, y, z]`. Gives the new rows, one per item.
    fn update(&mut self, pred: &Tensor<5>, label: &Tensor<5>) -> Result<&[Vec<f32>], MetricError>;

    /// Adds rows from elsewhere: another rank, a checkpoint.
    fn merge(&mut self, rows: Vec<Vec<f32>>) -> Result<(), MetricError>;

    /// All rows so far, one per item in the order they came, one value per class.
    fn rows(&self) -> &[Vec<f32>];

    /// The result over all rows.
    fn aggregate(&self) -> Result<Aggregate, MetricError>;

    /// Forgets all rows.
    fn reset(&mut self);
}

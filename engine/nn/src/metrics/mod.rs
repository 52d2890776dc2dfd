//! Metrics that collect one row per item over an evaluation and reduce the rows at its end.
//!
//! Predictions are post-processed before ([`post`](crate::post)): 0 or 1 per class for most metrics.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use hearth_nn::metrics::{DiceMetric, Metric};
//! use hearth_nn::post::AsDiscrete;
//!
//! let scores = Tensor::zeros([1, 2, 4, 4, 4], &Device::default()); // class 0 wins everywhere
//! let pred = AsDiscrete::default().argmax(true).to_onehot(2).apply(scores)?;
//! let mut dice = DiceMetric::default();
//! dice.update(&pred, &pred)?;
//! assert_eq!(dice.rows().len(), 1);
//! assert_eq!(dice.aggregate()?.scalar(), 1.0); // class 1 is missing in the label, and not counted
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accuracy;
mod average_precision;
mod class_confusion;
mod config;
mod confusion_matrix;
mod confusion_name;
mod cumulative_average;
mod curve;
mod dice;
mod dice_per_component;
mod froc;
mod generalized_dice;
mod hausdorff_distance;
mod inputs;
mod lesion_froc;
mod lesion_wise;
mod mean_iou;
mod metric_fn;
mod of_plugin;
mod per_item;
mod reduction;
mod regression;
mod roc_auc;
mod rows;
mod ssim;
mod surface;
mod surface_dice;
mod surface_distance;

pub use accuracy::Accuracy;
pub use average_precision::AveragePrecisionMetric;
pub use class_confusion::ClassConfusion;
pub use config::MetricConfig;
pub use confusion_matrix::{ConfusionMatrixMetric, FBetaScore};
pub use confusion_name::{ConfusionName, ConfusionNames};
pub use cumulative_average::CumulativeAverage;
pub use curve::Average;
pub use dice::DiceMetric;
pub use froc::{EVAL_THRESHOLDS, Froc, FrocCurve, ImageHits, compute_fp_tp_probs, compute_fp_tp_probs_nd};
pub use generalized_dice::GeneralizedDiceScore;
pub use hausdorff_distance::HausdorffDistanceMetric;
pub use inputs::{count, foreground, indicator, read, same_shape, without_ignored};
pub use lesion_froc::{LesionFroc, Tumours};
pub use lesion_wise::{LesionScore, LesionWiseMetric};
pub use mean_iou::MeanIoU;
pub use metric_fn::metric_fn;
pub use per_item::{Gathered, PerItem, summary};
pub use reduction::{Aggregate, MetricReduction, Reduced, reduce};
pub use regression::{MaeMetric, MapeMetric, MseMetric, PsnrMetric, RmseMetric};
pub use roc_auc::RocAucMetric;
pub use rows::Rows;
pub use ssim::{MultiScaleSsimMetric, SsimMetric};
pub use surface::DistanceMetric;
pub use surface_dice::SurfaceDiceMetric;
pub use surface_distance::SurfaceDistanceMetric;

pub use crate::class_size::SizeWeight;
pub use crate::ssim::KernelType;

use burn::tensor::Tensor;
use hearth_kernels::label::LabelError;
use hearth_registry::Fault;

/// An error of a metric: invalid inputs or options.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// Prediction and label have different shapes.
    #[error("{metric}: label of shape {label:?} does not fit a prediction of shape {pred:?}: {expected}")]
    Shape {
        /// Name of the metric.
        metric: &'static str,
        /// Shape of the prediction.
        pred: [usize; 5],
        /// Shape of the label.
        label: [usize; 5],
        /// The expected shape.
        expected: String,
    },
    /// An option that is invalid, or does not apply to these inputs.
    #[error("{metric}: {reason}")]
    Option {
        /// The option's key in a recipe; empty if several options are involved.
        key: &'static str,
        /// Name of the metric.
        metric: &'static str,
        /// Description of the problem.
        reason: String,
    },
    /// No item was added yet.
    #[error("{metric}: there is nothing to aggregate; the evaluation saw no item")]
    Empty {
        /// Name of the metric.
        metric: &'static str,
    },
    /// Rows of another metric or of another number of classes.
    #[error("{metric}: a row of {got} values does not fit rows of {expected}")]
    Row {
        /// Name of the metric.
        metric: &'static str,
        /// Number of values in the row.
        got: usize,
        /// Number of values in the rows so far.
        expected: usize,
    },
    /// Reading the result back from the device failed.
    #[error("{metric}: reading the result back from the device failed: {reason}")]
    Read {
        /// Name of the metric.
        metric: &'static str,
        /// The device's error.
        reason: String,
    },
}

impl MetricError {
    /// Creates an error with a reason; `metric` is the metric's name.
    pub fn new(metric: &'static str, reason: impl Into<String>) -> Self {
        MetricError::Option { key: "", metric, reason: reason.into() }
    }

    /// Converts an error of the distance transform or the labelling.
    pub(crate) fn from_label(metric: &'static str, error: LabelError) -> Self {
        MetricError::new(metric, error.to_string())
    }
}

/// A metric over an evaluation, as evaluators use it. A custom metric implements [`PerItem`], which
/// [can be converted](PerItem::gathered) to a `Metric`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::metrics::{DiceMetric, Metric};
///
/// let mut dice = DiceMetric::default();
/// // Two items with two classes each, as 0 or 1.
/// let mask = Tensor::ones([2, 2, 4, 4, 4], &Device::default());
/// assert_eq!(dice.update(&mask, &mask)?, [[1.0_f32; 2]; 2]); // a row for each item
/// assert_eq!(dice.aggregate()?.scalar(), 1.0);
/// dice.reset();
/// assert!(dice.aggregate().is_err()); // no item
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a metric",
    note = "a type with `PerItem` becomes one by `.gathered()`, a function of prediction and label by \
            `metric_fn(\"VolumeError\", |pred, label| ...)`"
)]
pub trait Metric: Send {
    /// The metric's name in MONAI.
    fn name(&self) -> &'static str;

    /// Whether a larger value is better; `None` if it depends, as for several rates of a confusion
    /// matrix.
    fn higher_is_better(&self) -> Option<bool>;

    /// Whether the background is included as a class.
    fn includes_background(&self) -> bool;

    /// Checks the options for this number of classes, before any update.
    ///
    /// # Errors
    /// Fails with the first invalid option.
    fn check_for(&self, classes: usize) -> Result<(), MetricError>;

    /// Loads what the metric needs before its first update: the library of a plugin.
    ///
    /// # Errors
    /// A plugin that is missing or refuses the options.
    fn load(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether the metric takes one score per image instead of a label map.
    fn takes_scores(&self) -> bool {
        false
    }

    /// Adds the items of a batch: `pred` and `label` as `[b, c, x, y, z]`. Returns the new rows,
    /// one per item.
    ///
    /// # Errors
    /// If prediction and label do not fit each other or the options, if the rows have another length
    /// than those before, or if reading from the device fails.
    fn update(&mut self, pred: &Tensor<5>, label: &Tensor<5>) -> Result<&[Vec<f32>], MetricError>;

    /// Adds the items of a batch, `pred` and `label` as `[b, c, x, y, z]`, to a metric that measures
    /// lengths. `spacing`, the size of a voxel in mm, has an entry for every item, one for all, or none
    /// for voxels of side 1. Other metrics ignore it.
    ///
    /// # Errors
    /// As [`update`](Self::update), and for a spacing that is not above 0, or another number of them.
    fn update_spaced(
        &mut self,
        pred: &Tensor<5>,
        label: &Tensor<5>,
        _spacing: &[[f64; 3]],
    ) -> Result<&[Vec<f32>], MetricError> {
        self.update(pred, label)
    }

    /// Adds rows of another rank or of a checkpoint.
    ///
    /// # Errors
    /// For a row of another length than those before.
    fn merge(&mut self, rows: Vec<Vec<f32>>) -> Result<(), MetricError>;

    /// Counts in addition to the rows, summed over ranks; empty by default.
    fn counts(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Sets what [`Metric::counts`] returns, after rows were [merged](Metric::merge).
    fn set_counts(&mut self, _counts: Vec<u64>) {}

    /// All rows so far: one per item in the order of addition, with one value per class.
    fn rows(&self) -> &[Vec<f32>];

    /// The values of an item, from its row: one per included class, or one for all. The default is
    /// the row itself; metrics whose rows hold counts convert them. Empty if a single item has no
    /// value.
    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        row.to_vec()
    }

    /// The result over all rows.
    ///
    /// # Errors
    /// [`MetricError::Empty`] without rows.
    fn aggregate(&self) -> Result<Aggregate, MetricError>;

    /// Clears all rows.
    fn reset(&mut self);
}

/// Implements the trait for boxed metrics, such as those that a recipe names.
impl Metric for Box<dyn Metric> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn higher_is_better(&self) -> Option<bool> {
        (**self).higher_is_better()
    }

    fn includes_background(&self) -> bool {
        (**self).includes_background()
    }

    fn check_for(&self, classes: usize) -> Result<(), MetricError> {
        (**self).check_for(classes)
    }

    fn load(&self) -> Result<(), Fault> {
        (**self).load()
    }

    fn takes_scores(&self) -> bool {
        (**self).takes_scores()
    }

    fn update(&mut self, pred: &Tensor<5>, label: &Tensor<5>) -> Result<&[Vec<f32>], MetricError> {
        (**self).update(pred, label)
    }

    fn update_spaced(
        &mut self,
        pred: &Tensor<5>,
        label: &Tensor<5>,
        spacing: &[[f64; 3]],
    ) -> Result<&[Vec<f32>], MetricError> {
        (**self).update_spaced(pred, label, spacing)
    }

    fn merge(&mut self, rows: Vec<Vec<f32>>) -> Result<(), MetricError> {
        (**self).merge(rows)
    }

    fn counts(&self) -> Vec<u64> {
        (**self).counts()
    }

    fn set_counts(&mut self, counts: Vec<u64>) {
        (**self).set_counts(counts);
    }

    fn rows(&self) -> &[Vec<f32>] {
        (**self).rows()
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        (**self).values_of(row)
    }

    fn aggregate(&self) -> Result<Aggregate, MetricError> {
        (**self).aggregate()
    }

    fn reset(&mut self) {
        (**self).reset()
    }
}

//! Metrics that measure each item separately: [`PerItem`], and [`Gathered`], which stores the rows.

use burn::tensor::Tensor;
use hearth_registry::{Fault, type_name};

use super::{Aggregate, Metric, MetricError, MetricReduction, Rows, reduce};

/// A metric that maps a batch to one row of values per item. Implementations must provide two
/// functions.
///
/// [`gathered`](Self::gathered) converts it to a [`Metric`], which stores the rows over an
/// evaluation.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_nn::metrics::{Metric, MetricError, PerItem, count, read, same_shape};
///
/// /// By how much the volume is wrong, as a share of the label's.
/// struct VolumeError;
///
/// impl PerItem for VolumeError {
///     fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
///         same_shape(self.name(), pred, label)?;
///         let classes = pred.dims()[1];
///         let (pred, label) = (count(pred.clone()), count(label.clone()));
///         let rows = read(self.name(), (pred - label.clone()).abs() / label)?;
///         Ok(rows.chunks(classes).map(<[f32]>::to_vec).collect())
///     }
///
///     fn higher_is_better(&self) -> Option<bool> {
///         Some(false)
///     }
/// }
///
/// let mut error = VolumeError.gathered();
/// let device = Device::default();
/// error.update(&Tensor::full([2, 1, 4, 4, 4], 3.0, &device), &Tensor::full([2, 1, 4, 4, 4], 2.0, &device))?;
/// assert_eq!((Metric::name(&error), error.rows().len(), error.aggregate()?.scalar()), ("VolumeError", 2, 0.5));
/// # Ok::<(), MetricError>(())
/// ```
pub trait PerItem: Send {
    /// Returns one row per item, of the same length in every call: one value per class, or one for
    /// all. NaN if there is nothing to measure. `pred` and `label` are `[b, c, x, y, z]`, outside
    /// any autodiff graph. `spacing` in mm has one entry for all items, one per item, or none if
    /// voxels have side 1.
    ///
    /// # Errors
    /// Fails if prediction and label do not match, or if the options do not match them.
    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError>;

    /// Whether a larger value is better; `None` if it depends.
    fn higher_is_better(&self) -> Option<bool>;

    /// The metric's name in messages: MONAI's, if it has one. By default the type's name.
    fn name(&self) -> &'static str {
        type_name::<Self>()
    }

    /// Whether the background is included as a class. By default it is: rows have a value for each
    /// channel of the prediction.
    fn includes_background(&self) -> bool {
        true
    }

    /// Checks the options for this number of classes, before any update. By default any number is
    /// valid.
    ///
    /// # Errors
    /// The first invalid option.
    fn check_for(&self, classes: usize) -> Result<(), MetricError> {
        let _ = classes;
        Ok(())
    }

    /// Loads what the metric needs before its first update: the library of a plugin.
    ///
    /// # Errors
    /// A plugin that is missing or refuses the options.
    fn load(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether the metric takes one score per image instead of a label map; by default it does not.
    fn takes_scores(&self) -> bool {
        false
    }

    /// The values of an item, from its row: see [`Metric::values_of`]. By default the row itself.
    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        row.to_vec()
    }

    /// The result over at least one row; the default is [MONAI's mean](MetricReduction::Mean).
    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, MetricReduction::Mean, usize::from(!self.includes_background()))
    }

    /// Converts the metric to a [`Metric`] that stores its rows.
    fn gathered(self) -> Gathered<Self>
    where
        Self: Sized,
    {
        Gathered { metric: self, rows: Rows::default() }
    }
}

/// Access to the rows of a metric.
pub(crate) trait KeepsRows {
    /// The rows collected so far.
    fn kept(&self) -> &Rows;

    /// The rows collected so far, mutable.
    fn kept_mut(&mut self) -> &mut Rows;
}

/// [`KeepsRows`] for types with a field `rows`.
macro_rules! keeps_rows {
    ($($type:ty),* $(,)?) => { $(
        impl $crate::metrics::per_item::KeepsRows for $type {
            fn kept(&self) -> &$crate::metrics::Rows {
                &self.rows
            }

            fn kept_mut(&mut self) -> &mut $crate::metrics::Rows {
                &mut self.rows
            }
        }
    )* };
}

pub(crate) use keeps_rows;

/// A metric and its rows: turns a user's [`PerItem`] into a [`Metric`]. Made by
/// [`PerItem::gathered`], which has an example.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered<M> {
    /// The metric.
    pub metric: M,
    /// The rows collected so far.
    pub rows: Rows,
}

impl<M> KeepsRows for Gathered<M> {
    fn kept(&self) -> &Rows {
        &self.rows
    }

    fn kept_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }
}

impl<M: PerItem> PerItem for Gathered<M> {
    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        self.metric.measure(pred, label, spacing)
    }

    fn higher_is_better(&self) -> Option<bool> {
        self.metric.higher_is_better()
    }

    fn name(&self) -> &'static str {
        self.metric.name()
    }

    fn includes_background(&self) -> bool {
        self.metric.includes_background()
    }

    fn check_for(&self, classes: usize) -> Result<(), MetricError> {
        self.metric.check_for(classes)
    }

    fn load(&self) -> Result<(), Fault> {
        self.metric.load()
    }

    fn takes_scores(&self) -> bool {
        self.metric.takes_scores()
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        self.metric.values_of(row)
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        self.metric.summarize(rows)
    }
}

impl<M: PerItem + KeepsRows> Metric for M {
    fn name(&self) -> &'static str {
        PerItem::name(self)
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

    fn load(&self) -> Result<(), Fault> {
        PerItem::load(self)
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
        let name = PerItem::name(self);
        self.kept_mut().extend(name, rows)?;
        Ok(&self.kept()[first..])
    }

    fn merge(&mut self, rows: Vec<Vec<f32>>) -> Result<(), MetricError> {
        let name = PerItem::name(self);
        self.kept_mut().extend(name, rows)
    }

    fn rows(&self) -> &[Vec<f32>] {
        self.kept()
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        PerItem::values_of(self, row)
    }

    fn aggregate(&self) -> Result<Aggregate, MetricError> {
        match self.kept().is_empty() {
            true => Err(MetricError::Empty { metric: PerItem::name(self) }),
            false => Ok(self.summarize(self.kept())),
        }
    }

    fn reset(&mut self) {
        self.kept_mut().clear();
    }
}

/// The result of a reduction, with names for values that belong to a class. `first` is the first
/// included class: 1 if rows exclude the background.
pub fn summary(rows: &[Vec<f32>], reduction: MetricReduction, first: usize) -> Aggregate {
    let (value, not_nans) = reduce(rows, reduction);
    let labels = match reduction {
        MetricReduction::MeanBatch | MetricReduction::SumBatch => {
            (0..value.values.len()).map(|c| format!("label_{}", c + first)).collect()
        }
        _ => Vec::new(),
    };
    Aggregate { value, not_nans, labels }
}

//! Regression errors per item (`monai.metrics.regression`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inputs::{read, same_shape};
use super::per_item::{PerItem, keeps_rows, summary};
use super::{Aggregate, MetricError, MetricReduction, Rows};

/// Computes the mean of each item.
fn means(metric: &'static str, errors: Tensor<5>) -> Result<Vec<f32>, MetricError> {
    let [items, ..] = errors.dims();
    let count = errors.shape().num_elements() / items.max(1);
    read(metric, errors.reshape([items, count]).mean_dim(1))
}

/// Prediction minus label.
fn difference(metric: &'static str, pred: &Tensor<5>, label: &Tensor<5>) -> Result<Tensor<5>, MetricError> {
    same_shape(metric, pred, label)?;
    Ok(label.clone().cast(DType::F32) - pred.clone().cast(DType::F32))
}

fn squares(metric: &'static str, pred: &Tensor<5>, label: &Tensor<5>) -> Result<Vec<f32>, MetricError> {
    let off = difference(metric, pred, label)?;
    means(metric, off.clone() * off)
}

/// Checks an option.
fn above_zero(metric: &'static str, key: &'static str, value: f64) -> Result<(), MetricError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(MetricError::Option { key, metric, reason: format!("{key} is {value}: expected a number above 0") })
}

fn column(values: Vec<f32>) -> Vec<Vec<f32>> {
    values.into_iter().map(|value| vec![value]).collect()
}

/// Mean absolute error.
///
/// Prediction and label have the same shape `[b, c, x, y, z]`; one value per item.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{MaeMetric, Metric};
/// let mut error = MaeMetric::default();
/// error.update(&Tensor::zeros([1, 1, 4, 4, 4], &Device::default()), &Tensor::full([1, 1, 4, 4, 4], 2.0, &Device::default()))?;
/// assert_eq!(error.aggregate()?.scalar(), 2.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct MaeMetric {
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl MaeMetric {
    const NAME: &'static str = "MAEMetric";
}

impl PerItem for MaeMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(false)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        Ok(column(means(Self::NAME, difference(Self::NAME, pred, label)?.abs())?))
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, 0)
    }
}

/// Mean absolute percentage error: the absolute error as a share of the label, in percent.
///
/// Prediction and label have the same shape `[b, c, x, y, z]`; one value per item.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{MapeMetric, Metric};
/// let mut error = MapeMetric::default();
/// error.update(&Tensor::zeros([1, 1, 4, 4, 4], &Device::default()), &Tensor::full([1, 1, 4, 4, 4], 2.0, &Device::default()))?;
/// assert_eq!(error.aggregate()?.scalar(), 100.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct MapeMetric {
    /// Lower limit of the label in the division.
    pub epsilon: f64,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Default for MapeMetric {
    fn default() -> Self {
        MapeMetric { epsilon: 1e-7, reduction: MetricReduction::Mean, rows: Rows::default() }
    }
}

impl MapeMetric {
    const NAME: &'static str = "MAPEMetric";
}

impl PerItem for MapeMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(false)
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        above_zero(Self::NAME, "epsilon", self.epsilon)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let off = difference(Self::NAME, pred, label)?.abs();
        let whole = label.clone().cast(DType::F32).abs().clamp_min(self.epsilon);
        Ok(column(means(Self::NAME, off / whole * 100.0)?))
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, 0)
    }
}

/// Mean squared error.
///
/// Prediction and label have the same shape `[b, c, x, y, z]`; one value per item.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Metric, MseMetric};
/// let mut error = MseMetric::default();
/// error.update(&Tensor::zeros([1, 1, 4, 4, 4], &Device::default()), &Tensor::full([1, 1, 4, 4, 4], 2.0, &Device::default()))?;
/// assert_eq!(error.aggregate()?.scalar(), 4.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct MseMetric {
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl MseMetric {
    const NAME: &'static str = "MSEMetric";
}

impl PerItem for MseMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(false)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        Ok(column(squares(Self::NAME, pred, label)?))
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, 0)
    }
}

/// Peak signal-to-noise ratio, in decibel.
///
/// Prediction and label have the same shape `[b, c, x, y, z]`; one value per item.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Metric, PsnrMetric};
/// let mut error = PsnrMetric::new(2.0);
/// error.update(&Tensor::zeros([1, 1, 4, 4, 4], &Device::default()), &Tensor::full([1, 1, 4, 4, 4], 2.0, &Device::default()))?;
/// assert!(error.aggregate()?.scalar().abs() < 1e-5);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct PsnrMetric {
    /// The largest possible value.
    pub max_val: f64,
    /// How rows are reduced.
    #[serde(default)]
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl PsnrMetric {
    /// A metric with MONAI's defaults for images with values up to `max_val`.
    pub fn new(max_val: f64) -> Self {
        PsnrMetric { max_val, reduction: MetricReduction::Mean, rows: Rows::default() }
    }
}

impl PsnrMetric {
    const NAME: &'static str = "PSNRMetric";
}

impl PerItem for PsnrMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        above_zero(Self::NAME, "max_val", self.max_val)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        above_zero(Self::NAME, "max_val", self.max_val)?;
        let peak = (20.0 * self.max_val.log10()) as f32;
        let ratios = squares(Self::NAME, pred, label)?.into_iter().map(|square| peak - 10.0 * square.log10());
        Ok(column(ratios.collect()))
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, 0)
    }
}

/// Root mean squared error.
///
/// Prediction and label have the same shape `[b, c, x, y, z]`; one value per item.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Metric, RmseMetric};
/// let mut error = RmseMetric::default();
/// error.update(&Tensor::zeros([1, 1, 4, 4, 4], &Device::default()), &Tensor::full([1, 1, 4, 4, 4], 2.0, &Device::default()))?;
/// assert_eq!(error.aggregate()?.scalar(), 2.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct RmseMetric {
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl RmseMetric {
    const NAME: &'static str = "RMSEMetric";
}

impl PerItem for RmseMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(false)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        Ok(column(squares(Self::NAME, pred, label)?.into_iter().map(f32::sqrt).collect()))
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, 0)
    }
}

keeps_rows!(MaeMetric, MapeMetric, MseMetric, PsnrMetric, RmseMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => MaeMetric,
    name: "MAEMetric",
    example: ""
);

hearth_registry::entry!(
    dyn crate::metrics::Metric => MapeMetric,
    name: "MAPEMetric",
    example: ""
);

hearth_registry::entry!(
    dyn crate::metrics::Metric => MseMetric,
    name: "MSEMetric",
    example: ""
);

hearth_registry::entry!(
    dyn crate::metrics::Metric => PsnrMetric,
    name: "PSNRMetric",
    example: "max_val = 1.0"
);

hearth_registry::entry!(
    dyn crate::metrics::Metric => RmseMetric,
    name: "RMSEMetric",
    example: ""
);

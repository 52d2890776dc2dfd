//! Accuracy (`ignite.metrics.Accuracy`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inputs::{count, indicator, read};
use super::per_item::{PerItem, keeps_rows};
use super::{Aggregate, MetricError, Reduced, Rows};

/// Accuracy: the share of correct predictions, of items or, for images, of voxels.
///
/// - Binary: prediction and label of the same shape, both 0 or 1.
/// - Several classes: prediction `[b, classes, x, y, z]`, whose largest channel is the class, and
///   class indices `[b, 1, x, y, z]`.
/// - Several labels at once (`is_multilabel`): the same shape; an item is correct if all its labels
///   are correct.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Accuracy, Metric};
/// let mut accuracy = Accuracy::default();
/// let ones = Tensor::ones([4, 1, 1, 1, 1], &Device::default());
/// accuracy.update(&ones, &ones)?;
/// assert_eq!(accuracy.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct Accuracy {
    /// Whether an item has several labels at once.
    pub is_multilabel: bool,
    /// The rows collected so far: the numbers of correct and of all predictions.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Accuracy {
    const NAME: &'static str = "Accuracy";
}

impl PerItem for Accuracy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let (shape, got) = (pred.dims(), label.dims());
        let misfit = |expected: &str| {
            let expected = expected.to_owned();
            Err(MetricError::Shape { metric: Self::NAME, pred: shape, label: got, expected })
        };
        if shape[0] != got[0] || shape[2..] != got[2..] {
            return misfit("batch and spatial axes must be equal");
        }
        let (mut pred, label) = (pred.clone().cast(DType::F32), label.clone().cast(DType::F32));
        if got[1] == 1 && shape[1] > 1 {
            pred = pred.argmax(1).float().cast(DType::F32);
        } else if got[1] != shape[1] {
            return misfit("expected the same shape, or class indices in one channel");
        }
        let mut right = indicator(pred.equal(label));
        if self.is_multilabel {
            right = right.min_dim(1);
        }
        let [items, channels, x, y, z] = right.dims();
        let answers = (channels * x * y * z) as f32;
        let right = read(Self::NAME, count(right).sum_dim(1))?;
        Ok(right.into_iter().take(items).map(|right| vec![right, answers]).collect())
    }

    fn values_of(&self, row: &[f32]) -> Vec<f32> {
        vec![row[0] / row[1]]
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        let total = |column: usize| rows.iter().map(|row| f64::from(row[column])).sum::<f64>();
        let number = |value: f64| Reduced { shape: Vec::new(), values: vec![value as f32] };
        Aggregate { value: number(total(0) / total(1)), not_nans: number(total(1)), labels: Vec::new() }
    }
}

keeps_rows!(Accuracy);

hearth_registry::entry!(
    dyn crate::metrics::Metric => Accuracy,
    example: ""
);

//! Dice score (`monai.metrics.DiceMetric`, `monai.handlers.MeanDice`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inputs::{count, read};
use super::{Aggregate, Metric, MetricError, MetricReduction, Rows, dice_per_component, reduce};
use crate::ignored::counted;

/// Dice score of binarised predictions, per item and class.
///
/// Prediction and label are `[b, classes, x, y, z]`, zero or nonzero per class; with `num_classes`,
/// either may also be a map of class indices `[b, 1, x, y, z]`. Counted on the device, with one
/// small read per update.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{DiceMetric, Metric};
/// let mut dice = DiceMetric { num_classes: Some(2), include_background: false, ..DiceMetric::default() };
/// let map = Tensor::ones([1, 1, 4, 4, 4], &Device::default());
/// dice.update(&map, &map)?;
/// assert_eq!(dice.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct DiceMetric {
    /// Whether class 0, the background, is included.
    pub include_background: bool,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// Whether a class that is missing in the label is NaN and ignored. Otherwise it scores 1 if it
    /// is also missing in the prediction, and 0 if not.
    pub ignore_empty: bool,
    /// Number of classes, including the background, if predictions are class indices.
    pub num_classes: Option<usize>,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// Whether each component of the label is scored separately and the scores are averaged,
    /// independent of size (<https://arxiv.org/abs/2410.18684>). Requires two channels, background
    /// and foreground; one value per item.
    pub per_component: bool,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Default for DiceMetric {
    fn default() -> Self {
        DiceMetric {
            include_background: true,
            reduction: MetricReduction::Mean,
            ignore_empty: true,
            num_classes: None,
            ignore_index: None,
            per_component: false,
            rows: Rows::default(),
        }
    }
}

const NAME: &str = "DiceMetric";

impl DiceMetric {
    /// The included classes: indices of channels, or values of a map.
    fn classes(&self, channels: usize) -> std::ops::Range<usize> {
        match self.num_classes.unwrap_or(channels) {
            0 | 1 => 1..2,
            classes => usize::from(!self.include_background)..classes,
        }
    }

    /// 1 if the class is present, `[b, classes, x, y, z]`; multi-channel labels keep their (soft)
    /// values.
    fn members(x: Tensor<5>, classes: &std::ops::Range<usize>, binary: bool) -> Option<Tensor<5>> {
        let [b, channels, dx, dy, dz] = x.dims();
        let x = x.cast(DType::F32);
        if channels == 1 {
            let shape = [b, classes.len(), dx, dy, dz];
            let values: Vec<f32> = classes.clone().map(|c| c as f32).collect();
            let values = Tensor::<1>::from_floats(values.as_slice(), &x.device()).reshape([1, classes.len(), 1, 1, 1]);
            return Some(x.expand(shape).equal(values.expand(shape)).float().cast(DType::F32));
        }
        if classes.end > channels {
            return None;
        }
        let x = x.narrow(1, classes.start, classes.len());
        Some(if binary { x.not_equal_elem(0.0).float().cast(DType::F32) } else { x })
    }

    fn score(&self, overlap: f32, present: f32, predicted: f32) -> f32 {
        if present > 0.0 {
            2.0 * overlap / (present + predicted)
        } else if self.ignore_empty {
            f32::NAN
        } else if present + predicted <= 0.0 {
            1.0
        } else {
            0.0
        }
    }
}

impl Metric for DiceMetric {
    fn name(&self) -> &'static str {
        NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn includes_background(&self) -> bool {
        self.include_background && !self.per_component
    }

    fn check_for(&self, classes: usize) -> Result<(), MetricError> {
        if self.per_component && self.ignore_index.is_some() {
            let reason = "per_component does not support `ignore_index`; omit one of them".to_owned();
            return Err(MetricError::Option { key: "ignore_index", metric: NAME, reason });
        }
        if self.per_component && classes != 2 {
            let reason = format!("`per_component` is for a background and one class, not for {classes}");
            return Err(MetricError::Option { key: "per_component", metric: NAME, reason });
        }
        Ok(())
    }

    fn update(&mut self, pred: &Tensor<5>, label: &Tensor<5>) -> Result<&[Vec<f32>], MetricError> {
        if self.per_component {
            self.check_for(2)?;
            let first = self.rows.len();
            let rows = dice_per_component::rows(NAME, pred, label, self.ignore_empty)?;
            self.merge(rows)?;
            return Ok(&self.rows[first..]);
        }
        let (shape, label_shape) = (pred.dims(), label.dims());
        let misfit = |expected: String| MetricError::Shape { metric: NAME, pred: shape, label: label_shape, expected };
        if shape[0] != label_shape[0] || shape[2..] != label_shape[2..] {
            return Err(misfit("batch and spatial axes must be equal".to_owned()));
        }
        let classes = self.classes(shape[1]);
        let too_few = || misfit(format!("expected 1 channel or at least {}", classes.end));
        let (pred, label) = (pred.clone().without_autodiff(), label.clone().without_autodiff());
        let mask = self.ignore_index.map(|index| counted(&label, index));
        let mut x = Self::members(pred, &classes, true).ok_or_else(too_few)?;
        let mut y = Self::members(label, &classes, false).ok_or_else(too_few)?;
        if let Some(mask) = mask {
            let mask = mask.expand(x.dims());
            (x, y) = (x * mask.clone(), y * mask);
        }
        let counts = [count(x.clone() * y.clone()), count(y), count(x)];
        let counts: Tensor<3> = Tensor::stack(counts.to_vec(), 2);
        let counts = read(NAME, counts)?;
        let rows: Vec<Vec<f32>> = counts
            .chunks(3 * classes.len())
            .map(|item| item.chunks(3).map(|c| self.score(c[0], c[1], c[2])).collect())
            .collect();
        let first = self.rows.len();
        self.merge(rows)?;
        Ok(&self.rows[first..])
    }

    fn merge(&mut self, rows: Vec<Vec<f32>>) -> Result<(), MetricError> {
        self.rows.extend(NAME, rows)
    }

    fn rows(&self) -> &[Vec<f32>] {
        &self.rows
    }

    fn aggregate(&self) -> Result<Aggregate, MetricError> {
        if self.rows.is_empty() {
            return Err(MetricError::Empty { metric: NAME });
        }
        let (value, not_nans) = reduce(&self.rows, self.reduction);
        let first = usize::from(!self.include_background || self.per_component);
        let labels = match self.reduction {
            MetricReduction::MeanBatch | MetricReduction::SumBatch => {
                (0..value.values.len()).map(|c| format!("label_{}", c + first)).collect()
            }
            _ => Vec::new(),
        };
        Ok(Aggregate { value, not_nans, labels })
    }

    fn reset(&mut self) {
        self.rows.clear();
    }
}

hearth_registry::entry!(
    dyn crate::metrics::Metric => DiceMetric,
    aliases: &["MeanDice"],
    paper: "Dice 1945, doi:10.2307/1932409",
    example: "include_background = false"
);

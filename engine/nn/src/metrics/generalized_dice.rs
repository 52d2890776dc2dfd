//! Generalized Dice score (`monai.metrics.GeneralizedDiceScore`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inputs::{count, read, without_ignored};
use super::per_item::{PerItem, keeps_rows, summary};
use super::{Aggregate, MetricError, MetricReduction, Rows};
use crate::class_size::SizeWeight;

/// Generalized Dice score (Sudre et al., <https://arxiv.org/abs/1707.03237>) of binarised
/// predictions: one score per item over all classes, each weighted by its size. Reductions that
/// keep classes separate score each class.
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{GeneralizedDiceScore, Metric};
/// let mut dice = GeneralizedDiceScore::default();
/// let mask = Tensor::ones([1, 2, 4, 4, 4], &Device::default());
/// dice.update(&mask, &mask)?;
/// assert_eq!(dice.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct GeneralizedDiceScore {
    /// Whether class 0, the background, is included.
    pub include_background: bool,
    /// How rows are reduced.
    pub reduction: MetricReduction,
    /// How a class is weighted by its size.
    pub weight_type: SizeWeight,
    /// Voxels with this label are ignored.
    pub ignore_index: Option<i64>,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Default for GeneralizedDiceScore {
    fn default() -> Self {
        GeneralizedDiceScore {
            include_background: true,
            reduction: MetricReduction::Mean,
            weight_type: SizeWeight::Square,
            ignore_index: None,
            rows: Rows::default(),
        }
    }
}

/// Overlap, label and prediction of one class, in voxels.
type Sizes = [f32; 3];

impl GeneralizedDiceScore {
    fn weights(&self, classes: &[Sizes]) -> Vec<f32> {
        let plain: Vec<f32> = classes.iter().map(|[_, present, _]| self.weight_type.of_size(*present)).collect();
        let heaviest = plain.iter().copied().filter(|w| w.is_finite()).fold(0.0, f32::max);
        let instead = if heaviest > 0.0 { heaviest } else { 1.0 };
        plain.into_iter().map(|weight| if weight.is_infinite() { instead } else { weight }).collect()
    }

    fn row(&self, classes: &[Sizes]) -> Vec<f32> {
        let weights = self.weights(classes);
        let parts = classes
            .iter()
            .zip(weights)
            .map(|([overlap, present, predicted], weight)| (2.0 * overlap * weight, (present + predicted) * weight));
        // An empty label with an empty prediction has a perfect score.
        let score = |(overlap, whole): (f32, f32)| if whole == 0.0 { 1.0 } else { overlap / whole };
        match self.reduction {
            MetricReduction::None | MetricReduction::MeanBatch | MetricReduction::SumBatch => {
                parts.map(score).collect()
            }
            _ => vec![score(parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1)))],
        }
    }
}

impl GeneralizedDiceScore {
    const NAME: &'static str = "GeneralizedDiceScore";
}

impl PerItem for GeneralizedDiceScore {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let (pred, label) = without_ignored(Self::NAME, pred, label, self.ignore_index)?;
        let [items, channels, ..] = pred.dims();
        let counts = vec![count(pred.clone() * label.clone()), count(label), count(pred)];
        let counts = read(Self::NAME, Tensor::stack::<3>(counts, 2))?;
        let first = usize::from(!self.include_background);
        let used = |channel: &usize| *channel >= first && Some(*channel as i64) != self.ignore_index;
        let channels_used: Vec<usize> = (0..channels).filter(used).collect();
        if channels_used.is_empty() {
            return Ok(vec![vec![0.0]; items]);
        }
        let row = |item: usize| {
            let of = |channel: &usize| {
                let at = 3 * (item * channels + channel);
                [counts[at], counts[at + 1], counts[at + 2]]
            };
            self.row(&channels_used.iter().map(of).collect::<Vec<Sizes>>())
        };
        Ok((0..items).map(row).collect())
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, usize::from(!self.include_background))
    }
}

keeps_rows!(GeneralizedDiceScore);

hearth_registry::entry!(
    dyn crate::metrics::Metric => GeneralizedDiceScore,
    paper: "Sudre et al. 2017, arXiv:1707.03237",
    example: ""
);

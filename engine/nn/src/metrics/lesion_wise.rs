//! Lesion-wise Dice and Hausdorff distance, as in the BraTS challenges since 2023.

use burn::tensor::Tensor;
use derive_setters::Setters;
use hearth_kernels::label::{self, Components, LabelError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::per_item::{PerItem, keeps_rows, summary};
use super::surface::{DistanceMetric, Masks, Pair, Side, spacing_of};
use super::{Aggregate, MetricError, MetricReduction, Rows};

/// The score of a lesion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LesionScore {
    /// The Dice score; a missed or false lesion scores 0.
    #[default]
    Dice,
    /// A percentile of the distances between the surfaces, in mm; a missed or false lesion scores
    /// `penalty`.
    Hausdorff,
}

/// Dice score or Hausdorff distance per lesion, averaged over all lesions of an image and class,
/// including false ones, by the rules of BraTS 2023 (Moawad et al.,
/// <https://arxiv.org/abs/2306.00838>).
///
/// A lesion of the label consists of the parts that lie within twice the dilation of each other:
/// the label is dilated `dilation_factor` times (18 neighbours), and each component of the result
/// (26 neighbours) is one lesion. Every component of the prediction that touches a dilated lesion
/// belongs to it; components that touch no lesion are false positives. Lesions of the label of up
/// to `lesion_volume_thresh` mm^3 are ignored. If there are no lesions, Dice is 1 and the distance
/// 0. Distances are weighted by the surface area at each position (DeepMind's `surface-distance`).
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class. Read back from the device and
/// computed on the CPU.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{LesionWiseMetric, Metric};
/// let mut dice = LesionWiseMetric::default();
/// let two = Tensor::zeros([1, 1, 24, 8, 8], &Device::default())
///     .slice_fill([0..1, 0..1, 1..5, 1..6, 1..6], 1.0)
///     .slice_fill([0..1, 0..1, 18..22, 1..6, 1..6], 1.0);
/// let one = two.clone().slice_fill([0..1, 0..1, 18..22, 0..8, 0..8], 0.0);
/// // One lesion is found to the voxel, the other is missed.
/// dice.update(&one, &two)?;
/// assert_eq!(dice.aggregate()?.scalar(), 0.5);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct LesionWiseMetric {
    /// The score of each lesion.
    pub score: LesionScore,
    /// Whether class 0 is included. Included by default: regions have no background.
    pub include_background: bool,
    /// Number of dilations of the label: 3 for gliomas, 1 for metastases.
    pub dilation_factor: usize,
    /// Lesions of the label up to this volume in mm^3 are ignored: 50 for gliomas, 2 for
    /// metastases.
    pub lesion_volume_thresh: f64,
    /// The distance of a missed or false lesion, in mm.
    pub penalty: f64,
    /// Percentile of the distances, 0 to 100.
    pub percentile: f64,
    /// The reduction of rows.
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl Default for LesionWiseMetric {
    fn default() -> Self {
        LesionWiseMetric {
            score: LesionScore::Dice,
            include_background: true,
            dilation_factor: 3,
            lesion_volume_thresh: 50.0,
            penalty: 374.0,
            percentile: 95.0,
            reduction: MetricReduction::Mean,
            rows: Rows::default(),
        }
    }
}

/// Connectivity: 18 neighbours for dilation, 26 for components.
const DILATE: usize = 2;
const JOIN: usize = 3;

/// A lesion of the label.
struct Lesion {
    /// The voxels of the lesion.
    label: Vec<bool>,
    /// The components of the prediction that touch the dilated lesion.
    pred: Vec<bool>,
    /// Volume in mm^3.
    volume: f64,
}

/// The lesions of an image and class.
struct Lesions {
    found: Vec<Lesion>,
    /// Number of components of the prediction that touch no lesion.
    false_positives: usize,
}

impl LesionWiseMetric {
    const NAME: &'static str = "LesionWiseMetric";

    fn check(&self) -> Result<(), MetricError> {
        let fail = |key, reason: String| Err(MetricError::Option { key, metric: Self::NAME, reason });
        if self.dilation_factor > 100 {
            return fail(
                "dilation_factor",
                format!("`dilation_factor` is {}: expected 0 to 100", self.dilation_factor),
            );
        }
        if !(0.0..=100.0).contains(&self.percentile) {
            return fail("percentile", format!("`percentile` is {}: expected 0 to 100", self.percentile));
        }
        for (key, value) in [("lesion_volume_thresh", self.lesion_volume_thresh), ("penalty", self.penalty)] {
            if !(value.is_finite() && value >= 0.0) {
                return fail(key, format!("`{key}` is {value}: expected a number of at least 0"));
            }
        }
        Ok(())
    }

    /// Matches the lesions of the label with the components of the prediction.
    fn lesions(&self, pair: &Pair, spacing: [f64; 3]) -> Result<Lesions, LabelError> {
        let shape = &pair.size[..];
        let voxel: f64 = spacing.iter().product();
        let pred_parts = label::components(&pair.pred, shape, JOIN)?;
        let pred_of = pred_parts.labels();
        let dilated = self.dilate(pair.label.clone(), shape)?;
        let groups = label::components(&dilated, shape, JOIN)?;
        let group_of = groups.labels();
        let mut hit = vec![false; pred_parts.len() + 1];
        let mut found = Vec::with_capacity(groups.len());
        for group in 1..=groups.len() as u32 {
            let label: Vec<bool> = pair.label.iter().zip(&group_of).map(|(set, of)| *set && *of == group).collect();
            // Each lesion is dilated by itself: a component near another part of the label belongs
            // to that part.
            let around = self.dilate(label.clone(), shape)?;
            let mut own = vec![false; pred_parts.len() + 1];
            around
                .iter()
                .zip(&pred_of)
                .filter(|(near, of)| **near && **of > 0)
                .for_each(|(_, of)| own[*of as usize] = true);
            hit.iter_mut().zip(&own).for_each(|(hit, own)| *hit |= own);
            let pred = pred_of.iter().map(|of| own[*of as usize]).collect();
            let volume = label.iter().filter(|set| **set).count() as f64 * voxel;
            found.push(Lesion { label, pred, volume });
        }
        Ok(Lesions { found, false_positives: missed(&pred_parts, &hit) })
    }

    fn dilate(&self, mut mask: Vec<bool>, shape: &[usize]) -> Result<Vec<bool>, LabelError> {
        let connectivity = DILATE.min(shape.len());
        for _ in 0..self.dilation_factor {
            mask = label::dilate(&mask, shape, connectivity, false)?;
        }
        Ok(mask)
    }

    /// The score of one lesion.
    fn of_lesion(&self, lesion: Lesion, size: [usize; 3], spacing: [f64; 3]) -> Result<f64, LabelError> {
        let Lesion { label, pred, .. } = lesion;
        if self.score == LesionScore::Dice {
            let count = |mask: &[bool]| mask.iter().filter(|set| **set).count() as f64;
            let both = label.iter().zip(&pred).filter(|(a, b)| **a && **b).count() as f64;
            return Ok(2.0 * both / (count(&label) + count(&pred)));
        }
        if !pred.contains(&true) {
            return Ok(self.penalty);
        }
        let surfaces = Pair { pred, label, size }.between_voxels(spacing);
        let mut farthest = 0.0_f64;
        for side in [Side::Pred, Side::Label] {
            let distances = surfaces.distances(side, DistanceMetric::Euclidean, spacing)?;
            let areas = surfaces.areas(side).unwrap_or_default();
            farthest = farthest.max(weighted_percentile(distances, areas, self.percentile / 100.0));
        }
        Ok(if farthest.is_finite() { farthest } else { self.penalty })
    }

    /// The mean over the lesions of an image and class.
    fn of_image(&self, pair: &Pair, spacing: [f64; 3]) -> Result<f32, LabelError> {
        let Lesions { found, false_positives } = self.lesions(pair, spacing)?;
        let counted: Vec<Lesion> =
            found.into_iter().filter(|lesion| lesion.volume > self.lesion_volume_thresh).collect();
        let count = counted.len() + false_positives;
        let (perfect, made_up) = match self.score {
            LesionScore::Dice => (1.0, 0.0),
            LesionScore::Hausdorff => (0.0, self.penalty),
        };
        if count == 0 {
            return Ok(perfect);
        }
        let mut sum = made_up * false_positives as f64;
        for lesion in counted {
            sum += self.of_lesion(lesion, pair.size, spacing)?;
        }
        Ok((sum / count as f64) as f32)
    }
}

/// The number of components without a match.
fn missed(parts: &Components, hit: &[bool]) -> usize {
    (1..=parts.len()).filter(|part| !hit[*part]).count()
}

/// The smallest distance within which at least this share of the surface lies.
fn weighted_percentile(distances: Vec<f32>, areas: Vec<f32>, part: f64) -> f64 {
    let mut places: Vec<(f32, f32)> = distances.into_iter().zip(areas).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let whole: f64 = places.iter().map(|(_, area)| f64::from(*area)).sum();
    let mut sum = 0.0;
    for (distance, area) in &places {
        sum += f64::from(*area);
        if sum / whole >= part {
            return f64::from(*distance);
        }
    }
    places.last().map_or(f64::INFINITY, |(distance, _)| f64::from(*distance))
}

impl PerItem for LesionWiseMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(self.score == LesionScore::Dice)
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        self.check()
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        self.check()?;
        let masks = Masks::new(Self::NAME, (pred, label), self.include_background, None)?;
        let mut rows = Vec::with_capacity(masks.items);
        for item in 0..masks.items {
            let spacing = spacing_of(Self::NAME, spacing, item, masks.items)?;
            let of = |class: usize| self.of_image(&masks.pair(item, class), spacing);
            let row: Result<Vec<f32>, _> = (0..masks.classes).map(of).collect();
            rows.push(row.map_err(|error| MetricError::from_label(Self::NAME, error))?);
        }
        Ok(rows)
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, usize::from(!self.include_background))
    }
}

keeps_rows!(LesionWiseMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => LesionWiseMetric,
    aliases: &["LesionWise"],
    paper: "Moawad et al. 2023, arXiv:2306.00838",
    example: "score = \"hausdorff\""
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;
    use burn::tensor::Device;

    /// A mask with boxes set.
    fn boxes(size: [usize; 3], boxes: &[[[usize; 2]; 3]]) -> Tensor<5> {
        let [x, y, z] = size;
        boxes.iter().fold(Tensor::zeros([1, 1, x, y, z], &Device::default()), |mask, [i, j, k]| {
            mask.slice_fill([0..1, 0..1, i[0]..i[1], j[0]..j[1], k[0]..k[1]], 1.0)
        })
    }

    fn value(metric: LesionWiseMetric, pred: &Tensor<5>, label: &Tensor<5>) -> f32 {
        let mut metric = metric;
        metric.update_spaced(pred, label, &[[1.0; 3]]).expect("measured");
        metric.aggregate().expect("rows").scalar()
    }

    const A: [[usize; 2]; 3] = [[2, 8], [2, 8], [2, 8]];
    const B: [[usize; 2]; 3] = [[22, 28], [2, 8], [2, 8]];
    const FAR: [[usize; 2]; 3] = [[42, 44], [2, 4], [2, 4]];
    const SIZE: [usize; 3] = [48, 12, 12];

    #[test]
    fn lesions_are_averaged_with_missed_and_made_up_ones() {
        let dice = LesionWiseMetric::default;
        let distance = || LesionWiseMetric::default().score(LesionScore::Hausdorff);
        let label = boxes(SIZE, &[A, B]);
        // A is found, B is missed, and a small distant component is a false positive: one of three.
        let pred = boxes(SIZE, &[A, FAR]);
        assert!((value(dice(), &pred, &label) - 1.0 / 3.0).abs() < 1e-6);
        assert!((value(distance(), &pred, &label) - 2.0 * 374.0 / 3.0).abs() < 1e-3);
        // Shifted by one voxel along an axis: 5/6 of each box overlap, and the surfaces are 1 mm
        // apart.
        let shifted = boxes(SIZE, &[[[3, 9], [2, 8], [2, 8]], B]);
        assert!((value(dice(), &shifted, &label) - (5.0 / 6.0 + 1.0) / 2.0).abs() < 1e-6);
        assert!((value(distance(), &shifted, &label) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn what_lies_near_is_one_lesion_and_small_ones_do_not_count() {
        // Four voxels apart: the dilations by three touch, so both form one lesion of the label.
        let near = boxes(SIZE, &[A, [[12, 18], [2, 8], [2, 8]]]);
        let half = boxes(SIZE, &[A]);
        assert!((value(LesionWiseMetric::default(), &half, &near) - 2.0 / 3.0).abs() < 1e-6);
        // Without dilation they are two lesions.
        assert!((value(LesionWiseMetric::default().dilation_factor(0), &half, &near) - 0.5).abs() < 1e-6);
        // 8 mm^3 in the label are ignored, whether found or not.
        let small = boxes(SIZE, &[A, FAR]);
        assert_eq!(value(LesionWiseMetric::default(), &half, &small), 1.0);
        assert_eq!(value(LesionWiseMetric::default(), &small, &small), 1.0);
        assert!((value(LesionWiseMetric::default().lesion_volume_thresh(2.0), &half, &small) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn empty_masks_have_the_rules_of_the_challenge() {
        let (none, some) = (boxes(SIZE, &[]), boxes(SIZE, &[A]));
        let distance = || LesionWiseMetric::default().score(LesionScore::Hausdorff);
        assert_eq!(value(LesionWiseMetric::default(), &none, &none), 1.0);
        assert_eq!(value(distance(), &none, &none), 0.0);
        assert_eq!(value(LesionWiseMetric::default(), &some, &none), 0.0);
        assert_eq!(value(distance(), &some, &none), 374.0);
        assert_eq!(value(LesionWiseMetric::default(), &none, &some), 0.0);
        assert_eq!(value(distance(), &none, &some), 374.0);
    }

    #[test]
    fn a_prediction_over_two_lesions_counts_for_both() {
        let label = boxes(SIZE, &[A, B]);
        let bridge = boxes(SIZE, &[[[2, 28], [2, 8], [2, 8]]]);
        // 26 x 36 voxels predicted, 6 x 36 of each lesion.
        assert!((value(LesionWiseMetric::default(), &bridge, &label) - 2.0 * 6.0 / 32.0).abs() < 1e-6);
    }

    #[test]
    fn options_out_of_range_are_refused() {
        let bad = [
            LesionWiseMetric::default().percentile(101.0),
            LesionWiseMetric::default().penalty(f64::NAN),
            LesionWiseMetric::default().lesion_volume_thresh(-1.0),
            LesionWiseMetric::default().dilation_factor(1000),
        ];
        assert!(bad.iter().all(|metric| metric.check().is_err()));
    }
}

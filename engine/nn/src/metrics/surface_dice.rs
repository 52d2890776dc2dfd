//! Surface Dice (`monai.metrics.SurfaceDiceMetric`).

use burn::tensor::Tensor;
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::per_item::{PerItem, keeps_rows, summary};
use super::surface::{DistanceMetric, Masks, Side, Surfaces, spacing_of};
use super::{Aggregate, MetricError, MetricReduction, Rows};

/// Surface Dice, or normalized surface distance (Nikolov et al.,
/// <https://arxiv.org/abs/1809.04430>), of binarised predictions, per item and class: the share of
/// both surfaces that lies within a tolerance of the other surface.
///
/// Prediction and label are `[b, classes, x, y, z]`, 0 or 1 per class; an image with `z = 1` has
/// two axes. NaN if both masks are empty. Read back from the device and computed on the CPU.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Metric, SurfaceDiceMetric};
/// let mut dice = SurfaceDiceMetric::new(&[1.0]);
/// let mask = |x| Tensor::zeros([1, 1, 8, 8, 8], &Device::default()).slice_fill([0..1, 0..1, x..x + 1, 2..4, 2..4], 1.0);
/// dice.update(&mask(2), &mask(3))?;
/// assert_eq!(dice.aggregate()?.scalar(), 1.0);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SurfaceDiceMetric {
    /// Tolerance of each included class, in mm; in voxels if their size is unknown or
    /// `distance_metric` is not Euclidean.
    #[setters(into)]
    pub class_thresholds: Vec<f64>,
    /// Whether class 0, the background, is included.
    #[serde(default)]
    pub include_background: bool,
    /// How distance is measured.
    #[serde(default)]
    pub distance_metric: DistanceMetric,
    /// How rows are reduced.
    #[serde(default)]
    pub reduction: MetricReduction,
    /// Whether elements are weighted by their surface area (in 2-D: length) instead of counting
    /// voxels.
    #[serde(default)]
    pub use_subvoxels: bool,
    /// Voxels with this label are ignored.
    #[serde(default)]
    pub ignore_index: Option<i64>,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl SurfaceDiceMetric {
    /// A metric with MONAI's defaults and these tolerances.
    pub fn new(class_thresholds: &[f64]) -> Self {
        SurfaceDiceMetric {
            class_thresholds: class_thresholds.to_vec(),
            include_background: false,
            distance_metric: DistanceMetric::Euclidean,
            reduction: MetricReduction::Mean,
            use_subvoxels: false,
            ignore_index: None,
            rows: Rows::default(),
        }
    }

    /// Checks the options for this number of included classes.
    ///
    /// # Errors
    /// Fails for another number of tolerances, or an invalid one.
    pub fn check(&self, classes: usize) -> Result<(), MetricError> {
        let fail = |reason: String| Err(MetricError::Option { key: "class_thresholds", metric: Self::NAME, reason });
        let thresholds = &self.class_thresholds;
        if thresholds.len() != classes {
            return fail(format!("{} `class_thresholds` for {classes} classes that count", thresholds.len()));
        }
        match thresholds.iter().find(|t| !(t.is_finite() && **t >= 0.0)) {
            Some(threshold) => fail(format!("`class_thresholds` hold {threshold}: expected numbers of at least 0")),
            None => Ok(()),
        }
    }

    /// The share of both surfaces within the tolerance.
    fn share(
        &self,
        surfaces: &Surfaces,
        threshold: f32,
        spacing: [f64; 3],
    ) -> Result<f32, hearth_kernels::label::LabelError> {
        let (mut right, mut whole) = (0.0_f64, 0.0_f64);
        for side in [Side::Pred, Side::Label] {
            let distances = surfaces.distances(side, self.distance_metric, spacing)?;
            let within = distances.iter().map(|distance| *distance <= threshold);
            match surfaces.areas(side) {
                // An empty surface has no area, whatever its number of distances.
                Some(areas) => {
                    whole += areas.iter().map(|area| f64::from(*area)).sum::<f64>();
                    right +=
                        areas.iter().zip(within).filter(|(_, within)| *within).map(|(a, _)| f64::from(*a)).sum::<f64>();
                }
                None => {
                    whole += distances.len() as f64;
                    right += within.filter(|within| *within).count() as f64;
                }
            }
        }
        Ok(if whole == 0.0 { f32::NAN } else { (right / whole) as f32 })
    }
}

impl SurfaceDiceMetric {
    const NAME: &'static str = "SurfaceDiceMetric";
}

impl PerItem for SurfaceDiceMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn includes_background(&self) -> bool {
        self.include_background
    }

    fn check_for(&self, classes: usize) -> Result<(), MetricError> {
        self.check(classes.saturating_sub(usize::from(!self.include_background)))
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, spacing: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        let masks = Masks::new(Self::NAME, (pred, label), self.include_background, self.ignore_index)?;
        self.check(masks.classes)?;
        let mut rows = Vec::with_capacity(masks.items);
        for item in 0..masks.items {
            let spacing = spacing_of(Self::NAME, spacing, item, masks.items)?;
            let of = |class: usize| {
                let pair = masks.pair(item, class);
                let surfaces = if self.use_subvoxels { pair.between_voxels(spacing) } else { pair.surfaces()? };
                self.share(&surfaces, self.class_thresholds[class] as f32, spacing)
            };
            let row: Result<Vec<f32>, _> = (0..masks.classes).map(of).collect();
            rows.push(row.map_err(|e| MetricError::from_label(Self::NAME, e))?);
        }
        Ok(rows)
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, usize::from(!self.include_background))
    }
}

keeps_rows!(SurfaceDiceMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => SurfaceDiceMetric,
    paper: "Nikolov et al. 2021, arXiv:1809.04430",
    example: "class_thresholds = [1.0]"
);

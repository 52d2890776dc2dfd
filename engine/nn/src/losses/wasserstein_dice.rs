//! Generalized Wasserstein Dice loss (`monai.losses.GeneralizedWassersteinDiceLoss`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite, check_labels};
use super::inputs::{check_factors, sums};
use super::labels::one_hot;
use super::{Loss, LossError, Reduction};
use crate::softmax::softmax;

/// Weights of the voxels of a class in the overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WassersteinWeighting {
    /// Equal weights, except that class 0, the background, is excluded.
    #[default]
    #[serde(rename = "default")]
    Default,
    /// Weights of one over the size of the class.
    #[serde(rename = "GDL")]
    Gdl,
}

/// Generalized Wasserstein Dice loss (Fidon et al., <https://arxiv.org/abs/1707.00478>): confusing
/// a class with a similar one costs less.
///
/// Logits `[b, c, x, y, z]` and class indices `[b, 1, x, y, z]`. The `c` by `c` matrix of distances
/// is divided by its largest entry.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{GeneralizedWassersteinDiceLoss, Loss};
/// let x = Tensor::zeros([1, 2, 4, 4, 4], &Device::default());
/// let labels = Tensor::ones([1, 1, 4, 4, 4], &Device::default());
/// let loss = GeneralizedWassersteinDiceLoss::new(vec![vec![0.0, 1.0], vec![1.0, 0.0]]).forward(x, labels)?;
/// assert!((loss.into_scalar::<f32>() - 1.0 / 3.0).abs() < 1e-5);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct GeneralizedWassersteinDiceLoss {
    /// Distance from the class of the row to the class of the column.
    #[setters(into)]
    pub dist_matrix: Vec<Vec<f64>>,
    /// Weights of the voxels of a class.
    #[serde(default)]
    pub weighting_mode: WassersteinWeighting,
    /// How items are reduced.
    #[serde(default)]
    pub reduction: Reduction,
    /// Constant added to the numerator.
    #[serde(default = "smooth")]
    pub smooth_nr: f64,
    /// Constant added to the denominator.
    #[serde(default = "smooth")]
    pub smooth_dr: f64,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    #[serde(default)]
    pub check_labels: Option<bool>,
}

fn smooth() -> f64 {
    1e-5
}

const NAME: &str = "GeneralizedWassersteinDiceLoss";

impl GeneralizedWassersteinDiceLoss {
    /// A loss with MONAI's defaults and these distances.
    pub fn new(dist_matrix: Vec<Vec<f64>>) -> Self {
        GeneralizedWassersteinDiceLoss {
            dist_matrix,
            weighting_mode: WassersteinWeighting::Default,
            reduction: Reduction::Mean,
            smooth_nr: smooth(),
            smooth_dr: smooth(),
            check_labels: None,
        }
    }

    /// The distances, `[c, c]`.
    fn matrix(&self, like: &Tensor<5>) -> Tensor<2> {
        let largest = self.dist_matrix.iter().flatten().copied().fold(0.0, f64::max);
        let entries: Vec<f32> = self.dist_matrix.iter().flatten().map(|entry| (entry / largest) as f32).collect();
        let classes = self.dist_matrix.len();
        Tensor::<1>::from_floats(entries.as_slice(), &like.device()).reshape([classes, classes])
    }
}

impl Loss for GeneralizedWassersteinDiceLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_factors(NAME, &[("smooth_nr", self.smooth_nr), ("smooth_dr", self.smooth_dr)])?;
        let fail = |reason: String| Err(LossError::Option { key: "dist_matrix", loss: NAME, reason });
        let classes = self.dist_matrix.len();
        if let Some(row) = self.dist_matrix.iter().find(|row| row.len() != classes) {
            return fail(format!("dist_matrix has {classes} rows and one of {} columns: expected a square", row.len()));
        }
        let entries = || self.dist_matrix.iter().flatten();
        if let Some(entry) = entries().find(|entry| !entry.is_finite() || **entry < 0.0) {
            return fail(format!("dist_matrix holds {entry}: expected numbers of at least 0"));
        }
        if !entries().any(|entry| *entry > 0.0) {
            return fail("dist_matrix is 0 throughout: expected a distance between classes".to_owned());
        }
        Ok(())
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        self.check()?;
        let (shape, got) = (input.dims(), target.dims());
        let classes = self.dist_matrix.len();
        let misfit = |expected: String| Err(LossError::Shape { loss: NAME, input: shape, target: got, expected });
        if shape[1] != classes {
            return misfit(format!("dist_matrix is for {classes} classes"));
        }
        let mut wanted = shape;
        wanted[1] = 1;
        if got != wanted {
            return misfit(format!("expected class indices of shape {wanted:?}"));
        }
        if checks::wanted(self.check_labels, &input) {
            check_finite(NAME, "prediction", &input)?;
            check_labels(&target, classes, None)?;
        }
        let [b, _, x, y, z] = shape;
        let hot = one_hot(target, classes);
        let probabilities = softmax(input.cast(DType::F32));
        // The row of distances of each voxel's label, `[b, c, x, y, z]`: columns of the matrix,
        // selected by the one-hot form.
        let matrix = self.matrix(&hot);
        let rows = (0..classes).map(|class| {
            let row = matrix.clone().narrow(0, class, 1).reshape([1, classes, 1, 1, 1]);
            hot.clone().narrow(1, class, 1) * row
        });
        let distances = rows.reduce(|sum, row| sum + row).unwrap_or_else(|| hot.zeros_like());
        let error = (distances * probabilities).sum_dim(1);
        let weights = match self.weighting_mode {
            WassersteinWeighting::Default => {
                let values: Vec<f32> = (0..classes).map(|class| if class == 0 { 0.0 } else { 1.0 }).collect();
                Tensor::<1>::from_floats(values.as_slice(), &hot.device()).reshape([1, classes]).expand([b, classes])
            }
            WassersteinWeighting::Gdl => (sums(hot.clone(), false) + 1.0).recip(),
        };
        let weight = (hot * weights.reshape([b, classes, 1, 1, 1]).expand([b, classes, x, y, z])).sum_dim(1);
        let overlap = sums(weight.clone() * (-error.clone() + 1.0), false);
        let whole = match self.weighting_mode {
            WassersteinWeighting::Default => overlap.clone() * 2.0 + sums(error, false),
            WassersteinWeighting::Gdl => sums(weight * (-error + 2.0), false),
        };
        Ok(self.reduction.apply(-((overlap * 2.0 + self.smooth_nr) / (whole + self.smooth_dr)) + 1.0))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => GeneralizedWassersteinDiceLoss,
    paper: "Fidon et al. 2017, arXiv:1707.00478",
    example: "dist_matrix = [[0.0, 1.0], [1.0, 0.0]]"
);

//! One minus the structural similarity (`monai.losses.SSIMLoss`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checks::{self, check_finite};
use super::{Loss, LossError, Reduction};
use crate::layers::Axes;
use crate::ssim::{KernelType, Ssim};

/// One minus the structural similarity (Wang et al., IEEE Transactions on Image Processing 13,
/// 2004) of a prediction and a target of the same shape `[b, c, x, y, z]`, averaged over windows.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{Loss, SsimLoss};
/// let x = Tensor::ones([1, 1, 12, 12, 12], &Device::default());
/// let loss = SsimLoss::new(3).forward(x.clone(), x)?;
/// assert!(loss.into_scalar::<f32>().abs() < 1e-6);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SsimLoss {
    /// Number of spatial axes: 2 or 3; two-dimensional images have `z = 1`.
    pub spatial_dims: usize,
    /// Largest minus smallest value.
    #[serde(default = "one")]
    pub data_range: f64,
    /// Weights of the voxels of a window.
    #[serde(default)]
    pub kernel_type: KernelType,
    /// Size of the window in voxels, per axis.
    #[serde(default = "eleven")]
    #[setters(into)]
    pub win_size: Axes<usize>,
    /// Sigma of the Gaussian in voxels, per axis.
    #[serde(default = "sigma")]
    #[setters(into)]
    pub kernel_sigma: Axes<f64>,
    /// Stabilizes the ratio of means.
    #[serde(default = "k1")]
    pub k1: f64,
    /// Stabilizes the ratio of variances.
    #[serde(default = "k2")]
    pub k2: f64,
    /// How items are reduced.
    #[serde(default)]
    pub reduction: Reduction,
    /// Whether values are checked in every call. By default only on the CPU, because on other
    /// devices the check waits for the device.
    #[serde(default)]
    pub check_labels: Option<bool>,
}

fn one() -> f64 {
    1.0
}

fn eleven() -> Axes<usize> {
    Axes::All(11)
}

fn sigma() -> Axes<f64> {
    Axes::All(1.5)
}

fn k1() -> f64 {
    0.01
}

fn k2() -> f64 {
    0.03
}

const NAME: &str = "SSIMLoss";

impl SsimLoss {
    /// A loss with MONAI's defaults for this number of axes.
    pub fn new(spatial_dims: usize) -> Self {
        SsimLoss {
            spatial_dims,
            data_range: one(),
            kernel_type: KernelType::Gaussian,
            win_size: eleven(),
            kernel_sigma: sigma(),
            k1: k1(),
            k2: k2(),
            reduction: Reduction::Mean,
            check_labels: None,
        }
    }

    fn ssim(&self) -> Result<Ssim, LossError> {
        let windows = (self.kernel_type, &self.win_size, &self.kernel_sigma);
        Ssim::new(self.spatial_dims, windows, [self.k1, self.k2], self.data_range).map_err(|reason| LossError::Option {
            key: "",
            loss: NAME,
            reason,
        })
    }
}

impl Loss for SsimLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        self.ssim().map(drop)
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let ssim = self.ssim()?;
        let shape = input.dims();
        let misfit = |expected: String| LossError::Shape { loss: NAME, input: shape, target: target.dims(), expected };
        if shape != target.dims() {
            return Err(misfit("expected the same shape".to_owned()));
        }
        ssim.check_shape(shape).map_err(misfit)?;
        if checks::wanted(self.check_labels, &input) {
            check_finite(NAME, "prediction", &input)?;
            check_finite(NAME, "target", &target)?;
        }
        let (similar, _) = ssim.maps(input.cast(DType::F32), target.cast(DType::F32));
        let count = similar.shape().num_elements() / shape[0];
        let per_item: Tensor<2> = similar.reshape([shape[0], count]).mean_dim(1);
        Ok(self.reduction.apply(-per_item + 1.0))
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => SsimLoss,
    name: "SSIMLoss",
    paper: "Wang et al. 2004, doi:10.1109/TIP.2003.819861",
    example: "spatial_dims = 3"
);

//! Structural similarity (`monai.metrics.SSIMMetric`, `monai.metrics.MultiScaleSSIMMetric`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inputs::{read, same_shape};
use super::per_item::{PerItem, keeps_rows, summary};
use super::{Aggregate, MetricError, MetricReduction, Rows};
use crate::layers::Axes;
use crate::ssim::{KernelType, Ssim};

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

/// Computes the mean of each item.
fn means(metric: &'static str, map: Tensor<5>) -> Result<Vec<f32>, MetricError> {
    let [items, ..] = map.dims();
    let count = map.shape().num_elements() / items.max(1);
    read(metric, map.reshape([items, count]).mean_dim(1))
}

/// Structural similarity (Wang et al., IEEE Transactions on Image Processing 13, 2004), averaged
/// over windows; one value per item.
///
/// Prediction and label have the same shape `[b, c, x, y, z]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Metric, SsimMetric};
/// let mut similarity = SsimMetric::new(3);
/// let x = Tensor::ones([1, 1, 12, 12, 12], &Device::default());
/// similarity.update(&x, &x)?;
/// assert!((similarity.aggregate()?.scalar() - 1.0).abs() < 1e-6);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct SsimMetric {
    /// Number of spatial axes: 2 or 3; two-dimensional images have `z = 1`.
    pub spatial_dims: usize,
    /// The largest minus the smallest possible value.
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
    /// How rows are reduced.
    #[serde(default)]
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

impl SsimMetric {
    /// A metric with MONAI's defaults for this number of axes.
    pub fn new(spatial_dims: usize) -> Self {
        SsimMetric {
            spatial_dims,
            data_range: one(),
            kernel_type: KernelType::Gaussian,
            win_size: eleven(),
            kernel_sigma: sigma(),
            k1: k1(),
            k2: k2(),
            reduction: MetricReduction::Mean,
            rows: Rows::default(),
        }
    }
}

impl SsimMetric {
    fn ssim(&self) -> Result<Ssim, MetricError> {
        let windows = (self.kernel_type, &self.win_size, &self.kernel_sigma);
        Ssim::new(self.spatial_dims, windows, [self.k1, self.k2], self.data_range)
            .map_err(|reason| MetricError::Option { key: "", metric: Self::NAME, reason })
    }

    /// Checks the options.
    ///
    /// # Errors
    /// Fails for invalid windows.
    pub fn check(&self) -> Result<(), MetricError> {
        self.ssim().map(drop)
    }
}

impl SsimMetric {
    const NAME: &'static str = "SSIMMetric";
}

impl PerItem for SsimMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        SsimMetric::check(self)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        same_shape(Self::NAME, pred, label)?;
        let option = |reason| MetricError::Option { key: "", metric: Self::NAME, reason };
        let ssim = self.ssim()?;
        ssim.check_shape(pred.dims()).map_err(option)?;
        let (map, _) = ssim.maps(pred.clone().cast(DType::F32), label.clone().cast(DType::F32));
        Ok(means(Self::NAME, map)?.into_iter().map(|value| vec![value]).collect())
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, 0)
    }
}

/// Structural similarity at several scales, each half the size of the previous one (Wang,
/// Simoncelli and Bovik, Asilomar 2003); one value per item.
///
/// Prediction and label have the same shape `[b, c, x, y, z]`.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::{Metric, MultiScaleSsimMetric};
/// let mut similarity = MultiScaleSsimMetric { weights: vec![0.5, 0.5], ..MultiScaleSsimMetric::new(2) };
/// let x = Tensor::ones([1, 1, 32, 32, 1], &Device::default());
/// similarity.update(&x, &x)?;
/// assert!((similarity.aggregate()?.scalar() - 1.0).abs() < 1e-6);
/// # Ok::<(), hearth_nn::metrics::MetricError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct MultiScaleSsimMetric {
    /// Number of spatial axes: 2 or 3; two-dimensional images have `z = 1`.
    pub spatial_dims: usize,
    /// The largest minus the smallest possible value.
    #[serde(default = "one")]
    pub data_range: f64,
    /// Weights of the voxels of a window.
    #[serde(default)]
    pub kernel_type: KernelType,
    /// Size of the window in voxels, per axis.
    #[serde(default = "eleven")]
    #[setters(into)]
    pub kernel_size: Axes<usize>,
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
    /// Exponent of each scale, from the full size down.
    #[serde(default = "scales")]
    #[setters(into)]
    pub weights: Vec<f64>,
    /// How rows are reduced.
    #[serde(default)]
    pub reduction: MetricReduction,
    /// The rows collected so far.
    #[serde(skip)]
    #[setters(skip)]
    pub rows: Rows,
}

fn scales() -> Vec<f64> {
    vec![0.0448, 0.2856, 0.3001, 0.2363, 0.1333]
}

impl MultiScaleSsimMetric {
    /// A metric with MONAI's defaults for this number of axes.
    pub fn new(spatial_dims: usize) -> Self {
        MultiScaleSsimMetric {
            spatial_dims,
            data_range: one(),
            kernel_type: KernelType::Gaussian,
            kernel_size: eleven(),
            kernel_sigma: sigma(),
            k1: k1(),
            k2: k2(),
            weights: scales(),
            reduction: MetricReduction::Mean,
            rows: Rows::default(),
        }
    }

    fn ssim(&self) -> Result<Ssim, MetricError> {
        let windows = (self.kernel_type, &self.kernel_size, &self.kernel_sigma);
        Ssim::new(self.spatial_dims, windows, [self.k1, self.k2], self.data_range)
            .map_err(|reason| MetricError::Option { key: "", metric: Self::NAME, reason })
    }

    /// Checks the options.
    ///
    /// # Errors
    /// Fails for invalid windows or scales.
    pub fn check(&self) -> Result<(), MetricError> {
        if self.weights.is_empty() {
            let reason = "`weights` are empty: expected one per scale".to_owned();
            return Err(MetricError::Option { key: "weights", metric: Self::NAME, reason });
        }
        // An exponent of 0 makes a scale 1 for every prediction.
        if let Some(weight) = self.weights.iter().find(|weight| !(weight.is_finite() && **weight > 0.0)) {
            let reason = format!("`weights` hold {weight}: expected numbers above 0");
            return Err(MetricError::Option { key: "weights", metric: Self::NAME, reason });
        }
        self.ssim().map(drop)
    }

    /// Whether every scale is larger than a window.
    fn check_shape(&self, shape: [usize; 5]) -> Result<(), MetricError> {
        let fail = |reason: String| Err(MetricError::Option { key: "", metric: Self::NAME, reason });
        let scales = self.weights.len();
        let size = self.kernel_size.resolve("kernel_size", self.spatial_dims.min(3), 1);
        let size = match size {
            Ok(size) => size,
            Err(error) => return fail(error.to_string()),
        };
        let shrink = (scales - 1).max(1).pow(2);
        let wrong = (0..self.spatial_dims.min(3)).find(|axis| shape[2 + axis] / shrink < size[*axis]);
        match wrong {
            Some(axis) => fail(format!(
                "{scales} scales and a window of {} need more than {} voxels along every axis, there are {}",
                size[axis],
                size[axis].saturating_sub(1) * shrink,
                shape[2 + axis]
            )),
            None => Ok(()),
        }
    }
}

/// The mean of every two voxels along each spatial axis; a last unpaired voxel is dropped.
fn halved(mut x: Tensor<5>, spatial_dims: usize) -> Tensor<5> {
    for axis in 2..2 + spatial_dims {
        let shape = x.dims();
        let half = shape[axis] / 2;
        let (before, after) = (shape[..axis].iter().product::<usize>(), shape[axis + 1..].iter().product::<usize>());
        let pairs: Tensor<4> = x.narrow(axis, 0, half * 2).reshape([before, half, 2, after]);
        let mut size = shape;
        size[axis] = half;
        x = pairs.mean_dim(2).reshape(size);
    }
    x
}

impl MultiScaleSsimMetric {
    const NAME: &'static str = "MultiScaleSSIMMetric";
}

impl PerItem for MultiScaleSsimMetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn higher_is_better(&self) -> Option<bool> {
        Some(true)
    }

    fn check_for(&self, _: usize) -> Result<(), MetricError> {
        MultiScaleSsimMetric::check(self)
    }

    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        same_shape(Self::NAME, pred, label)?;
        self.check()?;
        let option = |reason| MetricError::Option { key: "", metric: Self::NAME, reason };
        let ssim = self.ssim()?;
        self.check_shape(pred.dims())?;
        let (mut x, mut y) = (pred.clone().cast(DType::F32), label.clone().cast(DType::F32));
        let mut products = vec![1.0_f32; x.dims()[0]];
        for (scale, weight) in self.weights.iter().enumerate() {
            if scale > 0 {
                (x, y) = (halved(x, self.spatial_dims), halved(y, self.spatial_dims));
            }
            ssim.check_shape(x.dims()).map_err(option)?;
            let (similarity, contrast) = ssim.maps(x.clone(), y.clone());
            // Only the smallest scale also compares means.
            let map = if scale + 1 == self.weights.len() { similarity } else { contrast };
            let factors = means(Self::NAME, map)?;
            products
                .iter_mut()
                .zip(factors)
                .for_each(|(product, value)| *product *= value.max(0.0).powf(*weight as f32));
        }
        Ok(products.into_iter().map(|value| vec![value]).collect())
    }

    fn summarize(&self, rows: &[Vec<f32>]) -> Aggregate {
        summary(rows, self.reduction, 0)
    }
}

keeps_rows!(SsimMetric, MultiScaleSsimMetric);

hearth_registry::entry!(
    dyn crate::metrics::Metric => MultiScaleSsimMetric,
    name: "MultiScaleSSIMMetric",
    paper: "Wang et al. 2003, doi:10.1109/ACSSC.2003.1292216",
    example: r#"spatial_dims = 3
kernel_size = 3
weights = [0.5, 0.5]"#
);

hearth_registry::entry!(
    dyn crate::metrics::Metric => SsimMetric,
    name: "SSIMMetric",
    paper: "Wang et al. 2004, doi:10.1109/TIP.2003.819861",
    example: "spatial_dims = 3"
);

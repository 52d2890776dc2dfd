//! Hausdorff distance loss by distance transforms (`monai.losses.HausdorffDTLoss`).

use burn::tensor::{DType, Tensor, TensorData};
use derive_setters::Setters;
use hearth_kernels::device_error::reason;
use hearth_kernels::label::{To, distances};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activation::{Activation, OtherActivation};
use super::inputs::{Inputs, Prepared, check_factors, per_class};
use super::{Loss, LossError, Reduction};

/// Hausdorff distance loss (Karimi and Salcudean, <https://arxiv.org/abs/1904.10030>): the squared
/// error of each voxel is weighted by its distances from the borders of prediction and target, to
/// the power of `alpha`.
///
/// Prediction `[b, c, x, y, z]`; target of the same shape, or `[b, 1, x, y, z]` with `to_onehot_y`.
/// Distances are measured in voxels, on the host, without a gradient.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{HausdorffDtLoss, Loss};
/// let x = Tensor::zeros([1, 1, 4, 4, 4], &Device::default());
/// let loss = HausdorffDtLoss { sigmoid: true, ..HausdorffDtLoss::default() }.forward(x.clone(), x)?;
/// assert_eq!(loss.into_scalar::<f32>(), 0.0); // nothing has a border
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
#[setters(strip_option)]
pub struct HausdorffDtLoss {
    /// Exponent of the distances.
    pub alpha: f64,
    /// Whether channel 0, the background, is included.
    pub include_background: bool,
    /// Whether the target holds class indices in one channel.
    pub to_onehot_y: bool,
    /// Applies a sigmoid to the prediction.
    pub sigmoid: bool,
    /// Applies a softmax over channels to the prediction; ignored with one channel.
    pub softmax: bool,
    /// Applies another activation to the prediction.
    pub other_act: Option<OtherActivation>,
    /// How items and classes are reduced.
    pub reduction: Reduction,
    /// Whether the mean includes the batch as well as voxels.
    pub batch: bool,
    /// Whether values and class indices are checked in every call. By default only on the CPU,
    /// because on other devices the check waits for the device.
    pub check_labels: Option<bool>,
}

impl Default for HausdorffDtLoss {
    fn default() -> Self {
        HausdorffDtLoss {
            alpha: 2.0,
            include_background: false,
            to_onehot_y: false,
            sigmoid: false,
            softmax: false,
            other_act: None,
            reduction: Reduction::Mean,
            batch: false,
            check_labels: None,
        }
    }
}

const NAME: &str = "HausdorffDTLoss";

impl HausdorffDtLoss {
    fn inputs(&self) -> Result<Inputs, LossError> {
        Ok(Inputs {
            loss: NAME,
            include_background: self.include_background,
            to_onehot_y: self.to_onehot_y,
            activation: Activation::choose(NAME, self.sigmoid, self.softmax, self.other_act)?,
            ignore_index: None,
            check_labels: self.check_labels,
        })
    }

    /// The distance of every voxel to the border of the region above one half, to the power of
    /// `alpha`; 0 if there is no border.
    fn field(&self, x: &Tensor<5>) -> Result<Tensor<5>, LossError> {
        let shape = x.dims();
        let [_, _, nx, ny, nz] = shape;
        let plain = x.clone().without_autodiff();
        let device = plain.device();
        let read = |e: &dyn std::fmt::Display| LossError::Read { reason: reason(&e) };
        let values = plain.try_into_vec_as::<f32>().map_err(|e| read(&e))?;
        let volume = nx * ny * nz;
        let mut field = vec![0.0_f32; values.len()];
        for (field, values) in field.chunks_mut(volume.max(1)).zip(values.chunks(volume.max(1))) {
            let inside: Vec<bool> = values.iter().map(|v| *v > 0.5).collect();
            if inside.iter().all(|v| *v) || !inside.contains(&true) {
                continue;
            }
            let to = |to| distances(&inside, &[nx, ny, nz], &[1.0; 3], to).map_err(|e| read(&e));
            let (outer, inner) = (to(To::Set)?, to(To::Unset)?);
            for (value, (outer, inner)) in field.iter_mut().zip(outer.into_iter().zip(inner)) {
                *value = (outer + inner).powf(self.alpha as f32);
            }
        }
        Ok(Tensor::from_data(TensorData::new(field, shape), (&device, DType::F32)))
    }
}

impl Loss for HausdorffDtLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), LossError> {
        check_factors(NAME, &[("alpha", self.alpha)])?;
        self.inputs().map(drop)
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let Prepared { input, target, .. } = self.inputs()?.prepare(input, target)?;
        let mut weight = self.field(&input)? + self.field(&target)?;
        if input.device().is_autodiff() {
            weight = weight.autodiff();
        }
        let error = input - target;
        let counted = error.clone() * error * weight;
        let mean = counted.mean_dim(4).mean_dim(3).mean_dim(2);
        let [b, c, ..] = mean.dims();
        let mean: Tensor<2> = mean.reshape([b, c]);
        Ok(self.reduction.apply(per_class(if self.batch { mean.mean_dim(0) } else { mean })))
    }
}

/// `log(1 + x)` of [`HausdorffDtLoss`], whose values are too large for many optimizers.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::{LogHausdorffDtLoss, Loss};
/// let x = Tensor::zeros([1, 1, 4, 4, 4], &Device::default());
/// let loss = LogHausdorffDtLoss::default().forward(x.clone(), x)?;
/// assert_eq!(loss.into_scalar::<f32>(), 0.0);
/// # Ok::<(), hearth_nn::losses::LossError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LogHausdorffDtLoss(pub HausdorffDtLoss);

impl Loss for LogHausdorffDtLoss {
    fn name(&self) -> &'static str {
        "LogHausdorffDTLoss"
    }

    fn check(&self) -> Result<(), LossError> {
        self.0.check()
    }

    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        Ok((self.0.forward(input, target)? + 1.0).log())
    }
}

hearth_registry::entry!(
    dyn crate::losses::Loss => HausdorffDtLoss,
    name: "HausdorffDTLoss",
    paper: "Karimi and Salcudean 2019, arXiv:1904.10030",
    example: "sigmoid = true"
);

hearth_registry::entry!(
    dyn crate::losses::Loss => LogHausdorffDtLoss,
    name: "LogHausdorffDTLoss",
    paper: "Karimi and Salcudean 2019, arXiv:1904.10030",
    example: "sigmoid = true"
);

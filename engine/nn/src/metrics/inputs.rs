//! The preparation of predictions and labels for metrics.

use burn::tensor::{DType, Tensor};
use hearth_kernels::device_error::reason;

use super::MetricError;
use crate::ignored::counted;

/// Checks that the shapes are equal.
///
/// # Errors
/// [`MetricError::Shape`] with both shapes.
pub fn same_shape(metric: &'static str, pred: &Tensor<5>, label: &Tensor<5>) -> Result<(), MetricError> {
    let (pred, label) = (pred.dims(), label.dims());
    match pred == label {
        true => Ok(()),
        false => {
            Err(MetricError::Shape { metric, pred, label, expected: "the shapes must be equal, class by class".into() })
        }
    }
}

/// The channels of `[b, c, x, y, z]` without the first, unless it is the only one.
pub fn foreground(x: Tensor<5>) -> Tensor<5> {
    match x.dims()[1] {
        0 | 1 => x,
        channels => x.narrow(1, 1, channels - 1),
    }
}

/// Sums over space: `[b, c, x, y, z]` to `[b, c]`. Computed axis by axis, so that counts of voxels
/// stay exact in f32.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::metrics::count;
/// let mask = Tensor::<5>::ones([2, 3, 4, 4, 4], &Device::default());
/// assert_eq!((count(mask.clone()).dims(), count(mask).max().into_scalar::<f32>()), ([2, 3], 64.0));
/// ```
pub fn count(x: Tensor<5>) -> Tensor<2> {
    let [b, c, ..] = x.dims();
    x.sum_dim(4).sum_dim(3).sum_dim(2).reshape([b, c])
}

/// Reads the values back from the device as f32, row-major.
///
/// # Errors
/// [`MetricError::Read`] if reading from the device fails.
pub fn read<const D: usize>(metric: &'static str, x: Tensor<D>) -> Result<Vec<f32>, MetricError> {
    x.cast(DType::F32).try_into_vec_as::<f32>().map_err(|e| MetricError::Read { metric, reason: reason(&e) })
}

/// 1 where a condition is true and 0 elsewhere, in f32 and of the same shape.
pub fn indicator<const D: usize>(x: Tensor<D, burn::tensor::Bool>) -> Tensor<D> {
    x.float().cast(DType::F32)
}

/// Splits off the label's last channel if it marks the ignored voxels, one channel more than the
/// prediction has. Returns the label without this channel, and a mask `[b, 1, x, y, z]` that is 1
/// for voxels that are not ignored.
fn apart(pred: &Tensor<5>, label: &Tensor<5>, ignore_index: Option<i64>) -> (Tensor<5>, Option<Tensor<5>>) {
    let channels = pred.dims()[1];
    match ignore_index {
        Some(index) if index == channels as i64 && label.dims()[1] == channels + 1 => {
            (label.clone().narrow(1, 0, channels), Some(counted(label, index)))
        }
        _ => (label.clone(), None),
    }
}

/// Prediction and label in f32 and in one shape: 0 for ignored voxels, and without the label's last
/// channel if it only marks such voxels.
///
/// # Errors
/// [`MetricError::Shape`] with both shapes.
pub fn without_ignored(
    metric: &'static str,
    pred: &Tensor<5>,
    label: &Tensor<5>,
    ignore_index: Option<i64>,
) -> Result<(Tensor<5>, Tensor<5>), MetricError> {
    let (label, marked) = apart(pred, label, ignore_index);
    same_shape(metric, pred, &label)?;
    let (pred, label) = (pred.clone().cast(DType::F32), label.cast(DType::F32));
    let Some(index) = ignore_index else { return Ok((pred, label)) };
    let mask = marked.unwrap_or_else(|| counted(&label, index)).expand(label.dims());
    Ok((pred * mask.clone(), label * mask))
}

/// Prediction and label in f32, without the background and without ignored voxels.
pub(crate) struct Compared {
    pub(crate) pred: Tensor<5>,
    pub(crate) label: Tensor<5>,
    /// 1 for voxels that are not ignored, `[b, 1, x, y, z]`; `None` if none is ignored.
    pub(crate) mask: Option<Tensor<5>>,
}

/// Prepares inputs as MONAI's mean IoU and confusion matrix do: an ignored class is emptied in
/// both; another ignored index removes the voxels that belong to no class.
pub(crate) fn compared(
    metric: &'static str,
    (pred, label): (&Tensor<5>, &Tensor<5>),
    include_background: bool,
    ignore_index: Option<i64>,
) -> Result<Compared, MetricError> {
    let (label, marked) = apart(pred, label, ignore_index);
    same_shape(metric, pred, &label)?;
    let original = label.cast(DType::F32);
    let (mut pred, mut label) = (pred.clone().cast(DType::F32), original.clone());
    if !include_background {
        (pred, label) = (foreground(pred), foreground(label));
    }
    let Some(index) = ignore_index else { return Ok(Compared { pred, label, mask: None }) };
    let channels = pred.dims()[1] as i64;
    let first = i64::from(!include_background);
    if marked.is_some() || !(0..channels + first).contains(&index) {
        let mask = marked.unwrap_or_else(|| counted(&original, index));
        let all = mask.clone().expand(pred.dims());
        return Ok(Compared { pred: pred * all.clone(), label: label * all, mask: Some(mask) });
    }
    let keep: Vec<f32> = (0..channels).map(|channel| if channel == index - first { 0.0 } else { 1.0 }).collect();
    let keep = Tensor::<1>::from_floats(keep.as_slice(), &pred.device()).reshape([1, keep.len(), 1, 1, 1]);
    Ok(Compared { pred: pred * keep.clone(), label: label * keep, mask: None })
}

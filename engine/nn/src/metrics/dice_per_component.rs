//! Dice of each component of the label (`DiceMetric(per_component=True)`).

use burn::tensor::{DType, Tensor};
use hearth_kernels::label::{To, components, nearest};

use super::MetricError;
use super::inputs::{read, same_shape};

/// Dice per component for one class against the background. Every voxel is assigned to the nearest
/// component of the label; each of these regions has its own Dice score, and all have equal weight,
/// independent of size (Jaus et al., <https://arxiv.org/abs/2410.18684>).
///
/// Prediction and label are `[b, 2, x, y, z]`, background first; voxels that touch at a corner are
/// connected. One value per item. Read back from the device and computed on the CPU.
pub(super) fn rows(
    metric: &'static str,
    pred: &Tensor<5>,
    label: &Tensor<5>,
    ignore_empty: bool,
) -> Result<Vec<Vec<f32>>, MetricError> {
    same_shape(metric, pred, label)?;
    let [items, channels, x, y, z] = pred.dims();
    if channels != 2 {
        let reason = format!("per_component needs two channels, background and foreground: there are {channels}");
        return Err(MetricError::Option { key: "", metric, reason });
    }
    // The larger channel is the class; the background if they are equal.
    let foreground = |t: &Tensor<5>| -> Result<Vec<bool>, MetricError> {
        let t = t.clone().cast(DType::F32);
        let margin = t.clone().narrow(1, 1, 1) - t.narrow(1, 0, 1);
        Ok(read(metric, margin)?.into_iter().map(|margin| margin > 0.0).collect())
    };
    let (pred, label) = (foreground(pred)?, foreground(label)?);
    let voxels = x * y * z;
    let of = |item: usize| {
        let range = item * voxels..(item + 1) * voxels;
        score(metric, &pred[range.clone()], &label[range], [x, y, z], ignore_empty).map(|score| vec![score])
    };
    (0..items).map(of).collect()
}

fn score(
    metric: &'static str,
    pred: &[bool],
    label: &[bool],
    shape: [usize; 3],
    ignore_empty: bool,
) -> Result<f32, MetricError> {
    let fail = |e| MetricError::from_label(metric, e);
    let parts = components(label, &shape, 3).map_err(fail)?;
    if parts.is_empty() {
        return Ok(match (ignore_empty, pred.contains(&true)) {
            (true, _) => f32::NAN,
            (false, false) => 1.0,
            (false, true) => 0.0,
        });
    }
    let of_voxel = parts.labels();
    let to = nearest(label, &shape, &[1.0; 3], To::Set).map_err(fail)?;
    // The voxels of label and prediction, and of both, in each region.
    let mut counts = vec![[0_u64; 2]; parts.len()];
    for (index, nearest) in to.into_iter().enumerate() {
        let Some(nearest) = nearest else { continue };
        let [both, sum] = &mut counts[of_voxel[nearest as usize] as usize - 1];
        *both += u64::from(pred[index] && label[index]);
        *sum += u64::from(pred[index]) + u64::from(label[index]);
    }
    let scores = counts.iter().map(|[both, sum]| (2 * both) as f64 / *sum as f64);
    Ok((scores.sum::<f64>() / counts.len() as f64) as f32)
}

//! The checks before a loss is computed: values are finite and labels are classes.

use burn::tensor::{DType, Tensor};
use hearth_kernels::device_error::reason;
use hearth_kernels::host;

use super::LossError;

/// Whether inputs are checked: as requested, by default on the CPU only, where the check is cheap
/// and needs no synchronization.
pub(super) fn wanted(asked: Option<bool>, x: &Tensor<5>) -> bool {
    asked.unwrap_or_else(|| host::is_host(&x.device().inner()))
}

/// The largest allowed exponent; Burn does not support powers beyond 64 bits.
const MOST_POWER: f64 = 1e9;

/// Checks the exponent of a power.
///
/// # Errors
/// Fails if it is below `least`, above [`MOST_POWER`], or not a number.
pub(super) fn check_power(loss: &'static str, key: &'static str, power: f64, least: f64) -> Result<(), LossError> {
    if (least..=MOST_POWER).contains(&power) {
        return Ok(());
    }
    let reason = format!("{key} is {power}: expected {least} to {MOST_POWER}");
    Err(LossError::Option { key, loss, reason })
}

/// Calls `look` with the values in row-major order, on any device.
pub(super) fn look<R>(x: &Tensor<5>, mut look: impl FnMut(&[f32]) -> R) -> Result<R, LossError> {
    let x = x.clone().without_autodiff().cast(DType::F32);
    match host::read(&x, &mut look) {
        Some(found) => Ok(found),
        None => {
            let values = x.try_into_vec_as::<f32>().map_err(|e| LossError::Read { reason: reason(&e) })?;
            Ok(look(&values))
        }
    }
}

/// Checks that every value is finite. Reads the tensor back from the device.
///
/// # Errors
/// [`LossError::NonFinite`] with the number of non-finite values and the index of the first.
pub fn check_finite(loss: &'static str, what: &'static str, x: &Tensor<5>) -> Result<(), LossError> {
    look(x, |values| finite(loss, what, values, x.dims()))?
}

/// Checks that every value of an array in host memory is finite.
pub(super) fn finite(
    loss: &'static str,
    what: &'static str,
    values: &[f32],
    [_, c, nx, ny, nz]: [usize; 5],
) -> Result<(), LossError> {
    // Whole blocks at a time, so that the common case is one fast pass.
    if values.chunks(4096).all(|block| block.iter().fold(true, |all, v| all & v.is_finite())) {
        return Ok(());
    }
    let count = values.iter().filter(|v| !v.is_finite()).count();
    let first = values.iter().position(|v| !v.is_finite()).unwrap_or_default();
    let at = [first / nz / ny / nx / c, first / nz / ny / nx % c, first / nz / ny % nx, first / nz % ny, first % nz];
    Err(LossError::NonFinite { loss, what, count, of: values.len(), value: values[first], at })
}

/// Checks that every label is a whole number in `0..classes` or equals `ignore`. Reads the labels
/// back from the device.
///
/// # Errors
/// [`LossError::Label`] with the first invalid label.
pub fn check_labels(labels: &Tensor<5>, classes: usize, ignore: Option<i64>) -> Result<(), LossError> {
    let allowed = |label: f32| {
        let known = label >= 0.0 && label < classes as f32 && label.fract() == 0.0;
        known || ignore.is_some_and(|ignore| label == ignore as f32)
    };
    look(labels, |values| match values.iter().find(|label| !allowed(**label)) {
        Some(label) => Err(LossError::Label { label: *label, classes }),
        None => Ok(()),
    })?
}

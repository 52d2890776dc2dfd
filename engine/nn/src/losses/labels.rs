//! Class indices: one-hot form and check.

use burn::tensor::{DType, Tensor};

use super::LossError;

/// `[b, 1, x, y, z]` class indices to `[b, classes, x, y, z]`, f32. Fractions are cut off, as `long()` does; a label
/// outside `0..classes` gives zeros everywhere ([`check_labels`] finds it).
pub fn one_hot(labels: Tensor<5>, classes: usize) -> Tensor<5> {
    let [b, _, x, y, z] = labels.dims();
    let device = labels.device();
    let range: Vec<f32> = (0..classes).map(|c| c as f32).collect();
    let range = Tensor::<1>::from_floats(range.as_slice(), &device).reshape([1, classes, 1, 1, 1]);
    let shape = [b, classes, x, y, z];
    labels.cast(DType::F32).trunc().expand(shape).equal(range.expand(shape)).float().cast(DType::F32)
}

/// Whether every label is a whole number in `0..classes` or equals `ignore`. Reads the labels back from the device.
pub fn check_labels(labels: &Tensor<5>, classes: usize, ignore: Option<i64>) -> Result<(), LossError> {
    let data = labels.clone().cast(DType::F32).into_data();
    let allowed = |label: f32| {
        let known = label >= 0.0 && label < classes as f32 && label.fract() == 0.0;
        known || ignore.is_some_and(|ignore| label == ignore as f32)
    };
    match data.iter::<f32>().find(|label| !allowed(*label)) {
        Some(label) => Err(LossError::Label { label, classes }),
        None => Ok(()),
    }
}

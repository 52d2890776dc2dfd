//! The one-hot form of class indices.

use burn::tensor::{DType, Tensor};

/// Converts class indices `[b, 1, x, y, z]` to `[b, classes, x, y, z]` in f32. Fractions are
/// truncated, as by `long()`. A label outside `0..classes` becomes zeros in all channels
/// ([`check_labels`](super::check_labels) reports it).
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::losses::one_hot;
/// let labels = Tensor::full([1, 1, 2, 2, 2], 2.0, &Device::default());
/// let channels = one_hot(labels, 3);
/// assert_eq!(channels.dims(), [1, 3, 2, 2, 2]);
/// assert_eq!(channels.narrow(1, 2, 1).sum().into_scalar::<f32>(), 8.0);
/// ```
///
/// # Panics
/// If the labels have several channels.
pub fn one_hot(labels: Tensor<5>, classes: usize) -> Tensor<5> {
    let [b, _, x, y, z] = labels.dims();
    let device = labels.device();
    let range: Vec<f32> = (0..classes).map(|c| c as f32).collect();
    let range = Tensor::<1>::from_floats(range.as_slice(), &device).reshape([1, classes, 1, 1, 1]);
    let shape = [b, classes, x, y, z];
    labels.cast(DType::F32).trunc().expand(shape).equal(range.expand(shape)).float().cast(DType::F32)
}

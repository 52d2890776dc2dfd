//! Softmax over the channels of a batch.

use burn::tensor::{Tensor, activation};
use hearth_kernels::host::is_host;

/// The largest value of each voxel, `[b, 1, x, y, z]`, as a constant.
fn channel_max(x: &Tensor<5>) -> Option<Tensor<5>> {
    let x = x.clone().without_autodiff();
    let channels = x.dims()[1];
    (0..channels).map(|c| x.clone().narrow(1, c, 1)).reduce(Tensor::max_pair)
}

/// Subtracts the voxel's largest value. On the CPU whole rows are processed at once, which is
/// several times as fast as a reduction along an axis other than the last.
fn shifted(x: &Tensor<5>) -> Option<Tensor<5>> {
    if !is_host(&x.device().inner()) {
        return None;
    }
    channel_max(x).map(|largest| x.clone() - largest)
}

/// Softmax over axis 1.
pub(crate) fn softmax(x: Tensor<5>) -> Tensor<5> {
    match shifted(&x) {
        Some(shifted) => {
            let powers = shifted.exp();
            powers.clone() / powers.sum_dim(1)
        }
        None => activation::softmax(x, 1),
    }
}

/// Logarithm of the softmax over axis 1.
pub(crate) fn log_softmax(x: Tensor<5>) -> Tensor<5> {
    match shifted(&x) {
        Some(shifted) => {
            let normalizer = shifted.clone().exp().sum_dim(1).log();
            shifted - normalizer
        }
        None => activation::log_softmax(x, 1),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData, Tolerance, activation};

    #[test]
    fn it_is_burns_softmax() {
        let values: Vec<f32> = (0..2 * 5 * 12).map(|i| ((i * 37 % 101) as f32 - 50.0) * 2.0).collect();
        let x = Tensor::<5>::from_data(TensorData::new(values, [2, 5, 3, 2, 2]), &Device::default());
        let close = |a: Tensor<5>, b: Tensor<5>| {
            a.into_data().assert_approx_eq::<f32>(&b.into_data(), Tolerance::rel_abs(1e-5, 1e-6));
        };
        close(super::softmax(x.clone()), activation::softmax(x.clone(), 1));
        close(super::log_softmax(x.clone()), activation::log_softmax(x, 1));
    }
}

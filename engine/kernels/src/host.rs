//! Direct access to the values of a CPU tensor.
//!
//! A chain of tensor operations reads the memory once per operation. On the CPU one loop over a
//! slice is several times faster, so transforms try these functions first and use tensor operations
//! on any other device.

use burn::tensor::{Device, Tensor};

use burn::backend::{DispatchDevice, Flex, tensor::FloatTensor};
use burn::tensor::{DType, TensorData};

use crate::copy;
use crate::device_error::reason;

/// The buffer of an f32 tensor as a view.
fn view(tensor: &FloatTensor<Flex>) -> copy::View<'_> {
    let layout = tensor.layout();
    copy::View::new(tensor.storage::<f32>(), layout.shape(), layout.strides(), layout.start_offset())
}

/// Whether the device is the CPU, so that [`read`] and [`change`] work on its tensors.
pub fn is_host(device: &Device) -> bool {
    matches!(device.as_dispatch(), DispatchDevice::Flex(_))
}

/// Calls `look` with the values in row-major order, without a copy where the tensor is contiguous.
///
/// `None` where the tensor is on another device or not f32.
pub fn read<const D: usize, R>(tensor: &Tensor<D>, look: impl FnOnce(&[f32]) -> R) -> Option<R> {
    if !is_host(&tensor.device()) {
        return None;
    }
    let flex = tensor.clone().try_into_primitive::<Flex>().ok()?;
    if let Some(values) = flex.as_slice::<f32>() {
        return Some(look(values));
    }
    (flex.dtype() == DType::F32).then(|| look(&copy::pack(&[view(&flex)])))
}

/// The values in row-major order, copied from any device.
///
/// # Panics
/// Where a device did not compute them: it has run out of memory, its driver has failed, or it is
/// lost.
pub fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    read(tensor, <[f32]>::to_vec).unwrap_or_else(|| {
        tensor.clone().try_into_vec_as::<f32>().unwrap_or_else(|error| {
            let dims = tensor.dims();
            panic!("the device did not compute a tensor of {dims:?}: {}", reason(&error))
        })
    })
}

/// Changes the values in place, in row-major order; a shared buffer is copied first.
///
/// # Errors
/// Returns the tensor where it is on another device or not f32.
#[expect(clippy::result_large_err, reason = "both variants contain a tensor")]
pub fn change<const D: usize>(tensor: Tensor<D>, edit: impl FnOnce(&mut [f32])) -> Result<Tensor<D>, Tensor<D>> {
    if !is_host(&tensor.device()) || tensor.dtype() != burn::tensor::DType::F32 {
        return Err(tensor);
    }
    let keep = tensor.clone();
    let Ok(mut flex) = tensor.try_into_primitive::<Flex>() else { return Err(keep) };
    let whole = flex.is_contiguous()
        && flex.layout().start_offset() == 0
        && flex.bytes().len() == flex.layout().num_elements() * size_of::<f32>();
    drop(keep);
    if !whole {
        let values = copy::pack(&[view(&flex)]);
        flex = FloatTensor::<Flex>::from_data(TensorData::new(values, flex.layout().shape().clone()));
    }
    edit(flex.storage_mut::<f32>());
    Ok(Tensor::from_primitive::<Flex>(flex))
}

/// The values of several tensors one after another, each in row-major order, with a single copy for
/// any layout.
///
/// `None` where one of them is on another device or not f32.
pub fn concat<const D: usize>(tensors: &[Tensor<D>]) -> Option<Vec<f32>> {
    let flex = |tensor: &Tensor<D>| {
        let flex = is_host(&tensor.device()).then(|| tensor.clone().try_into_primitive::<Flex>().ok()).flatten()?;
        (flex.dtype() == DType::F32).then_some(flex)
    };
    let all: Vec<FloatTensor<Flex>> = tensors.iter().map(flex).collect::<Option<_>>()?;
    Some(copy::pack(&all.iter().map(view).collect::<Vec<_>>()))
}

/// Returns a tensor that owns exactly its own values: a view of a larger buffer is copied, so that
/// the buffer can be freed.
pub fn compact<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    change(tensor, |_| ()).unwrap_or_else(|same| same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(n: usize) -> Tensor<2> {
        let values: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
        Tensor::from_data(burn::tensor::TensorData::new(values, [n, n]), &Device::flex())
    }

    #[test]
    fn reads_views_in_row_major_order() {
        let view = counting(4).slice([1..3, 2..4]);
        assert_eq!(read(&view, <[f32]>::to_vec), Some(vec![6.0, 7.0, 10.0, 11.0]));
        let turned = counting(2).swap_dims(0, 1);
        assert_eq!(read(&turned, <[f32]>::to_vec), Some(vec![0.0, 2.0, 1.0, 3.0]));
    }

    #[test]
    fn changing_a_shared_tensor_leaves_the_other_alone() {
        let first = counting(2);
        let second = change(first.clone(), |v| v[0] = 9.0).expect("a CPU tensor");
        assert_eq!(read(&first, |v| v[0]), Some(0.0));
        assert_eq!(read(&second, |v| v[0]), Some(9.0));
    }

    #[test]
    fn changing_a_view_changes_only_the_view() {
        let whole = counting(3);
        let view = change(whole.clone().slice([1..2, 0..3]), |v| v.fill(-1.0)).expect("a CPU tensor");
        assert_eq!(view.dims(), [1, 3]);
        assert_eq!(read(&whole, |v| v[3]), Some(3.0));
    }
}

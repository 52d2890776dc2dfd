//! The address of a tensor's values: [`InPlace`].

use std::any::Any;
use std::fmt;

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};
use half::bf16;

use crate::host;

/// A tensor that a library of its device, such as NCCL, may change in place. Nothing else uses its
/// memory, and all earlier work of the device on it is complete.
pub struct InPlace {
    tensor: Tensor<1>,
    address: u64,
    /// The owner of the memory, which keeps the values at their address.
    _held: Option<Box<dyn Any + Send>>,
}

impl InPlace {
    /// Takes a tensor on a CUDA or ROCm GPU, and waits until its values are computed. It is copied
    /// where its memory is shared.
    ///
    /// # Errors
    /// Where its device has no addresses, or the computation of its values has failed.
    pub fn on_card(tensor: Tensor<1>) -> Result<Self, String> {
        #[cfg(any(feature = "cuda", feature = "rocm"))]
        if crate::place::of(&tensor) == Some(crate::place::Place::Gpu) {
            return card::in_place(tensor);
        }
        Err(format!("the values are on {:?}, which has no addresses of CUDA or ROCm", tensor.device()))
    }

    /// Takes a tensor in host memory, for tests of a GPU's library.
    ///
    /// # Errors
    /// Where it is on another device, or neither f32 nor bf16.
    pub fn on_host(tensor: Tensor<1>) -> Result<Self, String> {
        let not_there = |tensor: &Tensor<1>| format!("the values are {:?} on {:?}", tensor.dtype(), tensor.device());
        if !host::is_host(&tensor.device()) || !matches!(tensor.dtype(), DType::F32 | DType::BF16) {
            return Err(not_there(&tensor));
        }
        // A copy, which nothing else uses.
        let mut flex = FloatTensor::<Flex>::from_data(tensor.into_data());
        let address = match flex.dtype() {
            DType::BF16 => flex.storage_mut::<bf16>().as_mut_ptr() as u64,
            _ => flex.storage_mut::<f32>().as_mut_ptr() as u64,
        };
        Ok(Self { tensor: Tensor::from_primitive::<Flex>(flex), address, _held: None })
    }

    /// The address of the first value.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.tensor.dims()[0]
    }

    /// The type of the values.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// Returns the tensor, once the library has finished its work.
    pub fn into_tensor(self) -> Tensor<1> {
        self.tensor
    }
}

impl fmt::Debug for InPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPlace").field("count", &self.count()).field("dtype", &self.dtype()).finish_non_exhaustive()
    }
}

#[cfg(any(feature = "cuda", feature = "rocm"))]
mod card {
    use std::any::Any;

    use burn::tensor::Tensor;
    use burn_cubecl::CubeBackend;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::future::block_on;
    use cubecl_runtime::runtime::Runtime;

    use super::InPlace;
    use crate::gpu::{own, primitive};

    type Place = (u64, Box<dyn Any + Send>);

    #[cfg(feature = "cuda")]
    fn of_cuda(tensor: &CubeTensor) -> Option<Place> {
        type Server = <cubecl::cuda::CudaRuntime as Runtime>::Server;
        let held = tensor.client.get_resource::<Server>(tensor.handle.clone()).ok()?;
        Some((held.resource().ptr, Box::new(held)))
    }

    #[cfg(feature = "rocm")]
    fn of_rocm(tensor: &CubeTensor) -> Option<Place> {
        type Server = <cubecl::hip::HipRuntime as Runtime>::Server;
        let held = tensor.client.get_resource::<Server>(tensor.handle.clone()).ok()?;
        Some((held.resource().ptr as u64, Box::new(held)))
    }

    pub(super) fn in_place(tensor: Tensor<1>) -> Result<InPlace, String> {
        let own = own(primitive(tensor));
        // The GPU has computed the values, and reports a failure.
        block_on(own.client.sync_buffers([&own.handle])).map_err(|why| format!("the GPU has failed: {why}"))?;
        let (address, held) = find(&own).ok_or("the GPU's runtime is neither CUDA nor ROCm")?;
        Ok(InPlace { tensor: Tensor::from_primitive::<CubeBackend>(own), address, _held: Some(held) })
    }

    fn find(tensor: &CubeTensor) -> Option<Place> {
        #[cfg(feature = "cuda")]
        if let Some(place) = of_cuda(tensor) {
            return Some(place);
        }
        #[cfg(feature = "rocm")]
        if let Some(place) = of_rocm(tensor) {
            return Some(place);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// The address is that of the values; for a view and a shared tensor, that of a copy.
    #[test]
    fn values_are_at_their_address() {
        let whole = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0], &Device::flex());
        let part = InPlace::on_host(whole.clone().slice([1..3])).expect("on the host");
        assert_eq!((part.count(), part.dtype()), (2, DType::F32));
        let address = part.address() as usize as *mut f32;
        // SAFETY: the two values exist, and `part`, their only owner, is used after this.
        unsafe {
            assert_eq!((*address, *address.add(1)), (2.0, 3.0));
            *address = 9.0;
        }
        let read = |tensor: Tensor<1>| tensor.into_data().try_into_vec::<f32>().expect("values");
        assert_eq!(read(part.into_tensor()), [9.0, 3.0]);
        assert_eq!(read(whole), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_device_without_addresses_is_named() {
        let tensor = Tensor::<1>::ones([3], &Device::flex());
        let error = InPlace::on_card(tensor).expect_err("no card");
        assert!(error.contains("no addresses of CUDA or ROCm"), "{error}");
    }
}

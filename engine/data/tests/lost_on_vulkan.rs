//! Values that a device could not compute, tested in a separate process.

#![cfg(feature = "vulkan")]

#[path = "../../../tests/src/gpu.rs"]
mod gpu;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::Tensor;
use hearth_data::affine::IDENTITY;
use hearth_data::{Image, host_device};

#[test]
#[ignore = "needs a Vulkan driver"]
fn what_could_not_be_computed_is_no_image_on_vulkan() {
    let device = gpu::device();
    let image = Image::new(Tensor::<4>::ones([1, 2, 2, 2], &device) * 3.0, IDENTITY);
    let here = image.to_host().expect("eight numbers");
    assert_eq!((here.data.device(), here.to_vec()), (host_device(), vec![3.0; 8]));

    // One TiB.
    let lost = Image::new(Tensor::<1>::ones([1_usize << 38], &device).slice([0..8]).reshape([1, 2, 2, 2]), IDENTITY);
    let panic = catch_unwind(AssertUnwindSafe(|| lost.to_vec())).expect_err("there are no such values");
    let said = panic.downcast_ref::<String>().expect("a text");
    assert!(said.starts_with("the device did not compute a tensor of [1, 2, 2, 2]: "), "{said}");
    assert!(lost.to_host().is_err());
}

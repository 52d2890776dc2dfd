//! The GPU of the tests that need one: that of Vulkan, physical or software, or that of the runtime
//! in `HEARTH_TEST_GPU`.

use burn::tensor::Device;

/// The value for `--device`.
#[allow(dead_code, reason = "only the tests of the program give words")]
pub fn word() -> String {
    std::env::var("HEARTH_TEST_GPU").unwrap_or_else(|_| "vulkan".to_owned())
}

/// The device.
#[allow(dead_code, reason = "the tests of the program give words")]
pub fn device() -> Device {
    match word().as_str() {
        "vulkan" => Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        "cuda" => Device::cuda(0),
        #[cfg(feature = "rocm")]
        "rocm" => Device::rocm(0),
        other => panic!("HEARTH_TEST_GPU={other}: this build has no such runtime"),
    }
}

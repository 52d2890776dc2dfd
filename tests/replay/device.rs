//! The device on which cases are replayed.

use std::sync::OnceLock;

use burn::tensor::Device;
use hearth::data::host_device;

static CHOSEN: OnceLock<Device> = OnceLock::new();

/// Replays all further cases on this device; called once per process.
#[allow(dead_code, reason = "only the test on a GPU chooses")]
pub fn choose(device: Device) {
    CHOSEN.get_or_init(|| device);
}

/// The chosen device, or the CPU.
pub fn device() -> Device {
    CHOSEN.get().cloned().unwrap_or_else(host_device)
}

//! The memory of a device: [`memory`].

use burn::tensor::Device;
use hearth_machine::Slot;

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The total.
    pub total: u64,
    /// The unused part.
    pub free: u64,
}

/// The memory of a device, `None` where it is unknown. NVIDIA's GPUs are queried through NVML,
/// AMD's through `sysfs` of Linux, both by their bus address, independent of the runtime. The CPU
/// and software drivers have the memory that this process may use.
pub fn memory(device: &Device) -> Option<DeviceMemory> {
    if super::is_card(device) != Some(true) {
        return Some(machine());
    }
    let slot = Slot::read(&super::address(device)?);
    Some(DeviceMemory { total: slot.memory?, free: slot.free? })
}

/// The memory that this process may use on this machine.
fn machine() -> DeviceMemory {
    let hearth_machine::Allowance { bytes, free, .. } = hearth_machine::Allowance::now();
    DeviceMemory { total: bytes, free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_the_machines_memory() {
        let found = memory(&crate::device::parse("cpu").expect("always there")).expect("known");
        assert!(found.total > 0 && found.free <= found.total, "{found:?}");
    }
}

//! The memory of a device: [`memory`].

use burn::tensor::Device;

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
    cards::memory(device)
}

/// The memory that this process may use on this machine.
fn machine() -> DeviceMemory {
    let hearth_machine::Allowance { bytes, free, .. } = hearth_machine::Allowance::now();
    DeviceMemory { total: bytes, free }
}

#[cfg(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu"))]
mod cards {
    use std::path::Path;

    use burn::tensor::Device;

    use super::DeviceMemory;

    pub fn memory(device: &Device) -> Option<DeviceMemory> {
        let address = device.identity()?.physical?.pci_address?.to_string();
        of_driver(&address).or_else(|| of_folder(&Path::new("/sys/bus/pci/devices").join(&address)))
    }

    /// The value of NVIDIA's driver, where it is installed and knows the GPU.
    fn of_driver(address: &str) -> Option<DeviceMemory> {
        let driver = nvml_wrapper::Nvml::init().ok()?;
        let memory = driver.device_by_pci_bus_id(address).ok()?.memory_info().ok()?;
        Some(DeviceMemory { total: memory.total, free: memory.free })
    }

    /// The value that AMD's driver writes in the GPU's folder.
    pub fn of_folder(folder: &Path) -> Option<DeviceMemory> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let total = read("mem_info_vram_total")?;
        Some(DeviceMemory { total, free: total.checked_sub(read("mem_info_vram_used")?)? })
    }
}

#[cfg(not(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu")))]
mod cards {
    /// A build for CPUs only supports no GPUs.
    pub fn memory(_device: &burn::tensor::Device) -> Option<super::DeviceMemory> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_the_machines_memory() {
        let found = memory(&crate::device::parse("cpu").expect("always there")).expect("known");
        assert!(found.total > 0 && found.free <= found.total, "{found:?}");
    }

    #[cfg(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu"))]
    #[test]
    fn the_folder_of_a_card_says_what_is_free() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(cards::of_folder(folder.path()), None);
        std::fs::write(folder.path().join("mem_info_vram_total"), "17163091968\n").expect("written");
        assert_eq!(cards::of_folder(folder.path()), None, "half of it says nothing");
        std::fs::write(folder.path().join("mem_info_vram_used"), "163091968\n").expect("written");
        let found = cards::of_folder(folder.path());
        assert_eq!(found, Some(DeviceMemory { total: 17_163_091_968, free: 17_000_000_000 }));
    }
}

//! How much memory a device has: [`memory`].

use burn::tensor::Device;

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// All of it.
    pub total: u64,
    /// What nobody has taken.
    pub free: u64,
}

/// The memory of a device, `None` where nobody tells. NVIDIA's cards are asked through NVML, AMD's
/// through Linux' `sysfs`, both by the card's place on the bus, whatever runtime computes. A
/// processor, and a driver in software, have what this process may use of the machine's.
pub fn memory(device: &Device) -> Option<DeviceMemory> {
    if super::is_card(device) != Some(true) {
        return Some(machine());
    }
    cards::memory(device)
}

/// What this process may use of this machine's memory.
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

    /// What NVIDIA's driver says, where there is one and it knows the card.
    fn of_driver(address: &str) -> Option<DeviceMemory> {
        let driver = nvml_wrapper::Nvml::init().ok()?;
        let memory = driver.device_by_pci_bus_id(address).ok()?.memory_info().ok()?;
        Some(DeviceMemory { total: memory.total, free: memory.free })
    }

    /// What AMD's driver writes in the card's folder.
    pub fn of_folder(folder: &Path) -> Option<DeviceMemory> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let total = read("mem_info_vram_total")?;
        Some(DeviceMemory { total, free: total.checked_sub(read("mem_info_vram_used")?)? })
    }
}

#[cfg(not(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu")))]
mod cards {
    /// A build for processors alone knows no cards.
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

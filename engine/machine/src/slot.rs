//! A GPU by its place on the PCI bus: what is free on it, and how the system numbers it: [`Slot`].

use std::fs;
use std::path::Path;

use crate::nvidia;

/// The state and the numbers of a GPU. A field is `None` where the system does not report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slot {
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Memory in bytes that no process uses.
    pub free: Option<u64>,
    /// Percent of time in which a kernel ran, over a short interval that the driver chooses.
    pub utilisation: Option<f64>,
    /// The minor number of the render node: 128 for `/dev/dri/renderD128`.
    pub render_minor: Option<u32>,
    /// The node of AMD's compute driver (KFD), as ROCm counts them.
    pub kfd_node: Option<u32>,
    /// The node of the machine's memory that is nearest.
    pub numa_node: Option<u32>,
}

impl Slot {
    /// Reads the GPU at a PCI address (`0000:03:00.0`): NVIDIA's by NVML, all by `sysfs` of Linux.
    pub fn read(address: &str) -> Self {
        Self::read_from(address, Path::new("/sys"), None)
    }

    /// Like [`Slot::read`], with another folder instead of `/sys`, and NVML's library from a file.
    pub fn read_from(address: &str, sys: &Path, library: Option<&Path>) -> Self {
        let folder = sys.join("bus/pci/devices").join(address);
        let number = |name: &str| number(&folder.join(name));
        let of_amd = number("mem_info_vram_total").zip(number("mem_info_vram_used"));
        let of_amd = of_amd.and_then(|(total, used)| Some((total, total.checked_sub(used)?)));
        let nvidia = nvidia::load_at(address, library);
        let (memory, free) = nvidia.map(|load| (load.memory, load.free)).or(of_amd).unzip();
        let utilisation = match nvidia {
            Some(load) => load.utilisation,
            None => number("gpu_busy_percent").map(|percent| percent as f64),
        };
        let (render_minor, kfd_node) = (render_minor(&folder), kfd_node(sys, address));
        // A machine without such nodes has -1.
        let numa_node = number("numa_node").and_then(|node| u32::try_from(node).ok());
        Slot { memory, free, utilisation, render_minor, kfd_node, numa_node }
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The render node that the driver of a GPU has made.
fn render_minor(folder: &Path) -> Option<u32> {
    let nodes = fs::read_dir(folder.join("drm")).ok()?.flatten();
    let mut minors = nodes.filter_map(|node| node.file_name().to_str()?.strip_prefix("renderD")?.parse().ok());
    minors.next()
}

/// The node whose properties name this PCI address.
fn kfd_node(sys: &Path, address: &str) -> Option<u32> {
    let (domain, location) = location(address)?;
    let nodes = fs::read_dir(sys.join("class/kfd/kfd/topology/nodes")).ok()?.flatten();
    let mut own = nodes.filter_map(|node| {
        let text = fs::read_to_string(node.path().join("properties")).ok()?;
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
        };
        // The CPUs are nodes, too; older drivers do not write the domain.
        let is_gpu = value("simd_count").is_some_and(|count| count > 0);
        let is_here = value("location_id") == Some(location) && value("domain").unwrap_or(0) == domain;
        (is_gpu && is_here).then(|| node.file_name().to_str()?.parse().ok())?
    });
    own.next()
}

/// The domain of a PCI address, and its bus, device and function as KFD joins them.
fn location(address: &str) -> Option<(u64, u64)> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (domain, rest) = address.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let place = hexadecimal(bus)? << 8 | hexadecimal(device)? << 3 | hexadecimal(function)?;
    Some((hexadecimal(domain)?, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "0000:83:01.0";

    fn write(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
        fs::write(file, text).expect("written");
    }

    /// The folders of a machine with two CPUs and two of AMD's GPUs.
    fn machine(sys: &Path) {
        let folder = sys.join("bus/pci/devices").join(ADDRESS);
        write(&folder.join("mem_info_vram_total"), "17163091968\n");
        write(&folder.join("mem_info_vram_used"), "163091968\n");
        write(&folder.join("gpu_busy_percent"), "42\n");
        write(&folder.join("numa_node"), "1\n");
        write(&folder.join("drm/card1/dev"), "226:1\n");
        write(&folder.join("drm/renderD129/dev"), "226:129\n");
        let nodes = sys.join("class/kfd/kfd/topology/nodes");
        for (node, simds, domain, location) in
            [(0, 0, 0, 0), (1, 0, 0, 33544), (2, 304, 1, 33544), (3, 304, 0, 33544), (4, 304, 0, 768)]
        {
            let text = format!("cpu_cores_count 8\nsimd_count {simds}\nlocation_id {location}\ndomain {domain}\n");
            write(&nodes.join(node.to_string()).join("properties"), &text);
        }
    }

    #[test]
    fn a_gpu_of_amd_is_read_from_its_folders() {
        let sys = tempfile::tempdir().expect("a folder");
        assert_eq!(Slot::read_from(ADDRESS, sys.path(), None), Slot::default());
        machine(sys.path());
        let expected = Slot {
            memory: Some(17_163_091_968),
            free: Some(17_000_000_000),
            utilisation: Some(42.0),
            render_minor: Some(129),
            kfd_node: Some(3),
            numa_node: Some(1),
        };
        assert_eq!(Slot::read_from(ADDRESS, sys.path(), None), expected);
        // Another GPU, of which the driver reports only a part.
        let other = sys.path().join("bus/pci/devices/0000:03:00.0");
        write(&other.join("mem_info_vram_total"), "17163091968\n");
        write(&other.join("numa_node"), "-1\n");
        let found = Slot::read_from("0000:03:00.0", sys.path(), None);
        assert_eq!(found, Slot { kfd_node: Some(4), ..Slot::default() });
        assert_eq!(Slot::read_from("nowhere", sys.path(), None), Slot::default());
    }
}

//! The hardware of a run: the values of `--device`, and the only function that names vendors.
//!
//! A value is a runtime and, after a colon, the index of a device: `cpu`, `cuda:1`, `vulkan`,
//! `rocm:0`, `metal`, `wgpu`. `auto` takes the best device that this build and this machine have; of
//! several GPUs that with the most free memory and the least work.
//!
//! ```
//! let device = hearth_train::device::parse("cpu")?;
//! assert!(!device.is_autodiff());
//! # Ok::<(), hearth_train::device::DeviceError>(())
//! ```

mod choice;
mod convolutions;
mod libdevice;
mod memory;
mod tune;

use std::fmt::Write as _;
use std::sync::OnceLock;

use burn::tensor::{Device, DeviceType};
use hearth_distributed::Placement;
use hearth_machine::Slot;
use serde::Serialize;

pub use convolutions::{ConvolutionsError, ConvolutionsWord};
pub use libdevice::libdevice;
pub use memory::{DeviceMemory, memory};
pub use tune::{TuneWord, UnknownTune};

/// A runtime that a build can include.
struct Runtime {
    /// The name on the command line and of the Cargo feature.
    word: &'static str,
    /// The hardware that it supports.
    about: &'static str,
}

/// Every runtime, the ones `auto` prefers first.
const RUNTIMES: [Runtime; 6] = [
    Runtime { word: "cuda", about: "NVIDIA GPUs through CUDA" },
    Runtime { word: "rocm", about: "AMD GPUs through ROCm" },
    Runtime { word: "metal", about: "Apple GPUs through Metal" },
    Runtime { word: "vulkan", about: "AMD, Intel and NVIDIA GPUs through Vulkan" },
    Runtime { word: "wgpu", about: "any GPU through wgpu" },
    Runtime { word: "cpu", about: "this machine's CPU" },
];

/// Whether a device is a GPU of NVIDIA that is used through CUDA.
pub(crate) fn is_cuda(device: &Device) -> bool {
    devices_of("cuda").is_some_and(|devices| devices.contains(&device.clone().inner()))
}

/// The devices that a runtime finds on this machine; `None` where this build lacks its feature.
/// This is the only place in Hearth that names vendors.
fn devices_of(word: &str) -> Option<Vec<Device>> {
    let found = match word {
        "cpu" => Device::enumerate(DeviceType::Flex),
        #[cfg(feature = "cuda")]
        "cuda" => Device::enumerate(DeviceType::Cuda),
        #[cfg(feature = "rocm")]
        "rocm" => Device::enumerate(DeviceType::Rocm),
        #[cfg(feature = "metal")]
        "metal" => Device::enumerate(DeviceType::Metal),
        #[cfg(feature = "vulkan")]
        "vulkan" => Device::enumerate(DeviceType::Vulkan),
        // Vulkan and Metal come with wgpu.
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
        "wgpu" => Device::enumerate(DeviceType::Wgpu),
        _ => return None,
    };
    Some(found.into_vec())
}

/// The device's own name, and whether it is a physical GPU rather than a software one.
#[cfg(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu"))]
fn card(device: &Device) -> Option<(String, bool)> {
    device.identity().map(|identity| (identity.name, identity.physical.is_some()))
}

/// A build for CPUs only has no GPUs.
#[cfg(not(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu")))]
fn card(_device: &Device) -> Option<(String, bool)> {
    None
}

/// The address of a physical GPU on the PCI bus.
#[cfg(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu"))]
fn address(device: &Device) -> Option<String> {
    Some(device.identity()?.physical?.pci_address?.to_string())
}

/// A build for CPUs only has no GPUs.
#[cfg(not(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu")))]
fn address(_device: &Device) -> Option<String> {
    None
}

/// Whether a device is a physical GPU rather than a software driver; `None` for the CPU's own
/// runtime.
fn is_card(device: &Device) -> Option<bool> {
    card(device).map(|(_, physical)| physical)
}

/// The display name of a device: the GPU's own name, or `cpu`.
pub fn name(device: &Device) -> String {
    card(device).map_or_else(|| "cpu".to_owned(), |(name, _)| name)
}

/// The index of a CUDA or ROCm device among the GPUs that NCCL and RCCL connect; `None` for any
/// other device.
pub fn linked_card(device: &Device) -> Option<usize> {
    let own = device.clone().inner();
    let mut found = ["cuda", "rocm"].into_iter().filter_map(devices_of);
    found.find_map(|devices| devices.into_iter().position(|device| device == own))
}

/// The reason why a `--device` value selects no device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The runtime is unknown.
    #[error(
        "no device is called `{word}`; known are auto, cuda, rocm, metal, vulkan, wgpu and cpu, each but the first with `:INDEX` if wanted. Available here: {available}"
    )]
    Unknown {
        /// The requested value.
        word: String,
        /// The values that work.
        available: String,
    },
    /// The runtime is known, but this build lacks its feature.
    #[error("this build cannot use `{word}`: build it with `--features {feature}`. Available here: {available}")]
    NotCompiledIn {
        /// The requested value.
        word: String,
        /// The Cargo feature that adds it.
        feature: &'static str,
        /// The values that work.
        available: String,
    },
    /// The runtime works, but finds no device with this index.
    #[error(
        "`{word}` was requested, but {runtime} finds {found} device(s) on this machine{hint}. Available here: {available}"
    )]
    Absent {
        /// The requested value.
        word: String,
        /// The runtime's name.
        runtime: &'static str,
        /// The number of devices that it finds.
        found: usize,
        /// A possible cause.
        hint: &'static str,
        /// The values that work.
        available: String,
    },
    /// The GPU is there, but a file that its kernels are compiled with is missing.
    #[error("`{word}`: {missing}. Available here: {available}")]
    Toolkit {
        /// The requested value.
        word: String,
        /// The missing file, and the packages that contain it.
        missing: String,
        /// The values that work.
        available: String,
    },
    /// The part after the colon is not an index.
    #[error("`{word}`: `{index}` is not the index of a device; write `cuda:0`")]
    BadIndex {
        /// The requested value.
        word: String,
        /// The part after the colon.
        index: String,
    },
}

/// One line of `hearth devices`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// The value for `--device`.
    pub word: String,
    /// The device's own name; for a runtime without a device on this machine, the hardware it
    /// supports.
    pub name: String,
    /// The Cargo feature that adds it.
    pub feature: &'static str,
    /// Whether this build has the feature.
    pub compiled_in: bool,
    /// Whether `--device WORD` works in this build on this machine.
    pub available: bool,
    /// The missing requirement of a device that is there, and the package that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Memory in bytes, where the runtime reports it.
    pub memory: Option<u64>,
    /// Memory in bytes that no process uses.
    pub free_memory: Option<u64>,
    /// Percent of time in which a kernel ran, over a short interval that the driver chooses.
    pub utilisation: Option<f64>,
    /// The address on the PCI bus.
    pub pci: Option<String>,
    /// The minor number of the render node: 128 for `/dev/dri/renderD128`.
    pub render_minor: Option<u32>,
    /// The node of AMD's compute driver (KFD), as ROCm counts them.
    pub kfd_node: Option<u32>,
    /// The node of the machine's memory that is nearest.
    pub numa_node: Option<u32>,
}

impl DeviceInfo {
    /// Whether the machine has the device, usable or not.
    pub fn is_here(&self) -> bool {
        self.available || self.missing.is_some()
    }
}

/// Returns the device for a value of `--device`, without autodiff. See the [module's
/// documentation](self).
///
/// # Errors
/// If the value is unknown, this build lacks the runtime's feature, or the device cannot be used.
pub fn parse(word: &str) -> Result<Device, DeviceError> {
    parse_for_rank(word, 0)
}

/// Returns the device for one of several ranks on this machine. If the value names no GPU, ranks take
/// the GPUs in turn, starting over after the last one.
///
/// # Errors
/// As [`parse`].
pub fn parse_for_rank(word: &str, local_rank: usize) -> Result<Device, DeviceError> {
    let asked = word.trim();
    if asked == "auto" {
        return auto(asked, local_rank);
    }
    let (runtime_word, index) = match asked.split_once(':') {
        Some((runtime, index)) => (runtime, Some(index)),
        None => (asked, None),
    };
    let Some(runtime) = RUNTIMES.iter().find(|runtime| runtime.word == runtime_word) else {
        return Err(DeviceError::Unknown { word: asked.into(), available: available() });
    };
    let index = match index {
        None => None,
        Some(text) => {
            let bad = |_| DeviceError::BadIndex { word: asked.into(), index: text.into() };
            Some(text.parse::<usize>().map_err(bad)?)
        }
    };
    let Some(devices) = devices_of(runtime.word) else {
        return Err(DeviceError::NotCompiledIn { word: asked.into(), feature: runtime.word, available: available() });
    };
    let found = devices.len();
    let index = index.unwrap_or_else(|| turn(local_rank, found));
    let device = devices.into_iter().nth(index).ok_or_else(|| DeviceError::Absent {
        word: asked.into(),
        runtime: runtime.word,
        found,
        hint: if found == 0 { " (is the driver installed?)" } else { "" },
        available: available(),
    })?;
    complete(asked, runtime)?;
    Ok(device)
}

/// The reason why kernels for a runtime's devices cannot be compiled.
fn missing(runtime: &Runtime) -> Option<String> {
    if runtime.word == "cuda" { libdevice().err() } else { None }
}

/// Fails where something is missing.
fn complete(asked: &str, runtime: &Runtime) -> Result<(), DeviceError> {
    let error = |missing| DeviceError::Toolkit { word: asked.into(), missing, available: available() };
    missing(runtime).map_or(Ok(()), |missing| Err(error(missing)))
}

/// The index of a rank's device, out of `devices`.
fn turn(local_rank: usize, devices: usize) -> usize {
    local_rank % devices.max(1)
}

/// The order in which ranks on this machine take GPUs. One look decides for this process, whose later
/// calls get the same GPUs. Ranks that are processes look at different times, and would choose the same
/// GPU: they take them by index.
fn preferred(devices: &[Device]) -> Vec<usize> {
    static FOUND: OnceLock<Vec<usize>> = OnceLock::new();
    let is_rank = || Placement::from_environment().ok().flatten().is_some_and(|placement| placement.world > 1);
    let look = || -> Vec<usize> {
        let slots = devices.iter().map(|device| address(device).map_or_else(Slot::default, |at| Slot::read(&at)));
        choice::order(&slots.collect::<Vec<_>>())
    };
    let by_index = || (0..devices.len()).collect();
    if devices.len() < 2 || is_rank() {
        return by_index();
    }
    let found = FOUND.get_or_init(look);
    if found.len() == devices.len() { found.clone() } else { by_index() }
}

/// A GPU of the most preferred runtime, by free memory and work, or else the CPU. Ranks take them in
/// turn.
fn auto(asked: &str, local_rank: usize) -> Result<Device, DeviceError> {
    for runtime in &RUNTIMES {
        let mut devices = devices_of(runtime.word).unwrap_or_default();
        // A software rasterizer reports itself as a GPU; the CPU's own runtime is faster.
        devices.retain(|device| runtime.word == "cpu" || card(device).is_none_or(|(_, physical)| physical));
        let order = preferred(&devices);
        let index = order.get(turn(local_rank, devices.len())).copied();
        if let Some(device) = index.and_then(|index| devices.into_iter().nth(index)) {
            // No fallback to the next best device: silently running slowly is worse.
            complete(asked, runtime)?;
            return Ok(device);
        }
    }
    Err(DeviceError::Unknown { word: asked.into(), available: available() })
}

/// Every runtime that this version of Hearth knows, with its devices on this machine: the output of
/// `hearth devices`.
pub fn list() -> Vec<DeviceInfo> {
    let mut lines = Vec::new();
    for runtime in &RUNTIMES {
        let found = devices_of(runtime.word);
        let compiled_in = found.is_some();
        let found = found.unwrap_or_default();
        if found.is_empty() {
            lines.push(DeviceInfo {
                word: runtime.word.into(),
                name: runtime.about.into(),
                feature: runtime.word,
                compiled_in,
                ..DeviceInfo::default()
            });
            continue;
        }
        let missing = missing(runtime);
        let described = found.iter().enumerate().map(|(index, device)| DeviceInfo {
            feature: runtime.word,
            compiled_in,
            available: missing.is_none(),
            missing: missing.clone(),
            ..describe(runtime, index, device)
        });
        lines.extend(described);
    }
    lines
}

/// What the system reports about a device.
fn describe(runtime: &Runtime, index: usize, device: &Device) -> DeviceInfo {
    if runtime.word == "cpu" {
        let (name, memory) = processor();
        return DeviceInfo { word: runtime.word.to_owned(), name, memory: Some(memory), ..DeviceInfo::default() };
    }
    let pci = address(device);
    let Slot { utilisation, render_minor, kfd_node, numa_node, .. } =
        pci.as_deref().map_or_else(Slot::default, Slot::read);
    let memory = memory(device);
    DeviceInfo {
        word: format!("{}:{index}", runtime.word),
        name: card(device).map_or_else(|| runtime.about.to_owned(), |(name, _)| name),
        memory: memory.map(|memory| memory.total),
        free_memory: memory.map(|memory| memory.free),
        utilisation,
        pci,
        render_minor,
        kfd_node,
        numa_node,
        ..DeviceInfo::default()
    }
}

/// The values that work on this machine, for error messages. Devices are not asked for their names,
/// since that opens them.
fn available() -> String {
    let mut text = String::new();
    for runtime in RUNTIMES.iter().filter(|runtime| missing(runtime).is_none()) {
        for index in 0..devices_of(runtime.word).map_or(0, |devices| devices.len()) {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = match runtime.word {
                "cpu" => write!(text, "{separator}cpu"),
                word => write!(text, "{separator}{word}:{index}"),
            };
        }
    }
    if text.is_empty() { "nothing".into() } else { text }
}

/// The CPU's name, and the machine's memory in bytes.
fn processor() -> (String, u64) {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
    let brand = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).unwrap_or_default();
    let brand = if brand.is_empty() { std::env::consts::ARCH.to_owned() } else { brand };
    (format!("{brand}, {} threads", system.cpus().len().max(1)), system.total_memory())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_one_device() {
        assert_eq!(parse("cpu").expect("there is one"), Device::flex());
        assert_eq!(parse_for_rank("auto", 3).ok(), parse("auto").ok());
        assert_eq!(linked_card(&Device::flex()), None);
    }

    #[test]
    fn cpu_and_auto_are_there() {
        assert!(parse("cpu").is_ok());
        assert!(parse(" cpu:0 ").is_ok());
        assert!(parse("auto").is_ok());
    }

    #[test]
    fn a_word_nobody_knows_lists_the_known_ones() {
        let text = parse("gpu").unwrap_err().to_string();
        assert!(text.contains("`gpu`") && text.contains("vulkan") && text.contains("cuda"), "{text}");
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn a_missing_feature_is_named_with_what_is_available() {
        let text = parse("cuda:1").unwrap_err().to_string();
        assert!(
            text.contains("--features cuda") && text.contains("Available here: ") && text.contains("cpu"),
            "{text}"
        );
    }

    #[test]
    fn an_index_beyond_the_devices_is_an_error() {
        let text = parse("cpu:7").unwrap_err().to_string();
        assert!(text.contains("finds 1 device"), "{text}");
        assert!(matches!(parse("cpu:x"), Err(DeviceError::BadIndex { .. })));
        assert!(matches!(parse("cpu:-1"), Err(DeviceError::BadIndex { .. })));
        assert!(matches!(parse("cpu:"), Err(DeviceError::BadIndex { .. })));
    }

    #[test]
    fn the_list_names_every_runtime_once_at_least() {
        let list = list();
        for runtime in &RUNTIMES {
            let line = list.iter().find(|line| line.feature == runtime.word).expect("each runtime has a line");
            assert_eq!(line.compiled_in, devices_of(runtime.word).is_some());
            assert!(!line.name.is_empty());
            if line.available {
                assert!(parse(&line.word).is_ok(), "{}", line.word);
            }
        }
    }
}

//! NVIDIA's GPUs, through NVML: the driver's library, opened at run time.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use crate::gpu::{Answers, Gpu, GpuAbout, GpuReading, Vendor};

/// An NVIDIA GPU.
#[derive(Debug)]
pub struct Nvidia {
    nvml: Arc<Nvml>,
    index: u32,
    about: GpuAbout,
}

/// All NVIDIA GPUs, in the driver's order.
///
/// # Errors
/// Where the driver is missing, or does not report the number of GPUs.
pub fn gpus() -> Result<Vec<Nvidia>, String> {
    all(open(None)?)
}

/// Same as [`gpus`], with the library from the given file.
///
/// # Errors
/// Same as [`gpus`].
pub fn gpus_of(library: &Path) -> Result<Vec<Nvidia>, String> {
    all(open(Some(library.as_os_str()))?)
}

/// The GPU with the given index, in the driver's numbering.
///
/// # Errors
/// Where the driver or the GPU is missing.
pub fn gpu(index: u32) -> Result<Nvidia, String> {
    Nvidia::new(open(None)?, index)
}

/// The memory and the work of one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Memory in bytes.
    pub memory: u64,
    /// Memory in bytes that no process uses.
    pub free: u64,
    /// Percent of time in which a kernel ran.
    pub utilisation: Option<f64>,
}

/// The GPU at a PCI address, where the driver is installed and knows it.
pub(crate) fn load_at(address: &str, library: Option<&Path>) -> Option<Load> {
    let nvml = open(library.map(Path::as_os_str)).ok()?;
    let gpu = nvml.device_by_pci_bus_id(address).ok()?;
    let memory = gpu.memory_info().ok()?;
    let utilisation = gpu.utilization_rates().ok().map(|rates| f64::from(rates.gpu));
    Some(Load { memory: memory.total, free: memory.free, utilisation })
}

fn open(library: Option<&OsStr>) -> Result<Arc<Nvml>, String> {
    let nvml = match library {
        Some(library) => Nvml::builder().lib_path(library).init(),
        None => Nvml::init(),
    };
    nvml.map(Arc::new).map_err(|error| format!("no NVIDIA driver was found ({error})"))
}

fn all(nvml: Arc<Nvml>) -> Result<Vec<Nvidia>, String> {
    let count = nvml
        .device_count()
        .map_err(|error| format!("the NVIDIA driver does not report the number of GPUs ({error})"))?;
    (0..count).map(|index| Nvidia::new(nvml.clone(), index)).collect()
}

impl Nvidia {
    fn new(nvml: Arc<Nvml>, index: u32) -> Result<Self, String> {
        let about = || {
            let gpu = nvml.device_by_index(index)?;
            let memory = gpu.memory_info().ok().map(|memory| memory.total);
            Ok(GpuAbout { vendor: Vendor::Nvidia, name: gpu.name()?, memory })
        };
        let none = |error: NvmlError| format!("the NVIDIA driver has no GPU {index} ({error})");
        let about = about().map_err(none)?;
        Ok(Self { nvml, index, about })
    }

    fn look(&self) -> Result<GpuReading, NvmlError> {
        let gpu = self.nvml.device_by_index(self.index)?;
        let mut answers = Answers::new();
        let reading = GpuReading {
            utilisation: answers.of(gpu.utilization_rates()).map(|rates| f64::from(rates.gpu)),
            memory: answers.of(gpu.memory_info()).map(|memory| memory.used),
            power: answers.of(gpu.power_usage()).map(|milliwatts| f64::from(milliwatts) / 1e3),
            temperature: answers.of(gpu.temperature(TemperatureSensor::Gpu)).map(f64::from),
            sm_clock: answers.of(gpu.clock_info(Clock::SM)).map(f64::from),
            memory_clock: answers.of(gpu.clock_info(Clock::Memory)).map(f64::from),
        };
        answers.or_lost(reading)
    }
}

impl Gpu for Nvidia {
    fn about(&self) -> &GpuAbout {
        &self.about
    }

    fn read(&mut self) -> Result<GpuReading, String> {
        self.look().map_err(|error| format!("GPU {} cannot be read: {error}", self.index))
    }
}

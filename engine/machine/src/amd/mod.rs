//! AMD's GPUs, through ROCm SMI: a library of ROCm, opened at run time.

mod clocks;
mod library;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::gpu::{Answers, Gpu, GpuAbout, GpuReading, Vendor};
use library::{Clock, Refusal, Smi};

/// The file names of the library, the newest first. AMD SMI contains ROCm SMI, and may be installed
/// without it.
const NAMES: [&str; 8] = [
    "librocm_smi64.so",
    "librocm_smi64.so.1",
    "librocm_smi64.so.7",
    "librocm_smi64.so.6",
    "librocm_smi64.so.5",
    "/opt/rocm/lib/librocm_smi64.so",
    "libamd_smi.so",
    "/opt/rocm/lib/libamd_smi.so",
];

/// The folder in which Linux shows the driver's parameters while the driver is loaded.
const DRIVER: &str = "/sys/module/amdgpu";

/// An AMD GPU.
#[derive(Debug)]
pub struct Amd {
    smi: Arc<Smi>,
    index: u32,
    about: GpuAbout,
}

/// All AMD GPUs, in the library's order.
///
/// # Errors
/// Where the library is missing, or finds no driver.
pub fn gpus() -> Result<Vec<Amd>, String> {
    // Without the driver the library would write to standard error.
    if !Path::new(DRIVER).exists() {
        return Err("no AMD driver was found".to_owned());
    }
    let mut first = None;
    for name in NAMES {
        match Smi::open(OsStr::new(name)) {
            Ok(smi) => return all(Arc::new(smi)),
            // The first name's error is the most useful one: the other names are fallbacks.
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(format!("no ROCm SMI was found ({})", first.unwrap_or_default()))
}

/// Same as [`gpus`], with the library from the given file.
///
/// # Errors
/// Same as [`gpus`].
pub fn gpus_of(library: &Path) -> Result<Vec<Amd>, String> {
    all(Arc::new(Smi::open(library.as_os_str())?))
}

fn all(smi: Arc<Smi>) -> Result<Vec<Amd>, String> {
    let count = smi.count().map_err(|refusal| format!("ROCm SMI does not report the number of GPUs: {refusal}"))?;
    let gpu = |index| {
        let name = smi.name(index).unwrap_or_else(|_| "GPU".to_owned());
        let about = GpuAbout { vendor: Vendor::Amd, name, memory: smi.memory_total(index).ok() };
        Amd { smi: smi.clone(), index, about }
    };
    Ok((0..count).map(gpu).collect())
}

impl Amd {
    fn look(&self) -> Result<GpuReading, Refusal> {
        let (smi, index) = (&self.smi, self.index);
        let megahertz = |hertz: u64| hertz as f64 / 1e6;
        let mut answers = Answers::new();
        let reading = GpuReading {
            utilisation: answers.of(smi.busy(index)).map(f64::from),
            memory: answers.of(smi.memory_used(index)),
            power: answers.of(smi.power(index)).map(|microwatts| microwatts as f64 / 1e6),
            temperature: answers.of(smi.temperature(index)).map(|millidegrees| millidegrees as f64 / 1e3),
            sm_clock: answers.of(smi.clock(index, Clock::System)).flatten().map(megahertz),
            memory_clock: answers.of(smi.clock(index, Clock::Memory)).flatten().map(megahertz),
        };
        answers.or_lost(reading)
    }
}

impl Gpu for Amd {
    fn about(&self) -> &GpuAbout {
        &self.about
    }

    fn read(&mut self) -> Result<GpuReading, String> {
        self.look().map_err(|refusal| format!("AMD's GPU {} cannot be read: {refusal}", self.index))
    }
}

//! Reads the whole machine once: [`Probe`], and its implementation [`Machine`].

use std::fmt;
use std::path::Path;
use std::time::Instant;

use crate::allowance::Allowance;
use crate::gpu::{self, Gpu, GpuAbout, GpuReading};
use crate::packages::Packages;
use crate::process::{Process, ProcessReading};

/// The constant properties of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// CPU cores that this process may use.
    pub cores: usize,
    /// Memory in bytes, or the limit of the container.
    pub memory: Option<u64>,
    /// The GPUs, in the order of their readings.
    pub gpus: Vec<GpuAbout>,
    /// For each vendor without GPUs, the reason.
    pub without: Vec<String>,
}

/// Counters and states at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The time of the reading.
    pub at: Instant,
    /// This process.
    pub process: Option<ProcessReading>,
    /// Free memory of the machine in bytes.
    pub free_memory: Option<u64>,
    /// Joules of all CPUs since a fixed time.
    pub package_joules: Option<f64>,
    /// The reading of each GPU, or its driver's error.
    pub gpus: Vec<Result<GpuReading, String>>,
}

/// Something whose state can be read: the machine, or a test's replacement.
pub trait Probe: Send {
    /// The constant properties.
    fn about(&self) -> About;

    /// Reads the current state.
    fn read(&mut self) -> Reading;
}

impl<P: Probe + ?Sized> Probe for Box<P> {
    fn about(&self) -> About {
        (**self).about()
    }

    fn read(&mut self) -> Reading {
        (**self).read()
    }
}

/// The probe of this machine: its process, CPUs, memory and GPUs.
pub struct Machine {
    process: Process,
    packages: Packages,
    gpus: Vec<Box<dyn Gpu>>,
    about: About,
}

impl Machine {
    /// Opens the available drivers; a missing driver is no error.
    pub fn open() -> Self {
        let (gpus, without) = gpu::all();
        Self::with(gpus, without, Path::new("/sys/class/powercap"))
    }

    /// A machine with the given GPUs, and the energy counters of the given folder.
    pub fn with(gpus: Vec<Box<dyn Gpu>>, without: Vec<String>, powercap: &Path) -> Self {
        let process = Process::open();
        let about = About {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: Some(Allowance::now().bytes).filter(|bytes| *bytes > 0),
            gpus: gpus.iter().map(|gpu| gpu.about().clone()).collect(),
            without,
        };
        Self { process, packages: Packages::open(powercap), gpus, about }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("about", &self.about).finish_non_exhaustive()
    }
}

impl Probe for Machine {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn read(&mut self) -> Reading {
        Reading {
            at: Instant::now(),
            process: self.process.read(),
            free_memory: Some(Allowance::now().free),
            package_joules: self.packages.joules(),
            gpus: self.gpus.iter_mut().map(|gpu| gpu.read()).collect(),
        }
    }
}

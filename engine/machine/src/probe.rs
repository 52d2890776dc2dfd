//! Reads the whole machine once: [`Probe`], and [`Machine`], which is one.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use crate::allowance::Allowance;
use crate::gpu::{self, Gpu, GpuAbout, GpuReading};
use crate::packages::Packages;
use crate::process::{Process, ProcessReading};

/// What does not change about a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Processor cores that this process may use.
    pub cores: usize,
    /// Bytes of memory, or the limit of the container.
    pub memory: Option<u64>,
    /// The GPUs, in the order of their readings.
    pub gpus: Vec<GpuAbout>,
    /// Why there are no GPUs of a vendor.
    pub without: Vec<String>,
}

/// Counters and states at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// This process.
    pub process: Option<ProcessReading>,
    /// Bytes that are free in the machine.
    pub free_memory: Option<u64>,
    /// Joules of all processors since a fixed time.
    pub package_joules: Option<f64>,
    /// Each GPU, or what its driver said instead.
    pub gpus: Vec<Result<GpuReading, String>>,
}

/// Something whose state can be read: the machine, or what a test puts in its place.
pub trait Probe: Send {
    /// What does not change about it.
    fn about(&self) -> About;

    /// Its state now.
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

/// This machine.
pub struct Machine {
    process: Process,
    packages: Packages,
    gpus: Vec<Box<dyn Gpu>>,
    about: About,
}

impl Machine {
    /// Opens what there is: drivers that are missing are no error.
    pub fn open() -> Self {
        let (gpus, without) = gpu::all();
        Self::with(gpus, without, Path::new("/sys/class/powercap"))
    }

    /// A machine with these GPUs, and the energy counters of this folder.
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

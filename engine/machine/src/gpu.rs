//! One GPU of any vendor: [`Gpu`].

use std::fmt;

/// The vendor of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vendor::Nvidia => "NVIDIA",
            Vendor::Amd => "AMD",
        })
    }
}

/// The constant properties of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuAbout {
    /// The vendor.
    pub vendor: Vendor,
    /// The model's name, as reported by the driver.
    pub name: String,
    /// The memory of the GPU in bytes.
    pub memory: Option<u64>,
}

/// The state of a GPU at one time. A field is `None` where the GPU has no such sensor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuReading {
    /// Percent of time in which a kernel ran, over a short interval that the driver chooses.
    pub utilisation: Option<f64>,
    /// Used memory in bytes, by all processes.
    pub memory: Option<u64>,
    /// Power of the whole board in watts.
    pub power: Option<f64>,
    /// Temperature in degrees Celsius.
    pub temperature: Option<f64>,
    /// Clock frequency of the multiprocessors in MHz.
    pub sm_clock: Option<f64>,
    /// Clock frequency of the memory in MHz.
    pub memory_clock: Option<f64>,
}

/// A GPU that can be read.
pub trait Gpu: Send {
    /// The constant properties of the GPU.
    fn about(&self) -> &GpuAbout;

    /// Reads the current state.
    ///
    /// # Errors
    /// The driver's message where no sensor of the GPU answers. A missing sensor is no error.
    fn read(&mut self) -> Result<GpuReading, String>;
}

/// Collects the answers of sensors. A GPU counts as lost where no sensor answers: drivers report
/// missing sensors in different ways.
#[derive(Debug)]
pub(crate) struct Answers<E> {
    any: bool,
    error: Option<E>,
}

impl<E> Answers<E> {
    pub(crate) fn new() -> Self {
        Self { any: false, error: None }
    }

    pub(crate) fn of<T>(&mut self, answer: Result<T, E>) -> Option<T> {
        match answer {
            Ok(value) => {
                self.any = true;
                Some(value)
            }
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    /// Returns the reading, or the first error where no sensor answered.
    pub(crate) fn or_lost(self, reading: GpuReading) -> Result<GpuReading, E> {
        self.error.filter(|_| !self.any).map_or(Ok(reading), Err)
    }
}

/// All GPUs of the machine, NVIDIA's first, and for each vendor without GPUs the reason.
pub(crate) fn all() -> (Vec<Box<dyn Gpu>>, Vec<String>) {
    let (mut gpus, mut why): (Vec<Box<dyn Gpu>>, _) = (Vec::new(), Vec::new());
    match crate::nvidia::gpus() {
        Ok(found) => gpus.extend(found.into_iter().map(|gpu| Box::new(gpu) as Box<dyn Gpu>)),
        Err(error) => why.push(error),
    }
    match crate::amd::gpus() {
        Ok(found) => gpus.extend(found.into_iter().map(|gpu| Box::new(gpu) as Box<dyn Gpu>)),
        Err(error) => why.push(error),
    }
    (gpus, why)
}

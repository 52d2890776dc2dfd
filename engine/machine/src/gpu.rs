//! One GPU, whoever made it: [`Gpu`].

use std::fmt;

/// Who made a GPU.
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

/// What does not change about a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuAbout {
    /// Who made it.
    pub vendor: Vendor,
    /// The model, as the driver names it.
    pub name: String,
    /// Its memory in bytes.
    pub memory: Option<u64>,
}

/// A GPU at one time. `None` where it has no such sensor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuReading {
    /// Percent of the time in which a kernel ran, over a short time that the driver chooses.
    pub utilisation: Option<f64>,
    /// Used memory in bytes, by all processes.
    pub memory: Option<u64>,
    /// Watts of the whole board.
    pub power: Option<f64>,
    /// Degrees Celsius.
    pub temperature: Option<f64>,
    /// Clock of the multiprocessors in MHz.
    pub sm_clock: Option<f64>,
    /// Clock of the memory in MHz.
    pub memory_clock: Option<f64>,
}

/// A GPU that can be read.
pub trait Gpu: Send {
    /// What does not change about it.
    fn about(&self) -> &GpuAbout;

    /// Its state now.
    ///
    /// # Errors
    /// What the driver says where no sensor of the GPU answers. One that it lacks is no error.
    fn read(&mut self) -> Result<GpuReading, String>;
}

/// Collects what sensors answer. A GPU is lost where none does: drivers differ in what they say of
/// a sensor that is not there.
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

    /// The reading, or the first error where there was no answer.
    pub(crate) fn or_lost(self, reading: GpuReading) -> Result<GpuReading, E> {
        self.error.filter(|_| !self.any).map_or(Ok(reading), Err)
    }
}

/// All GPUs of the machine, NVIDIA's first, and why there are none of a vendor.
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

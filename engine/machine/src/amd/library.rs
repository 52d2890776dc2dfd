//! The functions of ROCm SMI. All `unsafe` code of this crate is here: the calls of a C library.

use std::error::Error as _;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fmt;

use libloading::Library;

use super::clocks::{self, Words};

/// `rsmi_status_t`.
type Status = c_int;

/// The reason why the library did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// This version of the library lacks the function.
    NoFunction,
    /// The error status that the function returned.
    Status(Status),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoFunction => f.write_str("the function is missing"),
            Refusal::Status(3) => f.write_str("a file of the driver cannot be read (status 3)"),
            Refusal::Status(8) => f.write_str("it cannot be initialized (status 8)"),
            Refusal::Status(status) => write!(f, "status {status}"),
        }
    }
}

/// `rsmi_clk_type_t`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    System = 0,
    Memory = 4,
}

/// `RSMI_MEM_TYPE_VRAM`.
const VRAM: c_int = 0;
/// `RSMI_TEMP_TYPE_EDGE`.
const EDGE: u32 = 0;
/// `RSMI_TEMP_TYPE_JUNCTION`: the newest GPUs have no edge sensor.
const JUNCTION: u32 = 1;
/// `RSMI_TEMP_CURRENT`.
const CURRENT: c_int = 0;

/// The functions of ROCm SMI. A function that some version lacks is `None`.
#[derive(Debug)]
pub(super) struct Smi {
    shut_down: unsafe extern "C" fn() -> Status,
    count: unsafe extern "C" fn(*mut u32) -> Status,
    name: Option<unsafe extern "C" fn(u32, *mut c_char, usize) -> Status>,
    busy: Option<unsafe extern "C" fn(u32, *mut u32) -> Status>,
    memory_total: Option<unsafe extern "C" fn(u32, c_int, *mut u64) -> Status>,
    memory_used: Option<unsafe extern "C" fn(u32, c_int, *mut u64) -> Status>,
    power: Option<unsafe extern "C" fn(u32, *mut u64, *mut c_int) -> Status>,
    mean_power: Option<unsafe extern "C" fn(u32, u32, *mut u64) -> Status>,
    temperature: Option<unsafe extern "C" fn(u32, u32, c_int, *mut i64) -> Status>,
    clock: Option<unsafe extern "C" fn(u32, c_int, *mut Words) -> Status>,
}

impl Smi {
    /// Opens and initializes the library of this name.
    pub(super) fn open(name: &OsStr) -> Result<Self, String> {
        let shown = name.to_string_lossy();
        let library = load(name)?;
        let missing = |symbol: &str| format!("{shown} has no function {symbol}: it is not ROCm SMI");
        // SAFETY: the library has the name of ROCm SMI, or the caller gives its file as such; the
        // types are those of `rocm_smi.h`, unchanged since ROCm 4. The library is leaked below, so
        // the addresses stay valid.
        let (init, smi) = unsafe {
            let init: unsafe extern "C" fn(u64) -> Status =
                function(&library, "rsmi_init").ok_or_else(|| missing("rsmi_init"))?;
            let smi = Self {
                shut_down: function(&library, "rsmi_shut_down").ok_or_else(|| missing("rsmi_shut_down"))?,
                count: function(&library, "rsmi_num_monitor_devices")
                    .ok_or_else(|| missing("rsmi_num_monitor_devices"))?,
                name: function(&library, "rsmi_dev_name_get"),
                busy: function(&library, "rsmi_dev_busy_percent_get"),
                memory_total: function(&library, "rsmi_dev_memory_total_get"),
                memory_used: function(&library, "rsmi_dev_memory_usage_get"),
                power: function(&library, "rsmi_dev_power_get"),
                mean_power: function(&library, "rsmi_dev_power_ave_get"),
                temperature: function(&library, "rsmi_dev_temp_metric_get"),
                clock: function(&library, "rsmi_dev_gpu_clk_freq_get"),
            };
            (init, smi)
        };
        // The library is written in C++: unloading it would run untested destructors.
        std::mem::forget(library);
        // SAFETY: `rsmi_init` takes flags, none of which is set, and may be called several times.
        match unsafe { init(0) } {
            0 => Ok(smi),
            status => {
                // Dropping would shut down a library that was not initialized.
                std::mem::forget(smi);
                Err(format!("{shown}: {}", Refusal::Status(status)))
            }
        }
    }

    pub(super) fn count(&self) -> Result<u32, Refusal> {
        // SAFETY: the library is initialized, and writes one number.
        ask(|count| unsafe { (self.count)(count) })
    }

    pub(super) fn name(&self, gpu: u32) -> Result<String, Refusal> {
        let name = self.name.ok_or(Refusal::NoFunction)?;
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: the library writes at most the number of bytes that is passed to it.
        let status = unsafe { name(gpu, text.as_mut_ptr(), text.len()) };
        // A truncated name (status 11) is accepted, too.
        if status != 0 && status != 11 {
            return Err(Refusal::Status(status));
        }
        text[text.len() - 1] = 0;
        // SAFETY: the last byte is zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        Ok(text.to_string_lossy().into_owned())
    }

    /// Utilisation of the GPU in percent.
    pub(super) fn busy(&self, gpu: u32) -> Result<u32, Refusal> {
        let busy = self.busy.ok_or(Refusal::NoFunction)?;
        // SAFETY: the library writes one number.
        ask(|percent| unsafe { busy(gpu, percent) })
    }

    /// Total memory in bytes.
    pub(super) fn memory_total(&self, gpu: u32) -> Result<u64, Refusal> {
        let total = self.memory_total.ok_or(Refusal::NoFunction)?;
        // SAFETY: the library writes one number.
        ask(|bytes| unsafe { total(gpu, VRAM, bytes) })
    }

    /// Used memory in bytes.
    pub(super) fn memory_used(&self, gpu: u32) -> Result<u64, Refusal> {
        let used = self.memory_used.ok_or(Refusal::NoFunction)?;
        // SAFETY: the library writes one number.
        ask(|bytes| unsafe { used(gpu, VRAM, bytes) })
    }

    /// Power in microwatts: the current value (ROCm 6 and later), or the mean over a short time.
    pub(super) fn power(&self, gpu: u32) -> Result<u64, Refusal> {
        if let Some(power) = self.power {
            let mut kind = 0;
            // SAFETY: the library writes two numbers.
            if let Ok(told) = ask(|microwatts| unsafe { power(gpu, microwatts, &mut kind) }) {
                return Ok(told);
            }
        }
        let mean = self.mean_power.ok_or(Refusal::NoFunction)?;
        // SAFETY: the library writes one number; every GPU has a sensor 0 or none.
        ask(|microwatts| unsafe { mean(gpu, 0, microwatts) })
    }

    /// Temperature in thousandths of a degree Celsius.
    pub(super) fn temperature(&self, gpu: u32) -> Result<i64, Refusal> {
        let temperature = self.temperature.ok_or(Refusal::NoFunction)?;
        // SAFETY: the library writes one number.
        let of = |sensor| ask(|degrees| unsafe { temperature(gpu, sensor, CURRENT, degrees) });
        of(EDGE).or_else(|_| of(JUNCTION))
    }

    /// Frequency of a clock in Hz, `None` where the GPU sleeps.
    pub(super) fn clock(&self, gpu: u32, clock: Clock) -> Result<Option<u64>, Refusal> {
        let frequencies = self.clock.ok_or(Refusal::NoFunction)?;
        let mut words: Words = [0; clocks::ROOM];
        // SAFETY: the structure is smaller than the words in every version, and the words have its
        // alignment.
        match unsafe { frequencies(gpu, clock as c_int, &mut words) } {
            0 => Ok(clocks::present(&words)),
            status => Err(Refusal::Status(status)),
        }
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        // SAFETY: `open` initialized the library once for this object. An error cannot be reported
        // here.
        let _ = unsafe { (self.shut_down)() };
    }
}

/// Calls a function that writes its result to a pointer, and returns the result.
fn ask<T: Default>(call: impl FnOnce(&mut T) -> Status) -> Result<T, Refusal> {
    let mut value = T::default();
    match call(&mut value) {
        0 => Ok(value),
        status => Err(Refusal::Status(status)),
    }
}

/// The address of a function.
///
/// # Safety
/// `F` is the function's type, and the library stays open while it is used.
unsafe fn function<F: Copy>(library: &Library, symbol: &str) -> Option<F> {
    // SAFETY: the caller guarantees the function's type.
    unsafe { library.get::<F>(symbol) }.ok().map(|function| *function)
}

#[cfg(unix)]
fn load(name: &OsStr) -> Result<Library, String> {
    // SAFETY: opening a library runs its initializers; those of ROCm SMI only set up its own state.
    // The file has ROCm SMI's name, or the caller gives it as such.
    unsafe { Library::new(name) }.map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string))
}

/// ROCm SMI exists on Linux only.
#[cfg(not(unix))]
fn load(_: &OsStr) -> Result<Library, String> {
    Err("it is supported on Unix only".to_owned())
}

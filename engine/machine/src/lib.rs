//! Measures how a process uses its machine: CPU, memory, disk, GPUs and power. A [`Machine`] is
//! read once; a [`Sampler`] reads it periodically from its own thread.
//!
//! ```
//! use std::time::Duration;
//! use hearth_machine::Sampler;
//!
//! let sampler = Sampler::start(Duration::from_millis(100))?;
//! let sum: u64 = (0..1_000_000).sum();
//! // One sample at the start, one at the end, and those between.
//! let samples = sampler.stop()?;
//! assert!(sum > 0 && samples.len() >= 2);
//! assert!(samples.is_sorted_by(|a, b| a.at < b.at), "in order, on a clock that is never set");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Drivers are opened at run time, and values that a machine does not provide are `None`:
//!
//! | what | from |
//! |---|---|
//! | CPU, memory, bytes read and written | the crate `sysinfo` (on Linux `/proc`) |
//! | NVIDIA's GPUs | NVML ([`nvidia`]) |
//! | AMD's GPUs | ROCm SMI ([`amd`]) |
//! | limits of memory | Linux control groups, `ulimit`, SLURM's variables ([`Allowance`]) |
//! | power of CPUs | `/sys/class/powercap` of Linux (RAPL), where the process may read it |
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod allowance;
pub mod amd;
mod awake;
mod gpu;
mod limits;
pub mod nvidia;
mod packages;
mod probe;
mod process;
mod rates;
mod sampler;
mod slot;

pub use allowance::{Allowance, check_free, memory_limits, readable};
pub use awake::Awake;
pub use gpu::{Gpu, GpuAbout, GpuReading, Vendor};
pub use limits::{Limit, open_files};
pub use packages::Packages;
pub use probe::{About, Machine, Probe, Reading};
pub use process::{ProcessReading, peak_resident, resident};
pub use rates::{Rates, Sample};
pub use sampler::Sampler;
pub use slot::Slot;

//! Records the use of the GPU during the run: [`GpuMonitor`].

use derive_setters::Setters;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hearth_engine::{Context, Event, Handler, HandlerError, Level, OnError, Ranks, When};
use hearth_machine::{Gpu, GpuReading, nvidia};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hearth_registry::Fault;

/// Options of [`GpuMonitor`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct GpuMonitorOptions {
    /// The CSV file.
    #[setters(into)]
    pub file: PathBuf,
    /// Seconds between two rows.
    pub every_seconds: f64,
    /// The driver's index of the GPU.
    pub device: u32,
}

impl Default for GpuMonitorOptions {
    fn default() -> Self {
        Self { file: "gpu.csv".into(), every_seconds: 1.0, device: 0 }
    }
}

/// One reading of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuSample {
    /// Percentage of the time in which a kernel ran.
    pub utilisation: u32,
    /// Used memory in bytes.
    pub used: u64,
    /// Total memory in bytes.
    pub total: u64,
}

/// Reads a GPU's state. The monitor's thread owns it.
pub type GpuProbe = Box<dyn FnMut() -> Result<GpuSample, String> + Send>;

/// The thread that writes, and the flag that ends it.
struct Recorder {
    stop: Sender<()>,
    thread: JoinHandle<Result<(), String>>,
}

/// The columns of the file.
const HEADER: &str = "time,gpu_utilisation_percent,memory_used_bytes,memory_total_bytes,memory_used_ratio\n";

/// Writes a row about one GPU every second, in a separate thread, from `Started` to the end of the
/// run. Time is in seconds since 1970. Without an NVIDIA driver it logs one line and does nothing.
/// and does nothing.
///
/// ```
/// # use hearth_handlers::{GpuMonitor, GpuMonitorOptions, GpuProbe, GpuSample};
/// # use hearth_plugin::testkit::Rehearsal;
/// # let folder = tempfile::tempdir()?;
/// let sample = GpuSample { utilisation: 90, used: 1, total: 2 };
/// let probe = move || Ok(Box::new(move || Ok(sample)) as GpuProbe);
/// let monitor = GpuMonitor::with_probe(GpuMonitorOptions::default(), folder.path(), probe)?;
/// Rehearsal::new(monitor).epochs(1, 1)?;
/// assert!(std::fs::read_to_string(folder.path().join("gpu.csv"))?.contains(",90,1,2,0.5"));
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
pub struct GpuMonitor {
    path: PathBuf,
    every: Duration,
    connect: Box<dyn FnMut() -> Result<GpuProbe, String> + Send>,
    interrupted: bool,
    running: Option<Recorder>,
}

impl fmt::Debug for GpuMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuMonitor").field("path", &self.path).field("every", &self.every).finish_non_exhaustive()
    }
}

impl GpuMonitor {
    /// A monitor with these options, its file in the run's folder.
    ///
    /// # Errors
    /// If the time between two rows is less than 10 ms or more than a day.
    pub fn new(options: GpuMonitorOptions, run: &Path) -> Result<Self, Fault> {
        let device = options.device;
        Self::with_probe(options, run, move || nvml_probe(device))
    }

    /// A monitor with a custom probe (for another vendor's GPU); `connect` is called when a run
    /// starts.
    ///
    /// # Errors
    /// As [`GpuMonitor::new`].
    pub fn with_probe(
        options: GpuMonitorOptions,
        run: &Path,
        connect: impl FnMut() -> Result<GpuProbe, String> + Send + 'static,
    ) -> Result<Self, Fault> {
        let GpuMonitorOptions { file, every_seconds, .. } = options;
        let every = crate::period::of(every_seconds)?;
        Ok(Self { path: run.join(file), every, connect: Box::new(connect), interrupted: false, running: None })
    }

    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.interrupted = false;
        if self.running.is_some() {
            return Ok(());
        }
        let mut probe = match (self.connect)() {
            Ok(probe) => probe,
            Err(why) => {
                cx.host.log(Level::Info, &format!("gpu_monitor: nothing is recorded: {why}"));
                return Ok(());
            }
        };
        let mut file = open(&self.path).map_err(|error| HandlerError::new(fault(&self.path, &error)))?;
        let (path, every) = (self.path.clone(), self.every);
        let (stop, stopped) = channel();
        let work = move || {
            loop {
                // One write per row, so that a reader never sees half a row.
                let row = row(probe()?);
                file.write_all(row.as_bytes()).map_err(|error| fault(&path, &error))?;
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return Ok(());
                }
            }
        };
        let thread = std::thread::Builder::new().name("gpu_monitor".into()).spawn(work)?;
        self.running = Some(Recorder { stop, thread });
        Ok(())
    }

    fn stop(&mut self) -> Result<(), HandlerError> {
        let Some(Recorder { stop, thread }) = self.running.take() else { return Ok(()) };
        // The thread may have ended after an error.
        let _ = stop.send(());
        match thread.join() {
            Ok(result) => result.map_err(HandlerError::new),
            Err(_) => Err(HandlerError::new("the monitor's thread panicked")),
        }
    }
}

fn row(sample: GpuSample) -> String {
    let GpuSample { utilisation, used, total } = sample;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let ratio = used as f64 / total.max(1) as f64;
    format!("{time:.3},{utilisation},{used},{total},{ratio:.4}\n")
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = hearth_files::append(path)?;
    if file.metadata()?.len() == 0 {
        file.write_all(HEADER.as_bytes())?;
    }
    Ok(file)
}

fn fault(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be written: {error}", path.display())
}

/// A probe of NVIDIA's driver.
fn nvml_probe(device: u32) -> Result<GpuProbe, String> {
    let mut gpu = nvidia::gpu(device)?;
    let total = gpu.about().memory;
    Ok(Box::new(move || {
        let GpuReading { utilisation, memory, .. } = gpu.read()?;
        match (utilisation, memory, total) {
            (Some(percent), Some(used), Some(total)) => Ok(GpuSample { utilisation: percent as u32, used, total }),
            _ => Err(format!("GPU {device} cannot be read: it does not report its utilisation and memory")),
        }
    }))
}

impl Handler for GpuMonitor {
    fn name(&self) -> &str {
        "gpu_monitor"
    }

    fn subscriptions(&self) -> Vec<When> {
        let ends = Event::Completed | Event::Interrupt | Event::ExceptionRaised;
        vec![Event::Started | Event::EpochStarted | Event::EpochCompleted | ends]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match event {
            Event::Started => self.start(cx),
            // A run that continues after an interrupt does not fire `Started`; the monitor restarts
            // with the next epoch.
            Event::EpochStarted if self.interrupted => self.start(cx),
            Event::EpochStarted => Ok(()),
            Event::Interrupt => {
                self.interrupted = true;
                self.stop()
            }
            // Errors of the thread are reported here, not only at the end of a long run.
            Event::EpochCompleted if self.running.as_ref().is_some_and(|recorder| recorder.thread.is_finished()) => {
                self.stop()
            }
            Event::EpochCompleted => Ok(()),
            _ => self.stop(),
        }
    }

    fn on_error(&self) -> OnError {
        OnError::Disable
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }
}

impl Drop for GpuMonitor {
    fn drop(&mut self) {
        // The run is over: errors cannot be reported.
        let _ = self.stop();
    }
}

handler_entry!(GpuMonitorOptions => "GpuMonitor", files: [file], paper: "", about: "Writes a row about one NVIDIA GPU every second.", example: "every_seconds = 1.0", GpuMonitor::new);

//! Records the load of a run on its machine: [`MachineMonitor`].

mod columns;
mod phases;
mod picture;
mod record;
mod report;
mod sums;
mod table;
mod track;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use derive_setters::Setters;
use hearth_engine::{Context, Event, Handler, HandlerError, Level, OnError, Ranks, State, When};
use hearth_machine::{About, Machine, Probe, Sample, Sampler};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use columns::Row;
use phases::Phase;
use record::Record;
use table::Table;

/// Options of [`MachineMonitor`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct MachineMonitorOptions {
    /// The CSV file; the summary (`.json`) and the picture (`.png`) are written next to it.
    #[setters(into)]
    pub file: PathBuf,
    /// Seconds between two rows.
    pub every_seconds: f64,
    /// Whether to draw the picture.
    pub picture: bool,
}

impl Default for MachineMonitorOptions {
    fn default() -> Self {
        Self { file: "machine.csv".into(), every_seconds: 1.0, picture: true }
    }
}

/// The largest age of the summary and the picture during a run, checked at the end of an epoch.
const STALE: Duration = Duration::from_secs(300);

/// Samples the CPU time, memory and disk use of the process, the free memory and the power of the
/// machine, and every GPU, in a separate thread, from `Started` to the end of the run. Each sample
/// is a row of `machine.csv`. `machine.json` has means, peaks and energy, also by epoch and by
/// phase of the run; `machine.png` shows the curves above the phases.
///
/// In a run on several ranks, the first process samples its own machine. A resumed run continues
/// the same files: rows are added, and the time continues. Add it after the handlers that validate:
/// their work at the end of an epoch then counts as the phase `validation`.
///
/// ```
/// # use hearth_handlers::{MachineMonitor, MachineMonitorOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// # let folder = tempfile::tempdir()?;
/// let options = MachineMonitorOptions::default().every_seconds(0.5);
/// Rehearsal::new(MachineMonitor::new(options, folder.path())?).epochs(2, 3)?; let table =
/// std::fs::read_to_string(folder.path().join("machine.csv"))?;
/// assert!(table.starts_with("part,time_s,unix_time_s,epoch,phase,process_cpu_percent_of_core,"));
/// assert!(folder.path().join("machine.json").exists() &&
/// folder.path().join("machine.png").exists());
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
pub struct MachineMonitor {
    options: MachineMonitorOptions,
    path: PathBuf,
    every: Duration,
    connect: Box<dyn FnMut() -> Box<dyn Probe> + Send>,
    interrupted: bool,
    /// Whether it reported that there is no GPU.
    said: bool,
    running: Option<Running>,
}

/// The state during a run.
struct Running {
    sampler: Sampler<Table>,
    shared: Arc<Mutex<Shared>>,
    clock: Clock,
    about: About,
    written: Instant,
}

/// The state that the sampling thread and the handler share.
struct Shared {
    record: Record,
    /// Faults that the thread reports.
    faults: Vec<String>,
}

/// Converts an instant to seconds since the run's first row.
#[derive(Clone, Copy)]
struct Clock {
    start: Instant,
    /// The duration of earlier processes.
    before: f64,
}

impl Clock {
    fn at(self, instant: Instant) -> f64 {
        self.before + instant.saturating_duration_since(self.start).as_secs_f64()
    }
}

impl fmt::Debug for MachineMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineMonitor").field("path", &self.path).field("every", &self.every).finish_non_exhaustive()
    }
}

impl MachineMonitor {
    /// A monitor with these options, its files in the run's folder.
    ///
    /// # Errors
    /// If the time between two rows is less than 10 ms or more than a day, or the file's name does
    /// not end in `.csv`.
    pub fn new(options: MachineMonitorOptions, run: &Path) -> Result<Self, Fault> {
        Self::with_probe(options, run, Machine::open)
    }

    /// A monitor with a custom probe; `connect` is called when a run starts.
    ///
    /// # Errors
    /// As [`MachineMonitor::new`].
    pub fn with_probe<P: Probe + 'static>(
        options: MachineMonitorOptions,
        run: &Path,
        mut connect: impl FnMut() -> P + Send + 'static,
    ) -> Result<Self, Fault> {
        let every = crate::period::of(options.every_seconds)?;
        if options.file.extension().is_none_or(|extension| extension != "csv") {
            let what = format!("`file` is {:?}; give a name that ends in .csv", options.file);
            return Err(Fault::at("file", what));
        }
        let path = run.join(&options.file);
        let connect = Box::new(move || Box::new(connect()) as Box<dyn Probe>);
        Ok(Self { options, path, every, connect, interrupted: false, said: false, running: None })
    }

    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.interrupted = false;
        if self.running.is_some() {
            return Ok(());
        }
        let probe = (self.connect)();
        let about = probe.about();
        if about.gpus.is_empty() && !std::mem::replace(&mut self.said, true) {
            let why = about.without.join("; ");
            let why = if why.is_empty() { "there is none" } else { &why };
            cx.host.log(Level::Info, &format!("machine_monitor: no GPU is recorded: {why}"));
        }
        let (table, rows) = Table::open(&self.path, &columns::of(&about)).map_err(HandlerError::new)?;
        let mut record = Record::new(table.names.clone(), self.options.every_seconds);
        rows.into_iter().for_each(|row| record.earlier(row));
        record.end();
        let part = record.last.as_ref().map_or(1, |row| row.part + 1);
        let before = record.last.as_ref().map_or(0.0, |row| row.at + self.options.every_seconds);
        let clock = Clock { start: Instant::now(), before };
        record.phases.enter(before, cx.state.epoch, Phase::Start);
        let shared = Arc::new(Mutex::new(Shared { record, faults: Vec::new() }));
        let (cores, theirs) = (about.cores, shared.clone());
        let each = move |table: &mut Table, sample: Sample| {
            let at = clock.at(sample.at);
            let (epoch, phase) = lock(&theirs).record.phases.at(at);
            let values = table.arrange(&columns::values(&sample, cores));
            let row = Row { part, at, unix: unix_time(), epoch, phase, values };
            // Without the lock, so that a slow disk does not stop the training.
            table.write(&row)?;
            let mut shared = lock(&theirs);
            shared.record.row(row);
            shared.faults.extend(sample.faults);
            Ok(())
        };
        let sampler = Sampler::with(probe, self.every, table, each)?;
        self.running = Some(Running { sampler, shared, clock, about, written: Instant::now() });
        Ok(())
    }

    /// Enters a phase of the run.
    fn enter(&self, state: &State, phase: Phase) {
        if let Some(Running { shared, clock, .. }) = &self.running {
            let mut shared = lock(shared);
            // The time is taken under the lock, so that the record has no later row yet.
            shared.record.phases.enter(clock.at(Instant::now()), state.epoch, phase);
        }
    }

    /// Reports faults of the thread, and writes outdated files.
    fn epoch_completed(&mut self, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.enter(cx.state, Phase::Checkpoint);
        let Some(running) = &mut self.running else { return Ok(()) };
        // Errors of the thread are reported here, not only at the end of a long run.
        if running.sampler.is_finished() {
            return self.stop(Some(cx));
        }
        lock(&running.shared).report_faults(cx);
        if running.written.elapsed() < STALE {
            return Ok(());
        }
        running.written = Instant::now();
        let (shared, about) = (running.shared.clone(), running.about.clone());
        self.write(&lock(&shared).record, &about)
    }

    fn stop(&mut self, cx: Option<&mut Context<'_>>) -> Result<(), HandlerError> {
        let Some(Running { sampler, shared, about, .. }) = self.running.take() else { return Ok(()) };
        let result = sampler.stop();
        let shared = &mut *lock(&shared);
        // The last sample may have a fault.
        if let Some(cx) = cx {
            shared.report_faults(cx);
        }
        // Closes the file with the table, before others read it.
        result.map(drop).map_err(HandlerError::new)?;
        shared.record.end();
        self.write(&shared.record, &about)
    }

    /// Writes the summary and the picture.
    fn write(&self, record: &Record, about: &About) -> Result<(), HandlerError> {
        let report = report::report(record, about, self.options.every_seconds);
        replace(&self.path.with_extension("json"), format!("{report:#}\n").as_bytes())?;
        if !self.options.picture {
            return Ok(());
        }
        let picture = picture::picture(record, about).png();
        let picture = picture.map_err(|error| HandlerError::new(format!("the machine cannot be drawn: {error}")))?;
        replace(&self.path.with_extension("png"), &picture)
    }
}

impl Shared {
    fn report_faults(&mut self, cx: &mut Context<'_>) {
        for fault in self.faults.drain(..) {
            cx.host.log(Level::Warn, &format!("machine_monitor: {fault}; its columns are empty from now on"));
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn replace(path: &Path, content: &[u8]) -> Result<(), HandlerError> {
    let fault = |error| HandlerError::new(format!("{} cannot be written: {error}", path.display()));
    hearth_files::replace(path, content).map_err(fault)
}

impl Handler for MachineMonitor {
    fn name(&self) -> &str {
        "machine_monitor"
    }

    fn subscriptions(&self) -> Vec<When> {
        let steps = Event::GetBatchStarted | Event::IterationCompleted | Event::TerminateSingleEpoch;
        let ends = Event::Completed | Event::Interrupt | Event::ExceptionRaised;
        vec![Event::Started | Event::EpochStarted | Event::EpochCompleted | steps | ends]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match event {
            Event::Started => self.start(cx),
            Event::EpochStarted | Event::GetBatchStarted => {
                // A run that continues after an interrupt does not fire `Started`.
                if self.interrupted {
                    self.start(cx)?;
                }
                self.enter(cx.state, Phase::Training);
                Ok(())
            }
            // Next comes the end of the epoch, or later handlers and a checkpoint.
            Event::IterationCompleted => {
                let State { epoch_iteration, epoch_length, .. } = cx.state;
                let last = epoch_length.is_some_and(|length| *epoch_iteration >= length);
                self.enter(cx.state, if last { Phase::Validation } else { Phase::Checkpoint });
                Ok(())
            }
            Event::TerminateSingleEpoch => {
                self.enter(cx.state, Phase::Validation);
                Ok(())
            }
            Event::EpochCompleted => self.epoch_completed(cx),
            Event::Interrupt => {
                self.interrupted = true;
                self.stop(Some(cx))
            }
            _ => self.stop(Some(cx)),
        }
    }

    fn on_error(&self) -> OnError {
        OnError::Disable
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }
}

impl Drop for MachineMonitor {
    fn drop(&mut self) {
        // The run is over: errors cannot be reported.
        let _ = self.stop(None);
    }
}

handler_entry!(MachineMonitorOptions => "MachineMonitor", files: [file], paper: "", about: "Samples CPU, memory, disk, GPUs and power during the run: a table, a summary with the energy of each epoch, a picture.", example: "every_seconds = 1.0", MachineMonitor::new);

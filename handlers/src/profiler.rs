//! Profiles some steps of a run: [`Profiler`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use derive_setters::Setters;
use hearth_engine::{Context, Event, Handler, HandlerError, Level, OnError, When};
use hearth_machine::{GpuReading, Sample, Sampler};
use hearth_profile::chrome::Counter;
use hearth_profile::{Action, Profile, Recording, Roof, Schedule};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of a profiler's schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Iterations of the training.
    #[default]
    Iterations,
    /// Epochs, with their validations.
    Epochs,
}

/// Options of [`Profiler`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct ProfilerOptions {
    /// The output folder.
    #[setters(into)]
    pub folder: PathBuf,
    /// The unit of the next four numbers.
    pub unit: Unit,
    /// Skipped steps at the beginning of a cycle.
    pub wait: u64,
    /// Further skipped steps, because first steps are slower.
    pub warmup: u64,
    /// Recorded steps.
    pub active: u64,
    /// Cycles; 0: as many as fit in the run. From the second one on, each has a folder `cycle-N`.
    pub repeat: u64,
    /// Whether every rank records, each into its own folder, instead of the first one alone.
    pub all_ranks: bool,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        let Schedule { wait, warmup, active, repeat } = Schedule::default();
        let (folder, unit) = ("profile".into(), Unit::default());
        Self { folder, unit, wait, warmup, active, repeat, all_ranks: false }
    }
}

/// The interval of machine samples: a sample takes 0.1 ms.
const EVERY: Duration = Duration::from_millis(50);

/// The machine's samples as curves of a trace.
fn curves(began: Instant, samples: &[Sample]) -> Vec<Counter> {
    let at = |sample: &Sample| sample.at.saturating_duration_since(began).as_nanos() as u64;
    let curve = |name: String, of: &dyn Fn(&Sample) -> Option<f64>| {
        let samples: Vec<(u64, f64)> = samples.iter().filter_map(|sample| Some((at(sample), of(sample)?))).collect();
        (!samples.is_empty()).then_some(Counter { name, samples })
    };
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let mut found = vec![
        curve("processor (% of a core)".to_owned(), &|sample| sample.cpu_percent),
        curve("process in memory (MiB)".to_owned(), &|sample| sample.memory.map(mib)),
        curve("read from disk (MiB/s)".to_owned(), &|sample| Some(sample.read_per_second? / 1_048_576.0)),
    ];
    for index in 0..samples.iter().map(|sample| sample.gpus.len()).max().unwrap_or(0) {
        let of = |what: fn(&GpuReading) -> Option<f64>| {
            move |sample: &Sample| sample.gpus.get(index)?.as_ref().and_then(what)
        };
        found.push(curve(format!("GPU {index} (%)"), &of(|gpu| gpu.utilisation)));
        found.push(curve(format!("GPU {index} (W)"), &of(|gpu| gpu.power)));
        found.push(curve(format!("GPU {index} memory (MiB)"), &of(|gpu| gpu.memory.map(|b| b as f64 / 1_048_576.0))));
    }
    found.into_iter().flatten().collect()
}

/// The profiles of a run so far.
pub type Profiles = Arc<Mutex<Vec<Profile>>>;

/// Records the ranges of some steps, with the schedule of `torch.profiler`
/// (`wait, warmup, active, repeat`). For each cycle it writes a trace for Perfetto,
/// `trace.json.gz`, and tables of times, kernels and memory, `summary.json` and `summary.txt`.
/// Other steps cost one branch per range.
///
/// ```
/// # use hearth_handlers::{Profiler, ProfilerOptions};
/// let profiler = Profiler::new(ProfilerOptions::default().wait(1).warmup(1).active(3))?;
/// assert_eq!(profiler.all_steps(), Some(5));
/// assert!(Profiler::new(ProfilerOptions::default().active(0)).is_err());
/// # Ok::<(), hearth_registry::Fault>(())
/// ```
///
/// The program's `tracing` subscriber must have `hearth_profile::layer()`; `hearth` has it.
#[derive(Debug)]
pub struct Profiler {
    options: ProfilerOptions,
    schedule: Schedule,
    roof: Option<Roof>,
    recording: Option<Recording>,
    /// Number of completed steps of this run.
    steps: u64,
    /// Whether the cycle's last step is complete, while some of its ranges have not ended.
    ends: bool,
    cycles: u64,
    /// The time at which the first batch was requested, and how long it took.
    asked: Option<Instant>,
    first_load: Option<f64>,
    profiles: Profiles,
    ends_run: bool,
    /// The sampler of the machine while steps are recorded, and its start.
    watching: Option<(Instant, Sampler<Vec<Sample>>)>,
}

impl Profiler {
    /// A profiler with these options.
    ///
    /// # Errors
    /// If no step would be recorded.
    pub fn new(options: ProfilerOptions) -> Result<Self, Fault> {
        let ProfilerOptions { wait, warmup, active, repeat, .. } = options;
        let schedule = Schedule { wait, warmup, active, repeat };
        schedule.check().map_err(|error| Fault::at("active", error.to_string()))?;
        Ok(Self {
            options,
            schedule,
            roof: None,
            recording: None,
            steps: 0,
            ends: false,
            cycles: 0,
            asked: None,
            first_load: None,
            profiles: Profiles::default(),
            ends_run: false,
            watching: None,
        })
    }

    /// Compares kernels with the machine's limits.
    #[must_use]
    pub fn with_roof(mut self, roof: Roof) -> Self {
        self.roof = Some(roof);
        self
    }

    /// Ends the run when all cycles are recorded.
    #[must_use]
    pub fn ends_run(mut self) -> Self {
        self.ends_run = true;
        self
    }

    /// The profiles recorded so far, shared with the run.
    pub fn profiles(&self) -> Profiles {
        Arc::clone(&self.profiles)
    }

    /// Number of steps until all cycles are recorded.
    pub fn all_steps(&self) -> Option<u64> {
        self.schedule.steps()
    }

    /// Called before a step; starts recording if the step is recorded.
    fn prepare(&mut self) -> Result<(), HandlerError> {
        match self.schedule.action(self.steps) {
            Action::None => {}
            action => {
                if self.recording.is_none() {
                    self.recording = Some(Recording::prepare().map_err(|busy| HandlerError::new(busy.to_string()))?);
                }
                if let Some(recording) = &self.recording {
                    recording.run(action != Action::Warmup);
                }
                if action != Action::Warmup && self.watching.is_none() {
                    // Without the thread, the trace has only ranges.
                    self.watching = Sampler::start(EVERY).ok().map(|sampler| (Instant::now(), sampler));
                }
            }
        }
        Ok(())
    }

    /// Called after a step, whose last ranges may not have ended.
    fn complete(&mut self) {
        self.ends |= self.schedule.action(self.steps) == Action::RecordAndSave;
        self.steps += 1;
    }

    /// Writes a complete cycle.
    fn save(&mut self, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if !std::mem::take(&mut self.ends) {
            return Ok(());
        }
        let Some(recording) = self.recording.take() else { return Ok(()) };
        let mut profile = Profile::of(recording.stop(), self.first_load, self.roof);
        if let Some((began, sampler)) = self.watching.take() {
            profile.curves = curves(began, &sampler.stop().unwrap_or_default());
        }
        self.cycles += 1;
        let mut folder = self.options.folder.clone();
        if self.options.all_ranks && cx.state.world_size > 1 {
            folder.push(format!("rank-{}", cx.state.rank));
        }
        if self.cycles > 1 {
            folder.push(format!("cycle-{}", self.cycles));
        }
        let process = format!("rank {}", cx.state.rank);
        let written = profile.write(&folder, (cx.state.rank, &process));
        written.map_err(|error| HandlerError::new(format!("cannot write into {}: {error}", folder.display())))?;
        cx.host.log(Level::Info, &format!("a profile is in {}", folder.display()));
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner).push(profile);
        if self.ends_run && self.schedule.steps().is_some_and(|all| self.steps >= all) {
            cx.host.terminate("the profile is complete");
        }
        Ok(())
    }
}

impl Handler for Profiler {
    fn name(&self) -> &str {
        "profiler"
    }

    fn subscriptions(&self) -> Vec<When> {
        let mut when = Event::Started | Event::EpochStarted | Event::EpochCompleted | Event::Completed;
        for event in [
            Event::GetBatchStarted,
            Event::GetBatchCompleted,
            Event::IterationCompleted,
            Event::Terminate,
            Event::Interrupt,
        ] {
            when = when | event;
        }
        vec![when]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let of_iterations = self.options.unit == Unit::Iterations;
        match event {
            Event::Started if of_iterations => self.prepare()?,
            Event::EpochStarted if !of_iterations => {
                self.save(cx)?;
                self.prepare()?;
            }
            Event::GetBatchStarted => {
                // The range of the previous iteration has ended only now.
                self.save(cx)?;
                if self.first_load.is_none() {
                    self.asked.get_or_insert_with(Instant::now);
                }
            }
            Event::GetBatchCompleted => {
                if let Some(asked) = self.asked.take() {
                    self.first_load = Some(asked.elapsed().as_secs_f64());
                }
            }
            Event::IterationCompleted if of_iterations => {
                self.complete();
                if !self.ends {
                    self.prepare()?;
                }
            }
            Event::EpochCompleted if of_iterations => self.save(cx)?,
            Event::EpochCompleted => self.complete(),
            Event::Completed | Event::Terminate | Event::Interrupt => {
                // If the run is shorter than its schedule, keep what was recorded.
                self.ends |= self.recording.as_ref().is_some_and(Recording::is_running);
                self.save(cx)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn on_error(&self) -> OnError {
        OnError::Disable
    }

    fn ranks(&self) -> hearth_engine::Ranks {
        if self.options.all_ranks { hearth_engine::Ranks::All } else { hearth_engine::Ranks::First }
    }
}

handler_entry!(ProfilerOptions => "Profiler", files: [folder], paper: "", about: "Records where the time of some steps goes, and writes a trace for Perfetto and tables of times, kernels and memory.", example: "active = 5", |mut options: ProfilerOptions, run| {
    options.folder = run.join(&options.folder);
    Profiler::new(options)
});

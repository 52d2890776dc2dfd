//! The loop of a run, one step at a time, so that it can be left and resumed between any two
//! events.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tracing::span::EnteredSpan;

use crate::dispatch::Requests;
use crate::engine::Engine;
use crate::event::Event;
use crate::run_error::{RunEnd, RunError, RunErrorKind};
use crate::state::{Pass, State, Termination};
use crate::workflow::{Ask, BoxError, Workflow};

/// The next step of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Start,
    NextEpoch,
    OpenPass,
    AskForBatch,
    Fetch,
    ReopenPass,
    StartIteration,
    Iterate,
    EndEpoch,
}

/// The part of a run's position that only this process needs.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The step at which an interrupted run resumes.
    suspended: Option<Step>,
    /// Whether the run is between `IterationStarted` and the end of the iteration.
    pub in_iteration: bool,
    /// Whether the run is inside `Workflow::iterate`.
    pub iterating: bool,
    /// Whether the workflow has an open pass over the data.
    pass_live: bool,
    /// Whether the pass was just restarted because the last one returned no batch.
    dry: bool,
    /// Whether the epoch's length came from the data rather than from the user.
    length_from_data: bool,
    /// Whether the state was restored from a snapshot and no run has ended since.
    restored: bool,
    run_clock: Clock,
    epoch_clock: Clock,
}

/// A stopwatch.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    before: f64,
    since: Option<Instant>,
}

impl Clock {
    fn started() -> Self {
        Self { before: 0.0, since: Some(Instant::now()) }
    }

    fn pause(&mut self) {
        *self = Self { before: self.seconds(), since: None };
    }

    fn go_on(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    fn seconds(&self) -> f64 {
        self.before + self.since.map_or(0.0, |since| since.elapsed().as_secs_f64())
    }
}

impl Progress {
    /// Resets the progress; the next run starts from the state.
    fn reset(&mut self) {
        *self = Self { length_from_data: self.length_from_data, ..Self::default() };
    }

    /// Marks the state as replaced, possibly in the middle of `Started`: the clocks keep running.
    pub fn restore(&mut self) {
        let Self { run_clock, epoch_clock, .. } = *self;
        self.reset();
        *self = Self { restored: true, run_clock, epoch_clock, ..std::mem::take(self) };
    }
}

/// The tracing spans of the current epoch and iteration, dropped from the inside out.
#[derive(Default)]
struct Spans {
    iteration: Option<EnteredSpan>,
    epoch: Option<EnteredSpan>,
}

impl Spans {
    fn follow(&mut self, step: Step, state: &State) {
        match step {
            Step::Start | Step::NextEpoch => *self = Self::default(),
            Step::EndEpoch => self.iteration = None,
            _ => {}
        }
        let opens = step == Step::NextEpoch;
        if self.epoch.is_none() && step != Step::Start && !(opens && state.epoch >= state.max_epochs) {
            let epoch = state.epoch + u64::from(opens);
            self.epoch = Some(tracing::info_span!("epoch", epoch).entered());
        }
        if step == Step::AskForBatch {
            self.iteration = None;
            self.iteration = Some(tracing::debug_span!("iteration", iteration = state.iteration + 1).entered());
        }
    }
}

impl Engine {
    /// Runs until `max_epochs`, or resumes from an interrupt or a restored snapshot.
    ///
    /// - An interrupted run resumes with the next step; nothing is fired twice.
    /// - A state restored from a snapshot fires `Started` (handlers open their files there), but
    ///   not `EpochStarted` for an epoch in progress: what handlers and workflow recorded at its
    ///   start is in their own saved state.
    /// - A terminated run continues with the next epoch, on a new pass over the data. A *restored*
    ///   terminated run has ended: only `Started` and `Completed` are fired, and the result is the
    ///   same [`RunEnd::Terminated`]. It continues if `max_epochs` is larger than it was, if
    ///   `state_mut().terminated` is set to `None`, or if the handler that asked for the end is left
    ///   out: it is one of [`Engine::restore_without`], or a run of one process does not have it.
    /// - A failed run resumes like a restored one, with the iteration that failed.
    /// - A finished run continues when `max_epochs` is larger now, and starts from epoch 0 when it
    ///   is the same. A *restored* finished run has nothing left to do in that case: only `Started`
    ///   and `Completed` are fired.
    ///
    /// An epoch length of 0 logs a warning, and nothing is run.
    ///
    /// # Errors
    /// Any error of the workflow or of a handler with [`OnError::Stop`](crate::OnError::Stop),
    /// after `ExceptionRaised` was fired once. A `max_epochs` of 0 or below the number of epochs
    /// already run, and an event that no handler fires, are errors without any event.
    pub fn run(&mut self, workflow: &mut dyn Workflow, max_epochs: u64) -> Result<RunEnd, RunError> {
        if max_epochs == 0 || max_epochs < self.state.epoch {
            return Err(self.error(RunErrorKind::MaxEpochs { asked: max_epochs }));
        }
        if self.progress.suspended.is_none() {
            if self.state.finished && !self.progress.restored && max_epochs <= self.state.epoch {
                self.rewind(0);
            }
            self.requests = Requests::default();
            if !self.progress.restored {
                self.state.terminated = None;
            }
        }
        self.state.max_epochs = max_epochs;
        self.go(workflow)
    }

    /// Runs exactly one epoch with the number `epoch` (for an evaluator). Counters start from zero;
    /// `Started` sees `epoch - 1`. If this epoch was interrupted, it is resumed.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn run_epoch(&mut self, workflow: &mut dyn Workflow, epoch: u64) -> Result<RunEnd, RunError> {
        let epoch = epoch.max(1);
        if self.progress.suspended.is_none() || self.state.max_epochs != epoch {
            let best = (self.state.best_metric, self.state.best_epoch);
            self.rewind(epoch - 1);
            // The data may have changed since the last run.
            self.state.epoch_length = self.state.epoch_length.filter(|_| !self.progress.length_from_data);
            (self.state.best_metric, self.state.best_epoch) = best;
            self.requests = Requests::default();
        }
        self.state.max_epochs = epoch;
        self.go(workflow)
    }

    /// Rewinds to the start of a run whose next epoch is `epoch + 1`.
    fn rewind(&mut self, epoch: u64) {
        let old = std::mem::take(&mut self.state);
        self.state = State {
            epoch,
            epoch_done: true,
            pass: Pass { number: epoch, ..Pass::default() },
            epoch_length: old.epoch_length,
            engine: old.engine,
            key_metric: old.key_metric,
            better: old.better,
            rank: old.rank,
            world_size: old.world_size,
            seed: old.seed,
            ..State::default()
        };
        self.progress.reset();
    }

    /// Runs; turns an error into `ExceptionRaised` and a state that can be run again.
    fn go(&mut self, workflow: &mut dyn Workflow) -> Result<RunEnd, RunError> {
        self.check_events()?;
        self.state.exception = None;
        if self.progress.length_from_data && self.state.epoch_length == Some(0) {
            self.state.epoch_length = None;
        }
        if self.state.epoch_length.is_none()
            && let Some(length) = workflow.epoch_length()
        {
            self.state.epoch_length = Some(length);
            self.progress.length_from_data = true;
        }
        if self.state.epoch_length == Some(0) {
            tracing::warn!("{}: the epoch length is 0, nothing is run", self.state.engine);
            return Ok(RunEnd::Completed);
        }
        // Checkpoints that were begun are on disk when a run ends, whether or not it fails.
        let result = self.walk(workflow).and_then(|end| self.settle(workflow, 0, true, false).map(|()| end));
        match &result {
            Ok(RunEnd::Interrupted(_)) => {
                self.progress.run_clock.pause();
                self.progress.epoch_clock.pause();
            }
            Ok(_) => {
                self.state.pass.open = false;
                self.progress.reset();
            }
            Err(error) => {
                let text = error.to_string();
                // The caller prints the error; do not print it twice.
                tracing::debug!("{text}");
                self.state.exception = Some(text);
                self.progress.iterating = false;
                if let Err(error) = self.ring_all(workflow, true) {
                    tracing::error!("while reporting an error: {error}");
                }
                // Drop earlier requests: a checkpoint would store a broken state.
                self.requests = Requests::default();
                self.fire_exception(workflow);
                if let Err(error) = self.settle(workflow, 0, true, true) {
                    tracing::error!("while reporting an error: {error}");
                }
                // The iteration that failed is not counted: a further run repeats it.
                self.state.iteration -= u64::from(self.progress.in_iteration);
                self.progress.reset();
            }
        }
        result
    }

    fn walk(&mut self, workflow: &mut dyn Workflow) -> Result<RunEnd, RunError> {
        let _run = tracing::info_span!("run", engine = self.state.engine.as_str()).entered();
        let mut step = match self.progress.suspended.take() {
            Some(step) => step,
            None => {
                self.progress.run_clock = Clock::started();
                self.progress.epoch_clock = Clock::started();
                Step::Start
            }
        };
        self.progress.run_clock.go_on();
        self.progress.epoch_clock.go_on();
        let mut spans = Spans::default();
        loop {
            spans.follow(step, &self.state);
            let (event, next) = self.take(step, workflow)?;
            let Some(mut next) = next else {
                let ended = self.state.terminated.as_ref().map(|end| end.why.clone());
                return self.complete(workflow, ended.map_or(RunEnd::Completed, RunEnd::Terminated));
            };
            if let Some(event) = event.filter(|event| self.decides_after(*event)) {
                self.agree(workflow)?;
                if let Some(Ask { by, why }) = self.requests.wants.terminate.take() {
                    tracing::info!("{by} terminates the run: {why}");
                    drop(spans);
                    self.abandon();
                    self.state.epoch_done = true;
                    self.state.terminated = Some(self.termination(by, &why));
                    self.fire(Event::Terminate, workflow)?;
                    return self.complete(workflow, RunEnd::Terminated(why));
                }
                if let Some(Ask { by, why }) = self.requests.wants.terminate_epoch.take() {
                    if matches!(event, Event::Started | Event::EpochStarted) {
                        return Err(self.error(RunErrorKind::NoEpochToTerminate { handler: by, event }));
                    }
                    tracing::info!("{by} terminates epoch {}: {why}", self.state.epoch);
                    self.fire(Event::TerminateSingleEpoch, workflow)?;
                    self.abandon();
                    next = Step::EndEpoch;
                } else if let Some(Ask { by, why }) = self.requests.wants.interrupt.take() {
                    tracing::info!("{by} interrupts the run: {why}");
                    self.progress.suspended = Some(next);
                    self.ring_all(workflow, false)?;
                    self.fire(Event::Interrupt, workflow)?;
                    self.requests.wants.interrupt = None;
                    return Ok(RunEnd::Interrupted(why));
                }
            }
            step = next;
        }
    }

    /// Whether requests are carried out after this event. With several processes, that is the case
    /// only at events where all processes are at the same place.
    fn decides_after(&self, event: Event) -> bool {
        let shared =
            matches!(event, Event::Started | Event::EpochStarted | Event::IterationCompleted | Event::EpochCompleted);
        shared || self.state.world_size < 2
    }

    /// Combines the requests of all processes into one decision.
    fn agree(&mut self, workflow: &mut dyn Workflow) -> Result<(), RunError> {
        if self.state.world_size > 1 {
            let wants = std::mem::take(&mut self.requests.wants);
            let agreed = workflow.agree(&self.state, wants);
            self.requests.wants = agreed.map_err(|source| self.workflow_error("agree with the other ranks", source))?;
        }
        Ok(())
    }

    /// Takes one step. Returns the event it fired, after which requests are checked, and the next
    /// step if there is one.
    fn take(&mut self, step: Step, workflow: &mut dyn Workflow) -> Result<(Option<Event>, Option<Step>), RunError> {
        match step {
            Step::Start => {
                self.fire(Event::Started, workflow)?;
                // A handler of `Started` may have loaded a checkpoint.
                if self.state.epoch > self.state.max_epochs {
                    return Err(self.error(RunErrorKind::MaxEpochs { asked: self.state.max_epochs }));
                }
                if self.has_ended() {
                    return Ok((None, None));
                }
                self.state.terminated = None;
                let next = match self.state.epoch_length {
                    _ if self.state.epoch == 0 || self.state.epoch_done => Step::NextEpoch,
                    Some(length) if self.state.epoch_iteration >= length => Step::EndEpoch,
                    _ => Step::OpenPass,
                };
                Ok((Some(Event::Started), Some(next)))
            }
            Step::NextEpoch => {
                if self.state.epoch >= self.state.max_epochs || self.state.epoch_length == Some(0) {
                    return Ok((None, None));
                }
                self.progress.epoch_clock = Clock::started();
                self.state.finished = false;
                self.state.epoch += 1;
                self.state.epoch_iteration = 0;
                self.state.epoch_done = false;
                let result = workflow.epoch_started(&mut self.state);
                result.map_err(|source| self.workflow_error("start the epoch", source))?;
                self.fire(Event::EpochStarted, workflow)?;
                Ok((Some(Event::EpochStarted), Some(Step::OpenPass)))
            }
            Step::OpenPass => {
                if !self.progress.pass_live {
                    let pass = self.state.pass;
                    let resumes = pass.open && pass.length != Some(pass.taken);
                    self.open_pass(workflow, resumes)?;
                }
                // The length may become known only here.
                let next = if self.state.epoch_length == Some(0) { Step::EndEpoch } else { Step::AskForBatch };
                Ok((None, Some(next)))
            }
            Step::AskForBatch => {
                self.fire(Event::GetBatchStarted, workflow)?;
                Ok((Some(Event::GetBatchStarted), Some(Step::Fetch)))
            }
            Step::Fetch => {
                let result = tracing::trace_span!("fetch").in_scope(|| workflow.fetch(&self.state));
                if result.map_err(|source| self.workflow_error("fetch a batch", source))? {
                    self.progress.dry = false;
                    self.fire(Event::GetBatchCompleted, workflow)?;
                    return Ok((Some(Event::GetBatchCompleted), Some(Step::StartIteration)));
                }
                self.state.pass.length = Some(self.state.pass.taken);
                if self.state.epoch_length.is_none() {
                    self.state.epoch_length = Some(self.state.epoch_iteration);
                    self.progress.length_from_data = true;
                    if self.state.epoch_iteration == 0 {
                        tracing::warn!("{}: the loader gave no batch, nothing is run", self.state.engine);
                    }
                    return Ok((None, Some(Step::EndEpoch)));
                }
                if self.progress.dry {
                    return Err(self.error(RunErrorKind::NoData));
                }
                self.fire(Event::DataLoaderStopIteration, workflow)?;
                Ok((Some(Event::DataLoaderStopIteration), Some(Step::ReopenPass)))
            }
            Step::ReopenPass => {
                self.open_pass(workflow, false)?;
                self.progress.dry = true;
                Ok((None, Some(Step::Fetch)))
            }
            Step::StartIteration => {
                self.state.iteration += 1;
                self.progress.in_iteration = true;
                self.fire(Event::IterationStarted, workflow)?;
                Ok((Some(Event::IterationStarted), Some(Step::Iterate)))
            }
            Step::Iterate => {
                self.progress.iterating = true;
                let result = workflow.iterate(self);
                self.progress.iterating = false;
                result.map_err(|source| self.workflow_error("do the iteration", source))?;
                self.progress.in_iteration = false;
                self.state.epoch_iteration += 1;
                self.state.pass.taken += 1;
                self.fire(Event::IterationCompleted, workflow)?;
                if self.interrupt_flag.swap(false, Ordering::AcqRel) {
                    let (by, why) = ("the interrupt flag".to_owned(), "interrupted".to_owned());
                    self.requests.wants.interrupt.get_or_insert(Ask { by, why });
                }
                let over = self.state.epoch_length.is_some_and(|length| self.state.epoch_iteration >= length);
                Ok((Some(Event::IterationCompleted), Some(if over { Step::EndEpoch } else { Step::AskForBatch })))
            }
            Step::EndEpoch => {
                self.state.epoch_done = true;
                self.note_time(Event::EpochCompleted, self.progress.epoch_clock);
                let result = workflow.epoch_completed(&mut self.state);
                result.map_err(|source| self.workflow_error("complete the epoch", source))?;
                self.fire(Event::EpochCompleted, workflow)?;
                // A completed epoch has nothing left to terminate.
                self.requests.wants.terminate_epoch = None;
                self.note_time(Event::EpochCompleted, self.progress.epoch_clock);
                Ok((Some(Event::EpochCompleted), Some(Step::NextEpoch)))
            }
        }
    }

    /// The end that a handler asks for now.
    pub(crate) fn termination(&self, by: String, why: &str) -> Termination {
        Termination { by, why: why.to_owned(), max_epochs: self.state.max_epochs }
    }

    /// Whether a restored run was ended by a handler that would end it here, too.
    fn has_ended(&self) -> bool {
        let is_here = |name: &String| self.entries.iter().any(|entry| entry.key == *name && entry.handler.is_some());
        let end = self.state.terminated.as_ref();
        // Of several processes, one alone may have the handler, and all have to decide the same.
        let several = self.state.world_size > 1;
        end.is_some_and(|end| self.state.max_epochs <= end.max_epochs && (several || is_here(&end.by)))
    }

    fn complete(&mut self, workflow: &mut dyn Workflow, end: RunEnd) -> Result<RunEnd, RunError> {
        self.state.finished = self.state.epoch >= self.state.max_epochs;
        self.note_time(Event::Completed, self.progress.run_clock);
        self.ring_all(workflow, false)?;
        self.fire(Event::Completed, workflow)?;
        self.note_time(Event::Completed, self.progress.run_clock);
        Ok(end)
    }

    /// Abandons the rest of the epoch's data.
    fn abandon(&mut self) {
        self.progress.in_iteration = false;
        self.progress.pass_live = false;
        self.state.pass.open = false;
    }

    /// Opens the next pass, or the pass that a resumed run was in.
    fn open_pass(&mut self, workflow: &mut dyn Workflow, resumes: bool) -> Result<(), RunError> {
        let before = self.state.pass;
        if !resumes {
            self.state.pass = Pass { number: before.number + 1, taken: 0, length: None, open: true };
        }
        let result = workflow.restart(&self.state, self.state.pass.taken);
        let length = result.map_err(|source| self.workflow_error("start a pass over the data", source))?;
        self.state.pass.length = length;
        self.progress.pass_live = true;
        match (self.state.epoch_length, length) {
            (None, Some(length)) => {
                self.state.epoch_length = Some(length);
                self.progress.length_from_data = true;
                if length == 0 {
                    tracing::warn!("{}: the loader has no batch, nothing is run", self.state.engine);
                }
            }
            // The data may have grown between two runs. An epoch that was a pass stays one.
            (Some(old), Some(length))
                if old != length && (self.progress.length_from_data || before.length == Some(old)) =>
            {
                tracing::warn!("{}: a pass has {length} batches now, it had {old}", self.state.engine);
                self.state.epoch_length = Some(length);
            }
            _ => {}
        }
        Ok(())
    }

    fn note_time(&mut self, event: Event, clock: Clock) {
        self.state.times.insert(event.name().into_owned(), clock.seconds());
    }

    /// An error of the workflow. One that came through `fire` is already a `RunError`.
    fn workflow_error(&self, task: &'static str, source: BoxError) -> RunError {
        match source.downcast::<RunError>() {
            Ok(error) => *error,
            Err(source) => self.error(RunErrorKind::Workflow { task, source }),
        }
    }
}

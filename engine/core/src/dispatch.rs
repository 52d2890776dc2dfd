//! Calls the handlers of one event and records what they request. Checkpoint requests are carried
//! out in `saves`; timers and events that handlers fire in `followed`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Entry, bit};
use crate::error::HostError;
use crate::event::{Counter, Event};
use crate::handler::{Context, OnError};
use crate::host::{CheckpointRequest, Combine, Host, HostTensor, LayerStatistics, LayerValues, Level, NamesOf};
use crate::run_error::{RunError, RunErrorKind};
use crate::state::{Metrics, Scalar, State};
use crate::store::{self, Attach, Attachment, Store};
use crate::workflow::{Ask, Wants, Workflow};

/// What handlers requested and the run has not done yet.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// What to do after the event, or after the next event at which all processes agree.
    pub wants: Wants,
    /// The requests, each with the index of the handler that made it.
    pub saves: Vec<(usize, CheckpointRequest)>,
    pub loads: Vec<(usize, PathBuf)>,
    /// Events that handlers fire, each with the index of the handler.
    pub fired: Vec<(usize, Event)>,
    /// Files that were attached, and the index of the last handler that did so.
    pub attached: Vec<PathBuf>,
    pub attached_by: usize,
    /// When to call a handler, and its index.
    pub timers: Vec<(Instant, usize)>,
    /// Whether the run ends, so that no timer can be set.
    pub ending: bool,
}

/// The number of calls of something, and their total time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub calls: u64,
    pub time: Duration,
}

impl Tally {
    pub fn add(&mut self, time: Duration) {
        self.calls += 1;
        self.time += time;
    }
}

/// The host a handler sees: requests about the run are recorded for the engine, everything else
/// goes to the workflow.
struct Intercept<'a> {
    workflow: &'a mut dyn Workflow,
    requests: &'a mut Requests,
    event: Event,
    index: usize,
    handler: &'a str,
    /// The events that the handler may fire.
    own_events: &'a [Event],
    info: Option<&'a Arc<str>>,
    /// At `Attached`: the files.
    attachments: &'a [PathBuf],
    /// The handler borrows the state, so metrics are recorded after it has returned.
    metrics: Vec<(String, f64)>,
    scalars: Vec<(String, f64)>,
    store: &'a mut BTreeMap<String, Store>,
    attach: Option<&'a mut Attach>,
}

impl Intercept<'_> {
    fn ask(&self, why: &str) -> Ask {
        Ask { by: self.handler.to_owned(), why: why.to_owned() }
    }
}

impl Host for Intercept<'_> {
    fn terminate(&mut self, why: &str) {
        let ask = self.ask(why);
        self.requests.wants.terminate.get_or_insert(ask);
    }

    fn terminate_epoch(&mut self, why: &str) {
        let ask = self.ask(why);
        self.requests.wants.terminate_epoch.get_or_insert(ask);
    }

    fn interrupt(&mut self, why: &str) {
        let ask = self.ask(why);
        self.requests.wants.interrupt.get_or_insert(ask);
    }

    fn set_metric(&mut self, name: &str, value: f64) {
        self.metrics.push((name.to_owned(), value));
    }

    fn names(&self, of: NamesOf) -> Vec<String> {
        match of {
            NamesOf::Attachments => self.attachments.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            _ => self.workflow.names(of),
        }
    }

    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        self.workflow.output(name)
    }

    fn cases(&self) -> Vec<String> {
        self.workflow.cases()
    }

    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        self.workflow.numbers(name)
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        self.workflow.texts(name)
    }

    fn learning_rate(&self) -> Option<f64> {
        self.workflow.learning_rate()
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        self.workflow.set_learning_rate(learning_rate)
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        self.workflow.layer_statistics(of)
    }

    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        let metrics = self.workflow.run(engine)?;
        self.metrics.extend(metrics.iter().map(|(name, value)| (name.clone(), *value)));
        Ok(metrics)
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        self.workflow.tensor(name)
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        self.workflow.put_tensor(name, tensor)
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        self.workflow.combine(inputs, how, output)
    }

    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError> {
        self.requests.saves.push((self.index, request));
        Ok(())
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError> {
        if self.event != Event::Started {
            return Err(HostError::new(format!(
                "a checkpoint can be loaded at started only, not at {}: other handlers have already seen the state",
                self.event
            )));
        }
        self.requests.loads.push((self.index, dir.to_owned()));
        Ok(())
    }

    fn log(&mut self, level: Level, message: &str) {
        self.workflow.log(level, message);
    }

    fn scalar(&mut self, tag: &str, value: f64) {
        self.scalars.push((tag.to_owned(), value));
    }

    fn remember(&mut self, key: &str, value: &[u8]) -> Result<(), HostError> {
        store::remember(self.store.entry(self.handler.to_owned()).or_default(), key, value)
    }

    fn recall(&self, key: &str) -> Option<Vec<u8>> {
        self.store.get(self.handler)?.get(key).cloned()
    }

    fn attach(&mut self, name: &str, attachment: &Attachment<'_>) -> Result<(), HostError> {
        store::check_name(name)?;
        let attach = self.attach.as_mut().ok_or_else(|| HostError::not_offered(&format!("attach {name}")))?;
        self.requests.attached.extend(attach(self.handler, name, attachment)?);
        self.requests.attached_by = self.index;
        Ok(())
    }

    fn run_info(&self) -> Result<String, HostError> {
        self.info.map(|info| info.to_string()).ok_or_else(|| HostError::not_offered("run_info"))
    }

    fn fire(&mut self, event: &str) -> Result<(), HostError> {
        let known = self.own_events.iter().find(|own| own.name() == event);
        let event = known.ok_or_else(|| {
            let own = self.own_events.iter().map(|own| format!("`{own}`")).collect::<Vec<_>>();
            let own = if own.is_empty() { "none".to_owned() } else { own.join(", ") };
            HostError::new(format!("`{event}` is not an event of this handler; its `events` are: {own}"))
        })?;
        self.requests.fired.push((self.index, *event));
        Ok(())
    }

    fn call_after(&mut self, time: Duration) -> Result<(), HostError> {
        if self.requests.ending {
            return Err(HostError::new("call_after: the run ends, nothing is called after it"));
        }
        let due = Instant::now().checked_add(time);
        let due = due.ok_or_else(|| HostError::new(format!("call_after: {time:?} is too long")))?;
        self.requests.timers.push((due, self.index));
        Ok(())
    }
}

impl Engine {
    /// Fires an event: calls its handlers in the order of registration, then writes the checkpoints
    /// they requested. Workflows call it for the events within an iteration and for events of their
    /// own; a request to terminate or to interrupt made there takes effect when the iteration is
    /// complete.
    ///
    /// # Errors
    /// When the event is custom and not registered, or a handler whose policy is [`OnError::Stop`]
    /// returns an error; the handlers after it are not called.
    #[inline]
    pub fn fire(&mut self, event: Event, workflow: &mut dyn Workflow) -> Result<(), RunError> {
        let idle = self.progress.iterating || !self.has_to_carry_out();
        if self.is_unheard(event) && idle && self.requests.timers.is_empty() {
            self.unheard[event.id() as usize] += 1;
            return Ok(());
        }
        self.fire_heard(event, workflow)
    }

    /// Whether no handler subscribes to an event. Costs one bit test.
    #[inline]
    fn is_unheard(&self, event: Event) -> bool {
        bit(event).is_some_and(|bit| self.wanted & bit == 0)
    }

    fn fire_heard(&mut self, event: Event, workflow: &mut dyn Workflow) -> Result<(), RunError> {
        if event.is_custom() && !self.registered.contains_key(&event) {
            return Err(self.error(RunErrorKind::UnknownEvent(event)));
        }
        self.dispatch(event, workflow, false)?;
        self.follow(workflow, false)?;
        // Within `iterate` the workflow borrows its network: a checkpoint waits for the end of the
        // iteration.
        if !self.progress.iterating {
            self.carry_out(event, workflow, false)?;
        }
        Ok(())
    }

    /// Fires `ExceptionRaised`: every handler is called, and further errors are only logged.
    pub(crate) fn fire_exception(&mut self, workflow: &mut dyn Workflow) {
        let event = Event::ExceptionRaised;
        let dispatched = self.dispatch(event, workflow, true);
        let followed = self.follow(workflow, true);
        for result in [dispatched, followed, self.carry_out(event, workflow, true)] {
            if let Err(error) = result {
                tracing::error!("while reporting an error: {error}");
            }
        }
    }

    /// Calls the handlers of an event, in the order of registration.
    pub(crate) fn dispatch(
        &mut self,
        event: Event,
        workflow: &mut dyn Workflow,
        lenient: bool,
    ) -> Result<(), RunError> {
        if self.is_unheard(event) {
            self.unheard[event.id() as usize] += 1;
            return Ok(());
        }
        let start = Instant::now();
        let counter = self.counter(event).map_or(0, |counter| match counter {
            Counter::Epoch => self.state.epoch,
            Counter::Iteration => self.state.iteration,
        });
        let mut outcome = Ok(());
        for index in 0..self.entries.len() {
            self.sweep();
            if !self.entries[index].listens(event, &self.state, counter) {
                continue;
            }
            outcome = self.call(index, event, workflow, lenient);
            if outcome.is_err() {
                break;
            }
        }
        self.event_tally.entry(event).or_default().add(start.elapsed());
        outcome
    }

    /// Calls one handler.
    pub(crate) fn call(
        &mut self,
        index: usize,
        event: Event,
        workflow: &mut dyn Workflow,
        lenient: bool,
    ) -> Result<(), RunError> {
        let Entry { key, handler, tally, own_events, .. } = &mut self.entries[index];
        let Some(handler) = handler else { return Ok(()) };
        let span = tracing::debug_span!("handler", name = key.as_str(), event = %event).entered();
        let mut host = Intercept {
            workflow: &mut *workflow,
            requests: &mut self.requests,
            event,
            index,
            handler: key,
            own_events,
            info: self.info.as_ref(),
            attachments: if event == Event::Attached { &self.attachments } else { &[] },
            metrics: Vec::new(),
            scalars: Vec::new(),
            store: &mut self.store,
            attach: self.attach.as_mut(),
        };
        let called = Instant::now();
        let result = handler.handle(event, &mut Context { event, state: &self.state, host: &mut host });
        tally.add(called.elapsed());
        drop(span);
        let Intercept { metrics, scalars, .. } = host;
        for (name, value) in metrics {
            self.state.observe(&name, value);
        }
        for (tag, value) in scalars {
            self.state.scalars.insert(tag, Scalar { value, iteration: self.state.iteration });
        }
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.judge(index, event, error.message(), workflow, lenient),
        }
    }

    /// Applies the handler's error policy.
    pub(crate) fn judge(
        &mut self,
        index: usize,
        event: Event,
        message: &str,
        workflow: &mut dyn Workflow,
        lenient: bool,
    ) -> Result<(), RunError> {
        let Some(entry) = self.entries.get_mut(index) else { return Ok(()) };
        let policy = entry.handler.as_ref().map_or(OnError::Log, |handler| handler.on_error());
        let handler = entry.key.clone();
        entry.errors += 1;
        entry.first_error.get_or_insert_with(|| format!("{event}: {message}"));
        match policy {
            OnError::Stop if !lenient => {
                let message = message.to_owned();
                return Err(self.error(RunErrorKind::Handler { handler, event, message }));
            }
            OnError::Disable => {
                entry.disabled = true;
                let text = format!("handler `{handler}` failed at {event} and is not called again: {message}");
                workflow.log(Level::Error, &text);
            }
            OnError::Stop | OnError::Log => {
                workflow.log(Level::Error, &format!("handler `{handler}` failed at {event}: {message}"));
            }
        }
        Ok(())
    }
}

impl Entry {
    fn listens(&self, event: Event, state: &State, counter: u64) -> bool {
        !self.disabled
            && (self.every_rank || state.rank == 0)
            && self.when.iter().any(|(wanted, filter)| *wanted == event && filter.passes(state, counter))
    }
}

//! The event machine: [`Engine`] keeps the handlers and the state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::closure::handler_fn;
use crate::dispatch::{Requests, Tally};
use crate::error::HandlerError;
use crate::event::{Counter, Event};
use crate::handler::{Context, Handler, Ranks};
use crate::run::Progress;
use crate::run_error::{RegisterError, RunError, RunErrorKind};
use crate::saves::Saves;
use crate::state::{Better, State};
use crate::store::{Attach, Store};
use crate::when::{Filter, When};

/// The bit of a built-in event in [`Engine::wanted`]; 0 for a custom event.
#[inline]
pub(crate) fn bit(event: Event) -> Option<u64> {
    1_u64.checked_shl(event.id())
}

/// Identifies a handler of an engine, so that it can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandlerId(u64);

/// The number of calls of a handler, and their time.
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerTimes {
    /// The handler's name, `name#2` for the second of the same name.
    pub name: String,
    /// Number of calls so far.
    pub calls: u64,
    /// Total time of all calls, in seconds.
    pub seconds: f64,
    /// Number of calls that failed.
    pub errors: u64,
    /// The event and the message of the first failure.
    pub first_error: Option<String>,
    /// Whether the handler was disabled after an error.
    pub disabled: bool,
}

/// Removes handlers from code that has no access to the engine: another handler or another thread.
/// See [`Engine::remover`].
#[derive(Clone, Debug)]
pub struct Remover(Arc<Mutex<Vec<HandlerId>>>);

impl Remover {
    /// Removes a handler before the next handler is called. An id that was already removed is
    /// ignored.
    pub fn remove(&self, id: HandlerId) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(id);
    }
}

/// A handler and what the engine records about it.
pub(crate) struct Entry {
    id: HandlerId,
    /// Its unique name.
    pub key: String,
    pub when: Vec<(Event, Filter)>,
    /// The events that it may fire.
    pub own_events: Vec<Event>,
    pub every_rank: bool,
    /// `None` after removal. The entry itself remains, so that ids and names stay valid.
    pub handler: Option<Box<dyn Handler>>,
    pub disabled: bool,
    pub tally: Tally,
    /// The number of errors, and the first one.
    pub errors: u64,
    pub first_error: Option<String>,
}

/// Drives a run and fires its events; handlers listen. The counterpart of ignite's `Engine`; a
/// trainer has one (`trainer.engine_mut()`). See the [crate's documentation](crate) for a whole
/// workflow and the order of events.
///
/// ```
/// use hearth_engine::{Better, Engine, Event, Level};
/// let mut engine = Engine::new("trainer");
/// engine.set_key_metric("val_mean_dice", Better::Higher);
/// engine.on(Event::EpochCompleted.every(2) | Event::Completed, |cx| {
///     cx.host.log(Level::Info, &format!("epoch {}: {:?}", cx.state.epoch, cx.state.metrics));
///     Ok(())
/// })?;
/// // A filter that contradicts itself is refused here, not in the middle of a run.
/// assert!(engine.on(Event::EpochCompleted.every(0), |_| Ok(())).is_err());
/// assert_eq!(engine.state().epoch, 0);
/// # Ok::<(), hearth_engine::RegisterError>(())
/// ```
pub struct Engine {
    pub(crate) state: State,
    pub(crate) entries: Vec<Entry>,
    /// Custom events, and built-in events that were given a counter.
    pub(crate) registered: BTreeMap<Event, (String, Option<Counter>)>,
    pub(crate) requests: Requests,
    pub(crate) saves: Saves,
    pub(crate) progress: Progress,
    pub(crate) interrupt_flag: Arc<AtomicBool>,
    pub(crate) event_tally: BTreeMap<Event, Tally>,
    /// The built-in events that some handler subscribes to, one bit each; and the number of times
    /// the others were fired.
    pub(crate) wanted: u64,
    pub(crate) unheard: [u64; 64],
    /// The values that handlers keep, by the handlers' keys.
    pub(crate) store: BTreeMap<String, Store>,
    pub(crate) attach: Option<Attach>,
    /// At `Attached`: the files that were attached.
    pub(crate) attachments: Vec<PathBuf>,
    /// What the run is: see [`Engine::set_run_info`].
    pub(crate) info: Option<Arc<str>>,
    /// Handlers whose state a snapshot may hold although they are not registered.
    pub(crate) without: BTreeSet<String>,
    removals: Remover,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let handlers: Vec<&str> = self.entries.iter().map(|entry| entry.key.as_str()).collect();
        f.debug_struct("Engine").field("state", &self.state).field("handlers", &handlers).finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine with this name (`trainer`, `validation`).
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            state: State::new(name),
            entries: Vec::new(),
            registered: BTreeMap::new(),
            requests: Requests::default(),
            store: BTreeMap::new(),
            attach: None,
            attachments: Vec::new(),
            info: None,
            without: BTreeSet::new(),
            saves: Saves::default(),
            progress: Progress::default(),
            interrupt_flag: Arc::default(),
            event_tally: BTreeMap::new(),
            wanted: 0,
            unheard: [0; 64],
            removals: Remover(Arc::default()),
        }
    }

    /// Sets the function that carries out [`Host::attach`](crate::Host::attach). It receives the
    /// handler's name, the name of the attachment and its content. Without it, attachments are
    /// refused.
    pub fn on_attach(&mut self, attach: Attach) {
        self.attach = Some(attach);
    }

    /// Sets what [`Host::run_info`](crate::Host::run_info) returns: a JSON object. The text is not
    /// checked.
    pub fn set_run_info(&mut self, json: impl Into<Arc<str>>) {
        self.info = Some(json.into());
    }

    /// Calls a closure for an event: `engine.on(Event::EpochCompleted.every(2), |cx| Ok(()))?`.
    /// Messages name it by the file and line of this call.
    ///
    /// # Errors
    /// As [`Engine::add_boxed`].
    #[track_caller]
    pub fn on<F>(&mut self, when: impl Into<When>, f: F) -> Result<HandlerId, RegisterError>
    where
        F: FnMut(&mut Context<'_>) -> Result<(), HandlerError> + Send + 'static,
    {
        self.add_boxed(handler_fn(when, f))
    }

    /// Adds a handler; it is called after those added before it.
    ///
    /// # Errors
    /// As [`Engine::add_boxed`].
    pub fn add(&mut self, handler: impl Handler + 'static) -> Result<HandlerId, RegisterError> {
        self.add_boxed(Box::new(handler))
    }

    /// Adds a boxed handler.
    ///
    /// # Errors
    /// When a filter contradicts itself, compares with a counter the event does not have, or an
    /// event is custom and not registered; when the handler fires an event whose name has another
    /// form than `NAME.EVENT`, or whose number another event has. The events of handlers are
    /// registered with the handler that fires them, which may be added later: see
    /// [`Engine::check_events`].
    pub fn add_boxed(&mut self, handler: Box<dyn Handler>) -> Result<HandlerId, RegisterError> {
        let alternatives = self.accepted(&*handler)?;
        let own_events = self.register_own(&*handler)?;
        let name = handler.name().to_owned();
        self.wanted |= alternatives.iter().filter_map(|(event, _)| bit(*event)).fold(0, |all, one| all | one);
        let same = self.entries.iter().filter(|entry| entry.key == name || is_numbered(&entry.key, &name)).count();
        let key = if same == 0 { name } else { format!("{name}#{}", same + 1) };
        let id = HandlerId(self.entries.len() as u64);
        self.entries.push(Entry {
            id,
            key,
            when: alternatives,
            own_events,
            every_rank: handler.ranks() == Ranks::All,
            handler: Some(handler),
            disabled: false,
            tally: Tally::default(),
            errors: 0,
            first_error: None,
        });
        Ok(id)
    }

    /// Checks a handler as [`Engine::add_boxed`] does, without adding it.
    ///
    /// # Errors
    /// As [`Engine::add_boxed`].
    pub fn check(&self, handler: &dyn Handler) -> Result<(), RegisterError> {
        self.accepted(handler).map(drop)
    }

    /// Registers the events that a handler fires.
    fn register_own(&mut self, handler: &dyn Handler) -> Result<Vec<Event>, RegisterError> {
        let events = handler.events().into_iter();
        events.map(|name| self.register_event(&name, None).map_err(|error| refused(handler, &error.0))).collect()
    }

    /// Checks that each event of a handler to which another one listens is fired by some handler.
    /// [`Engine::run`] does so first.
    ///
    /// # Errors
    /// The first event that no handler fires.
    pub fn check_events(&self) -> Result<(), RunError> {
        let live = || self.entries.iter().filter(|entry| entry.handler.is_some());
        for entry in live() {
            if let Some((event, _)) =
                entry.when.iter().find(|(event, _)| event.is_custom() && !self.registered.contains_key(event))
            {
                let known = live().flat_map(|entry| &entry.own_events).map(Event::to_string).collect();
                return Err(self.error(RunErrorKind::NobodyFires { handler: entry.key.clone(), event: *event, known }));
            }
        }
        Ok(())
    }

    /// The events and filters that a handler subscribes to.
    fn accepted(&self, handler: &dyn Handler) -> Result<Vec<(Event, Filter)>, RegisterError> {
        let refuse = |what: String| refused(handler, &what);
        if let Some(name) = handler.events().iter().find(|name| !is_namespaced(name)) {
            return Err(refuse(format!("its event {name:?} has another form than NAME.EVENT (`slack.sent`)")));
        }
        let mut alternatives = Vec::new();
        for when in handler.subscriptions() {
            when.check().map_err(|error| refuse(error.to_string()))?;
            for (event, filter) in when.alternatives() {
                let is_own = is_namespaced(&event.name());
                if event.is_custom() && !is_own && !self.registered.contains_key(event) {
                    return Err(refuse(format!(
                        "the event `{event}` is not registered; call `register_event` before the handler is added"
                    )));
                }
                if filter.counts() && self.counter(*event).is_none() {
                    return Err(refuse(format!(
                        "{event} has no counter for {filter:?} to compare with; use `filter`, or give it one: \
                         register_event(\"{event}\", Some(Counter::Iteration))"
                    )));
                }
                alternatives.push((*event, filter.clone()));
            }
        }
        Ok(alternatives)
    }

    /// Removes a handler; returns `None` when it was already removed. Its times remain in the
    /// summary.
    pub fn remove(&mut self, id: HandlerId) -> Option<Box<dyn Handler>> {
        self.entries.iter_mut().find(|entry| entry.id == id)?.handler.take()
    }

    /// Returns a remover that works while the engine runs, from a handler (which may remove itself)
    /// or from another thread.
    ///
    /// ```
    /// use hearth_engine::{Engine, Event};
    /// let mut engine = Engine::new("trainer");
    /// let id = engine.on(Event::IterationCompleted, |_| Ok(()))?;
    /// let remover = engine.remover();
    /// engine.on(Event::EpochCompleted.once(2), move |_| { remover.remove(id); Ok(()) })?;
    /// # Ok::<(), hearth_engine::RegisterError>(())
    /// ```
    pub fn remover(&self) -> Remover {
        self.removals.clone()
    }

    /// Removes the handlers that removers have named.
    pub(crate) fn sweep(&mut self) {
        let named = std::mem::take(&mut *self.removals.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        for id in named {
            self.remove(id);
        }
    }

    /// Registers a custom event. Filters on it compare with `counter`. A built-in event without a
    /// counter (`forward_completed`) gets this one. Registering an event again has no effect.
    ///
    /// ```
    /// use hearth_engine::{Counter, Engine, Event};
    /// let mut engine = Engine::new("trainer");
    /// let sampled = engine.register_event("latents_sampled", Some(Counter::Iteration))?;
    /// engine.on(sampled.every(100), |_| Ok(()))?;
    /// assert!(engine.on(Event::custom("latent_sampled"), |_| Ok(())).is_err()); // not registered
    /// # Ok::<(), hearth_engine::RegisterError>(())
    /// ```
    ///
    /// # Errors
    /// When the name is empty, another name has the same number, or the event already has a
    /// different counter.
    pub fn register_event(&mut self, name: &str, counter: Option<Counter>) -> Result<Event, RegisterError> {
        if name.trim().is_empty() {
            return Err(RegisterError("an event needs a name".to_owned()));
        }
        let event = Event::from_name(name).unwrap_or_else(|| Event::custom(name));
        if let Some((other, _)) = self.registered.get(&event).filter(|(other, _)| other != name) {
            return Err(RegisterError(format!("the events `{name}` and `{other}` have the same number; rename one")));
        }
        match self.counter(event) {
            Some(known) if counter.is_some_and(|wanted| wanted != known) => {
                return Err(RegisterError(format!("the event `{name}` is counted by {known:?} already")));
            }
            known => self.registered.insert(event, (name.to_owned(), known.or(counter))),
        };
        Ok(event)
    }

    /// The counter that filters of this event compare with.
    pub(crate) fn counter(&self, event: Event) -> Option<Counter> {
        event.counter().or_else(|| self.registered.get(&event).and_then(|(_, counter)| *counter))
    }

    /// The state of the run.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, to set rank, seed or a fixed `epoch_length` before a run.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Sets the metric that decides which epoch is best. Another metric or direction than before
    /// drops the best value so far.
    pub fn set_key_metric(&mut self, name: &str, better: Better) {
        if self.state.key_metric.as_deref() != Some(name) || self.state.better != better {
            (self.state.best_metric, self.state.best_epoch) = (None, None);
        }
        self.state.key_metric = Some(name.to_owned());
        self.state.better = better;
    }

    /// A flag that another thread (a Ctrl-C handler) can set: the run is interrupted after the
    /// current iteration.
    pub fn interrupt_flag(&self) -> Arc<AtomicBool> {
        self.interrupt_flag.clone()
    }

    /// The calls of each handler and their time, in registration order; for the run summary.
    pub fn handler_times(&self) -> Vec<HandlerTimes> {
        self.entries
            .iter()
            .map(|Entry { key, tally, errors, first_error, disabled, .. }| HandlerTimes {
                name: key.clone(),
                calls: tally.calls,
                seconds: tally.time.as_secs_f64(),
                errors: *errors,
                first_error: first_error.clone(),
                disabled: *disabled,
            })
            .collect()
    }

    /// Every event that was fired, including events without a handler.
    fn tallies(&self) -> impl Iterator<Item = (Event, Tally)> {
        let mut all = self.event_tally.clone();
        for event in Event::BUILT_IN {
            let calls = self.unheard.get(event.id() as usize).copied().unwrap_or(0);
            if calls > 0 {
                all.entry(*event).or_default().calls += calls;
            }
        }
        all.into_iter()
    }

    /// Seconds spent in all handlers of each event that was fired, by the event's name.
    pub fn event_times(&self) -> BTreeMap<String, f64> {
        self.tallies().map(|(event, tally)| (event.name().into_owned(), tally.time.as_secs_f64())).collect()
    }

    /// The number of times each event was fired, by the event's name.
    pub fn event_counts(&self) -> BTreeMap<String, u64> {
        self.tallies().map(|(event, tally)| (event.name().into_owned(), tally.calls)).collect()
    }

    /// An error at the current point of the run.
    pub(crate) fn error(&self, kind: RunErrorKind) -> RunError {
        let State { engine, epoch, iteration, .. } = &self.state;
        RunError { engine: engine.clone(), epoch: *epoch, iteration: *iteration, kind }
    }
}

fn refused(handler: &dyn Handler, what: &str) -> RegisterError {
    RegisterError(format!("handler `{}` cannot be added: {what}", handler.name()))
}

/// Whether an event's name is that of a handler's own event: `NAME.EVENT`.
fn is_namespaced(name: &str) -> bool {
    let plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    name.len() <= 200 && name.split_once('.').is_some_and(|(of, event)| plain(of) && plain(event))
}

/// Whether `key` is `name#2`, `name#3`, ...
fn is_numbered(key: &str, name: &str) -> bool {
    key.strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('#'))
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

//! A handler in C for the engine: a `Handler`.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null;

use hearth_engine::{Context, Event, Handler, HandlerError, OnError, Ranks, State, When};

use super::call::{CallDesk, c_text, said};
use super::host::HostDesk;
use super::setup::SetupDesk;
use super::table::{Functions, HappenedEvent, OK};

/// A plugin's handler.
pub struct CHandler {
    name: String,
    path: PathBuf,
    functions: Functions,
    data: *mut c_void,
    whens: Vec<When>,
    on_error: OnError,
    ranks: Ranks,
    /// The names of the events that it subscribes to.
    events: Vec<(Event, CString)>,
    /// The events that it fires.
    fires: Vec<String>,
    engine: CString,
    key_metric: CString,
}

// SAFETY: `hearth_plugin.h` states that callbacks are called one at a time, possibly from different
// threads; the engine calls a handler from one thread at a time.
unsafe impl Send for CHandler {}

impl CHandler {
    /// Takes ownership of the result of `create`.
    pub fn new(name: &str, functions: Functions, path: &Path, data: *mut c_void, desk: SetupDesk) -> Self {
        let SetupDesk { whens, fires, on_error, ranks, .. } = desk;
        let listened = whens.iter().flat_map(|when| when.alternatives()).map(|(event, _)| *event);
        let listened = listened.chain([Event::Timer]);
        let events = listened.map(|event| (event, c_text(event.name().into_owned()))).collect();
        let (engine, key_metric) = Default::default();
        let name = name.to_owned();
        Self { name, path: path.to_owned(), functions, data, whens, on_error, ranks, events, fires, engine, key_metric }
    }

    /// The event in C's format. Texts that rarely change are kept between calls.
    fn event(&mut self, event: Event, state: &State, exception: Option<&CStr>) -> HappenedEvent {
        let keep = |kept: &mut CString, text: &str| {
            if kept.as_bytes() != text.as_bytes() {
                *kept = c_text(text);
            }
        };
        keep(&mut self.engine, &state.engine);
        keep(&mut self.key_metric, state.key_metric.as_deref().unwrap_or_default());
        let name =
            self.events.iter().find(|(known, _)| *known == event).map_or(c"".as_ptr(), |(_, name)| name.as_ptr());
        HappenedEvent {
            size: size_of::<HappenedEvent>(),
            id: event.id(),
            rank: state.rank,
            world_size: state.world_size,
            finished: u32::from(state.finished),
            name,
            engine: self.engine.as_ptr(),
            epoch: state.epoch,
            iteration: state.iteration,
            epoch_iteration: state.epoch_iteration,
            max_epochs: state.max_epochs,
            epoch_length: state.epoch_length.unwrap_or(0),
            seed: state.seed,
            best_epoch: state.best_epoch.unwrap_or(0),
            best_metric: state.best_metric.unwrap_or(f64::NAN),
            key_metric: if state.key_metric.is_some() { self.key_metric.as_ptr() } else { null() },
            exception: exception.map_or(null::<c_char>(), CStr::as_ptr),
        }
    }
}

impl Drop for CHandler {
    fn drop(&mut self) {
        if let Some(destroy) = self.functions.destroy {
            // SAFETY: `create` made it, and nothing uses it any more.
            unsafe { destroy(self.data) };
        }
    }
}

impl Handler for CHandler {
    fn name(&self) -> &str {
        &self.name
    }

    fn subscriptions(&self) -> Vec<When> {
        self.whens.clone()
    }

    fn events(&self) -> Vec<String> {
        self.fires.clone()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Some(handle) = self.functions.handle else { return Ok(()) };
        let exception = cx.state.exception.as_deref().map(c_text);
        let event = self.event(event, cx.state, exception.as_deref());
        let mut desk = HostDesk::new(&mut *cx.host, cx.state);
        // SAFETY: the handler belongs to the plugin; event and table outlive the call, and have the
        // content that `hearth_plugin.h` promises.
        let code = unsafe { handle(self.data, &event, &desk.table()) };
        let message = desk.finish();
        if code == OK { Ok(()) } else { Err(HandlerError::new(said(message, "handle", code))) }
    }

    fn on_error(&self) -> OnError {
        self.on_error
    }

    fn ranks(&self) -> Ranks {
        self.ranks
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let mut desk = CallDesk::new(&self.path);
        // SAFETY: the handler belongs to the plugin; the table outlives the call.
        let code = unsafe { (self.functions.save?)(self.data, &desk.table()) };
        if code != OK {
            tracing::error!("plugin handler `{}` could not save its state: {}", self.name, desk.reason("save", code));
            return None;
        }
        Some(std::mem::take(&mut desk.bytes))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let Some(load) = self.functions.load else {
            return Err(HandlerError::new("the checkpoint holds a state of it, and it has no `load`"));
        };
        let mut desk = CallDesk::new(&self.path);
        // SAFETY: the handler belongs to the plugin; bytes and table outlive the call.
        let code = unsafe { load(self.data, state.as_ptr().cast(), state.len(), &desk.table()) };
        if code == OK { Ok(()) } else { Err(HandlerError::new(desk.reason("load", code))) }
    }
}

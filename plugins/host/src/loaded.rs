//! A plugin's handler for the engine: a `Handler`.

use std::sync::{Arc, Mutex};

use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{ROption, RSlice, RString, RVec};
use hearth_engine::{Context, Event, Filter, Handler, HandlerError, OnError, Ranks, State, When};
use hearth_plugin::__private as view;
use hearth_plugin::abi::{AbiAlternative, AbiHandlerBox, AbiHost_TO, AbiWhen};

use crate::bridge::Bridge;
use crate::shown::shown;

/// A failure in a call that cannot return one: the next call of the handler returns it.
type Pending = Arc<Mutex<Option<String>>>;

fn put_off(pending: &Pending, what: &str) {
    let mut slot = pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    slot.get_or_insert_with(|| what.to_owned());
}

/// A plugin's handler.
pub struct Loaded {
    name: String,
    whens: Vec<When>,
    events: Vec<String>,
    raw: AbiHandlerBox,
    /// The named parts of the state that were sent last.
    sent: Option<State>,
    pending: Pending,
}

impl Loaded {
    /// Takes ownership of a handler, and queries its constant properties. Fails with the message of
    /// a panic.
    pub fn new(raw: AbiHandlerBox) -> Result<Self, String> {
        let name = shown(&raw.name().into_result().map_err(RString::into_string)?);
        let pending = Pending::default();
        let whens = raw.subscriptions().into_result().map_err(RString::into_string)?;
        let whens = whens.into_iter().filter_map(|when| receive_when(when, &pending)).collect();
        let events = raw.events().into_result().map_err(RString::into_string)?;
        let events = events.into_iter().map(RString::into_string).collect();
        Ok(Self { name, whens, events, raw, sent: None, pending })
    }

    fn overdue(&self) -> Option<HandlerError> {
        self.pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take().map(HandlerError::new)
    }
}

impl Handler for Loaded {
    fn name(&self) -> &str {
        &self.name
    }

    fn subscriptions(&self) -> Vec<When> {
        self.whens.clone()
    }

    fn events(&self) -> Vec<String> {
        self.events.clone()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if let Some(error) = self.overdue() {
            return Err(error);
        }
        let named = view::Named::changed(cx.state, self.sent.as_ref());
        let mut bridge = Bridge::new(&mut *cx.host);
        let host = AbiHost_TO::from_ptr(RMut::new(&mut bridge), TD_Opaque);
        let result = self.raw.handle(event.id(), &named.lend(cx.state), host);
        bridge.finish();
        named.note(self.sent.get_or_insert_default());
        result.into_result().map_err(|words| HandlerError::new(words.into_string()))
    }

    fn on_error(&self) -> OnError {
        match self.raw.on_error() {
            1 => OnError::Disable,
            2 => OnError::Log,
            _ => OnError::Stop,
        }
    }

    fn ranks(&self) -> Ranks {
        if self.raw.ranks() == 1 { Ranks::First } else { Ranks::All }
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        match self.raw.save_state().into_result() {
            Ok(state) => state.map(RVec::into_vec).into(),
            Err(words) => {
                tracing::error!("plugin handler `{}` could not save its state: {words}", self.name);
                put_off(&self.pending, &format!("its state could not be saved: {words}"));
                None
            }
        }
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let result = self.raw.load_state(RSlice::from_slice(state));
        result.into_result().map_err(|words| HandlerError::new(words.into_string()))
    }
}

fn receive_when(when: AbiWhen, pending: &Pending) -> Option<When> {
    let alternatives = when.alternatives.into_iter().map(|alternative| receive_alternative(alternative, pending));
    alternatives.reduce(|all, one| all | one)
}

fn receive_alternative(alternative: AbiAlternative, pending: &Pending) -> When {
    let event = Event::from_id(alternative.event);
    // A name that was registered once appears in all messages. A plugin that knows only the number
    // sends a placeholder name.
    let name = alternative.custom_name.as_str();
    if event.is_custom() && !name.starts_with("event_0x") && !name.is_empty() {
        Event::custom(name);
    }
    let accept = match alternative.accept {
        ROption::RSome(accept) => {
            let pending = pending.clone();
            let accept = move |state: &State, counter: u64| {
                let answer = accept.accept(&view::Named::changed(state, None).lend(state), counter);
                // A filter cannot return an error. It passes, so that the handler is called and
                // returns the error.
                answer.into_result().unwrap_or_else(|words| {
                    put_off(&pending, &format!("its filter {words}"));
                    true
                })
            };
            Some(Arc::new(accept) as hearth_engine::Accept)
        }
        ROption::RNone => None,
    };
    let filter = Filter {
        every: alternative.every.into(),
        once: alternative.once.map(RVec::into_vec).into(),
        before: alternative.before.into(),
        after: alternative.after.into(),
        accept,
    };
    When::from_filter(event, filter)
}

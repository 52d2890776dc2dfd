//! The plugin's side: the handler that is passed to the host, and the host for the handler.

use std::mem::ManuallyDrop;
use std::path::Path;
use std::time::Duration;

use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{RCowSlice, ROption, RResult, RSlice, RStr, RString, RVec};
use hearth_engine::{
    Accept, Attachment, CheckpointRequest, Combine, Context, Event, Filter, Handler, Host, HostError, HostTensor,
    LayerStatistics, LayerValues, Level, Metrics, NamesOf, State,
};

use crate::abi::{
    AbiAccept, AbiAccept_TO, AbiAlternative, AbiHandler, AbiHandler_TO, AbiHandlerBox, AbiHost_TO, AbiState, AbiWhen,
};
use crate::guard::guard;
use crate::view;

/// Wraps a handler for the host.
pub fn send_handler(handler: Box<dyn Handler>) -> AbiHandlerBox {
    AbiHandler_TO::from_value(Guest { handler: ManuallyDrop::new(handler), state: State::default() }, TD_Opaque)
}

/// A handler that catches panics, with its own copy of the state.
struct Guest {
    handler: ManuallyDrop<Box<dyn Handler>>,
    state: State,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // SAFETY: the handler is not used again: only this code takes it, and `self` is being
        // dropped.
        let handler = unsafe { ManuallyDrop::take(&mut self.handler) };
        if let Err(panic) = guard(|| drop(handler)) {
            eprintln!("a handler of a plugin {panic} while it was dropped");
        }
    }
}

/// The result of a guarded call that can also return its own error.
fn flat<T, E: std::fmt::Display>(result: Result<Result<T, E>, String>) -> RResult<T, RString> {
    match result {
        Ok(Ok(value)) => RResult::ROk(value),
        Ok(Err(error)) => RResult::RErr(view::words(error)),
        Err(panic) => RResult::RErr(panic.into()),
    }
}

impl AbiHandler for Guest {
    fn name(&self) -> RResult<RString, RString> {
        guard(|| RString::from(self.handler.name())).map_err(RString::from).into()
    }

    fn subscriptions(&self) -> RResult<RVec<AbiWhen>, RString> {
        let list = guard(|| self.handler.subscriptions()).map(|list| {
            list.iter()
                .map(|when| AbiWhen { alternatives: when.alternatives().iter().map(send_alternative).collect() })
                .collect::<RVec<_>>()
        });
        list.map_err(RString::from).into()
    }

    fn events(&self) -> RResult<RVec<RString>, RString> {
        let events = guard(|| self.handler.events().into_iter().map(RString::from).collect::<RVec<_>>());
        events.map_err(RString::from).into()
    }

    fn on_error(&self) -> u8 {
        guard(|| self.handler.on_error() as u8).unwrap_or_default()
    }

    fn ranks(&self) -> u8 {
        guard(|| self.handler.ranks() as u8).unwrap_or_default()
    }

    fn handle(&mut self, event: u32, state: &AbiState<'_>, host: AbiHost_TO<'_, RMut<'_, ()>>) -> RResult<(), RString> {
        let Self { handler, state: copy } = self;
        flat(guard(|| {
            view::update_state(copy, state);
            let event = Event::from_id(event);
            let mut host = RemoteHost { host, tensor: RVec::new() };
            handler.handle(event, &mut Context { event, state: copy, host: &mut host })
        }))
    }

    fn save_state(&self) -> RResult<ROption<RVec<u8>>, RString> {
        guard(|| self.handler.save_state().map(RVec::from).into()).map_err(RString::from).into()
    }

    fn load_state(&mut self, state: RSlice<'_, u8>) -> RResult<(), RString> {
        flat(guard(|| self.handler.load_state(state.as_slice())))
    }
}

fn send_alternative((event, filter): &(Event, Filter)) -> AbiAlternative {
    let accept = filter.accept.clone().map(|accept| AbiAccept_TO::from_value(GuestFilter(accept), TD_Opaque));
    AbiAlternative {
        event: event.id(),
        custom_name: if event.is_custom() { view::words(event) } else { RString::new() },
        every: filter.every.into(),
        once: filter.once.clone().map(RVec::from).into(),
        before: filter.before.into(),
        after: filter.after.into(),
        accept: accept.into(),
    }
}

/// A filter function that catches panics.
struct GuestFilter(Accept);

impl AbiAccept for GuestFilter {
    fn accept(&self, state: &AbiState<'_>, counter: u64) -> RResult<bool, RString> {
        let accepted = guard(|| {
            let mut copy = State::default();
            view::update_state(&mut copy, state);
            (self.0)(&copy, counter)
        });
        accepted.map_err(RString::from).into()
    }
}

/// The host on the other side.
struct RemoteHost<'a, 'b> {
    host: AbiHost_TO<'a, RMut<'b, ()>>,
    /// The elements of a tensor that the host created for this plugin.
    tensor: RVec<u8>,
}

fn answer<T>(result: RResult<T, RString>) -> Result<T, HostError> {
    result.into_result().map_err(|words| HostError::new(words.into_string()))
}

fn path_text(path: &Path) -> Result<RStr<'_>, HostError> {
    path.to_str().map(RStr::from_str).ok_or_else(|| {
        HostError::new(format!("the path {} is not Unicode, and cannot be passed to the host", path.display()))
    })
}

impl Host for RemoteHost<'_, '_> {
    fn terminate(&mut self, why: &str) {
        self.host.terminate(why.into());
    }

    fn terminate_epoch(&mut self, why: &str) {
        self.host.terminate_epoch(why.into());
    }

    fn interrupt(&mut self, why: &str) {
        self.host.interrupt(why.into());
    }

    fn set_metric(&mut self, name: &str, value: f64) {
        self.host.set_metric(name.into(), value);
    }

    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        answer(self.host.output(name.into()))
    }

    fn cases(&self) -> Vec<String> {
        self.host.cases().into_iter().map(RString::into_string).collect()
    }

    fn names(&self, of: NamesOf) -> Vec<String> {
        self.host.names(of as u8).into_iter().map(RString::into_string).collect()
    }

    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        answer(self.host.numbers(name.into())).map(|lists| lists.into_iter().map(RVec::into_vec).collect())
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        answer(self.host.texts(name.into())).map(|texts| texts.into_iter().map(RString::into_string).collect())
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        answer(self.host.layer_statistics(of as u8)).map(view::receive_layers)
    }

    fn learning_rate(&self) -> Option<f64> {
        self.host.learning_rate().into()
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        answer(self.host.set_learning_rate(learning_rate))
    }

    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        answer(self.host.run(engine.into())).map(view::receive_metrics)
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        let tensor = answer(self.host.tensor(name.into()))?;
        let bytes = match tensor.bytes {
            RCowSlice::Borrowed(bytes) => bytes.as_slice(),
            RCowSlice::Owned(bytes) => {
                self.tensor = bytes;
                self.tensor.as_slice()
            }
        };
        let shape = tensor.shape.into_vec();
        let dtype = view::check_tensor(tensor.dtype, &shape, bytes.len())?;
        Ok(HostTensor { dtype, shape, bytes: bytes.into() })
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        answer(self.host.put_tensor(name.into(), view::lend_tensor(tensor)))
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        let inputs = inputs.iter().map(|name| RStr::from_str(name)).collect::<Vec<_>>();
        answer(self.host.combine(RSlice::from_slice(&inputs), view::lend_combine(how), output.into()))
    }

    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError> {
        let dir = path_text(&request.dir)?;
        answer(self.host.save_checkpoint(dir, request.tag.as_str().into(), request.keep_last.into()))
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError> {
        answer(self.host.load_checkpoint(path_text(dir)?))
    }

    fn log(&mut self, level: Level, message: &str) {
        self.host.log(level as u8, message.into());
    }

    fn scalar(&mut self, tag: &str, value: f64) {
        self.host.scalar(tag.into(), value);
    }

    fn remember(&mut self, key: &str, value: &[u8]) -> Result<(), HostError> {
        answer(self.host.remember(key.into(), RSlice::from_slice(value)))
    }

    fn recall(&self, key: &str) -> Option<Vec<u8>> {
        self.host.recall(key.into()).map(RVec::into_vec).into()
    }

    fn attach(&mut self, name: &str, attachment: &Attachment<'_>) -> Result<(), HostError> {
        answer(match attachment {
            Attachment::File(content) => self.host.attach_file(name.into(), RSlice::from_slice(content)),
            Attachment::Image(image) => self.host.attach_image(name.into(), view::borrow_tensor(image)),
            Attachment::Text(text) => self.host.attach_text(name.into(), (*text).into()),
        })
    }

    fn run_info(&self) -> Result<String, HostError> {
        answer(self.host.run_info()).map(RString::into_string)
    }

    fn fire(&mut self, event: &str) -> Result<(), HostError> {
        answer(self.host.fire(event.into()))
    }

    fn call_after(&mut self, time: Duration) -> Result<(), HostError> {
        answer(self.host.call_after(time.as_secs_f64()))
    }
}

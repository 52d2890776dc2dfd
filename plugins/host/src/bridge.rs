//! The host's side of a call: the engine's `Host` for a plugin.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;

use crate::watched::come_back;
use abi_stable::std_types::{ROption, RResult, RSlice, RStr, RString, RVec};
use hearth_engine::{Attachment, CheckpointRequest, Host, HostError};
use hearth_plugin::__private as view;
use hearth_plugin::abi::{AbiCombine, AbiHost, AbiLayer, AbiMetric, AbiTensor};

/// Forwards calls to the host. A panic of the host must not unwind through the plugin: it is kept
/// until the plugin has returned.
pub struct Bridge<'h> {
    host: &'h mut dyn Host,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl<'h> Bridge<'h> {
    pub fn new(host: &'h mut dyn Host) -> Self {
        Self { host, panic: RefCell::new(None) }
    }

    /// Resumes a panic of the host, if there was one. Called when the plugin has returned.
    pub fn finish(self) {
        if let Some(payload) = self.panic.into_inner() {
            panic::resume_unwind(payload);
        }
    }

    /// Calls the host for a request that cannot fail.
    fn tell(&mut self, call: impl FnOnce(&mut dyn Host)) {
        come_back();
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| call(self.host))) {
            *self.panic.get_mut() = Some(payload);
        }
    }

    /// Calls the host for a request that can fail.
    fn ask<'a, T>(&'a mut self, call: impl FnOnce(&'a mut dyn Host) -> Result<T, HostError>) -> RResult<T, RString> {
        come_back();
        let Self { host, panic } = self;
        match panic::catch_unwind(AssertUnwindSafe(|| call(&mut **host))) {
            Ok(Ok(value)) => RResult::ROk(value),
            Ok(Err(error)) => RResult::RErr(view::words(error)),
            Err(payload) => {
                *panic.get_mut() = Some(payload);
                RResult::RErr("the host panicked".into())
            }
        }
    }

    fn look<T: Default>(&self, call: impl FnOnce(&dyn Host) -> T) -> T {
        panic::catch_unwind(AssertUnwindSafe(|| call(self.host))).unwrap_or_else(|payload| {
            *self.panic.borrow_mut() = Some(payload);
            T::default()
        })
    }
}

impl AbiHost for Bridge<'_> {
    fn terminate(&mut self, why: RStr<'_>) {
        self.tell(|host| host.terminate(why.as_str()));
    }

    fn terminate_epoch(&mut self, why: RStr<'_>) {
        self.tell(|host| host.terminate_epoch(why.as_str()));
    }

    fn interrupt(&mut self, why: RStr<'_>) {
        self.tell(|host| host.interrupt(why.as_str()));
    }

    fn set_metric(&mut self, name: RStr<'_>, value: f64) {
        self.tell(|host| host.set_metric(name.as_str(), value));
    }

    fn output(&mut self, name: RStr<'_>) -> RResult<f64, RString> {
        self.ask(|host| host.output(name.as_str()))
    }

    fn cases(&self) -> RVec<RString> {
        self.look(|host| host.cases()).into_iter().map(RString::from).collect()
    }

    fn learning_rate(&self) -> ROption<f64> {
        self.look(|host| host.learning_rate()).into()
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> RResult<(), RString> {
        self.ask(|host| host.set_learning_rate(learning_rate))
    }

    fn run(&mut self, engine: RStr<'_>) -> RResult<RVec<AbiMetric>, RString> {
        self.ask(|host| host.run(engine.as_str()).map(view::send_metrics))
    }

    fn tensor<'a>(&'a mut self, name: RStr<'_>) -> RResult<AbiTensor<'a>, RString> {
        self.ask(|host| host.tensor(name.as_str()).map(view::lend_tensor))
    }

    fn put_tensor(&mut self, name: RStr<'_>, tensor: AbiTensor<'_>) -> RResult<(), RString> {
        // The plugin owns these elements: the host borrows and copies them.
        self.ask(|host| host.put_tensor(name.as_str(), view::receive_tensor(&tensor)?))
    }

    fn combine(&mut self, inputs: RSlice<'_, RStr<'_>>, how: AbiCombine<'_>, output: RStr<'_>) -> RResult<(), RString> {
        let inputs = inputs.iter().map(|name| name.as_str()).collect::<Vec<_>>();
        self.ask(|host| host.combine(&inputs, &view::receive_combine(&how), output.as_str()))
    }

    fn save_checkpoint(&mut self, dir: RStr<'_>, tag: RStr<'_>, keep_last: ROption<usize>) -> RResult<(), RString> {
        let request =
            CheckpointRequest { dir: PathBuf::from(dir.as_str()), tag: tag.into(), keep_last: keep_last.into() };
        self.ask(|host| host.save_checkpoint(request))
    }

    fn load_checkpoint(&mut self, dir: RStr<'_>) -> RResult<(), RString> {
        self.ask(|host| host.load_checkpoint(dir.as_str().as_ref()))
    }

    fn log(&mut self, level: u8, message: RStr<'_>) {
        self.tell(|host| host.log(view::level(level), message.as_str()));
    }

    fn scalar(&mut self, tag: RStr<'_>, value: f64) {
        self.tell(|host| host.scalar(tag.as_str(), value));
    }

    fn names(&self, of: u8) -> RVec<RString> {
        let names = self.look(|host| view::name_kind(of).map(|kind| host.names(kind)).unwrap_or_default());
        names.into_iter().map(RString::from).collect()
    }

    fn numbers(&mut self, name: RStr<'_>) -> RResult<RVec<RVec<f64>>, RString> {
        self.ask(|host| host.numbers(name.as_str()).map(|lists| lists.into_iter().map(RVec::from).collect()))
    }

    fn texts(&mut self, name: RStr<'_>) -> RResult<RVec<RString>, RString> {
        self.ask(|host| host.texts(name.as_str()).map(|texts| texts.into_iter().map(RString::from).collect()))
    }

    fn layer_statistics(&mut self, of: u8) -> RResult<RVec<AbiLayer>, RString> {
        self.ask(|host| host.layer_statistics(view::layer_values(of)?).map(view::send_layers))
    }

    fn remember(&mut self, key: RStr<'_>, value: RSlice<'_, u8>) -> RResult<(), RString> {
        self.ask(|host| host.remember(key.as_str(), value.as_slice()))
    }

    fn recall(&self, key: RStr<'_>) -> ROption<RVec<u8>> {
        self.look(|host| host.recall(key.as_str())).map(RVec::from).into()
    }

    fn attach_file(&mut self, name: RStr<'_>, content: RSlice<'_, u8>) -> RResult<(), RString> {
        self.ask(|host| host.attach(name.as_str(), &Attachment::File(content.as_slice())))
    }

    fn attach_image(&mut self, name: RStr<'_>, image: AbiTensor<'_>) -> RResult<(), RString> {
        self.ask(|host| host.attach(name.as_str(), &Attachment::Image(view::receive_tensor(&image)?)))
    }

    fn attach_text(&mut self, name: RStr<'_>, text: RStr<'_>) -> RResult<(), RString> {
        self.ask(|host| host.attach(name.as_str(), &Attachment::Text(text.as_str())))
    }

    fn run_info(&self) -> RResult<RString, RString> {
        let info = panic::catch_unwind(AssertUnwindSafe(|| self.host.run_info()));
        let info = info.unwrap_or_else(|payload| {
            *self.panic.borrow_mut() = Some(payload);
            Err(HostError::new("the host panicked"))
        });
        info.map(RString::from).map_err(view::words).into()
    }

    fn fire(&mut self, event: RStr<'_>) -> RResult<(), RString> {
        self.ask(|host| host.fire(event.as_str()))
    }

    fn call_after(&mut self, seconds: f64) -> RResult<(), RString> {
        self.ask(|host| host.call_after(view::time(seconds)?))
    }
}

//! Refuses requests of a handler that its plugin did not declare.

use std::path::Path;
use std::time::Duration;

use hearth_engine::{
    Attachment, CheckpointRequest, Combine, Context, Event, Handler, HandlerError, Host, HostError, HostTensor,
    LayerStatistics, LayerValues, Level, Metrics, NamesOf, OnError, Ranks, When,
};

use crate::file::Identity;
use crate::needs::Need;

/// Restricts the handler to the plugin's declared capabilities. Without a declaration, or with all
/// capabilities, it may make every request.
pub fn permitted(handler: Box<dyn Handler>, identity: &Identity) -> Box<dyn Handler> {
    let Some(needs) = &identity.needs else { return handler };
    let missing = [Need::ChangesRun, Need::Files].map(|need| !needs.contains(&need));
    if missing == [false, false] {
        return handler;
    }
    let [run, files] = missing;
    let prefix = if identity.header.is_some() { "HEARTH_" } else { "" };
    Box::new(Permitted { handler, refuses: Refuses { plugin: identity.name.clone(), prefix, run, files } })
}

struct Permitted {
    handler: Box<dyn Handler>,
    refuses: Refuses,
}

/// The capabilities that were not declared.
struct Refuses {
    plugin: String,
    /// The prefix of the words that declare them.
    prefix: &'static str,
    run: bool,
    files: bool,
}

impl Refuses {
    fn error(&self, request: &str, need: Need) -> HostError {
        let word = match need {
            Need::ChangesRun => "CHANGES_RUN",
            Need::Files => "FILES",
            Need::Network => "NETWORK",
            Need::Programs => "PROGRAMS",
        };
        HostError::new(format!(
            "`{request}` is refused: plugin `{}` does not declare that it {}; its author adds {}{word} to its `needs`",
            self.plugin,
            need.words(),
            self.prefix
        ))
    }
}

impl Handler for Permitted {
    fn name(&self) -> &str {
        self.handler.name()
    }

    fn subscriptions(&self) -> Vec<When> {
        self.handler.subscriptions()
    }

    fn events(&self) -> Vec<String> {
        self.handler.events()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let mut host = Gate { host: &mut *cx.host, refuses: &self.refuses, refused: None };
        let result = self.handler.handle(event, &mut Context { event: cx.event, state: cx.state, host: &mut host });
        // The handler's own error comes first, because a refused request may be its cause.
        result?;
        host.refused.map_or(Ok(()), |error| Err(error.into()))
    }

    fn on_error(&self) -> OnError {
        self.handler.on_error()
    }

    fn ranks(&self) -> Ranks {
        self.handler.ranks()
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        self.handler.save_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        self.handler.load_state(state)
    }
}

/// The host for such a handler.
struct Gate<'a> {
    host: &'a mut dyn Host,
    refuses: &'a Refuses,
    /// The first refused request that has no result.
    refused: Option<HostError>,
}

impl Gate<'_> {
    fn changes(&self, request: &str) -> Result<(), HostError> {
        if self.refuses.run { Err(self.refuses.error(request, Need::ChangesRun)) } else { Ok(()) }
    }

    fn writes(&self, request: &str) -> Result<(), HostError> {
        if self.refuses.files { Err(self.refuses.error(request, Need::Files)) } else { Ok(()) }
    }

    /// Checks a request without a result.
    fn may_change(&mut self, request: &str) -> bool {
        let answer = self.changes(request);
        let may = answer.is_ok();
        self.refused = self.refused.take().or(answer.err());
        may
    }
}

impl Host for Gate<'_> {
    fn terminate(&mut self, why: &str) {
        if self.may_change("terminate") {
            self.host.terminate(why);
        }
    }

    fn terminate_epoch(&mut self, why: &str) {
        if self.may_change("terminate_epoch") {
            self.host.terminate_epoch(why);
        }
    }

    fn interrupt(&mut self, why: &str) {
        if self.may_change("interrupt") {
            self.host.interrupt(why);
        }
    }

    fn set_metric(&mut self, name: &str, value: f64) {
        if self.may_change("set_metric") {
            self.host.set_metric(name, value);
        }
    }

    fn names(&self, of: NamesOf) -> Vec<String> {
        self.host.names(of)
    }

    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        self.host.output(name)
    }

    fn cases(&self) -> Vec<String> {
        self.host.cases()
    }

    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        self.host.numbers(name)
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        self.host.texts(name)
    }

    fn learning_rate(&self) -> Option<f64> {
        self.host.learning_rate()
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        self.changes("set_learning_rate")?;
        self.host.set_learning_rate(learning_rate)
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        self.host.layer_statistics(of)
    }

    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        self.changes("run")?;
        self.host.run(engine)
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        self.host.tensor(name)
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        self.changes("put_tensor")?;
        self.host.put_tensor(name, tensor)
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        self.changes("combine")?;
        self.host.combine(inputs, how, output)
    }

    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError> {
        self.writes("save_checkpoint")?;
        self.host.save_checkpoint(request)
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError> {
        self.changes("load_checkpoint")?;
        self.host.load_checkpoint(dir)
    }

    fn log(&mut self, level: Level, message: &str) {
        self.host.log(level, message);
    }

    fn scalar(&mut self, tag: &str, value: f64) {
        self.host.scalar(tag, value);
    }

    fn remember(&mut self, key: &str, value: &[u8]) -> Result<(), HostError> {
        self.host.remember(key, value)
    }

    fn recall(&self, key: &str) -> Option<Vec<u8>> {
        self.host.recall(key)
    }

    fn attach(&mut self, name: &str, attachment: &Attachment<'_>) -> Result<(), HostError> {
        self.writes("attach")?;
        self.host.attach(name, attachment)
    }

    fn run_info(&self) -> Result<String, HostError> {
        self.host.run_info()
    }

    fn fire(&mut self, event: &str) -> Result<(), HostError> {
        self.host.fire(event)
    }

    fn call_after(&mut self, time: Duration) -> Result<(), HostError> {
        self.host.call_after(time)
    }
}

//! The process of an isolated plugin: it loads the plugin, and calls its handler at the program's
//! request.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hearth_engine::{
    Accept, Attachment, CheckpointRequest, Combine, Context, Event, Handler, Host, HostError, HostTensor,
    LayerStatistics, LayerValues, Level, Metrics, NamesOf,
};
use hearth_plugin::__private as view;
use hearth_plugin::abi::Linked;
use hearth_registry::Fault;
use hearth_registry::component::{Answer as Computed, Component, ComponentKind, HostArray, Network};
use memmap2::Mmap;

use super::confine::confine;
use super::wire::{
    Answer, Order, Request, SentAlternative, SentArray, SentFault, SentTensor, Shared, Source, Word, put_arrays,
    receive, send, take_arrays,
};
use crate::bundled::BUNDLED;
use crate::error::PluginError;
use crate::file::{Identity, inspect};
use crate::load::{Plugin, load, load_linked};
use crate::report::{Info, Report};
use crate::watched::leave_exit;

/// Serves the program that started this process, until the program ends the service or exits.
///
/// # Errors
/// If this process was not started by the program itself, or the program sends an invalid message.
pub fn serve() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let shared = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    socket.peer_addr().map_err(|_| io::Error::other("this command is for Hearth itself"))?;
    leave_standard_streams()?;
    leave_exit();
    end_with(parent_id());
    let line = Line { socket, shared: RefCell::new(Shared::new(shared)), map: None };
    let mut desk = Desk { line, handler: None, component: None };
    loop {
        let order = match receive(&desk.line.socket) {
            Ok(Order::Quit) => return Ok(()),
            Ok(order) => order,
            // The program has ended.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        desk.obey(order)?;
    }
}

/// Replaces the standard streams, which carry messages: the plugin reads from nothing, and prints
/// to the program's standard error.
fn leave_standard_streams() -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    let error = io::stderr().as_fd().try_clone_to_owned()?;
    for (from, to) in [(nothing.as_raw_fd(), libc::STDIN_FILENO), (error.as_raw_fd(), libc::STDOUT_FILENO)] {
        // SAFETY: both numbers are open descriptors. The previous standard streams are closed by
        // it; the socket and the memory were duplicated before.
        if unsafe { libc::dup2(from, to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Ends this process when the program has exited, even if the plugin hangs.
fn end_with(program: u32) {
    thread::spawn(move || {
        while parent_id() == program {
            thread::sleep(Duration::from_secs(1));
        }
        exit(0);
    });
}

struct Desk {
    line: Line,
    handler: Option<(Box<dyn Handler>, Vec<Accept>)>,
    component: Option<Arc<dyn Component>>,
}

impl Desk {
    fn obey(&mut self, order: Order) -> io::Result<()> {
        if let Order::Load { source, options } = order {
            let (word, handler) = prepare(&source, options);
            self.handler = handler;
            return self.line.say(&word);
        }
        let misplaced = || io::Error::new(io::ErrorKind::InvalidData, "an unexpected order");
        let order = match order {
            Order::Make { source, name, options } => {
                let made = make(&source, &name, &options);
                let word = match made {
                    Ok(component) => {
                        self.component = Some(component);
                        Word::Built
                    }
                    Err(fault) => Word::Refused(SentFault::of_options(fault)),
                };
                return self.line.say(&word);
            }
            Order::Work { operation, inputs, text, network } => {
                let component = self.component.as_ref().ok_or_else(misplaced)?;
                let worked = self.line.work(component.as_ref(), operation.as_deref(), inputs, &text, network);
                return self.line.say(&Word::Worked(worked));
            }
            order => order,
        };
        let (handler, filters) = self.handler.as_mut().ok_or_else(misplaced)?;
        let word = match order {
            Order::Event { event, state } => {
                let (event, state) = (Event::from_id(event), state.received());
                let result = handler.handle(event, &mut Context { event, state: &state, host: &mut self.line });
                Word::Handled(result.map_err(|error| error.message().to_owned()))
            }
            Order::Accept { filter, counter, state } => {
                let accept = filters.get(filter).ok_or_else(misplaced)?;
                Word::Accepted(accept(&state.received(), counter))
            }
            Order::SaveState => Word::State(handler.save_state()),
            Order::LoadState(state) => {
                Word::Restored(handler.load_state(&state).map_err(|error| error.message().to_owned()))
            }
            _ => return Err(misplaced()),
        };
        self.line.say(&word)
    }
}

/// The answer for the program, and the handler with the functions of its filters.
type Prepared = (Word, Option<(Box<dyn Handler>, Vec<Accept>)>);

/// Loads the plugin, and creates its handler if there are options.
fn prepare(source: &Source, options: Option<String>) -> Prepared {
    match try_prepare(source, options) {
        Ok(prepared) => prepared,
        Err(PluginError::Options { fault, .. }) => (Word::Refused(SentFault::of_options(*fault)), None),
        Err(error) => (Word::Refused(SentFault::plain(error.to_string())), None),
    }
}

/// Loads the plugin in this process, after restricting the process to the plugin's capabilities.
fn plugin_of(source: &Source) -> Result<Plugin, PluginError> {
    let (identity, library) = match source {
        Source::File(path) => (inspect(path)?, Some(path.as_path())),
        Source::BuiltIn(name) => (Identity::of(linked(name)?.identity), None),
    };
    let name = || identity.name.clone();
    let open = confine(identity.needs.as_deref(), library);
    for need in open.map_err(|why| PluginError::Plugin { name: name(), why })? {
        tracing::warn!(
            "plugin `{}` does not declare that it {}; this system cannot enforce that",
            name(),
            need.words()
        );
    }
    match source {
        Source::File(path) => load(path),
        Source::BuiltIn(name) => load_linked(linked(name)?),
    }
}

fn try_prepare(source: &Source, options: Option<String>) -> Result<Prepared, PluginError> {
    let plugin = plugin_of(source)?;
    let of_plugin = |why: String| PluginError::Plugin { name: plugin.identity().name.clone(), why };
    let Some(options) = options else {
        let path = plugin.path().unwrap_or(Path::new("")).to_owned();
        let info = Info {
            path: plugin.path().map(Path::to_owned),
            identity: plugin.identity().clone(),
            loaded: true,
            options: plugin.options().to_vec(),
            defaults: None,
            components: plugin.components().to_vec(),
        };
        let report = Report { path, ok: true, info: Some(info), problem: None };
        let json = serde_json::to_string(&report).map_err(|error| of_plugin(error.to_string()))?;
        return Ok((Word::Loaded(json), None));
    };
    let options = options.parse().map_err(|error| of_plugin(format!("its options are not TOML: {error}")))?;
    let handler = plugin.handler(options)?;
    let mut filters = Vec::new();
    let whens = handler.subscriptions();
    let sent = whens.iter().map(|when| {
        let alternatives = when.alternatives().iter().map(|(event, filter)| SentAlternative {
            event: event.id(),
            custom_name: event.is_custom().then(|| event.to_string()),
            every: filter.every,
            once: filter.once.clone(),
            before: filter.before,
            after: filter.after,
            accept: filter.accept.clone().map(|accept| {
                filters.push(accept);
                filters.len() - 1
            }),
        });
        alternatives.collect()
    });
    let whens = sent.collect();
    let (name, events) = (handler.name().to_owned(), handler.events());
    let (on_error, ranks) = (handler.on_error(), handler.ranks());
    Ok((Word::Made { name, whens, events, on_error, ranks }, Some((handler, filters))))
}

/// Loads the plugin, restricted to its capabilities, and creates a component. The program has checked its kind.
fn make(source: &Source, name: &str, options: &str) -> Result<Arc<dyn Component>, Fault> {
    let plugin = plugin_of(source).map_err(|error| Fault::at("name", error.to_string()))?;
    let options = options.parse().map_err(|error| Fault::new(format!("its options are not TOML: {error}")))?;
    plugin.component_of(&ComponentKind::ALL, name, options).map(|(_, component)| component)
}

fn linked(name: &str) -> Result<&'static Linked, PluginError> {
    let linked = BUNDLED.iter().copied().find(|linked| Identity::of(linked.identity).name == name);
    let missing = || PluginError::Plugin { name: name.to_owned(), why: "it is not built into this program".to_owned() };
    linked.ok_or_else(missing)
}

/// The program on the other side of the connection, as a `Host`.
struct Line {
    socket: UnixStream,
    shared: RefCell<Shared>,
    /// The tensor that was requested last.
    map: Option<Mmap>,
}

impl Line {
    fn say(&self, word: &Word) -> io::Result<()> {
        send(&self.socket, word)
    }

    /// Sends a request to the program. If the program has exited, this process exits too.
    fn ask(&self, request: Request) -> Result<Answer, HostError> {
        let answer = self.say(&Word::Ask(request)).and_then(|()| receive(&self.socket));
        match answer {
            Ok(Order::Answer(Answer::Refused(why))) => Err(HostError::new(why)),
            Ok(Order::Answer(answer)) => Ok(answer),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(HostError::from_error(&error)),
            Ok(_) | Err(_) => exit(1),
        }
    }

    /// Calls a component. If it runs the network, the program is asked for each window.
    fn work(
        &self,
        component: &dyn Component,
        operation: Option<&str>,
        inputs: Vec<SentArray>,
        text: &str,
        network: bool,
    ) -> Result<(Vec<SentArray>, String), String> {
        let inputs = take_arrays(&self.shared.borrow(), inputs)?;
        let mut run = |window: HostArray<'_>| {
            let window = put_arrays(&mut self.shared.borrow_mut(), &[window])?.remove(0);
            let answer = self.say(&Word::Window(window)).and_then(|()| receive(&self.socket));
            match answer {
                Ok(Order::Output(Ok(output))) => Ok(take_arrays(&self.shared.borrow(), vec![output])?.remove(0)),
                Ok(Order::Output(Err(why))) => Err(why),
                // The program has exited.
                Ok(_) | Err(_) => exit(1),
            }
        };
        let answer = match operation {
            Some(operation) => {
                component.call(operation, &inputs, text, network.then_some(&mut run as &mut Network<'_>))?
            }
            None => Computed { arrays: component.run(&inputs, text)?, text: String::new() },
        };
        Ok((put_arrays(&mut self.shared.borrow_mut(), &answer.arrays)?, answer.text))
    }

    fn tell(&self, request: Request) {
        // A request without a result cannot be refused.
        let _ = self.ask(request);
    }

    fn done(&self, request: Request) -> Result<(), HostError> {
        self.ask(request).map(drop)
    }

    fn names_for(&self, request: Request) -> Result<Vec<String>, HostError> {
        match self.ask(request)? {
            Answer::Names(names) => Ok(names),
            _ => Err(misunderstood()),
        }
    }

    /// Stores the elements of a tensor where the program reads them.
    fn send_tensor(&self, tensor: &HostTensor<'_>) -> Result<SentTensor, HostError> {
        self.shared.borrow_mut().put(&tensor.bytes).map_err(|error| HostError::from_error(&error))?;
        Ok(SentTensor::new(tensor.dtype, &tensor.shape, &tensor.bytes))
    }
}

fn misunderstood() -> HostError {
    HostError::new("the program answered something else")
}

impl Host for Line {
    fn terminate(&mut self, why: &str) {
        self.tell(Request::Terminate(why.to_owned()));
    }

    fn terminate_epoch(&mut self, why: &str) {
        self.tell(Request::TerminateEpoch(why.to_owned()));
    }

    fn interrupt(&mut self, why: &str) {
        self.tell(Request::Interrupt(why.to_owned()));
    }

    fn set_metric(&mut self, name: &str, value: f64) {
        self.tell(Request::SetMetric(name.to_owned(), value));
    }

    fn names(&self, of: NamesOf) -> Vec<String> {
        self.names_for(Request::Names(of)).unwrap_or_default()
    }

    fn output(&mut self, name: &str) -> Result<f64, HostError> {
        match self.ask(Request::Output(name.to_owned()))? {
            Answer::Number(value) => Ok(value),
            _ => Err(misunderstood()),
        }
    }

    fn cases(&self) -> Vec<String> {
        self.names_for(Request::Cases).unwrap_or_default()
    }

    fn numbers(&mut self, name: &str) -> Result<Vec<Vec<f64>>, HostError> {
        match self.ask(Request::Numbers(name.to_owned()))? {
            Answer::Numbers(lists) => Ok(lists),
            _ => Err(misunderstood()),
        }
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, HostError> {
        self.names_for(Request::Texts(name.to_owned()))
    }

    fn learning_rate(&self) -> Option<f64> {
        match self.ask(Request::LearningRate) {
            Ok(Answer::Perhaps(rate)) => rate,
            _ => None,
        }
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), HostError> {
        self.done(Request::SetLearningRate(learning_rate))
    }

    fn layer_statistics(&mut self, of: LayerValues) -> Result<Vec<LayerStatistics>, HostError> {
        match self.ask(Request::LayerStatistics(of))? {
            Answer::Layers(layers) => Ok(layers),
            _ => Err(misunderstood()),
        }
    }

    fn run(&mut self, engine: &str) -> Result<Metrics, HostError> {
        match self.ask(Request::Run(engine.to_owned()))? {
            Answer::Metrics(metrics) => Ok(metrics),
            _ => Err(misunderstood()),
        }
    }

    fn tensor(&mut self, name: &str) -> Result<HostTensor<'_>, HostError> {
        let Answer::Tensor(SentTensor { dtype, shape, bytes }) = self.ask(Request::Tensor(name.to_owned()))? else {
            return Err(misunderstood());
        };
        let dtype = view::check_tensor(dtype, &shape, bytes)?;
        if bytes == 0 {
            return Ok(HostTensor { dtype, shape, bytes: Cow::Borrowed(&[]) });
        }
        if self.map.as_ref().is_none_or(|map| map.len() < bytes) {
            let shared = self.shared.borrow();
            // SAFETY: the memory only grows, and is only written to when this process requests or
            // sends a tensor, while the plugin has no view of it: views are valid until the next
            // call of the host.
            self.map = Some(unsafe { Mmap::map(shared.file()) }.map_err(|error| HostError::from_error(&error))?);
        }
        let elements = self.map.as_ref().and_then(|map| map.get(..bytes)).ok_or_else(misunderstood)?;
        Ok(HostTensor { dtype, shape, bytes: Cow::Borrowed(elements) })
    }

    fn put_tensor(&mut self, name: &str, tensor: HostTensor<'_>) -> Result<(), HostError> {
        let sent = self.send_tensor(&tensor)?;
        self.done(Request::PutTensor(name.to_owned(), sent))
    }

    fn combine(&mut self, inputs: &[&str], how: &Combine, output: &str) -> Result<(), HostError> {
        let inputs = inputs.iter().map(|&name| name.to_owned()).collect();
        self.done(Request::Combine(inputs, how.clone(), output.to_owned()))
    }

    fn save_checkpoint(&mut self, request: CheckpointRequest) -> Result<(), HostError> {
        self.done(Request::SaveCheckpoint(request))
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<(), HostError> {
        self.done(Request::LoadCheckpoint(dir.to_owned()))
    }

    fn log(&mut self, level: Level, message: &str) {
        self.tell(Request::Log(level, message.to_owned()));
    }

    fn scalar(&mut self, tag: &str, value: f64) {
        self.tell(Request::Scalar(tag.to_owned(), value));
    }

    fn remember(&mut self, key: &str, value: &[u8]) -> Result<(), HostError> {
        self.done(Request::Remember(key.to_owned(), value.to_vec()))
    }

    fn recall(&self, key: &str) -> Option<Vec<u8>> {
        match self.ask(Request::Recall(key.to_owned())) {
            Ok(Answer::Bytes(bytes)) => bytes,
            _ => None,
        }
    }

    fn attach(&mut self, name: &str, attachment: &Attachment<'_>) -> Result<(), HostError> {
        let request = match attachment {
            Attachment::File(content) => Request::AttachFile(name.to_owned(), content.to_vec()),
            Attachment::Image(image) => Request::AttachImage(name.to_owned(), self.send_tensor(image)?),
            Attachment::Text(text) => Request::AttachText(name.to_owned(), (*text).to_owned()),
        };
        self.done(request)
    }

    fn run_info(&self) -> Result<String, HostError> {
        match self.ask(Request::RunInfo)? {
            Answer::Text(info) => Ok(info),
            _ => Err(misunderstood()),
        }
    }

    fn fire(&mut self, event: &str) -> Result<(), HostError> {
        self.done(Request::Fire(event.to_owned()))
    }

    fn call_after(&mut self, time: Duration) -> Result<(), HostError> {
        self.done(Request::CallAfter(time.as_secs_f64()))
    }
}

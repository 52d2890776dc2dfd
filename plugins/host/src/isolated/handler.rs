//! The handler of an isolated plugin for the engine: a `Handler`.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearth_engine::{
    Accept, Attachment, Context, Event, Filter, Handler, HandlerError, Host, HostError, HostTensor, OnError, Ranks,
    State, When,
};
use hearth_plugin::__private as view;

use super::process::Process;
use super::wire::{Answer, Order, Request, SentState, SentTensor, SentWhen, Word};

/// The connection that the handler and its filters share.
type Line = Arc<Mutex<Inner>>;

struct Inner {
    process: Process,
    limit: Duration,
    /// A failure in a call that cannot return one: the next call of the handler returns it.
    pending: Option<String>,
    /// The last state for checkpoints.
    saved: Option<Vec<u8>>,
}

/// A plugin's handler in another process.
pub struct Isolated {
    name: String,
    whens: Vec<When>,
    events: Vec<String>,
    on_error: OnError,
    ranks: Ranks,
    line: Line,
}

fn lock(line: &Line) -> MutexGuard<'_, Inner> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Isolated {
    /// The handler that the process has created.
    pub fn new(
        process: Process,
        limit: Duration,
        name: String,
        whens: Vec<SentWhen>,
        events: Vec<String>,
        on_error: OnError,
        ranks: Ranks,
    ) -> Self {
        let line = Arc::new(Mutex::new(Inner { process, limit, pending: None, saved: None }));
        let whens = whens.into_iter().filter_map(|when| receive_when(when, &line)).collect();
        Self { name, whens, events, on_error, ranks, line }
    }
}

fn receive_when(when: SentWhen, line: &Line) -> Option<When> {
    let alternatives = when.into_iter().map(|sent| {
        if let Some(name) = &sent.custom_name {
            Event::custom(name);
        }
        let accept = sent.accept.map(|filter| {
            let line = line.clone();
            Arc::new(move |state: &State, counter: u64| lock(&line).accepts(filter, state, counter)) as Accept
        });
        let filter = Filter { every: sent.every, once: sent.once, before: sent.before, after: sent.after, accept };
        When::from_filter(Event::from_id(sent.event), filter)
    });
    alternatives.reduce(|all, one| all | one)
}

impl Inner {
    /// Calls a filter, which cannot return an error. On failure it passes, so that the handler is
    /// called and returns the error.
    fn accepts(&mut self, filter: usize, state: &State, counter: u64) -> bool {
        self.process.allow(self.limit);
        let order = Order::Accept { filter, counter, state: SentState::of(state) };
        match self.process.ask(&order) {
            Ok(Word::Accepted(accepted)) => accepted,
            Ok(_) => {
                self.pending = Some(self.process.distrust());
                true
            }
            Err(over) => {
                self.pending = Some(format!("while its filter was asked, {over}"));
                true
            }
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(pending) = self.pending.take() {
            return Err(pending);
        }
        self.process.allow(self.limit);
        let limit = self.limit.as_secs_f64();
        let hint = |over: String| match over.contains("in time") {
            true => format!("{over}: it had {limit} s, which `time_limit` in its table of the recipe changes"),
            false => over,
        };
        self.process.send(&Order::Event { event: event.id(), state: SentState::of(cx.state) }).map_err(hint)?;
        loop {
            match self.process.receive().map_err(hint)? {
                Word::Ask(request) => {
                    let answer = self.carry_out(request, cx.host);
                    self.process.send(&Order::Answer(answer)).map_err(hint)?;
                }
                Word::Handled(result) => return result,
                _ => return Err(self.process.distrust()),
            }
        }
    }

    fn carry_out(&mut self, request: Request, host: &mut dyn Host) -> Answer {
        self.try_carry_out(request, host).unwrap_or_else(|error| Answer::Refused(error.to_string()))
    }

    fn try_carry_out(&mut self, request: Request, host: &mut dyn Host) -> Result<Answer, HostError> {
        match request {
            Request::Terminate(why) => host.terminate(&why),
            Request::TerminateEpoch(why) => host.terminate_epoch(&why),
            Request::Interrupt(why) => host.interrupt(&why),
            Request::SetMetric(name, value) => host.set_metric(&name, value),
            Request::Names(of) => return Ok(Answer::Names(host.names(of))),
            Request::Output(name) => return host.output(&name).map(Answer::Number),
            Request::Cases => return Ok(Answer::Names(host.cases())),
            Request::Numbers(name) => return host.numbers(&name).map(Answer::Numbers),
            Request::Texts(name) => return host.texts(&name).map(Answer::Names),
            Request::LearningRate => return Ok(Answer::Perhaps(host.learning_rate())),
            Request::SetLearningRate(rate) => host.set_learning_rate(rate)?,
            Request::LayerStatistics(of) => return host.layer_statistics(of).map(Answer::Layers),
            Request::Run(engine) => return host.run(&engine).map(Answer::Metrics),
            Request::Tensor(name) => {
                let tensor = host.tensor(&name)?;
                self.process.shared.put(&tensor.bytes).map_err(|error| {
                    HostError::new(format!("tensor {name} cannot be passed to the plugin's process: {error}"))
                })?;
                return Ok(Answer::Tensor(SentTensor::new(tensor.dtype, &tensor.shape, &tensor.bytes)));
            }
            Request::PutTensor(name, tensor) => host.put_tensor(&name, self.tensor(tensor)?)?,
            Request::Combine(inputs, how, output) => {
                let inputs = inputs.iter().map(String::as_str).collect::<Vec<_>>();
                host.combine(&inputs, &how, &output)?;
            }
            Request::SaveCheckpoint(request) => host.save_checkpoint(request)?,
            Request::LoadCheckpoint(dir) => host.load_checkpoint(&dir)?,
            Request::Log(level, message) => host.log(level, &message),
            Request::Scalar(tag, value) => host.scalar(&tag, value),
            Request::Remember(key, value) => host.remember(&key, &value)?,
            Request::Recall(key) => return Ok(Answer::Bytes(host.recall(&key))),
            Request::AttachFile(name, content) => host.attach(&name, &Attachment::File(&content))?,
            Request::AttachImage(name, image) => host.attach(&name, &Attachment::Image(self.tensor(image)?))?,
            Request::AttachText(name, text) => host.attach(&name, &Attachment::Text(&text))?,
            Request::RunInfo => return host.run_info().map(Answer::Text),
            Request::Fire(event) => host.fire(&event)?,
            Request::CallAfter(seconds) => host.call_after(view::time(seconds)?)?,
        }
        Ok(Answer::Done)
    }

    /// A tensor that the plugin has sent, with copied elements.
    fn tensor(&self, sent: SentTensor) -> Result<HostTensor<'static>, HostError> {
        let SentTensor { dtype, shape, bytes } = sent;
        let dtype = view::check_tensor(dtype, &shape, bytes)?;
        let bytes = self.process.shared.take(bytes).map_err(|error| HostError::from_error(&error))?;
        Ok(HostTensor { dtype, shape, bytes: Cow::Owned(bytes) })
    }
}

impl Handler for Isolated {
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
        lock(&self.line).handle(event, cx).map_err(HandlerError::new)
    }

    /// A handler whose process has ended is not called again, and the run continues: this is the
    /// purpose of isolation.
    fn on_error(&self) -> OnError {
        if lock(&self.line).process.over().is_some() { OnError::Disable } else { self.on_error }
    }

    fn ranks(&self) -> Ranks {
        self.ranks
    }

    /// If the process has ended, its last state.
    fn save_state(&self) -> Option<Vec<u8>> {
        let mut inner = lock(&self.line);
        let limit = inner.limit;
        inner.process.allow(limit);
        match inner.process.ask(&Order::SaveState) {
            Ok(Word::State(state)) => inner.saved = state,
            Ok(_) => inner.pending = Some(inner.process.distrust()),
            // The next event reports it, unless it was reported.
            Err(over) if inner.pending.is_none() => {
                inner.pending = Some(format!("while its state was saved, {over}"));
            }
            Err(_) => {}
        }
        inner.saved.clone()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let mut inner = lock(&self.line);
        let limit = inner.limit;
        inner.process.allow(limit);
        let answer = inner.process.ask(&Order::LoadState(state.to_vec())).map_err(HandlerError::new)?;
        let Word::Restored(result) = answer else { return Err(HandlerError::new(inner.process.distrust())) };
        result.map_err(HandlerError::new)?;
        inner.saved = Some(state.to_vec());
        Ok(())
    }
}

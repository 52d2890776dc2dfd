//! The computations of a server, some at a time: [`Queue`].

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::error::ServeError;
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::model::{Answer, Format, Model, Refusal, Request};
use crate::spool::Workspace;

/// What is computed, and where its files are.
pub struct Work {
    /// By which model.
    pub model: Arc<dyn Model>,
    /// A file or folder.
    pub input: PathBuf,
    /// Which series of a study.
    pub series: Option<String>,
    /// What the result is.
    pub format: Format,
    /// Further parameters.
    pub parameters: Map<String, Value>,
    /// Holds the input's files, if they came with the request, and the result.
    pub workspace: Arc<Workspace>,
    /// Holds the input's files, if they are a session's.
    pub _session: Option<Arc<Workspace>>,
}

/// How a computation ended.
pub struct Done {
    /// Its result.
    pub result: Result<Answer, Refusal>,
    /// The time in the queue.
    pub waited: Duration,
    /// The time of the computation.
    pub took: Duration,
}

/// Why work is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// As much waits as may wait. It takes about so long until some of it is done.
    Full(Duration),
    /// The server is stopping.
    Stopping,
}

struct Waiting {
    work: Work,
    reply: oneshot::Sender<Done>,
    since: Instant,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    running: usize,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Something waits, or the queue was closed.
    filled: Condvar,
    /// Something left the queue, or ended.
    emptied: Condvar,
    limit: usize,
    jobs: usize,
    metrics: Arc<Metrics>,
    journal: Arc<Journal>,
}

/// Work that waits, and the threads that do it.
pub struct Queue(Arc<Shared>);

impl Queue {
    /// Starts `jobs` threads; `limit` more may wait.
    pub fn start(limit: usize, jobs: usize, metrics: Arc<Metrics>, journal: Arc<Journal>) -> Result<Self, ServeError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            limit,
            jobs,
            metrics,
            journal,
        });
        // Threads end when the queue is closed and empty.
        for index in 0..jobs {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("predict-{index}"));
            thread.spawn(move || shared.work()).map_err(ServeError::Start)?;
        }
        Ok(Self(shared))
    }

    /// Adds work, unless too much waits already. Who drops the receiver gives the work up, where it
    /// has not begun.
    pub fn submit(&self, work: Work) -> Result<oneshot::Receiver<Done>, Busy> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(Busy::Stopping);
        }
        // Work that was given up takes no place.
        state.waiting.retain(|waiting| !waiting.reply.is_closed());
        let idle = self.0.jobs.saturating_sub(state.running);
        if state.waiting.len() >= self.0.limit + idle {
            return Err(Busy::Full(self.0.estimate()));
        }
        Ok(self.0.push(&mut state, work))
    }

    /// As [`Queue::submit`], but waits for a place.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn submit_when_free(&self, work: Work) -> Result<oneshot::Receiver<Done>, Busy> {
        let mut state = self.0.lock();
        while !state.closed && state.waiting.len() >= self.0.limit {
            state = self.0.emptied.wait(state).unwrap_or_else(|held| held.into_inner());
        }
        if state.closed { Err(Busy::Stopping) } else { Ok(self.0.push(&mut state, work)) }
    }

    /// How much waits, and how much is computed.
    pub fn load(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.waiting.len(), state.running)
    }

    /// No more work is accepted; what was is done.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.filled.notify_all();
        self.0.emptied.notify_all();
    }

    /// Closes the queue, and waits until all is done, or for `grace`. Returns what is left.
    pub fn finish(&self, grace: Duration) -> usize {
        self.close();
        let until = Instant::now() + grace;
        let mut state = self.0.lock();
        while !state.waiting.is_empty() || state.running > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return state.waiting.len() + state.running;
            }
            state = self.0.emptied.wait_timeout(state, left).unwrap_or_else(|held| held.into_inner()).0;
        }
        0
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|held| held.into_inner())
    }

    fn push(&self, state: &mut State, work: Work) -> oneshot::Receiver<Done> {
        let (reply, done) = oneshot::channel();
        state.waiting.push_back(Waiting { work, reply, since: Instant::now() });
        self.filled.notify_one();
        done
    }

    /// The time until a place is free.
    fn estimate(&self) -> Duration {
        let each = self.metrics.mean_prediction().unwrap_or(Duration::from_secs(5));
        (each / self.jobs as u32).max(Duration::from_secs(1))
    }

    fn work(&self) {
        loop {
            let mut state = self.lock();
            let next = loop {
                match state.waiting.pop_front() {
                    Some(next) => break next,
                    None if state.closed => return,
                    None => state = self.filled.wait(state).unwrap_or_else(|held| held.into_inner()),
                }
            };
            if next.reply.is_closed() {
                drop(state);
                self.metrics.abandoned("waiting");
                self.emptied.notify_all();
                continue;
            }
            state.running += 1;
            drop(state);
            self.emptied.notify_all();
            let Waiting { work, reply, since } = next;
            let waited = since.elapsed();
            let name = work.model.card().name.clone();
            self.metrics.waited(&name, waited);
            let start = Instant::now();
            let (result, outcome) = infer(&work);
            let took = start.elapsed();
            self.metrics.predicted(&name, outcome, took);
            self.journal.say(&format!(
                "{name}: {outcome} in {:.2} s, waited {:.2} s",
                took.as_secs_f64(),
                waited.as_secs_f64()
            ));
            // Its files go before the client has its answer, so that whoever asks next finds the space.
            work.workspace.forget_uploads();
            drop(work);
            if reply.send(Done { result, waited, took }).is_err() {
                self.metrics.abandoned("computed");
            }
            self.lock().running -= 1;
            self.emptied.notify_all();
        }
    }
}

/// A prediction, and its word in the metrics. A panic ends this prediction alone.
fn infer(work: &Work) -> (Result<Answer, Refusal>, &'static str) {
    let out = work.workspace.results();
    let request = Request {
        input: &work.input,
        series: work.series.as_deref(),
        format: work.format,
        parameters: &work.parameters,
        out: &out,
    };
    match catch_unwind(AssertUnwindSafe(|| work.model.infer(&request))) {
        Ok(Ok(answer)) => (Ok(answer), "done"),
        Ok(Err(Refusal::Input(why))) => (Err(Refusal::Input(work.workspace.without_paths(&why))), "input"),
        Ok(Err(Refusal::Failed(why))) => (Err(Refusal::Failed(work.workspace.without_paths(&why))), "failed"),
        Err(panic) => {
            let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            (Err(Refusal::Failed(format!("the prediction ended by a fault of this program: {said}"))), "panic")
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

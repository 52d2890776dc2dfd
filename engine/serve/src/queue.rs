//! The queue of a server's computations: [`Queue`].

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

/// A prediction to compute, and its files.
pub struct Work {
    /// The model that predicts.
    pub model: Arc<dyn Model>,
    /// The input, a file or folder.
    pub input: PathBuf,
    /// The series of a study.
    pub series: Option<String>,
    /// The format of the result.
    pub format: Format,
    /// Other parameters from the client.
    pub parameters: Map<String, Value>,
    /// The workspace of the result, and of the input's files if they came with the request.
    pub workspace: Arc<Workspace>,
    /// The workspace of the input's files, if they belong to a session.
    pub _session: Option<Arc<Workspace>>,
}

/// The end of a computation.
pub struct Done {
    /// Its result.
    pub result: Result<Answer, Refusal>,
    /// The time in the queue.
    pub waited: Duration,
    /// The time of the computation.
    pub took: Duration,
}

/// The reason why work is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// The maximum number of requests is waiting; with the estimated time until a place is free.
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
    /// Signals that work is waiting, or the queue was closed.
    filled: Condvar,
    /// Signals that work left the queue, or ended.
    emptied: Condvar,
    limit: usize,
    jobs: usize,
    metrics: Arc<Metrics>,
    journal: Arc<Journal>,
}

/// Waiting work, and the threads that compute it.
pub struct Queue(Arc<Shared>);

impl Queue {
    /// Starts `jobs` threads; `limit` more predictions may wait.
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
        // The threads end when the queue is closed and empty.
        for index in 0..jobs {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("predict-{index}"));
            thread.spawn(move || shared.work()).map_err(ServeError::Start)?;
        }
        Ok(Self(shared))
    }

    /// Adds work, unless the queue is full. Dropping the receiver cancels the work, if it has not
    /// started.
    pub fn submit(&self, work: Work) -> Result<oneshot::Receiver<Done>, Busy> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(Busy::Stopping);
        }
        // Cancelled work takes no place.
        state.waiting.retain(|waiting| !waiting.reply.is_closed());
        let idle = self.0.jobs.saturating_sub(state.running);
        if state.waiting.len() >= self.0.limit + idle {
            return Err(Busy::Full(self.0.estimate()));
        }
        Ok(self.0.push(&mut state, work))
    }

    /// Like [`Queue::submit`], but waits for a place.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn submit_when_free(&self, work: Work) -> Result<oneshot::Receiver<Done>, Busy> {
        let mut state = self.0.lock();
        while !state.closed && state.waiting.len() >= self.0.limit {
            state = self.0.emptied.wait(state).unwrap_or_else(|held| held.into_inner());
        }
        if state.closed { Err(Busy::Stopping) } else { Ok(self.0.push(&mut state, work)) }
    }

    /// The numbers of waiting and of running predictions.
    pub fn load(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.waiting.len(), state.running)
    }

    /// Stops accepting work; accepted work is still done.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.filled.notify_all();
        self.0.emptied.notify_all();
    }

    /// Closes the queue, and waits until all work is done, or for `grace`. Returns the number of
    /// unfinished predictions.
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

    /// The estimated time until a place is free.
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
            // Its files are removed before the client gets its answer, so that the next request finds
            // the space.
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

/// Runs a prediction; also returns its word in the metrics. A panic ends only this prediction.
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
            (Err(Refusal::Failed(format!("the prediction ended by an error in this program: {said}"))), "panic")
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

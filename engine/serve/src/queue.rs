//! The queue of a server's computations: [`Queue`].

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll};
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
    /// The client: its address, or the title of a DICOM node. Clients take turns.
    pub client: String,
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

/// The place of work in the queue. Dropping it cancels the work: it does not start, or ends before its
/// next step.
pub struct Ticket {
    done: Option<oneshot::Receiver<Done>>,
    stop: Arc<AtomicBool>,
}

impl Ticket {
    /// Waits for the end of the work; `None` if it ended without a result.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn wait(mut self) -> Option<Done> {
        self.done.take()?.blocking_recv().ok()
    }
}

impl Future for Ticket {
    type Output = Option<Done>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Done>> {
        match &mut self.done {
            Some(done) => Pin::new(done).poll(context).map(Result::ok),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Waiting {
    work: Work,
    reply: oneshot::Sender<Done>,
    stop: Arc<AtomicBool>,
    since: Instant,
}

/// The number of clients whose turns are remembered.
const CLIENTS: usize = 4096;

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// When each client had its last turn.
    turns: HashMap<String, u64>,
    turn: u64,
    running: usize,
    closed: bool,
}

impl State {
    /// Takes the oldest work of the client whose last turn was the earliest.
    fn next(&mut self) -> Option<Waiting> {
        let last = |waiting: &Waiting| self.turns.get(&waiting.work.client).copied().unwrap_or(0);
        // Of equal keys the first is the least.
        let place = self.waiting.iter().enumerate().min_by_key(|(_, waiting)| last(waiting))?.0;
        let next = self.waiting.remove(place)?;
        self.turn += 1;
        if self.turns.len() >= CLIENTS {
            let before = self.turn.saturating_sub(CLIENTS as u64 / 2);
            self.turns.retain(|_, turn| *turn >= before);
        }
        self.turns.insert(next.work.client.clone(), self.turn);
        Some(next)
    }
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

    /// Adds work, unless the queue is full. A client that has nothing in a full queue gets one more
    /// place, so that no other client keeps it out.
    pub fn submit(&self, work: Work) -> Result<Ticket, Busy> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(Busy::Stopping);
        }
        // Cancelled work takes no place.
        state.waiting.retain(|waiting| !waiting.reply.is_closed());
        let idle = self.0.jobs.saturating_sub(state.running);
        let waits = |waiting: &Waiting| waiting.work.client == work.client;
        if state.waiting.len() >= self.0.limit + idle && state.waiting.iter().any(waits) {
            return Err(Busy::Full(self.0.estimate()));
        }
        Ok(self.0.push(&mut state, work))
    }

    /// Like [`Queue::submit`], but waits for a place.
    #[cfg_attr(not(feature = "dicom-net"), allow(dead_code))]
    pub fn submit_when_free(&self, work: Work) -> Result<Ticket, Busy> {
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

    fn push(&self, state: &mut State, work: Work) -> Ticket {
        let ((reply, done), stop) = (oneshot::channel(), Arc::new(AtomicBool::new(false)));
        state.waiting.push_back(Waiting { work, reply, stop: stop.clone(), since: Instant::now() });
        self.filled.notify_one();
        Ticket { done: Some(done), stop }
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
                match state.next() {
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
            let Waiting { work, reply, stop, since } = next;
            let waited = since.elapsed();
            let name = work.model.card().name.clone();
            self.metrics.waited(&name, waited);
            let start = Instant::now();
            let (result, outcome) = infer(&work, &stop);
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
            work.workspace.hold_results();
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
fn infer(work: &Work, stop: &Arc<AtomicBool>) -> (Result<Answer, Refusal>, &'static str) {
    let out = work.workspace.results();
    let request = Request {
        input: &work.input,
        series: work.series.as_deref(),
        format: work.format,
        parameters: &work.parameters,
        out: &out,
        stop,
    };
    match catch_unwind(AssertUnwindSafe(|| work.model.infer(&request))) {
        Ok(Ok(answer)) => (Ok(answer), "done"),
        // What a model says of its end is of no interest then.
        Ok(Err(refusal)) if stop.load(Ordering::Relaxed) => (Err(refusal), "stopped"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Card, Kind};
    use crate::spool::Spool;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A model that reports each client's work, and computes steps until it must end.
    struct Steps {
        card: Card,
        begun: Mutex<Sender<String>>,
        go: Mutex<Receiver<()>>,
    }

    impl Model for Steps {
        fn card(&self) -> &Card {
            &self.card
        }

        fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
            self.begun.lock().unwrap().send(request.input.display().to_string()).unwrap();
            let go = self.go.lock().unwrap();
            loop {
                if request.stop.load(Ordering::Relaxed) {
                    return Err(Refusal::Failed("stopped".to_owned()));
                }
                if go.recv_timeout(Duration::from_millis(5)).is_ok() {
                    return Ok(Answer::default());
                }
            }
        }
    }

    struct Bench {
        queue: Queue,
        model: Arc<Steps>,
        spool: Arc<Spool>,
        begun: Receiver<String>,
        go: Sender<()>,
        metrics: Arc<Metrics>,
    }

    fn bench(limit: usize) -> Bench {
        let ((began, begun), (go, going)) = (channel(), channel());
        let card = Card {
            name: "steps".to_owned(),
            description: String::new(),
            kind: Kind::Segmentation,
            dimension: 3,
            labels: Vec::new(),
            channels: Vec::new(),
            checksum: None,
        };
        let metrics = Arc::new(Metrics::default());
        let queue = Queue::start(limit, 1, metrics.clone(), Arc::new(Journal::default())).unwrap();
        let model = Arc::new(Steps { card, begun: Mutex::new(began), go: Mutex::new(going) });
        Bench { queue, model, spool: Spool::new(None, 1000).unwrap(), begun, go, metrics }
    }

    impl Bench {
        fn submit(&self, client: &str, name: &str) -> Result<Ticket, Busy> {
            self.queue.submit(Work {
                client: client.to_owned(),
                model: self.model.clone(),
                input: PathBuf::from(name),
                series: None,
                format: Format::default(),
                parameters: Map::new(),
                workspace: self.spool.workspace().unwrap(),
                _session: None,
            })
        }

        fn next(&self) -> String {
            self.begun.recv_timeout(Duration::from_secs(5)).unwrap()
        }
    }

    #[test]
    fn clients_take_turns() {
        let bench = bench(6);
        let mut tickets = vec![bench.submit("a", "a1").unwrap()];
        assert_eq!(bench.next(), "a1");
        for name in ["a2", "a3", "a4", "b1", "b2", "c1"] {
            tickets.push(bench.submit(&name[..1], name).unwrap());
        }
        // The queue is full: for those who wait in it already.
        assert!(matches!(bench.submit("a", "a5"), Err(Busy::Full(_))));
        tickets.push(bench.submit("d", "d1").unwrap());
        assert!(matches!(bench.submit("d", "d2"), Err(Busy::Full(_))));
        let order: Vec<String> = (0..7)
            .map(|_| {
                bench.go.send(()).unwrap();
                bench.next()
            })
            .collect();
        assert_eq!(order, ["b1", "c1", "d1", "a2", "b2", "a3", "a4"]);
        bench.go.send(()).unwrap();
        assert!(tickets.into_iter().all(|ticket| ticket.wait().is_some()));
    }

    #[test]
    fn work_of_a_client_that_left_ends_at_its_next_step() {
        let bench = bench(6);
        let first = bench.submit("a", "a1").unwrap();
        assert_eq!(bench.next(), "a1");
        let (second, third) = (bench.submit("a", "a2").unwrap(), bench.submit("b", "b1").unwrap());
        drop((first, second));
        // Nothing lets the first one end but its client.
        assert_eq!(bench.next(), "b1");
        bench.go.send(()).unwrap();
        assert!(third.wait().is_some());
        let text = bench.metrics.text(crate::metrics::Gauges::default());
        assert!(text.contains("outcome=\"stopped\"} 1") && text.contains("outcome=\"done\"} 1"), "{text}");
        assert!(bench.begun.try_recv().is_err(), "what waited did not start");
    }
}

//! Threads that prepare pieces of work in advance, in order: [`Pool`] and [`Run`].

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::DataError;
use crate::sampler::Turn;

/// Work that is divided into pieces which threads claim one by one.
trait Task: Send + Sync {
    /// Claims the next piece that may be started now.
    fn claim(&self) -> Option<usize>;

    /// Prepares a piece.
    fn make(&self, piece: usize);
}

/// Threads that outlive their work.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

#[derive(Default)]
struct Tasks {
    list: Vec<Arc<dyn Task>>,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn work(&self) {
        let mut tasks = self.lock();
        loop {
            if tasks.stop {
                return;
            }
            let found = tasks.list.iter().find_map(|task| Some((task.clone(), task.claim()?)));
            tasks = match found {
                Some((task, piece)) => {
                    drop(tasks);
                    task.make(piece);
                    drop(task);
                    self.lock()
                }
                None => self.changed.wait(tasks).unwrap_or_else(|p| p.into_inner()),
            };
        }
    }

    /// Signals that a piece may be claimed. A thread that is about to wait holds the lock, so that
    /// the notification is not missed.
    fn tell(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }
}

impl Pool {
    /// Starts this number of threads, or as many as the system allows.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = (0..threads)
            .map_while(|_| {
                let shared = shared.clone();
                // If the system starts no more threads, the existing ones do the work.
                std::thread::Builder::new().spawn(move || shared.work()).ok()
            })
            .collect();
        Pool { shared, threads }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread never panics: panics of its work are caught.
            let _ = thread.join();
        }
    }
}

type Make<T> = dyn Fn(&[Turn], &dyn Fn() -> bool) -> Result<T, DataError> + Send + Sync;

struct Work<T> {
    plan: Vec<Vec<Turn>>,
    make: Box<Make<T>>,
    buffer: usize,
    state: Mutex<State<T>>,
    changed: Condvar,
    stop: AtomicBool,
}

struct State<T> {
    /// The next piece that was not yet started.
    begun: usize,
    /// Number of pieces that are being prepared.
    active: usize,
    /// The next piece that the consumer receives.
    taken: usize,
    ready: BTreeMap<usize, Result<T, DataError>>,
}

impl<T> Work<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Waits for a change. A thread of the kernels' pool meanwhile helps with the kernels that the
    /// workers call.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        /// The interval at which such a thread checks for work to help with.
        const LOOK: Duration = Duration::from_micros(100);
        if rayon::current_thread_index().is_none() {
            return self.changed.wait(state).unwrap_or_else(|p| p.into_inner());
        }
        drop(state);
        let helped = rayon::yield_now() == Some(rayon::Yield::Executed);
        let state = self.lock();
        if helped {
            return state;
        }
        self.changed.wait_timeout(state, LOOK).unwrap_or_else(|p| p.into_inner()).0
    }

    fn call(&self, piece: usize) -> Result<T, DataError> {
        (self.make)(&self.plan[piece], &|| self.stop.load(Ordering::Relaxed))
    }
}

impl<T: Send> Task for Work<T> {
    fn claim(&self) -> Option<usize> {
        let mut state = self.lock();
        let free = state.begun < self.plan.len() && state.begun < state.taken + self.buffer;
        if !free || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        state.begun += 1;
        state.active += 1;
        Some(state.begun - 1)
    }

    fn make(&self, piece: usize) {
        let made = catch_unwind(AssertUnwindSafe(|| self.call(piece))).unwrap_or_else(|_| {
            Err(DataError::Panic { case: format!("batch {piece}"), what: "preparing it panicked".to_owned() })
        });
        let mut state = self.lock();
        state.active -= 1;
        state.ready.insert(piece, made);
        drop(state);
        self.changed.notify_all();
    }
}

/// Prepares pieces of work in any order and returns them in the order of the plan. Without a pool
/// each piece is prepared on demand.
pub(crate) struct Run<T> {
    work: Arc<Work<T>>,
    pool: Option<Arc<Pool>>,
    next: usize,
}

impl<T: Send + 'static> Run<T> {
    /// Starts the work. `make` receives a piece of the plan, and a function that returns whether
    /// the piece is no longer needed. At most `buffer` pieces are ready or being prepared.
    pub fn new(
        plan: Vec<Vec<Turn>>,
        make: impl Fn(&[Turn], &dyn Fn() -> bool) -> Result<T, DataError> + Send + Sync + 'static,
        pool: Option<Arc<Pool>>,
        buffer: usize,
    ) -> Self {
        let pool = pool.filter(|pool| !pool.threads.is_empty());
        let state = Mutex::new(State { begun: 0, active: 0, taken: 0, ready: BTreeMap::new() });
        let (make, changed, stop) = (Box::new(make), Condvar::new(), AtomicBool::new(false));
        let work = Arc::new(Work { plan, make, buffer, state, changed, stop });
        if let Some(pool) = &pool {
            pool.shared.lock().list.push(work.clone());
            pool.shared.changed.notify_all();
        }
        Run { work, pool, next: 0 }
    }

    /// Returns the next piece; after an error it continues with the following one.
    pub fn next(&mut self) -> Option<Result<T, DataError>> {
        if self.next >= self.work.plan.len() {
            return None;
        }
        let piece = self.next;
        self.next += 1;
        let Some(pool) = &self.pool else { return Some(self.work.call(piece)) };
        let mut state = self.work.lock();
        loop {
            if let Some(made) = state.ready.remove(&piece) {
                state.taken = self.next;
                drop(state);
                pool.shared.tell();
                return Some(made);
            }
            state = self.work.wait(state);
        }
    }
}

impl<T> std::fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("next", &self.next).field("of", &self.work.plan.len()).finish()
    }
}

impl<T> Drop for Run<T> {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        self.work.stop.store(true, Ordering::Relaxed);
        let address = Arc::as_ptr(&self.work).cast::<()>();
        pool.shared.lock().list.retain(|task| Arc::as_ptr(task).cast::<()>() != address);
        // Waits for pieces in progress, so that nothing uses the data set afterwards.
        let mut state = self.work.lock();
        while state.active > 0 {
            state = self.work.wait(state);
        }
    }
}

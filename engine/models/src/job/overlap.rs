//! Overlapping stages over many cases: while one case is computed, the next ones are read and the
//! last one is written. See [`overlapped`].

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hearth_machine::Allowance;
use serde::Serialize;

/// The seconds of one case or all cases in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StageSeconds {
    /// Reading the files and preparing them for the network.
    pub read: f64,
    /// The network, and its prediction on the grid of the image.
    pub predict: f64,
    /// Writing results.
    pub write: f64,
}

/// The results of all cases.
#[derive(Debug)]
pub struct Overlapped<R> {
    /// The results, in the order of the cases.
    pub results: Vec<R>,
    /// Sums over the cases; with overlapping stages they exceed `wall`.
    pub stages: StageSeconds,
    /// The time from start to end in seconds.
    pub wall: f64,
}

/// Limits for work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The number of reading threads.
    pub readers: usize,
    /// The largest number of cases between the start of reading and the end of writing.
    pub cases: usize,
    /// The largest total size of these cases in bytes.
    pub bytes: u64,
}

impl Overlap {
    /// The limits for this machine in its current state: one reader for four CPU cores, at most
    /// four, and half of the free memory.
    pub fn of_machine() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let readers = (processors / 4).clamp(1, 4);
        Self { readers, cases: readers + 3, bytes: Allowance::now().free / 2 }
    }

    /// The limits for one of several processes that share the machine's memory.
    #[must_use]
    pub fn shared_by(self, processes: usize) -> Self {
        Self { bytes: self.bytes / processes.max(1) as u64, ..self }
    }

    /// Processes one case after the other.
    pub fn none() -> Self {
        Self { readers: 1, cases: 1, bytes: 0 }
    }

    /// The number of cases of this size that may be held.
    fn of_size(&self, bytes: u64) -> usize {
        let fit = usize::try_from(self.bytes / bytes.max(1)).unwrap_or(usize::MAX);
        fit.clamp(1, self.cases.max(1))
    }
}

/// The state of started cases and the limit for new ones.
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    overlap: Overlap,
}

struct State {
    next: usize,
    held: usize,
    limit: usize,
    largest: u64,
    stopped: bool,
}

impl Gate {
    /// Starts without known sizes: the first case is read alone.
    fn new(overlap: Overlap) -> Self {
        let state = State { next: 0, held: 0, limit: 1, largest: 0, stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), overlap }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room and returns the next case. Cases are started in order, so the first
    /// unfinished one always has its place.
    fn enter(&self, count: usize) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.next >= count {
                return None;
            }
            if state.held < state.limit {
                state.held += 1;
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records a case in memory: the largest so far determines the number of cases.
    fn seen(&self, bytes: u64) {
        let mut state = self.lock();
        state.largest = state.largest.max(bytes);
        state.limit = self.overlap.of_size(state.largest);
        self.changed.notify_all();
    }

    fn leave(&self) {
        self.lock().held -= 1;
        self.changed.notify_all();
    }
}

/// Stops waiting readers when dropped, however the work ends.
struct Stop<'a>(&'a Gate);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.lock().stopped = true;
        self.0.changed.notify_all();
    }
}

/// Reads, predicts and writes each case. `read` runs on its own threads, `predict` on the calling
/// thread and `write` on another one, both in the order of the cases. `write` also gets the errors
/// of the earlier stages, with their time in seconds. `bytes` estimates the memory of a case
/// between reading and writing.
///
/// `begin` is called on each thread before its work. A single case runs on the calling thread only.
pub fn overlapped<T, P, C, R, E>(
    items: &[T],
    overlap: Overlap,
    begin: impl Fn() + Sync,
    read: impl Fn(&T) -> Result<P, E> + Sync,
    bytes: impl Fn(&P) -> u64 + Sync,
    mut predict: impl FnMut(usize, P) -> Result<C, E>,
    mut write: impl FnMut(usize, Result<C, E>, StageSeconds) -> R + Send,
) -> Overlapped<R>
where
    T: Sync,
    P: Send,
    C: Send,
    R: Send,
    E: Send,
{
    let start = Instant::now();
    let mut stages = StageSeconds::default();
    if items.len() < 2 || overlap.cases < 2 {
        let mut results = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let (got, reading) = timed(|| read(item));
            let (made, predicting) = timed(|| got.and_then(|got| predict(index, got)));
            let spent = StageSeconds { read: reading, predict: predicting, write: 0.0 };
            let (result, writing) = timed(|| write(index, made, spent));
            add(&mut stages, StageSeconds { write: writing, ..spent });
            results.push(result);
        }
        return Overlapped { results, stages, wall: start.elapsed().as_secs_f64() };
    }
    let gate = Gate::new(overlap);
    let (results, written) = thread::scope(|scope| {
        let _stop = Stop(&gate);
        let (to_predict, got) = channel();
        for _ in 0..overlap.readers.clamp(1, items.len()) {
            let (to_predict, gate, begin, read, bytes) = (to_predict.clone(), &gate, &begin, &read, &bytes);
            scope.spawn(move || {
                begin();
                while let Some(index) = gate.enter(items.len()) {
                    // A panic is passed to the calling thread, which would otherwise wait for this
                    // case.
                    let (got, seconds) = timed(|| catch_unwind(AssertUnwindSafe(|| read(&items[index]))));
                    match &got {
                        Ok(Ok(got)) => gate.seen(bytes(got)),
                        Ok(Err(_)) => gate.seen(0),
                        Err(_) => {}
                    }
                    if to_predict.send((index, got, seconds)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(to_predict);
        let (to_write, made) = channel::<(usize, Result<C, E>, StageSeconds)>();
        let writer = {
            let (gate, begin, write) = (&gate, &begin, &mut write);
            scope.spawn(move || {
                // After an early end no case is finished any more, so readers must not wait for room.
                let _stop = Stop(gate);
                begin();
                let (mut results, mut seconds) = (Vec::with_capacity(items.len()), 0.0);
                for (index, made, spent) in made {
                    let (result, writing) = timed(|| write(index, made, spent));
                    seconds += writing;
                    results.push(result);
                    gate.leave();
                }
                (results, seconds)
            })
        };
        let mut early = BTreeMap::new();
        for index in 0..items.len() {
            while !early.contains_key(&index) {
                let Some((index, got, seconds)) = next(&got) else { break };
                early.insert(index, (got, seconds));
            }
            let Some((got, reading)) = early.remove(&index) else { break };
            let got = got.unwrap_or_else(|panic| resume_unwind(panic));
            let (made, predicting) = timed(|| got.and_then(|got| predict(index, got)));
            let spent = StageSeconds { read: reading, predict: predicting, write: 0.0 };
            add(&mut stages, spent);
            if to_write.send((index, made, spent)).is_err() {
                break;
            }
        }
        drop(to_write);
        writer.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    stages.write = written;
    Overlapped { results, stages, wall: start.elapsed().as_secs_f64() }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let made = work();
    (made, start.elapsed().as_secs_f64())
}

fn add(all: &mut StageSeconds, one: StageSeconds) {
    all.read += one.read;
    all.predict += one.predict;
    all.write += one.write;
}

/// Receives the next message. The calling thread is one of those that run kernels: while it waits,
/// it helps with the work that the readers started.
fn next<M>(from: &Receiver<M>) -> Option<M> {
    loop {
        if let Ok(message) = from.try_recv() {
            return Some(message);
        }
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            continue;
        }
        match from.recv_timeout(Duration::from_millis(1)) {
            Ok(message) => return Some(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const WIDE: Overlap = Overlap { readers: 1, cases: 4, bytes: 1000 };

    fn pause(milliseconds: u64) {
        thread::sleep(Duration::from_millis(milliseconds));
    }

    /// Waits until a count is reached, which never happens if nothing overlaps.
    fn wait_for(count: &AtomicUsize, least: usize) {
        let start = Instant::now();
        while count.load(Ordering::SeqCst) < least {
            assert!(start.elapsed() < Duration::from_secs(60), "stages do not overlap");
            pause(1);
        }
    }

    #[test]
    fn while_one_is_predicted_the_next_is_read_and_the_last_is_written() {
        let items: Vec<usize> = (0..20).collect();
        let (begun, predicting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let done = overlapped(
            &items,
            WIDE,
            || {},
            |item| {
                begun.fetch_add(1, Ordering::SeqCst);
                pause(1);
                Ok::<usize, String>(*item)
            },
            |_| 1,
            |index, got| {
                predicting.fetch_add(1, Ordering::SeqCst);
                // Finishes once the next one is read.
                wait_for(&begun, (index + 2).min(items.len()));
                Ok(got * 2)
            },
            |index, made, spent| {
                // Finishes once the next one is predicted.
                wait_for(&predicting, (index + 2).min(items.len()));
                (index, made, spent)
            },
        );
        let found: Vec<(usize, Result<usize, String>)> =
            done.results.iter().map(|(index, made, _)| (*index, made.clone())).collect();
        assert_eq!(found, items.iter().map(|item| (*item, Ok(item * 2))).collect::<Vec<_>>());
        assert!(done.results.iter().all(|(_, _, spent)| spent.read > 0.0009 && spent.predict > 0.0), "{done:?}");
        assert!(done.stages.read > 0.019 && done.wall > 0.0, "{done:?}");
    }

    #[test]
    fn what_fails_does_not_stop_the_others() {
        let items: Vec<usize> = (0..30).collect();
        for overlap in [WIDE, Overlap::none(), Overlap { readers: 3, cases: 6, bytes: 1000 }] {
            let done = overlapped(
                &items,
                overlap,
                || {},
                |item| if item % 3 == 0 { Err(format!("read {item}")) } else { Ok(*item) },
                |_| 1,
                |_, got| if got % 3 == 1 { Err(format!("predict {got}")) } else { Ok(got) },
                |_, made, _| made,
            );
            let expected = items.iter().map(|item| match item % 3 {
                0 => Err(format!("read {item}")),
                1 => Err(format!("predict {item}")),
                _ => Ok(*item),
            });
            assert_eq!(done.results, expected.collect::<Vec<_>>(), "{overlap:?}");
        }
    }

    #[test]
    fn no_more_cases_are_held_than_fit() {
        let items: Vec<u64> = (0..40).map(|item| if item < 20 { 10 } else { 400 }).collect();
        let (held, most, large) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let overlap = Overlap { readers: 4, cases: 5, bytes: 1000 };
        overlapped(
            &items,
            overlap,
            || {},
            |item| {
                let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                Ok::<u64, ()>(*item)
            },
            |item| *item,
            |index, got| {
                pause(2);
                // All cases that were started before the first large one was seen are done.
                if index > 26 {
                    large.fetch_max(held.load(Ordering::SeqCst), Ordering::SeqCst);
                }
                Ok(got)
            },
            |_, _, _| held.fetch_sub(1, Ordering::SeqCst),
        );
        let (most, large) = (most.into_inner(), large.into_inner());
        assert!((2..=5).contains(&most), "{most} of small ones");
        assert!((1..=2).contains(&large), "{large} of large ones");
    }

    /// The writer fails while all allowed cases wait for it.
    #[test]
    fn a_writer_that_fails_late_keeps_nobody_waiting() {
        let items: Vec<usize> = (0..20).collect();
        let ended = catch_unwind(|| {
            let write = |_, _, _| {
                pause(50);
                panic!("writing");
            };
            overlapped(&items, WIDE, || {}, |item| Ok::<usize, ()>(*item), |_| 1, |_, got| Ok(got), write).wall
        });
        assert!(ended.is_err());
    }

    #[test]
    fn a_panic_is_one_of_the_caller_and_nothing_waits() {
        let items: Vec<usize> = (0..20).collect();
        for stage in 0..3 {
            let ended = catch_unwind(|| {
                overlapped(
                    &items,
                    WIDE,
                    || {},
                    |item| {
                        assert!(stage != 0 || *item != 7, "reading");
                        Ok::<usize, ()>(*item)
                    },
                    |_| 1,
                    |_, got| {
                        assert!(stage != 1 || got != 7, "predicting");
                        Ok(got)
                    },
                    |index, _, _| assert!(stage != 2 || index != 7, "writing"),
                )
                .wall
            });
            assert!(ended.is_err(), "stage {stage}");
        }
    }
}

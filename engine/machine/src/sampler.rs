//! A thread that reads a machine periodically: [`Sampler`].

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::probe::{Machine, Probe};
use crate::rates::{Rates, Sample};

/// Reads a machine periodically from its own thread, and passes the samples to a function, or keeps
/// them all. Dropping it ends the thread without waiting for it.
#[derive(Debug)]
pub struct Sampler<T> {
    stop: Sender<()>,
    thread: JoinHandle<Result<T, String>>,
}

impl Sampler<Vec<Sample>> {
    /// Keeps all samples of this machine until [`stop`](Self::stop) returns them: about 200 bytes
    /// each, plus 50 for each GPU.
    ///
    /// # Errors
    /// Where the interval is 0, and where the thread cannot be started.
    pub fn start(every: Duration) -> io::Result<Self> {
        Self::with(Machine::open(), every, Vec::new(), |all, sample| {
            all.push(sample);
            Ok(())
        })
    }
}

impl<T: Send + 'static> Sampler<T> {
    /// Passes each sample to a function, together with a value that `stop` returns. An error of the
    /// function ends the sampling, and `stop` returns it.
    ///
    /// # Errors
    /// Same as [`Sampler::start`].
    pub fn with(
        mut probe: impl Probe + 'static,
        every: Duration,
        mut value: T,
        mut each: impl FnMut(&mut T, Sample) -> Result<(), String> + Send + 'static,
    ) -> io::Result<Self> {
        if every.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the time between two samples is 0"));
        }
        let (stop, stopped) = channel();
        let work = move || {
            let mut rates = Rates::new(every);
            let mut due = Instant::now();
            loop {
                each(&mut value, rates.sample(probe.read()))?;
                // A reading that took longer than `every` delays those after it.
                due = (due + every).max(Instant::now());
                match stopped.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) => {
                        each(&mut value, rates.sample(probe.read()))?;
                        return Ok(value);
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(value),
                }
            }
        };
        let thread = std::thread::Builder::new().name("machine sampler".into()).spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Whether the thread has ended, because its function failed.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Takes a last sample and ends the sampling.
    ///
    /// # Errors
    /// The error of the function.
    pub fn stop(self) -> Result<T, String> {
        // The thread may have ended already, because it failed.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_else(|_| Err("the thread that samples the machine panicked".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{About, Reading};

    struct Counting(u64);

    impl Probe for Counting {
        fn about(&self) -> About {
            About::default()
        }

        fn read(&mut self) -> Reading {
            self.0 += 1;
            let at = Instant::now();
            Reading { at, process: None, free_memory: Some(self.0), package_joules: None, gpus: vec![] }
        }
    }

    fn push(all: &mut Vec<u64>, sample: Sample) -> Result<(), String> {
        all.push(sample.free_memory.unwrap());
        if all.len() == 5 { Err("full".to_owned()) } else { Ok(()) }
    }

    #[test]
    fn the_last_sample_is_taken_at_the_end() {
        let sampler = Sampler::with(Counting(0), Duration::from_secs(3600), Vec::new(), push).unwrap();
        assert!(!sampler.is_finished());
        assert_eq!(sampler.stop().unwrap(), [1, 2]);
    }

    #[test]
    fn an_error_ends_the_thread() {
        let sampler = Sampler::with(Counting(0), Duration::from_millis(1), Vec::new(), push).unwrap();
        while !sampler.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(sampler.stop().unwrap_err(), "full");
        assert!(Sampler::start(Duration::ZERO).is_err());
    }
}

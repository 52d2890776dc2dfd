//! Time in which this process ran: [`Awake`].

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval at which a thread looks at the clock.
const BEAT: Duration = Duration::from_millis(100);

/// The longest interval that counts in full: after a longer one the process was stopped, and was not only
/// waiting for a CPU.
const MOST: Duration = Duration::from_millis(500);

static CLOCK: Mutex<Option<Clock>> = Mutex::new(None);

struct Clock {
    looked: Instant,
    ran: Duration,
    /// The longest interval that counts in full.
    most: Duration,
}

impl Clock {
    /// The time until now.
    fn now(&mut self) -> Duration {
        let passed = self.looked.elapsed();
        self.looked += passed;
        self.ran += if passed > self.most { BEAT } else { passed };
        self.ran
    }
}

fn clock() -> MutexGuard<'static, Option<Clock>> {
    CLOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A point in the time in which this process ran. The time for which the process was stopped (`SIGSTOP`,
/// Ctrl-Z, a suspended job of a cluster) does not count, so that limits of time do not pass meanwhile.
///
/// ```
/// use std::time::Duration;
/// use hearth_machine::Awake;
///
/// let start = Awake::now();
/// std::thread::sleep(Duration::from_millis(5));
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Awake(Duration);

impl Awake {
    /// This moment.
    pub fn now() -> Self {
        let mut clock = clock();
        let clock = clock.get_or_insert_with(|| {
            // The thread waits for the lock at first.
            let beat = || {
                loop {
                    std::thread::sleep(BEAT);
                    Self::now();
                }
            };
            let beats = std::thread::Builder::new().name("hearth-awake".to_owned()).spawn(beat).is_ok();
            // Without the thread, a long interval may be one in which nothing looked at the clock.
            Clock { looked: Instant::now(), ran: Duration::ZERO, most: if beats { MOST } else { Duration::MAX } }
        });
        Self(clock.now())
    }

    /// The time in which the process ran since then.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// Waits for a message until the process has run for `patience` since this point.
    ///
    /// # Errors
    /// If no message arrives by then, or no sender is left.
    pub fn receive<T>(self, messages: &Receiver<T>, patience: Duration) -> Result<T, RecvTimeoutError> {
        loop {
            let left = patience.saturating_sub(self.elapsed());
            match messages.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) if left > Duration::ZERO => {}
                received => return received,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_message_is_waited_for_until_the_time_has_passed() {
        let (sender, messages) = channel();
        let (start, begin) = (Awake::now(), Instant::now());
        assert_eq!(start.receive(&messages, Duration::from_millis(30)), Err(RecvTimeoutError::Timeout));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        sender.send(3).expect("a receiver");
        assert_eq!(start.receive(&messages, Duration::ZERO), Ok(3));
        drop(sender);
        assert_eq!(start.receive(&messages, Duration::from_secs(60)), Err(RecvTimeoutError::Disconnected));
    }

    #[cfg(unix)]
    #[test]
    fn the_time_for_which_the_process_is_stopped_does_not_count() {
        let (_sender, messages) = channel::<()>();
        let (start, begin, this) = (Awake::now(), Instant::now(), std::process::id());
        let script = format!("sleep 0.2; kill -STOP {this}; sleep 4; kill -CONT {this}");
        let mut shell = std::process::Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
        // The wait itself ends later, too.
        assert_eq!(start.receive(&messages, Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
        assert!(begin.elapsed() > Duration::from_secs(4), "it was stopped for four seconds");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert!(shell.wait().is_ok_and(|status| status.success()));
    }
}

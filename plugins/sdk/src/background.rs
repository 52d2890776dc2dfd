//! Work in a thread of a plugin's own: [`Work`].

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use hearth_engine::HandlerError;

use crate::guard::guard;

/// Work in a thread, whose result the handler collects in a later call. A handler that also calls
/// [`Host::call_after`](hearth_engine::Host::call_after) is called at the end of the run in any case,
/// and can wait there.
///
/// ```
/// use std::time::Duration;
/// use hearth_plugin::{Context, Event, Handler, HandlerError, When, Work};
///
/// /// Sends a file at the end of each epoch without holding up the run.
/// #[derive(Default)]
/// struct Upload(Vec<Work<Result<(), String>>>);
///
/// impl Handler for Upload {
///     fn name(&self) -> &str {
///         "upload"
///     }
///     fn subscriptions(&self) -> Vec<When> {
///         vec![Event::EpochCompleted.into()]
///     }
///     fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
///         if event == Event::EpochCompleted {
///             let epoch = cx.state.epoch;
///             self.0.push(Work::start(move || send(epoch))?);
///             return Ok(cx.host.call_after(Duration::from_secs(10))?);
///         }
///         // `Event::Timer`: during the run after ten seconds, at its end at once.
///         for work in self.0.drain(..) {
///             work.wait(Duration::from_secs(60))?.map_err(HandlerError::new)?;
///         }
///         Ok(())
///     }
/// }
/// # fn send(_: u64) -> Result<(), String> { Ok(()) }
/// # use hearth_plugin::testkit::Rehearsal;
/// # let mut run = Rehearsal::new(Upload::default());
/// # run.epochs(2, 1).unwrap();
/// # run.timer().unwrap();
/// # assert!(run.handler.0.is_empty());
/// ```
#[derive(Debug)]
pub struct Work<T>(Receiver<Result<T, String>>);

impl<T: Send + 'static> Work<T> {
    /// Starts the work in a new thread.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> Result<Self, HandlerError> {
        let (give, take) = channel();
        let thread = thread::Builder::new().name("plugin".to_owned());
        // The result of a handler that has gone away is dropped.
        thread.spawn(move || drop(give.send(guard(work))))?;
        Ok(Self(take))
    }

    /// The result, if the work is done; otherwise the work itself.
    ///
    /// # Errors
    /// If the work panicked.
    pub fn done(self) -> Result<Result<T, Self>, HandlerError> {
        match self.0.try_recv() {
            Ok(result) => result.map(Ok).map_err(HandlerError::new),
            Err(_) => Ok(Err(self)),
        }
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// If the work takes longer than `at_most`, and if it panicked.
    pub fn wait(self, at_most: Duration) -> Result<T, HandlerError> {
        match self.0.recv_timeout(at_most) {
            Ok(result) => result.map_err(HandlerError::new),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(HandlerError::new(format!("its work in the background was not done after {at_most:?}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_comes_when_it_is_there() {
        let (go, may) = channel::<()>();
        let work = Work::start(move || may.recv().map(|()| 7)).expect("a thread");
        let work = work.done().expect("no panic").expect_err("it waits");
        go.send(()).expect("it waits");
        assert_eq!(work.wait(Duration::from_secs(60)).expect("done"), Ok(7));
    }

    #[test]
    fn work_that_hangs_or_panics_is_an_error() {
        let (_go, may) = channel::<()>();
        let slow = Work::start(move || may.recv().is_ok()).expect("a thread");
        let error = slow.wait(Duration::from_millis(1)).expect_err("too slow").to_string();
        assert!(error.contains("not done after 1ms"), "{error}");
        let broken = Work::start(|| panic!("no luck")).expect("a thread");
        let error = broken.wait(Duration::from_secs(60)).expect_err("it panicked").to_string();
        assert!(error.contains("no luck"), "{error}");
    }
}

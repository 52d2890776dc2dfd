//! Peers that send a message byte by byte: [`Deadlines`].

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// The connections that wait for a message. A timeout of the socket begins again with each byte, so a
/// peer that sends a byte a minute would keep one of the few associations for ever.
#[derive(Debug)]
pub struct Deadlines {
    limit: Duration,
    waiting: Mutex<Vec<Weak<Deadline>>>,
}

/// The time that a peer has for one complete message.
#[derive(Debug)]
pub struct Deadline {
    stream: TcpStream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The start of the wait, while a message is awaited.
    since: Option<Instant>,
    passed: bool,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|held| held.into_inner())
}

impl Deadlines {
    /// Each message must be complete within `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit, waiting: Mutex::default() }
    }

    /// Starts to wait for the first message of a connection.
    ///
    /// # Errors
    /// The operating system's error, if it has no handle for the connection.
    pub fn watch(&self, stream: &TcpStream) -> io::Result<Arc<Deadline>> {
        let state = State { since: Some(Instant::now()), passed: false };
        let deadline = Arc::new(Deadline { stream: stream.try_clone()?, state: Mutex::new(state) });
        held(&self.waiting).push(Arc::downgrade(&deadline));
        Ok(deadline)
    }

    /// Closes the connections whose time has passed.
    pub fn check(&self) {
        held(&self.waiting).retain(|deadline| {
            let Some(deadline) = deadline.upgrade() else { return false };
            let mut state = held(&deadline.state);
            let late = state.since.is_some_and(|since| since.elapsed() > self.limit);
            if late {
                state.passed = true;
                // A connection that the peer has closed needs no end.
                let _ = deadline.stream.shutdown(Shutdown::Both);
            }
            !late
        });
    }
}

impl Deadline {
    /// Waits for a message with `receive`.
    pub fn wait<T>(&self, receive: impl FnOnce() -> T) -> T {
        held(&self.state).since = Some(Instant::now());
        let found = receive();
        held(&self.state).since = None;
        found
    }

    /// Whether the connection was closed because its time had passed.
    pub fn passed(&self) -> bool {
        held(&self.state).passed
    }
}

//! The process of a plugin, from the program's side: started, called, watched, ended.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use hearth_machine::Awake;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;

use super::wire::{self, Order, Shared, Word};
use crate::check::ending;

/// The time limit for a process to end by itself.
const PARTING: Duration = Duration::from_secs(5);

/// The time limit for loading a plugin.
pub const LOADING: Duration = Duration::from_secs(60);

/// A running process of a plugin.
#[derive(Debug)]
pub struct Process {
    child: Child,
    socket: UnixStream,
    pub shared: Shared,
    /// The time left for the plugin's current call.
    left: Duration,
    over: Option<String>,
}

impl Process {
    /// Starts the command. The process receives the socket as its standard input and the shared
    /// memory as its standard output, and moves both away from the plugin.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let shared = File::from(memfd_create("hearth-plugin", MemfdFlags::CLOEXEC)?);
        let stdout = OwnedFd::from(shared.try_clone()?);
        // In a separate group, the process does not receive Ctrl-C, which the program handles.
        let child = command.process_group(0).stdin(OwnedFd::from(theirs)).stdout(Stdio::from(stdout)).spawn();
        Ok(Self { child: child?, socket, shared: Shared::new(shared), left: LOADING, over: None })
    }

    /// How the process ended, if it has ended.
    pub fn over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    /// Sets the time for the next request. The host's own time is not counted, nor that for which it is
    /// stopped.
    pub fn allow(&mut self, time: Duration) {
        self.left = time;
    }

    /// Sends a message.
    ///
    /// # Errors
    /// How the process ended. An error of the program, such as a message that is too long, also
    /// ends it.
    pub fn send(&mut self, order: &impl Serialize) -> Result<(), String> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        let start = Awake::now();
        let sent = self
            .socket
            .set_write_timeout(Some(self.left.max(Duration::from_millis(1))))
            .and_then(|()| wire::send(&self.socket, order));
        self.left = self.left.saturating_sub(start.elapsed());
        sent.map_err(|error| self.end(&error))
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// How the process ended.
    pub fn receive(&mut self) -> Result<Word, String> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        let start = Awake::now();
        let received = self
            .socket
            .set_read_timeout(Some(self.left.max(Duration::from_millis(1))))
            .and_then(|()| wire::receive(&self.socket));
        self.left = self.left.saturating_sub(start.elapsed());
        received.map_err(|error| self.end(&error))
    }

    /// [`send`](Self::send), then [`receive`](Self::receive).
    pub fn ask(&mut self, order: &impl Serialize) -> Result<Word, String> {
        self.send(order)?;
        self.receive()
    }

    /// Ends a process that sent an invalid message.
    pub fn distrust(&mut self) -> String {
        self.end(&io::Error::new(io::ErrorKind::InvalidData, "an unexpected answer"))
    }

    /// Ends the process, or waits for its end; describes how it ended.
    fn end(&mut self, error: &io::Error) -> String {
        let hangs = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        // The socket closes before the system knows how the process ended.
        let status = if hangs { None } else { self.wait(PARTING) };
        let over = match status {
            Some(status) => format!("its process ended: {}", ending(status)),
            None => {
                self.kill();
                match hangs {
                    true => "its process did not answer in time, and was ended".to_owned(),
                    false => format!("its process was ended: {error}"),
                }
            }
        };
        self.over.get_or_insert(over).clone()
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let start = Awake::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if start.elapsed() < patience => thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    fn kill(&mut self) {
        // The process belongs to this program, and may have just ended, which is not an error.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.over.is_some() {
            return;
        }
        self.left = PARTING;
        if self.send(&Order::Quit).is_err() {
            return;
        }
        match self.wait(PARTING) {
            Some(status) if status.success() => {}
            Some(status) => tracing::warn!("the process of a plugin ended with {} after its work", ending(status)),
            None => {
                tracing::warn!("the process of a plugin did not end after its work, and was ended");
                self.kill();
            }
        }
    }
}

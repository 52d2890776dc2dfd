//! The thread that keeps the operations of a rank: [`Worker`].
//!
//! A thread reads each connection and another writes to it, so that no rank waits for one that is
//! slow to read. What arrives, and what this rank starts, are events of one queue.

use std::collections::BTreeMap;
use std::io::{BufReader, BufWriter};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hearth_machine::Awake;

use super::TcpError;
use super::frame::{self, Message, short};
use super::round::{About, Bytes, Progress, Round};
use crate::job::{self, Job, Ticket};
use crate::{Cause, CommError, Peer, PeerState};

/// The time that other ranks have to answer a question for their state, and to read the last
/// messages of this one.
pub(super) const ANSWERS: Duration = Duration::from_secs(1);
/// The interval at which deadlines are checked.
const LOOK: Duration = Duration::from_millis(50);
/// The buffers of a connection, in bytes.
const BUFFER: usize = 64 << 10;

/// What happens to a rank.
#[derive(Debug)]
pub(super) enum Event {
    /// It starts an operation.
    Start(Job),
    /// A message of another rank.
    Arrived { from: usize, message: Message, data: Vec<u8> },
    /// The connection to another rank has ended.
    Lost { from: usize, why: String },
    /// It cannot continue; the others are informed.
    Abort { code: i32, why: String, done: Sender<()> },
    /// It leaves: with a fault, or because all have finished.
    Leave { fault: Option<(i32, String)>, done: Sender<()> },
}

/// What the thread that writes a connection is to do.
enum Outgoing {
    Send(Message, Bytes),
    Close(Sender<()>),
}

/// A question to all ranks for their states, about an operation whose deadline has passed.
struct Asked {
    number: u64,
    since: Awake,
    /// The operations that each rank has started, and the last one.
    answers: Vec<Option<(u64, String)>>,
}

pub(super) struct Worker {
    /// This rank, and the number of ranks.
    place: (usize, usize),
    hosts: Vec<Arc<str>>,
    links: Vec<Option<Sender<Outgoing>>>,
    /// The ranks that have finished.
    finished: Vec<bool>,
    rounds: BTreeMap<u64, Round>,
    tickets: BTreeMap<u64, Ticket>,
    /// The number of operations that this rank has started, and the last one.
    count: u64,
    last: String,
    asked: Option<Asked>,
    /// The cause that later operations report after an error.
    failed: Option<Cause>,
}

impl Worker {
    /// A worker over these connections, whose events go to `events`.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(super) fn new(
        rank: usize,
        hosts: Vec<Arc<str>>,
        links: Vec<Option<TcpStream>>,
        events: &Sender<Event>,
    ) -> Result<Self, TcpError> {
        let links = links.into_iter().enumerate();
        let links = links.map(|(from, link)| link.map(|link| serve(from, link, events)).transpose());
        let links = links.collect::<Result<Vec<_>, _>>().map_err(|error| TcpError::System(error.to_string()))?;
        let place = (rank, hosts.len());
        Ok(Worker {
            place,
            finished: vec![false; hosts.len()],
            hosts,
            links,
            rounds: BTreeMap::new(),
            tickets: BTreeMap::new(),
            count: 0,
            last: String::new(),
            asked: None,
            failed: None,
        })
    }

    /// Works until the communicator is finished or dropped.
    pub(super) fn run(mut self, events: &Receiver<Event>) {
        loop {
            match events.recv_timeout(LOOK) {
                Ok(Event::Start(job)) => self.start(job),
                Ok(Event::Arrived { from, message, data }) => self.arrived(from, message, data),
                Ok(Event::Lost { from, why }) => self.lost(from, why),
                Ok(Event::Abort { code, why, done }) => {
                    let cause = self.report(code, why);
                    self.fail_all(cause, None);
                    // If the receiver is gone, no one waits.
                    let _ = done.send(());
                }
                Ok(Event::Leave { fault, done }) => {
                    match fault {
                        Some((code, why)) => drop(self.report(code, why)),
                        None => self.send_all(&Message::Goodbye, &Bytes::default()),
                    }
                    self.close();
                    let _ = done.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.check_deadlines();
        }
    }

    fn error(&self, ticket: &Ticket, cause: Cause) -> CommError {
        ticket.error(self.place, &self.hosts, cause)
    }

    fn send(&self, to: usize, message: Message, data: Bytes) {
        if let Some(link) = &self.links[to] {
            // The thread has ended if the connection is lost, which is an event of its own.
            let _ = link.send(Outgoing::Send(message, data));
        }
    }

    fn send_all(&self, message: &Message, data: &Bytes) {
        (0..self.place.1).for_each(|to| self.send(to, message.clone(), data.clone()));
    }

    /// Ends the connections when what was sent is on its way, or the others do not read it.
    fn close(&mut self) {
        let (done, closed) = channel();
        for link in self.links.iter_mut().filter_map(Option::take) {
            let _ = link.send(Outgoing::Close(done.clone()));
        }
        drop(done);
        let start = Awake::now();
        // An error means that all have ended, or that the time has passed.
        while start.receive(&closed, ANSWERS).is_ok() {}
    }

    fn start(&mut self, Job { operation, at, started, answer }: Job) {
        let ticket = Ticket { number: self.count, name: operation.name(), at, started, answer };
        let refused = match (&self.failed, operation.root()) {
            (Some(cause), _) => Some(cause.clone()),
            (None, Some(root)) if root >= self.place.1 => Some(Cause::NoSuchRank { root }),
            _ => None,
        };
        if let Some(cause) = refused {
            // A caller that dropped its `Pending` needs no answer, here and below.
            let _ = ticket.answer.send(Err(self.error(&ticket, cause)));
            return;
        }
        let number = ticket.number;
        let about = About::of(&operation, &ticket.at);
        (self.count, self.last) = (number + 1, about.describe());
        let place = self.place;
        let round = self.rounds.entry(number).or_insert_with(|| Round::new(place));
        let parts = round.start(operation, about.clone());
        self.tickets.insert(number, ticket);
        for (to, part) in parts.into_iter().enumerate() {
            self.send(to, Message::Part { number, about: about.clone() }, part);
        }
        self.advance(number);
    }

    fn arrived(&mut self, from: usize, message: Message, data: Vec<u8>) {
        let place = self.place;
        match message {
            Message::Question => {
                let answer = Message::Answer { count: self.count, last: short(&self.last) };
                self.send(from, answer, Bytes::default());
            }
            Message::Answer { count, last } => {
                if let Some(asked) = &mut self.asked {
                    asked.answers[from] = Some((count, last));
                }
            }
            Message::Fault { rank, code, why } if rank < place.1 => {
                let cause = Cause::PeerFault { rank, host: self.hosts[rank].clone(), code, why };
                self.fail_all(cause, None);
            }
            Message::Fault { .. } => tracing::debug!(from, "fault of an unknown rank ignored"),
            Message::Goodbye => self.finished[from] = true,
            // After an error nothing is exchanged any more.
            Message::Part { .. } | Message::Sum { .. } if self.failed.is_some() => {}
            Message::Part { number, about } => {
                self.rounds.entry(number).or_insert_with(|| Round::new(place)).part(from, about, data);
                self.advance(number);
            }
            Message::Sum { number } => {
                self.rounds.entry(number).or_insert_with(|| Round::new(place)).sum(from, data);
                self.advance(number);
            }
        }
    }

    fn lost(&mut self, from: usize, why: String) {
        self.links[from] = None;
        if !self.finished[from] {
            self.fail_all(Cause::Lost { rank: from, host: self.hosts[from].clone(), why }, None);
        }
    }

    /// Makes progress with an operation.
    fn advance(&mut self, number: u64) {
        loop {
            let Some(round) = self.rounds.get_mut(&number) else { return };
            if let Some((rank, theirs)) = round.mismatch() {
                let ticket = self.tickets.remove(&number);
                self.fail_all(Cause::Mismatch { rank, host: self.hosts[rank].clone(), theirs }, ticket);
                return;
            }
            match round.advance() {
                Progress::Waits => return,
                Progress::Send(sum) => self.send_all(&Message::Sum { number }, &sum),
                Progress::Done(received) => {
                    self.rounds.remove(&number);
                    self.asked.take_if(|asked| asked.number == number);
                    if let Some(ticket) = self.tickets.remove(&number) {
                        let _ = ticket.answer.send(Ok(received));
                    }
                    return;
                }
            }
        }
    }

    /// Fails all operations in progress: `first` with the cause, the others as a consequence.
    fn fail_all(&mut self, cause: Cause, first: Option<Ticket>) {
        (self.asked, self.rounds) = (None, BTreeMap::new());
        let rest = std::mem::take(&mut self.tickets).into_values();
        let later = job::fail(first.into_iter().chain(rest), cause, self.place, &self.hosts);
        self.failed.get_or_insert(later);
    }

    /// Informs the other ranks of the cause if it is known, else of this fault.
    fn report(&self, code: i32, why: String) -> Cause {
        let (rank, code, why) = match &self.failed {
            Some(Cause::PeerFault { rank, code, why, .. }) => (*rank, *code, why.clone()),
            Some(Cause::Lost { rank, why, .. }) => (*rank, code, why.clone()),
            Some(Cause::Earlier(error)) => (self.place.0, code, error.to_string()),
            _ => (self.place.0, code, why),
        };
        self.send_all(&Message::Fault { rank, code, why: short(&why) }, &Bytes::default());
        Cause::PeerFault { rank, host: self.hosts[rank].clone(), code, why }
    }

    /// Fails all operations if a deadline has passed, after asking the other ranks for their states.
    fn check_deadlines(&mut self) {
        if let Some(asked) = &self.asked {
            let answered = asked.answers.iter().filter(|answer| answer.is_some()).count();
            if answered + 1 == self.place.1 || asked.since.elapsed() > ANSWERS {
                self.conclude();
            }
            return;
        }
        let Some(number) = self.tickets.iter().find(|(_, ticket)| ticket.is_late()).map(|(number, _)| *number) else {
            return;
        };
        self.send_all(&Message::Question, &Bytes::default());
        self.asked = Some(Asked { number, since: Awake::now(), answers: vec![None; self.place.1] });
    }

    /// Fails the operation that is late, with the states of the other ranks.
    fn conclude(&mut self) {
        let Some(Asked { number, answers, .. }) = self.asked.take() else { return };
        let (Some(ticket), Some(round)) = (self.tickets.remove(&number), self.rounds.get(&number)) else { return };
        let state = |(rank, answer): (usize, Option<(u64, String)>)| {
            let state = match answer {
                None => PeerState::Silent,
                Some(_) if round.has(rank) => PeerState::Arrived,
                Some((count, _)) if count > number => PeerState::Arrived,
                Some((_, last)) => PeerState::Behind { last },
            };
            Peer { rank, host: self.hosts[rank].clone(), state }
        };
        let others = answers.into_iter().enumerate().filter(|(rank, _)| *rank != self.place.0);
        let peers = others.map(state).collect();
        self.fail_all(Cause::Deadline { waited: ticket.at.deadline, peers }, Some(ticket));
    }
}

/// Starts the threads that read and write a connection.
fn serve(from: usize, link: TcpStream, events: &Sender<Event>) -> std::io::Result<Sender<Outgoing>> {
    let (outgoing, messages) = channel();
    let (mut reader, own) = (BufReader::with_capacity(BUFFER, link.try_clone()?), events.clone());
    std::thread::Builder::new().name(format!("hearth-from-{from}")).spawn(move || {
        loop {
            let event = match frame::read(&mut reader) {
                Ok((message, data)) => Event::Arrived { from, message, data },
                Err(error) => Event::Lost { from, why: format!("the connection has ended ({error})") },
            };
            let is_last = matches!(event, Event::Lost { .. });
            // Without a receiver the communicator has ended.
            if own.send(event).is_err() || is_last {
                return;
            }
        }
    })?;
    let own = events.clone();
    std::thread::Builder::new().name(format!("hearth-to-{from}")).spawn(move || write(from, &link, &messages, &own))?;
    Ok(outgoing)
}

/// Writes the messages for a rank until its connection is closed.
fn write(to: usize, link: &TcpStream, messages: &Receiver<Outgoing>, events: &Sender<Event>) {
    let mut writer = BufWriter::with_capacity(BUFFER, link);
    while let Ok(outgoing) = messages.recv() {
        match outgoing {
            Outgoing::Send(message, data) => {
                if let Err(error) = frame::write(&mut writer, &message, &data) {
                    let why = format!("nothing can be sent ({error})");
                    let _ = events.send(Event::Lost { from: to, why });
                    return;
                }
            }
            Outgoing::Close(done) => {
                // The other side may have closed it.
                let _ = link.shutdown(Shutdown::Write);
                let _ = done.send(());
                return;
            }
        }
    }
}

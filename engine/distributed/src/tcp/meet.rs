//! How ranks find each other: [`Listening`], [`Seat`], and the connections between them.
//!
//! A rank connects to all lower ranks, and is connected to by all higher ones. Both sides prove that
//! they know the secret of the run: each draws a number, and returns a keyed hash of both numbers and
//! both ranks. A connection that cannot do so is closed.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hearth_machine::Awake;
use serde::{Deserialize, Serialize};

use super::TcpError;
use super::secret::{Secret, random};

/// The time for which an address, and the proof of a connection, is waited for.
const ANSWER: Duration = Duration::from_secs(5);
/// The number of times that each address of a rank is tried, and the pause between them.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// The interval at which new connections are looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Where a rank can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The name of the rank's host, for messages. Ranks of one host have the same.
    pub host: String,
    /// Names and addresses of the host, in the order in which they are tried.
    pub addresses: Vec<String>,
    /// The port at which the rank listens.
    pub port: u16,
}

/// A rank that listens for the others.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    rank: usize,
    port: u16,
}

impl Listening {
    /// Listens on all networks of this machine, at this port, or at any free one for 0.
    ///
    /// # Errors
    /// If the port is taken or not allowed.
    pub fn open(rank: usize, port: u16) -> Result<Self, TcpError> {
        let failed = |error: io::Error| TcpError::Listen { rank, port, why: error.to_string() };
        // A machine may have no IPv6.
        let listener = TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
        let listener = listener.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Listening { listener, rank, port })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The rank that listens.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Connects this rank with all others: a connection for each, `None` for this one.
    pub(super) fn connect(
        self,
        seats: &[Seat],
        secret: &Secret,
        deadline: Duration,
    ) -> Result<Vec<Option<TcpStream>>, TcpError> {
        let (rank, start) = (self.rank, Awake::now());
        let mut links: Vec<Option<TcpStream>> = seats.iter().map(|_| None).collect();
        if rank >= seats.len() {
            return Err(TcpError::NoSeat { rank, seats: seats.len() });
        }
        let (found, arrivals) = channel();
        let ends = Arc::new(AtomicBool::new(false));
        let door = Door { listener: self.listener, rank, world: seats.len(), secret: secret.clone(), found };
        let is_over = ends.clone();
        let thread = std::thread::Builder::new().name("hearth-accept".to_owned());
        thread.spawn(move || door.keep_open(&is_over)).map_err(|error| TcpError::System(error.to_string()))?;
        let connected = all(&mut links, rank, seats, secret, (start, deadline), &arrivals);
        ends.store(true, Ordering::Relaxed);
        connected.map(|()| links)
    }
}

/// Connects to all lower ranks, and waits for all higher ones.
fn all(
    links: &mut [Option<TcpStream>],
    rank: usize,
    seats: &[Seat],
    secret: &Secret,
    (start, deadline): (Awake, Duration),
    arrivals: &Receiver<(usize, TcpStream)>,
) -> Result<(), TcpError> {
    for (lower, seat) in seats.iter().enumerate().take(rank) {
        links[lower] = Some(reach(seat, (rank, lower), secret)?);
    }
    while links.iter().skip(rank + 1).any(Option::is_none) {
        match start.receive(arrivals, deadline) {
            Ok((higher, link)) => links[higher] = Some(link),
            Err(_) => return Err(late(links, rank, seats, deadline)),
        }
    }
    Ok(())
}

fn late(links: &[Option<TcpStream>], rank: usize, seats: &[Seat], deadline: Duration) -> TcpError {
    let missing = links.iter().enumerate().skip(rank + 1).filter(|(_, link)| link.is_none());
    let missing: Vec<String> = missing.map(|(other, _)| format!("rank {other} on {}", seats[other].host)).collect();
    TcpError::Late { missing: missing.join(", "), seconds: deadline.as_secs_f64() }
}

/// Accepts the connections of higher ranks.
struct Door {
    listener: TcpListener,
    rank: usize,
    world: usize,
    secret: Secret,
    found: Sender<(usize, TcpStream)>,
}

impl Door {
    fn keep_open(self, is_over: &AtomicBool) {
        // Without it the thread would outlive the start.
        if self.listener.set_nonblocking(true).is_err() {
            return;
        }
        while !is_over.load(Ordering::Relaxed) {
            let Ok((link, address)) = self.listener.accept() else {
                std::thread::sleep(LOOK);
                continue;
            };
            let (rank, world, secret, found) = (self.rank, self.world, self.secret.clone(), self.found.clone());
            // One that sends nothing does not keep the others waiting.
            let greet = move || match greet(link, (rank, world), &secret) {
                Ok(arrived) => drop(found.send(arrived)),
                Err(why) => tracing::debug!(%address, %why, "connection refused"),
            };
            let started = std::thread::Builder::new().name("hearth-greet".to_owned()).spawn(greet);
            if let Err(why) = started {
                tracing::debug!(%address, %why, "connection refused");
            }
        }
    }
}

/// The text that both sides of a connection prove with the secret.
fn text(side: u8, (from, to): (usize, usize), numbers: [[u8; 32]; 2]) -> Vec<u8> {
    let ranks = [from as u64, to as u64].map(u64::to_le_bytes).concat();
    [&[side][..], &ranks, &numbers.concat()].concat()
}

const CONNECTS: u8 = 1;
const ACCEPTS: u8 = 2;

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn prepare(link: &TcpStream, patience: Option<Duration>) -> io::Result<()> {
    link.set_nonblocking(false)?;
    link.set_nodelay(true)?;
    link.set_read_timeout(patience)?;
    link.set_write_timeout(patience)
}

/// Checks who has connected: a higher rank that knows the secret.
fn greet(mut link: TcpStream, (rank, world): (usize, usize), secret: &Secret) -> io::Result<(usize, TcpStream)> {
    prepare(&link, Some(ANSWER))?;
    let own = random().map_err(io::Error::other)?;
    link.write_all(&own)?;
    let (mut from, mut theirs, mut proof) = ([0; 8], [0; 32], [0; 32]);
    link.read_exact(&mut from)?;
    link.read_exact(&mut theirs)?;
    link.read_exact(&mut proof)?;
    let from = usize::try_from(u64::from_le_bytes(from)).unwrap_or(usize::MAX);
    if from <= rank || from >= world {
        return Err(refused("it is no higher rank"));
    }
    let numbers = [own, theirs];
    if secret.proof(&text(CONNECTS, (from, rank), numbers)) != blake3::Hash::from_bytes(proof) {
        return Err(refused("it does not know the secret of the run"));
    }
    link.write_all(secret.proof(&text(ACCEPTS, (from, rank), numbers)).as_bytes())?;
    prepare(&link, None)?;
    Ok((from, link))
}

/// Connects to a lower rank at the first of its addresses that answers.
fn reach(seat: &Seat, (rank, lower): (usize, usize), secret: &Secret) -> Result<TcpStream, TcpError> {
    let mut tried = Vec::new();
    for attempt in 0..TRIES {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        tried.clear();
        for name in &seat.addresses {
            match reach_at(name, seat.port, (rank, lower), secret) {
                Ok(link) => return Ok(link),
                Err(why) => tried.push(format!("{name} port {}: {why}", seat.port)),
            }
        }
    }
    Err(TcpError::Unreachable { rank: lower, host: seat.host.clone(), tried: tried.join("; ") })
}

fn reach_at(name: &str, port: u16, ranks: (usize, usize), secret: &Secret) -> io::Result<TcpStream> {
    let mut last = refused("the name has no address");
    for address in (name, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWER).and_then(|link| introduce(link, ranks, secret)) {
            Ok(link) => return Ok(link),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Proves to a lower rank who this is, and checks who it is.
fn introduce(mut link: TcpStream, (rank, lower): (usize, usize), secret: &Secret) -> io::Result<TcpStream> {
    prepare(&link, Some(ANSWER))?;
    let mut theirs = [0; 32];
    link.read_exact(&mut theirs)?;
    let numbers = [theirs, random().map_err(io::Error::other)?];
    let proof = secret.proof(&text(CONNECTS, (rank, lower), numbers));
    link.write_all(&[&(rank as u64).to_le_bytes()[..], &numbers[1], proof.as_bytes()].concat())?;
    let mut answer = [0; 32];
    link.read_exact(&mut answer).map_err(|_| refused("something else than that rank of this run answers"))?;
    if secret.proof(&text(ACCEPTS, (rank, lower), numbers)) != blake3::Hash::from_bytes(answer) {
        return Err(refused("something else than that rank of this run answers"));
    }
    prepare(&link, None)?;
    Ok(link)
}

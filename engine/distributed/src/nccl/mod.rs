//! Ranks whose sums are computed on their GPUs, by NCCL (NVIDIA) or RCCL (AMD), which are found at
//! run time: [`join`].
//!
//! Building needs neither. Two libraries are opened: that of the collectives, and the driver of the
//! GPUs, for memory and streams.
//!
//! | vendor | collectives, or `HEARTH_NCCL` | driver, or `HEARTH_GPU_DRIVER` |
//! |---|---|---|
//! | NVIDIA | `libnccl.so.2`, 2.10 or later | `libcuda.so.1` |
//! | AMD | `librccl.so.1` | that of RCCL (`libamdhip64.so`) |
//!
//! The ranks are already connected by another [`Communicator`], which does everything but the sums:
//!
//! - **By rank** ([`Order::Rank`](crate::Order)): each rank's slices are exchanged between GPUs,
//!   added in f64 on the host, and gathered between GPUs. The result is bit for bit that of MPI and
//!   threads.
//! - **In any order**: the library adds (`ncclAllReduce`).
//!
//! Host values are copied through pinned memory in chunks, so that copies and collectives overlap.
//! Values that are already on the GPU are summed in place: [`OnCards::start_all_reduce_on_card`].

// Unsafe code: this folder calls C libraries whose functions are found at run time. `symbols` has
// their types; `driver` and `nccl` have the calls; `card` and `staging` keep their arguments alive.

mod card;
mod driver;
mod error;
mod library;
#[allow(clippy::module_inception, reason = "the library of this name")]
mod nccl;
mod on_cards;
mod plan;
mod presence;
mod staging;
mod symbols;
mod worker;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearth_machine::Awake;

pub use error::NcclError;
pub use library::Vendor;
pub use nccl::Version;
pub use on_cards::OnCards;
pub use presence::card_of;
pub use staging::CardValues;

use self::card::Card;
use self::nccl::{Comm, Nccl};
use self::on_cards::REPORT;
use self::presence::Presence;
use self::staging::Staging;
use self::symbols::UniqueId;
use self::worker::{Command, Fault, STOPS, Worker};
use crate::{At, Communicator, DEADLINE};

/// Connects the ranks of `base` over their GPUs, with the defaults of [`Join`].
///
/// # Errors
/// As [`Join::join`].
pub fn join(
    base: Arc<dyn Communicator>,
    card: Option<usize>,
    deadline: Duration,
) -> Result<Arc<dyn Communicator>, NcclError> {
    Ok(Arc::new(Join { card, deadline, ..Join::default() }.join(base)?))
}

/// The number of GPUs that this process sees. Opens the driver, but no GPU.
///
/// # Errors
/// If no library is found, or the driver sees no GPU.
pub fn cards() -> Result<usize, NcclError> {
    let (_, driver) = library::open()?;
    driver.init()?;
    match driver.count()? {
        0 => Err(NcclError::NoCard { name: driver.name }),
        count => Ok(count),
    }
}

/// The settings for connecting ranks over their GPUs.
#[derive(Clone, Debug)]
pub struct Join {
    /// The index of this rank's GPU among those that the process sees. By default the ranks of a
    /// host use them in turn ([`card_of`]).
    pub card: Option<usize>,
    /// The time limit for connecting the ranks. By default [`DEADLINE`].
    pub deadline: Duration,
    /// Whether two ranks of a host may use the same GPU. NCCL refuses it, or hangs.
    pub may_share: bool,
    /// The bytes of a chunk of values; four chunks are in progress at once. By default 4 MiB.
    pub chunk_bytes: usize,
}

impl Default for Join {
    fn default() -> Self {
        Join { card: None, deadline: DEADLINE, may_share: false, chunk_bytes: 4 << 20 }
    }
}

/// The objects that the thread that owns the GPU has opened.
type Opened = (Arc<Card>, Arc<Nccl>);

/// The first command to that thread.
struct Connect {
    id: UniqueId,
    hosts: Vec<Arc<str>>,
    fault: Fault,
    report: Sender<Result<(), NcclError>>,
}

impl Join {
    /// Connects the ranks of `base` over their GPUs. All ranks call it at the same point.
    ///
    /// # Errors
    /// The same error on all ranks, if a rank has no library or GPU, fails or is late, if versions
    /// differ, or if two ranks of a host have the same GPU.
    pub fn join(self, base: Arc<dyn Communicator>) -> Result<OnCards, NcclError> {
        let owner = Owner::start(&self, &*base);
        match (self.connect(&*base, owner.as_ref()), owner) {
            (Ok(fault), Ok(owner)) => Ok(OnCards::new(base, owner.opened, owner.commands, fault)),
            (Err(error), Ok(owner)) => {
                owner.leave();
                Err(error)
            }
            // The error of the exchange is this rank's, or that of an earlier rank.
            (Err(error), Err(_)) | (Ok(_), Err(error)) => Err(error),
        }
    }

    /// Connects this rank, if all ranks have a GPU.
    fn connect(&self, base: &dyn Communicator, owner: Result<&Owner, &NcclError>) -> Result<Fault, NcclError> {
        let at = At::new("cards", 0).within(self.deadline);
        let (rank, hosts) = (base.rank(), base.hosts());
        let own = match owner {
            Ok(Owner { opened: (card, nccl), .. }) => Presence::Ready {
                library: library_name(nccl.vendor).to_owned(),
                version: nccl.version.to_string(),
                bus: card.bus.clone(),
            },
            Err(error) => Presence::Failed(error.to_string()),
        };
        let all = presence::exchange(base, &own, &at)?;
        presence::check(&all, hosts, self.may_share)?;
        let owner = owner.map_err(NcclError::clone)?;
        let (card, nccl) = &owner.opened;
        if self.card.is_none() && base.local_rank() >= card.count {
            tracing::warn!(rank, cards = card.count, "this host has more ranks than this rank sees GPUs");
        }
        let id = share_id(base, nccl, &at)?;
        let fault = Fault::default();
        let connected = owner.connect(id, hosts.to_vec(), fault.clone(), self.deadline);
        // Other ranks may have waited for their deadline.
        let after = At::new("cards", 1).within(self.deadline + 2 * REPORT);
        let outcome = match &connected {
            Ok(()) => own,
            Err(error @ NcclError::Late { .. }) => Presence::Late(error.to_string()),
            Err(error) => Presence::Failed(error.to_string()),
        };
        let all = presence::exchange(base, &outcome, &after)?;
        presence::check(&all, hosts, self.may_share)?;
        connected?;
        let (card, bus, library, version) = (card.index, &card.bus, &nccl.name, nccl.version);
        tracing::debug!(rank, card, bus, library, %version, "GPUs connected");
        Ok(fault)
    }
}

/// The identifier that all ranks of the new communicator share, from the first rank.
fn share_id(base: &dyn Communicator, nccl: &Nccl, at: &At) -> Result<UniqueId, NcclError> {
    let own = match (base.rank() == 0).then(|| nccl.unique_id()) {
        Some(Ok(id)) => id.0.to_vec(),
        // Longer than an identifier, so that it can be distinguished.
        Some(Err(failed)) => {
            let why = NcclError::from(failed).to_string();
            format!("{why:width$}", width = UniqueId::BYTES + 1).into_bytes()
        }
        None => Vec::new(),
    };
    let received = base.broadcast(own, 0, at)?;
    let id = <[u8; UniqueId::BYTES]>::try_from(received.as_slice());
    id.map(UniqueId).map_err(|_| {
        let why = String::from_utf8_lossy(&received).trim_end().to_owned();
        NcclError::Rank { rank: 0, host: base.hosts()[0].clone(), why }
    })
}

/// A thread that owns a GPU.
struct Owner {
    opened: Opened,
    connect: Sender<Connect>,
    commands: Sender<Command>,
    /// The current call of the thread, for messages if it is stuck.
    doing: Arc<Mutex<&'static str>>,
    /// Closed when the thread has released its objects.
    ended: Receiver<()>,
}

impl Owner {
    /// Starts the thread, which opens the libraries and the GPU and allocates memory.
    fn start(join: &Join, base: &dyn Communicator) -> Result<Self, NcclError> {
        let (report, opened) = channel();
        let (connect, first) = channel();
        let (commands, receiver) = channel();
        let doing = Arc::new(Mutex::new("the driver"));
        let (named, local_rank, place) = (join.card, base.local_rank(), (base.rank(), base.world()));
        let (bytes, deadline, stage) = (join.chunk_bytes, join.deadline, doing.clone());
        let (alive, ended) = channel();
        let own = move || {
            // Dropped last.
            let _alive: Sender<()> = alive;
            let opened = open(named, local_rank);
            let prepared = opened.and_then(|opened| {
                let here = opened.0.enter()?;
                Ok((opened, Staging::new(&here, place, bytes)?))
            });
            let (nccl, staging) = match prepared {
                Ok((opened, staging)) => {
                    let nccl = opened.1.clone();
                    // If the receiver is gone, the caller no longer waits; here and below.
                    let _ = report.send(Ok(opened));
                    (nccl, staging)
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                    return;
                }
            };
            // If this is missing, another rank cannot be connected.
            let Ok(connect) = first.recv() else { return };
            work(&nccl, staging, connect, deadline, &stage, &receiver);
        };
        std::thread::Builder::new()
            .name("hearth-nccl".to_owned())
            .spawn(own)
            .map_err(|error| NcclError::Thread(error.to_string()))?;
        let late = |_| NcclError::Late { seconds: deadline.as_secs_f64(), function: "the driver" };
        let opened = Awake::now().receive(&opened, deadline).map_err(late)??;
        Ok(Owner { opened, connect, commands, doing, ended })
    }

    /// Ends the thread. If it is stuck in a call, it is left running.
    fn leave(self) {
        let Owner { connect, commands, ended, .. } = self;
        drop((connect, commands));
        let _ = ended.recv_timeout(2 * STOPS);
    }

    /// Connects this rank, in its thread.
    fn connect(&self, id: UniqueId, hosts: Vec<Arc<str>>, fault: Fault, deadline: Duration) -> Result<(), NcclError> {
        let (report, connected) = channel();
        let late = || {
            let function = *self.doing.lock().unwrap_or_else(PoisonError::into_inner);
            NcclError::Late { seconds: deadline.as_secs_f64(), function }
        };
        let first = Connect { id, hosts, fault, report };
        self.connect.send(first).map_err(|_| late())?;
        Awake::now().receive(&connected, deadline).map_err(|_| late())?
    }
}

/// Opens the libraries and the GPU.
fn open(named: Option<usize>, local_rank: usize) -> Result<Opened, NcclError> {
    let (nccl, driver) = library::open()?;
    let card = Card::open(driver, |cards| named.unwrap_or(card_of(local_rank, cards)))?;
    Ok((Arc::new(card), Arc::new(nccl)))
}

/// The work of the thread once all ranks have a GPU.
fn work(
    nccl: &Arc<Nccl>,
    staging: Staging,
    Connect { id, hosts, fault, report }: Connect,
    deadline: Duration,
    doing: &Mutex<&'static str>,
    commands: &Receiver<Command>,
) {
    let enter = |call| *doing.lock().unwrap_or_else(PoisonError::into_inner) = call;
    let (begin, place) = (Awake::now(), staging.place());
    let (rank, world) = place;
    enter("ncclCommInitRank");
    let here = staging.here().clone();
    let comm = match Comm::connect(nccl, &here, id, place) {
        Ok(comm) => comm,
        Err(failed) => {
            let _ = report.send(Err(failed.into()));
            return;
        }
    };
    drop(here);
    // Newer libraries connect only at the first collective.
    enter("the first ncclAllReduce");
    let mut worker = Worker::new(comm, staging, library_name(nccl.vendor), hosts, fault);
    let expected = (world * (world + 1) / 2) as f32;
    let sum = worker.first_sum(rank as f32 + 1.0, deadline.saturating_sub(begin.elapsed()));
    let error = match sum {
        Ok(Some(sum)) if sum == expected => None,
        Ok(Some(got)) => Some(NcclError::WrongSum { got, expected }),
        Ok(None) => Some(NcclError::Late { seconds: deadline.as_secs_f64(), function: "the first ncclAllReduce" }),
        Err(failed) => Some(failed.into()),
    };
    match error {
        Some(error) => {
            worker.stop();
            drop(worker);
            let _ = report.send(Err(error));
        }
        None => {
            if report.send(Ok(())).is_ok() {
                worker.run(commands);
            }
        }
    }
}

/// The name of a vendor's library in messages.
fn library_name(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "NCCL",
        Vendor::Amd => "RCCL",
    }
}

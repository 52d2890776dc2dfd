//! A DICOM node: receives images by C-STORE and predicts them; results are written to a folder, and
//! sent to other nodes.
//!
//! A study is complete if nothing of it arrived for [`DicomOptions::quiet`], because modalities send a
//! study in one association or in many. Each of its series is predicted in the queue of the HTTP
//! server, and the result is a DICOM segmentation in [`DicomOptions::results`].

mod association;
mod command;
mod deadline;
mod ledger;
mod pending;
mod send;
mod studies;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::ServeError;
use crate::http::App;
use crate::server::listen;
use deadline::Deadlines;
use studies::Studies;

/// The interval at which threads check whether they should end.
const TICK: Duration = Duration::from_millis(100);

/// The stack of a thread that reads what peers send. Limits of nesting keep the readers far below.
const STACK: usize = 4 << 20;

/// The options of a listener.
#[derive(Clone, Debug)]
pub struct DicomOptions {
    /// Its application entity title; associations with others are rejected.
    pub ae_title: String,
    /// The address to listen on. An address outside loopback requires [`DicomOptions::from`].
    pub address: SocketAddr,
    /// Titles of the nodes that may send; empty to allow all.
    pub from: Vec<String>,
    /// The model that predicts; optional if there is only one.
    pub model: Option<String>,
    /// The folder for results: `STUDY/SERIES_MODEL.dcm`.
    pub results: PathBuf,
    /// Nodes that receive the results, too.
    pub to: Vec<Destination>,
    /// The time without new images after which a study is complete.
    pub quiet: Duration,
    /// Series with fewer slices are skipped; they are localizers.
    pub least_slices: usize,
    /// The maximum number of associations at once; others are closed.
    pub associations: usize,
    /// The time within which a peer must send each complete message; otherwise its association ends.
    pub idle: Duration,
}

impl DicomOptions {
    /// Options for a node on loopback that accepts every peer, with results in a folder.
    pub fn new(ae_title: impl Into<String>, port: u16, results: impl Into<PathBuf>) -> Self {
        Self {
            ae_title: ae_title.into(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            from: Vec::new(),
            model: None,
            results: results.into(),
            to: Vec::new(),
            quiet: Duration::from_secs(10),
            least_slices: 8,
            associations: 16,
            idle: Duration::from_secs(60),
        }
    }

    /// Fails as [`Server::listen_dicom`](crate::Server::listen_dicom) would without regard to the models.
    ///
    /// # Errors
    /// Options that cannot be used; an address that cannot be listened on.
    pub fn rehearse(&self) -> Result<(), ServeError> {
        self.check()?;
        listen(self.address).map(drop)
    }

    fn check(&self) -> Result<(), ServeError> {
        check_title(&self.ae_title).map_err(ServeError::Option)?;
        self.from.iter().try_for_each(|title| check_title(title)).map_err(ServeError::Option)?;
        if !self.address.ip().is_loopback() && self.from.is_empty() {
            let what = "can be reached from other machines, and DICOM has no passwords: name the allowed senders";
            return Err(ServeError::Option(format!("{} {what} (--dicom-from AE)", self.address)));
        }
        if self.associations == 0 {
            return Err(ServeError::Option("the number of associations is 0, expected 1 or more".to_owned()));
        }
        Ok(())
    }
}

/// Another node: `AE@host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its application entity title.
    pub ae_title: String,
    /// `host:port`.
    pub address: String,
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a DICOM node, expected AE@host:port, as in PACS@10.0.0.5:104");
        let (ae_title, address) = text.split_once('@').ok_or_else(wrong)?;
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            return Err(wrong());
        }
        check_title(ae_title)?;
        Ok(Self { ae_title: ae_title.to_owned(), address: address.to_owned() })
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.ae_title, self.address)
    }
}

impl Destination {
    /// The current address of the node.
    fn resolve(&self) -> io::Result<SocketAddr> {
        let absent = || io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", self.address));
        self.address.to_socket_addrs()?.next().ok_or_else(absent)
    }
}

/// Checks an application entity title (PS3.5, 6.2: AE).
pub fn check_title(title: &str) -> Result<(), String> {
    let good = !title.trim().is_empty() && title.len() <= 16 && title.trim() == title;
    if good && title.chars().all(|c| (' '..='~').contains(&c) && c != '\\') {
        return Ok(());
    }
    Err(format!("{title:?} is not an AE title, expected 1 to 16 characters of ASCII without a backslash"))
}

/// A running listener.
pub struct Listener {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
    studies: Arc<Studies>,
    app: Arc<App>,
}

impl Listener {
    /// Listens, and starts the threads.
    pub(crate) fn start(options: DicomOptions, app: Arc<App>) -> Result<Self, ServeError> {
        options.check()?;
        let (listener, address) = listen(options.address)?;
        let studies = Studies::start(options.clone(), app.clone())?;
        let known = Arc::downgrade(&studies);
        let load = move || {
            let [open, unsent, kept] = known.upgrade().map(|studies| studies.load()).unwrap_or_default();
            serde_json::json!({ "studies": open, "unsent": unsent, "kept": kept })
        };
        // A server has one node.
        let _ = app.dicom.set(Box::new(load));
        let (stopping, open) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let accepting = {
            let shared = Accepting {
                deadlines: Deadlines::new(options.idle),
                options,
                studies: studies.clone(),
                app: app.clone(),
                stopping: stopping.clone(),
                open: open.clone(),
            };
            let thread = std::thread::Builder::new().name("dicom".to_owned());
            thread.spawn(move || shared.accept(&listener)).map_err(ServeError::Start)?
        };
        Ok(Self { address, stopping, open, accepting, studies, app })
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, waits for open associations, predicts what was received and sends the results,
    /// for at most `grace`.
    pub(crate) fn stop(self, grace: Duration) {
        let until = Instant::now() + grace;
        self.stopping.store(true, Ordering::Relaxed);
        // The thread does not panic, and ends at its next tick.
        let _ = self.accepting.join();
        while self.open.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(TICK);
        }
        let left = self.studies.finish(until);
        if left > 0 {
            self.app.journal.say(&format!(
                "dicom: {left} studies were received and not predicted in time: the next start with the same \
                 --dicom-results continues"
            ));
        }
    }
}

/// The state of the accepting thread.
struct Accepting {
    options: DicomOptions,
    studies: Arc<Studies>,
    app: Arc<App>,
    stopping: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    deadlines: Deadlines,
}

impl Accepting {
    fn accept(self, listener: &TcpListener) {
        let shared = Arc::new(self);
        while !shared.stopping.load(Ordering::Relaxed) {
            shared.deadlines.check();
            match listener.accept() {
                Ok((stream, _)) => shared.clone().begin(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(TICK),
                Err(error) => {
                    shared.app.journal.say(&format!("dicom: a connection cannot be accepted: {error}"));
                    std::thread::sleep(TICK);
                }
            }
        }
    }

    /// Serves an association on a separate thread.
    fn begin(self: Arc<Self>, stream: TcpStream) {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.options.associations {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.app.metrics.dicom("association refused");
            return;
        }
        let shared = self.clone();
        let thread = std::thread::Builder::new().name("association".to_owned()).stack_size(STACK);
        let spawned = thread.spawn(move || {
            let work = std::panic::AssertUnwindSafe(|| {
                stream.set_nonblocking(false).map_err(|error| error.to_string())?;
                let deadline = shared.deadlines.watch(&stream).map_err(|error| error.to_string())?;
                association::serve(stream, &deadline, &shared.options, &shared.app, &shared.studies, &shared.stopping)
                    .map_err(|why| match deadline.passed() {
                        true => format!("the peer sent no complete message in {} s", shared.options.idle.as_secs_f64()),
                        false => why,
                    })
            });
            // A decoder that panics on data from a peer only ends that association.
            let said = match std::panic::catch_unwind(work) {
                Ok(Ok(())) => None,
                Ok(Err(why)) => Some(why),
                Err(_) => Some("ended by an error in this program".to_owned()),
            };
            if let Some(why) = said {
                shared.app.metrics.dicom("association failed");
                shared.app.journal.say(&format!("dicom: an association failed: {why}"));
            }
            shared.open.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = spawned {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.app.journal.say(&format!("dicom: no thread for an association: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_a_title_a_host_and_a_port() {
        let node: Destination = "PACS@10.0.0.5:104".parse().unwrap();
        assert_eq!((node.ae_title.as_str(), node.address.as_str()), ("PACS", "10.0.0.5:104"));
        assert!("ORTHANC@[::1]:4242".parse::<Destination>().is_ok());
        for bad in ["PACS", "PACS@host", "@host:1", "PACS@:104", "PACS@host:99999", "A_TITLE_TOO_LONG_@h:1", "A\\B@h:1"]
        {
            let said = bad.parse::<Destination>().unwrap_err();
            assert!(said.contains("expected"), "{bad}: {said}");
        }
    }
}

//! The server, from its start to its end: [`Server`].

use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::datastore::Datastore;
use crate::error::ServeError;
use crate::http::{App, Peer, busy_router, router};
use crate::journal::Journal;
use crate::metrics::Metrics;
use crate::model::Model;
use crate::names::check_id;
use crate::options::Options;
use crate::patience::Patience;
use crate::queue::Queue;
use crate::sessions::Sessions;
use crate::spool::Spool;
use crate::tls;

/// The maximum time for the head of a request, and for a handshake.
const HEAD: Duration = Duration::from_secs(30);
/// The maximum time in which a client takes no byte of its answer.
const UNREAD: Duration = Duration::from_secs(60);
/// The number of connections over the maximum that are answered, and the time of each.
const SPARE: usize = 32;
const BRIEFLY: Duration = Duration::from_secs(5);
/// The maximum time that a connection may take to end after its answer is sent.
const LINGER: Duration = Duration::from_secs(10);

/// Listens on an address; returns it with the port that the system chose if 0 was given.
pub(crate) fn listen(address: SocketAddr) -> Result<(StdListener, SocketAddr), ServeError> {
    let bind = |source| ServeError::Bind { address: address.to_string(), source };
    let listener = StdListener::bind(address).map_err(bind)?;
    listener.set_nonblocking(true).map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    Ok((listener, address))
}

/// A server that listens on its address, and answers after [`run`](Server::run) is called.
pub struct Server {
    app: Arc<App>,
    listener: StdListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    stop: watch::Sender<bool>,
    #[cfg(feature = "dicom-net")]
    dicom: Option<crate::dicom::Listener>,
}

/// Stops a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Stops accepting work, finishes and sends accepted work, and ends the server.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Listens on the address, and starts the threads that compute.
    ///
    /// # Errors
    /// Options that conflict; two models with the same name; an address that is in use, or that others
    /// can reach without TLS and a token; folders and secrets that cannot be used.
    pub fn bind(options: Options, models: Vec<Arc<dyn Model>>) -> Result<Self, ServeError> {
        options.check()?;
        if models.is_empty() {
            return Err(ServeError::NoModel);
        }
        for (index, model) in models.iter().enumerate() {
            let name = &model.card().name;
            check_id("model", name).map_err(ServeError::Option)?;
            if models[..index].iter().any(|other| other.card().name == *name) {
                return Err(ServeError::SameName(name.clone()));
            }
        }
        let tls = options.tls.as_ref().map(|(certificate, key)| tls::acceptor(certificate, key)).transpose()?;
        let datastore = options.datastore.as_deref().map(Datastore::open).transpose()?.map(Arc::new);
        let spool = Spool::new(options.spool.as_deref(), options.max_spool)?;
        let (listener, address) = listen(options.address)?;
        let (metrics, journal) = (Arc::new(Metrics::default()), Arc::new(Journal::default()));
        if spool.left() > 0 {
            journal.say(&format!("removed the temporary files of servers that were killed: {}", spool.left()));
        }
        let queue = Queue::start(options.queue, options.jobs, metrics.clone(), journal.clone())?;
        let app = Arc::new(App {
            models,
            queue,
            spool,
            datastore,
            sessions: Sessions::new(options.session_expiry),
            metrics,
            journal,
            reading: Semaphore::new(1),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            dicom: OnceLock::new(),
            options,
        });
        let stop = watch::Sender::new(false);
        Ok(Self {
            app,
            listener,
            address,
            tls,
            stop,
            #[cfg(feature = "dicom-net")]
            dicom: None,
        })
    }

    /// The address that it listens on, with the port that the system chose if 0 was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle that stops it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Also receives images by DICOM, which are predicted in the same queue. Returns the address of the
    /// DICOM listener.
    ///
    /// # Errors
    /// Options that cannot be used; an address that is in use.
    #[cfg(feature = "dicom-net")]
    pub fn listen_dicom(&mut self, options: crate::dicom::DicomOptions) -> Result<SocketAddr, ServeError> {
        let listener = crate::dicom::Listener::start(options, self.app.clone())?;
        let address = listener.address();
        self.dicom = Some(listener);
        Ok(address)
    }

    /// Answers requests until it is stopped by a [`Stopper`], Ctrl-C or the signal TERM. Accepted work
    /// is done first. A second signal ends it at once.
    ///
    /// # Errors
    /// An operating system that cannot create threads or signal handlers.
    pub fn run(self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // Connections need little time; predictions have separate threads.
            .worker_threads(2)
            .max_blocking_threads(64)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let (grace, spool) = (self.app.options.grace, self.app.spool.clone());
        let ended = self.run_on(&runtime, grace);
        runtime.shutdown_timeout(Duration::from_secs(1));
        // The process ends, and with it the threads that still hold the spool and would otherwise
        // remove it.
        let folder = spool.remove();
        ended?;
        folder.map_err(|error| ServeError::file("remove the temporary files of", std::env::temp_dir(), error))
    }

    fn run_on(self, runtime: &Runtime, grace: Duration) -> Result<(), ServeError> {
        let Self { app, listener, tls, stop, .. } = self;
        #[cfg(feature = "dicom-net")]
        let dicom = self.dicom;
        let mut signals = Signals::new(runtime)?;
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).map_err(ServeError::Start)?;
            let graceful = GracefulShutdown::new();
            {
                let mut stopped = stop.subscribe();
                let stopped = async move {
                    // An error means that no stopper is left; a signal still stops the server.
                    if stopped.wait_for(|stop| *stop).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    () = accept(&app, listener, tls, &graceful) => {}
                    () = expire(&app) => {}
                    () = stopped => {}
                    () = signals.next() => {}
                }
            }
            app.stopping.store(true, Ordering::Relaxed);
            app.journal.say("stopping: no more requests are accepted, the others are answered");
            let finish = async {
                let (work, last) = (app.clone(), app.clone());
                #[cfg(feature = "dicom-net")]
                if let Some(dicom) = dicom {
                    // Received studies are predicted before the queue closes.
                    let _ = tokio::task::spawn_blocking(move || dicom.stop(grace)).await;
                }
                let left = tokio::task::spawn_blocking(move || work.queue.finish(grace)).await.unwrap_or(0);
                if left > 0 {
                    last.journal.say(&format!("{left} predictions were not done in time"));
                }
                if tokio::time::timeout(LINGER, graceful.shutdown()).await.is_err() {
                    last.journal.say("some connections did not receive their answer in time");
                }
            };
            tokio::select! {
                () = finish => {}
                () = signals.next() => app.journal.say("ended by a second signal"),
            }
            Ok(())
        })
    }
}

/// Accepts connections. Those over the maximum number in the options get an error at once, and can
/// still ask for `/health`.
async fn accept(app: &Arc<App>, listener: TcpListener, tls: Option<TlsAcceptor>, graceful: &GracefulShutdown) {
    let (all, busy) = (router(app.clone()), busy_router(app.clone()));
    let (places, spare) = (Arc::new(Semaphore::new(app.options.connections)), Arc::new(Semaphore::new(SPARE)));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // For example too many open files, which is temporary.
                app.journal.say(&format!("a connection cannot be accepted: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Spare places are free again after some seconds. The semaphores are never closed.
        let (place, is_spare) = tokio::select! {
            biased;
            place = places.clone().acquire_owned() => (place, false),
            place = spare.clone().acquire_owned() => (place, true),
        };
        let Ok(place) = place else { return };
        // Small answers are sent at once; a failure only costs time.
        let _ = stream.set_nodelay(true);
        let routes = if is_spare { busy.clone() } else { all.clone() };
        let routes = routes.layer(Extension(Peer(peer.ip())));
        let (app, tls, watcher) = (app.clone(), tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            app.connections.fetch_add(1, Ordering::Relaxed);
            let talk = talk(&app, stream, tls, routes, watcher, is_spare);
            match is_spare {
                false => talk.await,
                // What it did not ask for by then is not answered.
                true => drop(tokio::time::timeout(BRIEFLY, talk).await),
            }
            app.connections.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        });
    }
}

/// Answers the requests of one connection, after its handshake.
async fn talk(
    app: &App,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    routes: axum::Router,
    watcher: Watcher,
    is_spare: bool,
) {
    match tls {
        None => converse(stream, routes, watcher, is_spare).await,
        // A client that does not trust the certificate disconnects here.
        Some(tls) => match tokio::time::timeout(HEAD, tls.accept(stream)).await {
            Ok(Ok(stream)) => converse(stream, routes, watcher, is_spare).await,
            Ok(Err(error)) => app.journal.say(&format!("a handshake failed: {error}")),
            Err(_) => app.journal.say("a handshake took too long"),
        },
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: axum::Router,
    watcher: Watcher,
    is_spare: bool,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(256 << 10).keep_alive(!is_spare);
    let stream = TokioIo::new(Patience::new(stream, UNREAD));
    let connection = http.serve_connection(stream, TowerToHyperService::new(routes));
    // An error means that the client disconnected, or sent an invalid request.
    let _ = pin!(watcher.watch(connection)).await;
}

/// Removes sessions that have expired.
async fn expire(app: &App) {
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        app.sessions.remove_expired();
    }
}

/// The signals Ctrl-C and TERM.
struct Signals {
    #[cfg(unix)]
    each: [tokio::signal::unix::Signal; 2],
}

impl Signals {
    #[cfg(unix)]
    fn new(runtime: &Runtime) -> Result<Self, ServeError> {
        use tokio::signal::unix::{SignalKind, signal};
        let _inside = runtime.enter();
        let one = |kind| signal(kind).map_err(ServeError::Start);
        Ok(Self { each: [one(SignalKind::interrupt())?, one(SignalKind::terminate())?] })
    }

    #[cfg(not(unix))]
    fn new(_: &Runtime) -> Result<Self, ServeError> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    async fn next(&mut self) {
        #[cfg(unix)]
        {
            let [one, two] = &mut self.each;
            tokio::select! {
                _ = one.recv() => {}
                _ = two.recv() => {}
            }
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

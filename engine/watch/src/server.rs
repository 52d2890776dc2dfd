//! A page for a browser on this machine: [`page`].
//!
//! The server has only one page, which is generated here; no path of a request reaches a file. Three
//! things keep it private to the user who started it: the address, which other machines cannot reach; a
//! token in the URL that other users of this machine do not know; and the check of the `Host` header,
//! which prevents a web page whose name resolves to this machine from accessing it (DNS rebinding).
//!
//! Other users of this machine can connect, so that size, time and number of connections are limited;
//! if there are too many, the oldest one is closed, and a new one is always answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use hearth_report::{Board, live};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::end::End;
use crate::error::WatchError;
use crate::follow::{Follower, Seen};
use crate::lines::{EVERY, over, rest};
use crate::narrate::{Narrator, plain};

/// Host names that a browser uses on this machine, or at the other end of a tunnel.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// How long the last version of a page is served, so that open pages can fetch it.
const LAST: Duration = Duration::from_secs(3);

/// How long a client may take to send the head of its request.
const HEAD: Duration = Duration::from_secs(10);

/// How long a client may take for a request and its answer; a page of some MiB may go through a slow
/// tunnel.
const EXCHANGE: Duration = Duration::from_secs(120);

/// The largest head of a request, in bytes.
const HEAD_BYTES: usize = 16 << 10;

/// The number of connections that are open at once.
const CONNECTIONS: usize = 64;

/// A page and its version.
#[derive(Debug, Default)]
struct Page {
    version: String,
    html: String,
}

/// A server for one page, which ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    token: String,
    page: Arc<RwLock<Page>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Listens on 127.0.0.1 at a port, or at any free port for 0.
    ///
    /// # Errors
    /// A port that is in use, or an operating system without random numbers.
    pub fn new(port: u16) -> Result<Self, WatchError> {
        let refused = |error: std::io::Error| WatchError::Server { port, why: error.to_string() };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let (listener, address) = listen(port, &runtime).map_err(refused)?;
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| WatchError::Random(error.to_string()))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let page = Arc::<RwLock<Page>>::default();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn({
            let (page, token) = (Arc::clone(&page), Arc::<str>::from(token.as_str()));
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(&listener, &token, &page) => {}
                        // A sender that is dropped ends the server, too.
                        _ = stopped => {}
                    }
                });
            }
        });
        Ok(Self { address, token, page, stop: Some(stop), thread: Some(thread) })
    }

    /// The URL of the page, with its token.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.address.port(), self.token)
    }

    /// Replaces the page.
    pub fn show(&self, version: impl Into<String>, html: String) {
        *self.page.write().unwrap_or_else(PoisonError::into_inner) = Page { version: version.into(), html };
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        // With its runtime, the thread drops all connections.
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

fn listen(port: u16, runtime: &Runtime) -> std::io::Result<(tokio::net::TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let _inside = runtime.enter();
    Ok((tokio::net::TcpListener::from_std(listener)?, address))
}

/// Accepts connections.
async fn accept(listener: &tokio::net::TcpListener, token: &Arc<str>, page: &Arc<RwLock<Page>>) {
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // For example too many open files, which is temporary.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(converse(stream, token.clone(), page.clone())).abort_handle());
    }
}

/// Answers the request of a connection.
async fn converse(stream: TcpStream, token: Arc<str>, page: Arc<RwLock<Page>>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES).keep_alive(false);
    http.title_case_headers(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(&request, &token, &page);
        async move { Ok::<_, Infallible>(response) }
    });
    // An error is an invalid request, or a client that disconnected or took too long: it needs no
    // answer.
    let _ = tokio::time::timeout(EXCHANGE, http.serve_connection(TokioIo::new(stream), service)).await;
}

/// Serves the watched folder until `stop` is set or the folder is removed. `started` receives the URL,
/// `print` the events.
pub fn page(
    follower: &mut Follower,
    port: u16,
    stop: &AtomicBool,
    started: impl FnOnce(&str),
    mut print: impl FnMut(&str),
) -> Result<End, WatchError> {
    let server = Server::new(port)?;
    let (mut version, mut narrator, mut ended) = (0_u64, Narrator::default(), None);
    let mut tell = |follower: &Follower, version: u64| {
        server.show(version.to_string(), html(follower, &version.to_string()));
        // The lines about epochs are on the page, and not printed.
        let end = over(follower.seen()).filter(|_| matches!(follower.seen(), Seen::Run(_)));
        narrator.tell(follower.seen());
        if ended != end {
            if let Some(end) = &end {
                print(&plain(end.words()));
            }
            ended = end;
        }
    };
    tell(follower, version);
    started(&server.url());
    loop {
        rest(EVERY, stop);
        if stop.load(Ordering::Relaxed) {
            return Ok(End::Left);
        }
        if follower.look() {
            version += 1;
            tell(follower, version);
        }
        if let Seen::Gone(why) = follower.seen() {
            rest(LAST, stop);
            return Ok(End::Bad(plain(why)));
        }
    }
}

fn html(follower: &Follower, version: &str) -> String {
    let folder = follower.path().display().to_string();
    match follower.seen() {
        Seen::Run(run) => live::run(run, version),
        Seen::Board(runs) => live::board(&folder, &Board::new(runs), version),
        Seen::Waiting(text) | Seen::Gone(text) => live::note(&folder, text, version),
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The page.
    Page,
    /// Not modified: the client has the current version.
    Same,
    /// Not allowed.
    Forbidden,
    /// A method other than GET.
    Method,
    /// A path other than the page's.
    Missing,
}

fn answer(request: &Request<Incoming>, token: &str, page: &RwLock<Page>) -> Response<String> {
    let page = page.read().unwrap_or_else(PoisonError::into_inner);
    let mut hosts = request.headers().get_all(HOST).iter();
    // Of two hosts, a proxy may have checked the other one.
    let host = hosts.next().filter(|_| hosts.next().is_none()).and_then(|host| host.to_str().ok());
    let url = request.uri().path_and_query().map_or("", |path| path.as_str());
    let verdict = judge(request.method(), url, host, token, &page.version);
    let (status, body, kind) = match verdict {
        Verdict::Page => (StatusCode::OK, page.html.as_str(), "text/html; charset=utf-8"),
        Verdict::Same => (StatusCode::NO_CONTENT, "", "text/plain"),
        Verdict::Forbidden => {
            (StatusCode::FORBIDDEN, "not allowed: use the address that hearth watch printed\n", "text/plain")
        }
        Verdict::Method => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n", "text/plain"),
        Verdict::Missing => (StatusCode::NOT_FOUND, "there is only one page\n", "text/plain"),
    };
    let heads = [
        ("content-type", kind),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("allow", "GET"),
    ];
    let mut response = Response::new(body.to_owned());
    *response.status_mut() = status;
    let heads = heads.into_iter().filter(|(name, _)| *name != "allow" || verdict == Verdict::Method);
    for (name, value) in heads {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn judge(method: &Method, url: &str, host: Option<&str>, token: &str, version: &str) -> Verdict {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let rest = path.strip_prefix('/').unwrap_or(path);
    let (given, rest) = rest.split_once('/').unwrap_or((rest, "none"));
    if !host.is_some_and(is_here) || !same(given.as_bytes(), token.as_bytes()) {
        return Verdict::Forbidden;
    }
    if *method != Method::GET {
        return Verdict::Method;
    }
    match rest {
        "" if query.strip_prefix("seen=") == Some(version) => Verdict::Same,
        "" => Verdict::Page,
        _ => Verdict::Missing,
    }
}

/// Whether a `Host` header names this machine; the port may differ, because a tunnel has its own.
fn is_here(host: &str) -> bool {
    let end = host.rfind(':').filter(|at| host[at + 1..].bytes().all(|byte| byte.is_ascii_digit()));
    let name = end.map_or(host, |at| &host[..at]);
    HOSTS.iter().any(|here| name.eq_ignore_ascii_case(here))
}

/// Whether two texts are equal; the time does not depend on where they differ.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as Stream;

    use super::*;

    #[test]
    fn only_the_page_of_this_machine_with_its_token_is_given() {
        let judge = |method: Method, url: &str, host: Option<&str>| judge(&method, url, host, "secret", "7");
        let here = Some("127.0.0.1:4000");
        assert_eq!(judge(Method::GET, "/secret/", here), Verdict::Page);
        assert_eq!(judge(Method::GET, "/secret/?seen=6", here), Verdict::Page);
        assert_eq!(judge(Method::GET, "/secret/?seen=7", Some("localhost:8080")), Verdict::Same);
        for url in [
            "/",
            "",
            "/secre/",
            "/secret2/",
            "/SECRET/",
            "//secret/",
            "/x/../secret/",
            "/favicon.ico",
            "/?secret",
            "secretx",
        ] {
            assert_eq!(judge(Method::GET, url, here), Verdict::Forbidden, "{url}");
        }
        for host in [
            None,
            Some("evil.example"),
            Some("evil.example:4000"),
            Some("127.0.0.1.evil.example"),
            Some("127.0.0.1@evil"),
            Some(""),
        ] {
            assert_eq!(judge(Method::GET, "/secret/", host), Verdict::Forbidden, "{host:?}");
        }
        for url in ["/secret/recipe.toml", "/secret/../../etc/passwd", "/secret", "/secret/%2e%2e/"] {
            assert_eq!(judge(Method::GET, url, here), Verdict::Missing, "{url}");
        }
        for method in [Method::POST, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(judge(method.clone(), "/secret/", here), Verdict::Method);
            assert_eq!(judge(method, "/", here), Verdict::Forbidden);
        }
        assert!(is_here("[::1]:80") && is_here("LOCALHOST") && !is_here("::1"));
    }

    /// Sends bytes, and returns what is answered until the server closes the connection or a second
    /// passes.
    fn send(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = Stream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a limit");
        // The server may refuse the rest.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn after_bad_slow_and_many_requests_a_good_one_is_answered() {
        let server = Server::new(0).expect("a free port");
        server.show("7", "<p>the page</p>".to_owned());
        let path =
            server.url().split_once("//").and_then(|(_, rest)| rest.split_once('/')).expect("a URL").1.to_owned();
        let good = |more: &str| {
            let request = format!("GET /{path}{more} HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.address.port());
            send(server.address, request.as_bytes())
        };
        let is_answered = || {
            let answer = good("");
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n<p>the page</p>"),
                "{answer}"
            );
            for head in ["Content-Type: text/html; charset=utf-8", "Cache-Control: no-store", "X-Frame-Options: DENY"] {
                assert!(answer.contains(&format!("\r\n{head}\r\n")), "no {head} in {answer}");
            }
        };
        is_answered();
        assert!(good("?seen=7").starts_with("HTTP/1.1 204 No Content\r\n"));
        let get = |heads: &str| format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n{heads}\r\n").into_bytes();
        let large = format!("X: {}\r\n", "y".repeat(1 << 20));
        let many: String = (0..5000).map(|number| format!("X-{number}: y\r\n")).collect();
        let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "z".repeat(1 << 20));
        let cases: [(&str, Vec<u8>); 12] = [
            ("nothing", Vec::new()),
            ("a name without a colon", get("Broken\r\n")),
            ("an empty name", get(": x\r\n")),
            ("a name in another script", get("H\u{e4}der: x\r\n")),
            ("a NUL", get("X: \0\r\n")),
            ("no UTF-8", [&b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\nX: \xff\r\n\r\n"[..]].concat()),
            ("an old version", b"GET / HTTP/0.9\r\n\r\n".to_vec()),
            ("a body of no length", get("Content-Length: -1\r\n")),
            ("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
            ("a large header", get(&large)),
            ("many headers", get(&many)),
            ("a long path", long.into_bytes()),
        ];
        for (what, bytes) in cases {
            let answer = send(server.address, &bytes);
            assert!(!answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
            is_answered();
        }
        let twice = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n");
        assert!(send(server.address, twice.as_bytes()).starts_with("HTTP/1.1 403 "));
        let post = format!("POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        let answer = send(server.address, post.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nAllow: GET\r\n"), "{answer}");

        // More connections than may be open, none of which sends the end of a line.
        let slow: Vec<Stream> = (0..3 * CONNECTIONS)
            .map(|_| {
                let mut stream = Stream::connect(server.address).expect("the server listens");
                stream.write_all(b"GET /").expect("a connection");
                stream
            })
            .collect();
        is_answered();
        // A connection that is closed with bytes unread is reset.
        let is_closed = |stream: &&Stream| {
            stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a limit");
            match (&**stream).read(&mut [0]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        };
        let start = std::time::Instant::now();
        while slow.iter().filter(is_closed).count() < 2 * CONNECTIONS {
            assert!(start.elapsed() < Duration::from_secs(60), "the oldest are closed");
        }
        is_answered();
        let address = server.address;
        drop(server);
        assert!(Stream::connect(address).is_err(), "the server ended with its connections");
    }
}

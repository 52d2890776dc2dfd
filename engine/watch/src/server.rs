//! A page for a browser on this machine: [`page`].
//!
//! The server has only one page, which is generated here; no path of a request reaches a file. Three
//! things keep it private to the user who started it: the address, which other machines cannot reach; a
//! token in the URL that other users of this machine do not know; and the check of the `Host` header,
//! which prevents a web page whose name resolves to this machine from accessing it (DNS rebinding).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use hearth_report::{Board, live};
use tiny_http::{Header, Method, Request, Response, StatusCode};

use crate::end::End;
use crate::error::WatchError;
use crate::follow::{Follower, Seen};
use crate::lines::{EVERY, over, rest};
use crate::narrate::{Narrator, plain};

/// Host names that a browser uses on this machine, or at the other end of a tunnel.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// How long the last version of a page is served, so that open pages can fetch it.
const LAST: Duration = Duration::from_secs(3);

/// A page and its version.
#[derive(Debug, Default)]
struct Page {
    version: String,
    html: String,
}

/// A server for one page, which ends when it is dropped.
pub struct Server {
    http: Arc<tiny_http::Server>,
    token: String,
    page: Arc<RwLock<Page>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Listens on 127.0.0.1 at a port, or at any free port for 0.
    ///
    /// # Errors
    /// A port that is in use, or an operating system without random numbers.
    pub fn new(port: u16) -> Result<Self, WatchError> {
        let refused = |why: String| WatchError::Server { port, why };
        let http = tiny_http::Server::http(("127.0.0.1", port)).map_err(|error| refused(error.to_string()))?;
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| WatchError::Random(error.to_string()))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (http, page) = (Arc::new(http), Arc::<RwLock<Page>>::default());
        let thread = thread::spawn({
            let (http, page, token) = (Arc::clone(&http), Arc::clone(&page), token.clone());
            move || http.incoming_requests().for_each(|request| answer(request, &token, &page))
        });
        Ok(Self { http, token, page, thread: Some(thread) })
    }

    /// The URL of the page, with its token.
    pub fn url(&self) -> String {
        let port = self.http.server_addr().to_ip().map_or(0, |address| address.port());
        format!("http://127.0.0.1:{port}/{}/", self.token)
    }

    /// Replaces the page.
    pub fn show(&self, version: impl Into<String>, html: String) {
        *self.page.write().unwrap_or_else(PoisonError::into_inner) = Page { version: version.into(), html };
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.http.unblock();
        // The thread ends after the request that it is answering.
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
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

fn answer(request: Request, token: &str, page: &RwLock<Page>) {
    let page = page.read().unwrap_or_else(PoisonError::into_inner);
    let host = request.headers().iter().find(|header| header.field.equiv("Host")).map(|header| header.value.as_str());
    let verdict = judge(request.method(), request.url(), host, token, &page.version);
    let (status, body, kind) = match verdict {
        Verdict::Page => (200, page.html.as_str(), "text/html; charset=utf-8"),
        Verdict::Same => (204, "", "text/plain"),
        Verdict::Forbidden => (403, "not allowed: use the address that hearth watch printed\n", "text/plain"),
        Verdict::Method => (405, "only GET\n", "text/plain"),
        Verdict::Missing => (404, "there is only one page\n", "text/plain"),
    };
    let heads = [
        ("Content-Type", kind),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Allow", "GET"),
    ];
    let mut response = Response::from_data(body.as_bytes()).with_status_code(StatusCode(status));
    let heads = heads.into_iter().filter(|(name, _)| *name != "Allow" || status == 405);
    for header in heads.filter_map(|(name, value)| Header::from_bytes(name, value).ok()) {
        response.add_header(header);
    }
    drop(page);
    // A browser that has disconnected needs no answer.
    let _ = request.respond(response);
}

fn judge(method: &Method, url: &str, host: Option<&str>, token: &str, version: &str) -> Verdict {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let rest = path.strip_prefix('/').unwrap_or(path);
    let (given, rest) = rest.split_once('/').unwrap_or((rest, "none"));
    if !host.is_some_and(is_here) || !same(given.as_bytes(), token.as_bytes()) {
        return Verdict::Forbidden;
    }
    if *method != Method::Get {
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
    use super::*;

    #[test]
    fn only_the_page_of_this_machine_with_its_token_is_given() {
        let judge = |method: Method, url: &str, host: Option<&str>| judge(&method, url, host, "secret", "7");
        let here = Some("127.0.0.1:4000");
        assert_eq!(judge(Method::Get, "/secret/", here), Verdict::Page);
        assert_eq!(judge(Method::Get, "/secret/?seen=6", here), Verdict::Page);
        assert_eq!(judge(Method::Get, "/secret/?seen=7", Some("localhost:8080")), Verdict::Same);
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
            assert_eq!(judge(Method::Get, url, here), Verdict::Forbidden, "{url}");
        }
        for host in [
            None,
            Some("evil.example"),
            Some("evil.example:4000"),
            Some("127.0.0.1.evil.example"),
            Some("127.0.0.1@evil"),
            Some(""),
        ] {
            assert_eq!(judge(Method::Get, "/secret/", host), Verdict::Forbidden, "{host:?}");
        }
        for url in ["/secret/recipe.toml", "/secret/../../etc/passwd", "/secret", "/secret/%2e%2e/"] {
            assert_eq!(judge(Method::Get, url, here), Verdict::Missing, "{url}");
        }
        for method in [Method::Post, Method::Head, Method::Put, Method::Delete, Method::Options] {
            assert_eq!(judge(method.clone(), "/secret/", here), Verdict::Method);
            assert_eq!(judge(method, "/", here), Verdict::Forbidden);
        }
        assert!(is_here("[::1]:80") && is_here("LOCALHOST") && !is_here("::1"));
    }
}

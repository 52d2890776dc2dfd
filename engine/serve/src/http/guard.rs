//! The middleware for every request: authorization, counting, and handling of panics.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::task::JoinSet;

use super::App;
use super::fault::Fault;
use super::predict::client;

/// Paths that need no token: they reveal nothing about models or images.
const OPEN: [&str; 5] = ["/health", "/healthz", "/auth", "/auth/", "/auth/token"];

/// Checks a request, answers it, and counts it.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let method = match request.method().as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE") => known.to_owned(),
        _ => "other".to_owned(),
    };
    let client = client(&request);
    let mut response = match check(&app, &route, request.headers()) {
        Err(fault) => {
            if let Some(why) = fault.refused {
                app.metrics.refused(why);
            }
            fault.into_response()
        }
        Ok(()) => {
            // A separate task, so that a panic ends only this request. It is aborted if the client
            // disconnects.
            let mut tasks = JoinSet::new();
            tasks.spawn(next.run(request));
            match tasks.join_next().await {
                Some(Ok(response)) => response,
                _ => Fault::failed("the request ended by an error in this program").into_response(),
            }
        }
    };
    let (status, took) = (response.status(), start.elapsed());
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static(concat!("hearth/", env!("CARGO_PKG_VERSION"))));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    app.metrics.answered(&route, &method, status.as_u16(), took);
    if !matches!(&*route, "/health" | "/healthz" | "/metrics" | "/logs" | "/logs/") {
        app.journal.say(&format!("{method} {route} {} in {:.2} s, {client}", status.as_u16(), took.as_secs_f64()));
    }
    response
}

fn check(app: &App, route: &str, headers: &HeaderMap) -> Result<(), Fault> {
    let Some(token) = &app.options.token else { return check_origin(headers) };
    if OPEN.contains(&route) || bearer(headers).is_some_and(|given| token.is(given)) {
        return Ok(());
    }
    let detail = "this server requires its token: Authorization: Bearer TOKEN";
    let mut fault = Fault::new(StatusCode::UNAUTHORIZED, detail);
    fault.refused = Some("token");
    Err(fault)
}

/// The token in a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Refuses requests of web pages that are open in a browser on this machine, if there is no token: by
/// their origin, or by a host name that resolves to this machine.
fn check_origin(headers: &HeaderMap) -> Result<(), Fault> {
    let refused = |what: &str| {
        let detail = format!("{what} is another machine: without --token the server only answers to this machine");
        Err(Fault::new(StatusCode::FORBIDDEN, detail))
    };
    for (name, what) in [(header::HOST, "the host"), (header::ORIGIN, "the origin")] {
        let Some(value) = headers.get(&name) else { continue };
        let host = value.to_str().unwrap_or_default();
        let host = host.split_once("://").map_or(host, |(_, rest)| rest);
        if !is_loopback(host) {
            return refused(what);
        }
    }
    Ok(())
}

/// Whether `host[:port]` is a name of this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for host in ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "null", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}

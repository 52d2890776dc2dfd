//! Redirects: where they lead, and whether to follow them: [`target`].

use ureq::http::Uri;

/// Returns the address of `location` in an answer of `from`, which must be on the same host, with
/// no weaker scheme. Another host may be untrusted, or not a server.
///
/// # Errors
/// The reason for not following the redirect.
pub(super) fn target(from: &str, location: &str) -> Result<String, String> {
    let refused = |why: &str| format!("it is redirected to {location}: {why}");
    let here: Uri = from.parse().map_err(|error| refused(&format!("the address {from} is not usable: {error}")))?;
    let (Some(scheme), Some(authority)) = (here.scheme_str(), here.authority()) else {
        return Err(refused("the original address has no host"));
    };
    let location = location.trim().split('#').next().unwrap_or_default();
    let names_scheme = location.split(['/', '?']).next().is_some_and(|start| start.contains(':'));
    let whole = if names_scheme {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = here.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let there: Uri = whole.parse().map_err(|_| refused("not a usable address"))?;
    match (scheme, there.scheme_str()) {
        ("https", Some("https")) | ("http", Some("http" | "https")) => {}
        _ => return Err(refused(&format!("only https, or http from http, is followed from {scheme}"))),
    }
    let (from, to) = (here.host().unwrap_or_default(), there.host().unwrap_or_default());
    if !from.eq_ignore_ascii_case(to) {
        return Err(refused("another host is not followed; give its address (`--from`) if you trust it"));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_host_is_followed() {
        let from = "http://data.org:8080/sets/a.tar?x=1";
        for (location, to) in [
            ("/b.tar", "http://data.org:8080/b.tar"),
            ("c.tar?y=2#part", "http://data.org:8080/sets/c.tar?y=2"),
            ("//data.org/d.tar", "http://data.org/d.tar"),
            ("https://DATA.org/e.tar", "https://DATA.org/e.tar"),
        ] {
            assert_eq!(target(from, location).as_deref(), Ok(to), "{location}");
        }
    }

    #[test]
    fn other_hosts_and_schemes_are_not() {
        for location in ["http://data.org/a", "file:///etc/passwd", "file:/etc/passwd", "ftp://data.org/a", "data:,a"] {
            assert!(target("https://data.org/a", location).is_err(), "{location}");
        }
        for location in ["https://data.org.evil.net/a", "//evil.net/a", "http://data.org@evil.net/a", "http://[::1/a"] {
            let why = target("http://data.org/a", location).expect_err(location);
            assert!(why.starts_with("it is redirected to "), "{why}");
        }
    }
}

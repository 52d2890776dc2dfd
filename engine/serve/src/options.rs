//! The options of a server: [`Options`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::ServeError;
use crate::grid::Volumes;
use crate::server::listen;
use crate::tls;

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on. An address outside loopback requires TLS and a token.
    pub address: SocketAddr,
    /// Certificate chain and private key, as PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The token that clients must send.
    pub token: Option<Token>,
    /// A folder of images and labels, in MONAI Label's layout.
    pub datastore: Option<PathBuf>,
    /// The reader of volumes for the datastore. With it, a damaged image is not stored, and neither is a
    /// label on another grid than its image.
    pub volumes: Option<Arc<dyn Volumes>>,
    /// The maximum number of waiting requests; more are answered with status 429.
    pub queue: usize,
    /// The number of predictions that are computed at once.
    pub jobs: usize,
    /// The maximum size of a request in bytes; larger ones are answered with status 413.
    pub max_request: u64,
    /// The maximum bytes of all temporary files: uploads, unpacked archives, results, sessions.
    pub max_spool: u64,
    /// The folder for temporary files [default: the system's].
    pub spool: Option<PathBuf>,
    /// The maximum number of connections at once; others are answered with status 503, but for `/health`.
    pub connections: usize,
    /// The maximum time from the end of an upload to the result; then status 504.
    pub timeout: Duration,
    /// The maximum time between two parts of an upload; then status 408.
    pub idle: Duration,
    /// The time without use after which a session is removed.
    pub session_expiry: Duration,
    /// How long a stop waits for accepted work.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8000),
            tls: None,
            token: None,
            datastore: None,
            volumes: None,
            queue: 16,
            jobs: 1,
            max_request: 2 << 30,
            max_spool: 32 << 30,
            spool: None,
            connections: 256,
            timeout: Duration::from_secs(600),
            idle: Duration::from_secs(30),
            session_expiry: Duration::from_secs(3600),
            grace: Duration::from_secs(600),
        }
    }
}

/// The maximum number of predictions at once.
const MOST_JOBS: usize = 1024;

/// The maximum number of waiting requests.
const MOST_WAITING: usize = 1 << 20;

impl Options {
    /// Fails as [`Server::bind`](crate::Server::bind) would without regard to its models, which can take minutes
    /// to load: also for a certificate that cannot be used, and for an address that is in use.
    ///
    /// # Errors
    /// Options that conflict; a certificate or key that cannot be read; an address that cannot be listened on.
    pub fn rehearse(&self) -> Result<(), ServeError> {
        self.check()?;
        if let Some((certificate, key)) = &self.tls {
            tls::acceptor(certificate, key)?;
        }
        listen(self.address).map(drop)
    }

    /// Fails if options conflict, or if an unprotected server could be reached by others.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        if !self.address.ip().is_loopback() && (self.tls.is_none() || self.token.is_none()) {
            return Err(ServeError::Unprotected { address: self.address });
        }
        let least = [
            ("jobs", self.jobs as u64),
            ("queue", self.queue as u64),
            ("connections", self.connections as u64),
            ("the limit of a request", self.max_request),
        ];
        if let Some((name, _)) = least.into_iter().find(|(_, value)| *value == 0) {
            return Err(ServeError::Option(format!("{name} is 0, expected 1 or more")));
        }
        // Each job is a thread, and each waiting request holds its files.
        let most = [("jobs", self.jobs, MOST_JOBS), ("queue", self.queue, MOST_WAITING)];
        if let Some((name, value, most)) = most.into_iter().find(|(_, value, most)| value > most) {
            return Err(ServeError::Option(format!("{name} is {value}, expected at most {most}")));
        }
        if self.max_spool < self.max_request {
            let [request, spool] = [self.max_request, self.max_spool].map(hearth_machine::readable);
            let what = format!("a request may have {request}, and all temporary files only {spool}");
            return Err(ServeError::Option(format!("{what}: raise the second, or lower the first")));
        }
        Ok(())
    }
}

/// The token that clients must send as `Authorization: Bearer TOKEN`. Only its hash is kept.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// The minimum number of characters of a token.
    pub const LEAST: usize = 16;

    /// Reads the token from a file, without surrounding white space.
    ///
    /// # Errors
    /// A file that cannot be read, or a token that is shorter than [`Token::LEAST`] or contains
    /// characters other than printable ASCII.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let text = std::fs::read_to_string(path).map_err(|error| ServeError::file("read", path, error))?;
        Self::new(text.trim()).map_err(|why| ServeError::Secret { path: path.to_owned(), why })
    }

    /// Creates a token from a text.
    ///
    /// # Errors
    /// As for [`Token::read`], as a message.
    pub fn new(text: &str) -> Result<Self, String> {
        let length = text.chars().count();
        if length < Self::LEAST {
            let advice = "make one by `head -c 32 /dev/urandom | base64`";
            return Err(format!("the token has {length} characters, expected {} or more: {advice}", Self::LEAST));
        }
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err("the token has spaces or other characters than printable ASCII, expected one line".to_owned());
        }
        Ok(Self(blake3::hash(text.as_bytes())))
    }

    /// Creates a random token; also returns its text, which is not kept.
    ///
    /// # Errors
    /// A system without random numbers.
    pub fn random() -> Result<(Self, String), ServeError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| ServeError::Start(std::io::Error::other(error)))?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((Self(blake3::hash(text.as_bytes())), text))
    }

    /// Whether the given text is this token. Hashes are compared in constant time.
    pub fn is(&self, given: &str) -> bool {
        self.0 == blake3::hash(given.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_printable() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef") && !token.is("0123456789abcdeF") && !token.is(""));
        assert!(Token::new("short").unwrap_err().contains("5 characters"));
        assert!(Token::new("0123456789 abcdef").is_err());
        assert_eq!(format!("{token:?}"), "Token(..)");
        let ((one, text), (_, other)) = (Token::random().unwrap(), Token::random().unwrap());
        assert!(one.is(&text) && !one.is(&other) && Token::new(&text).is_ok());
    }

    #[test]
    fn others_reach_a_protected_server_only() {
        let mut options = Options { address: "0.0.0.0:1".parse().unwrap(), ..Options::default() };
        assert!(matches!(options.check(), Err(ServeError::Unprotected { .. })));
        options.token = Some(Token::new("0123456789abcdef").unwrap());
        assert!(matches!(options.check(), Err(ServeError::Unprotected { .. })), "a token without TLS can be read");
        options.tls = Some(("cert.pem".into(), "key.pem".into()));
        assert!(options.check().is_ok());
        assert!(Options::default().check().is_ok());
        assert!(Options { max_spool: 1, ..Options::default() }.check().is_err());
        assert!(Options { jobs: 0, ..Options::default() }.check().is_err());
        let many = Options { jobs: 1 << 32, ..Options::default() }.check().unwrap_err();
        assert!(many.to_string().contains("jobs is 4294967296, expected at most 1024"), "{many}");
        assert!(Options { queue: usize::MAX, ..Options::default() }.check().is_err());
    }
}

//! Downloads one file over HTTP: [`fetch`].

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use md5::{Digest, Md5};
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::{Agent, Body};

use super::DownloadError;
use super::redirect::target;
use crate::Progress;

/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;

/// The expected checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checksum {
    /// MD5, in hexadecimal: sufficient against damage, not against an attack.
    Md5(String),
    /// BLAKE3, in hexadecimal.
    Blake3(String),
}

impl Checksum {
    /// Fails if a file has other content.
    ///
    /// # Errors
    /// [`DownloadError::Checksum`], or an I/O error if the file can't be read.
    pub fn check(&self, path: &Path) -> Result<(), DownloadError> {
        let mut file = hearth_files::open(path).map_err(DownloadError::io(path))?;
        let (expected, found) = match self {
            Checksum::Md5(expected) => {
                let mut hash = Md5::new();
                let mut buffer = vec![0; 1 << 18];
                loop {
                    match file.read(&mut buffer).map_err(DownloadError::io(path))? {
                        0 => break,
                        n => hash.update(&buffer[..n]),
                    }
                }
                (expected, hex(&hash.finalize()))
            }
            Checksum::Blake3(expected) => {
                let mut hash = blake3::Hasher::new();
                hash.update_reader(file).map_err(DownloadError::io(path))?;
                (expected, hash.finalize().to_hex().to_string())
            }
        };
        if expected.eq_ignore_ascii_case(&found) {
            return Ok(());
        }
        Err(DownloadError::Checksum { path: path.to_owned(), expected: expected.clone(), found })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Options of fetching files.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Maximum number of consecutive tries without progress.
    pub tries: u32,
    /// Timeout for a connection, and for waiting without receiving a byte.
    pub timeout: Duration,
    /// Delay before the second try; it doubles with each try.
    pub pause: Duration,
    /// Maximum size of a file in bytes; larger files are rejected.
    pub max_bytes: u64,
    /// How progress is shown.
    pub progress: Progress,
}

impl Default for FetchOptions {
    fn default() -> Self {
        FetchOptions {
            tries: 5,
            timeout: Duration::from_secs(30),
            pause: Duration::from_millis(500),
            max_bytes: 256 << 30,
            progress: Progress::None,
        }
    }
}

impl FetchOptions {
    pub(super) fn agent(&self) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are followed in this module, which checks their targets.
            .max_redirects(0)
            .timeout_connect(Some(self.timeout))
            .timeout_recv_response(Some(self.timeout))
            .timeout_per_read(Some(self.timeout))
            .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")));
        config.build().new_agent()
    }
}

/// Downloads a file. Partial data of an earlier try is in `PATH.part`, from which the download is
/// resumed if the server allows it.
///
/// The checksum of an existing file is compared, and nothing is downloaded.
///
/// # Errors
/// If the server has no such file, the connection fails too often, or the content does not match
/// the checksum. If the partial data belongs to another file, the download restarts once.
pub fn fetch(url: &str, path: &Path, checksum: Option<&Checksum>, options: &FetchOptions) -> Result<(), DownloadError> {
    if path.exists() {
        return checksum.map_or(Ok(()), |c| c.check(path));
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(DownloadError::io(dir))?;
    }
    let part = with_suffix(path, ".part");
    let began_with = fs::metadata(&part).map_or(0, |m| m.len());
    if let Err(error) = download(url, &part, options) {
        if fs::metadata(&part).is_ok_and(|m| m.len() == 0) {
            // There is nothing to resume from. A failed removal has no effect.
            let _ = fs::remove_file(&part);
        }
        return Err(error);
    }
    if let Some(checksum) = checksum
        && let Err(error) = checksum.check(&part)
    {
        fs::remove_file(&part).map_err(DownloadError::io(&part))?;
        if began_with == 0 {
            return Err(told_of(error, path));
        }
        tracing::warn!("{url}: the partial file does not belong to it; the download restarts");
        download(url, &part, options)?;
        if let Err(error) = checksum.check(&part) {
            fs::remove_file(&part).map_err(DownloadError::io(&part))?;
            return Err(told_of(error, path));
        }
    }
    fs::rename(&part, path).map_err(DownloadError::io(path))
}

/// The part no longer exists; the message names the requested file.
fn told_of(error: DownloadError, path: &Path) -> DownloadError {
    match error {
        DownloadError::Checksum { expected, found, .. } => {
            DownloadError::Checksum { path: path.to_owned(), expected, found }
        }
        other => other,
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The error of a try.
enum Failed {
    /// Another try may succeed.
    Again(String),
    /// No other try can succeed.
    For(DownloadError),
}

fn download(url: &str, part: &Path, options: &FetchOptions) -> Result<(), DownloadError> {
    let agent = options.agent();
    let mut file = hearth_files::append(part).map_err(DownloadError::io(part))?;
    let (mut tries, mut pause) = (0, options.pause);
    let mut best = file.metadata().map_err(DownloadError::io(part))?.len();
    loop {
        let failed = match attempt(&agent, url, &mut file, part, options) {
            Ok(()) => break,
            Err(Failed::For(error)) => return Err(error),
            Err(Failed::Again(what)) => what,
        };
        let length = file.metadata().map_err(DownloadError::io(part))?.len();
        // A server that makes progress each time may be retried indefinitely; one that restarts
        // each time may not.
        (tries, pause) = if length > best { (1, options.pause) } else { (tries + 1, pause) };
        best = best.max(length);
        if tries >= options.tries {
            return Err(DownloadError::Network { url: url.to_owned(), what: failed, tries });
        }
        tracing::warn!("{url}: {failed}; trying again from byte {length}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(60));
    }
    file.sync_all().map_err(DownloadError::io(part))
}

/// Requests a file from a byte on, following redirects.
fn request(agent: &Agent, url: &str, offset: u64) -> Result<Response<Body>, Failed> {
    let answer = |what: String| Failed::For(DownloadError::Answer { url: url.to_owned(), what });
    let mut place = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let mut request = agent.get(&place);
        if offset > 0 {
            request = request.header(header::RANGE, format!("bytes={offset}-"));
        }
        let response = request.call().map_err(|error| match error {
            ureq::Error::BadUri(what) | ureq::Error::RequireHttpsOnly(what) => {
                answer(format!("not a usable address: {what}"))
            }
            ureq::Error::Http(error) => answer(format!("not a usable address: {error}")),
            error => Failed::Again(error.to_string()),
        })?;
        let location = response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection());
        let Some(location) = location else { return Ok(response) };
        let location =
            location.to_str().map_err(|_| answer("the address that it is redirected to is not text".to_owned()))?;
        place = target(&place, location).map_err(answer)?;
    }
    Err(answer("it is redirected in a loop, or too often".to_owned()))
}

/// Makes one request and appends its data to the file.
fn attempt(agent: &Agent, url: &str, file: &mut File, part: &Path, options: &FetchOptions) -> Result<(), Failed> {
    let io = |error| Failed::For(DownloadError::io(part)(error));
    let answer = |what: String| Failed::For(DownloadError::Answer { url: url.to_owned(), what });
    let mut offset = file.metadata().map_err(io)?.len();
    let response = request(agent, url, offset)?;
    let (status, headers) = (response.status(), response.headers().clone());
    let total = match status {
        StatusCode::PARTIAL_CONTENT => {
            let (start, total) = content_range(&headers).unwrap_or((offset, None));
            if start != offset {
                return Err(answer(format!("requested bytes from {offset} on, the server sends from {start} on")));
            }
            total.or_else(|| Some(offset + content_length(&headers)?))
        }
        StatusCode::OK => {
            // The server does not support resuming.
            file.set_len(0).map_err(io)?;
            offset = 0;
            content_length(&headers)
        }
        StatusCode::RANGE_NOT_SATISFIABLE if offset > 0 => {
            if content_range(&headers).and_then(|(_, total)| total) == Some(offset) {
                return Ok(());
            }
            file.set_len(0).map_err(io)?;
            return Err(Failed::Again("the partial file is longer than the file".to_owned()));
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            return Err(Failed::Again(format!("the server answers {status}")));
        }
        status if status.is_server_error() => return Err(Failed::Again(format!("the server answers {status}"))),
        status => return Err(Failed::For(DownloadError::Status { url: url.to_owned(), status: status.as_u16() })),
    };
    let too_large = || Failed::For(DownloadError::TooLarge { what: url.to_owned(), limit: options.max_bytes });
    if total.is_some_and(|total| total > options.max_bytes) {
        return Err(too_large());
    }
    let shown = options.progress.start_bytes("download", total.unwrap_or(0));
    shown.advance_by(offset);
    let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
    let mut buffer = vec![0; 1 << 17];
    loop {
        let read = match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failed::Again(error.to_string())),
        };
        offset += read as u64;
        if offset > options.max_bytes {
            return Err(too_large());
        }
        file.write_all(&buffer[..read]).map_err(io)?;
        shown.advance_by(read as u64);
    }
    shown.finish();
    match total {
        Some(total) if offset < total => {
            Err(Failed::Again(format!("the connection ended after {offset} of {total} bytes")))
        }
        _ => Ok(()),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// `bytes 5-9/10` or `bytes */10`: the start of the part, and the total length.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes")?.trim();
    let (range, total) = text.split_once('/')?;
    let start = range.split_once('-').and_then(|(start, _)| start.trim().parse().ok()).unwrap_or(0);
    Some((start, total.trim().parse().ok()))
}

//! A server in this process, and the files it serves.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearth_datasets::download::FetchOptions;

/// The behaviour of the server for a path.
#[derive(Clone)]
pub enum Act {
    /// Sends the file, and supports ranges.
    Serve(Vec<u8>),
    /// Sends the file without support for ranges.
    Whole(Vec<u8>),
    /// Closes each connection after this number of bytes of the body.
    Cut(Vec<u8>, usize),
    /// Closes the connection this number of times, without support for ranges.
    CutWhole(Vec<u8>, usize, Arc<AtomicUsize>),
    /// Sends one byte, then nothing for a while.
    Stall(Vec<u8>),
    /// Sends a status this number of times, then the file.
    Trouble(u16, Arc<AtomicUsize>, Vec<u8>),
    /// Redirects to another address.
    Redirect(String),
    /// Answers a range with another one.
    WrongRange(Vec<u8>),
    /// States a larger length than it sends.
    Claims(u64),
}

pub struct Server {
    pub base: String,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub fn new(acts: impl IntoIterator<Item = (&'static str, Act)>) -> Server {
        let acts: BTreeMap<String, Act> = acts.into_iter().map(|(path, act)| (path.to_owned(), act)).collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopped, noted) = (stop.clone(), requests.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (acts, noted) = (acts.clone(), noted.clone());
                std::thread::spawn(move || stream.map(|stream| answer(stream, &acts, &noted)));
            }
        });
        Server { base, requests, stop, thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.base.trim_start_matches("http://"));
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Serves one request per connection. The client may disconnect at any time.
fn answer(mut stream: TcpStream, acts: &BTreeMap<String, Act>, noted: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut offset = 0;
    for line in lines {
        let line = line.ok()?.to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            offset = range.trim_end_matches('-').parse().ok()?;
        }
    }
    noted.lock().ok()?.push(format!("{path} {offset}"));
    let mut send = |status: &str, headers: &str, body: &[u8]| {
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n").ok()?;
        stream.write_all(body).ok()
    };
    let length = |n: usize| format!("Content-Length: {n}\r\n");
    let part = |body: &[u8], from: usize| {
        let range = format!("Content-Range: bytes {from}-{}/{}\r\n", body.len().max(1) - 1, body.len());
        format!("{range}{}", length(body.len() - from))
    };
    match acts.get(&path) {
        None => send("404 Not Found", &length(0), b""),
        Some(Act::Serve(body)) if offset > 0 && offset >= body.len() => {
            send("416 Range Not Satisfiable", &format!("Content-Range: bytes */{}\r\n{}", body.len(), length(0)), b"")
        }
        Some(Act::Serve(body)) if offset > 0 => send("206 Partial Content", &part(body, offset), &body[offset..]),
        Some(Act::Serve(body) | Act::Whole(body)) => send("200 OK", &length(body.len()), body),
        Some(Act::Cut(body, after)) => {
            let end = body.len().min(offset + after);
            let status = if offset > 0 { "206 Partial Content" } else { "200 OK" };
            send(status, &part(body, offset), &body[offset..end])
        }
        Some(Act::CutWhole(body, after, times)) => {
            let cut = times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
            send("200 OK", &length(body.len()), if cut { &body[..*after] } else { body })
        }
        Some(Act::Stall(body)) => {
            send("200 OK", &length(body.len()), &body[..1])?;
            std::thread::sleep(Duration::from_secs(3));
            Some(())
        }
        Some(Act::Trouble(status, times, body)) => {
            match times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
                Ok(_) => send(&format!("{status} Trouble"), &length(0), b""),
                Err(_) => send("200 OK", &length(body.len()), body),
            }
        }
        Some(Act::Redirect(to)) => send("302 Found", &format!("Location: {to}\r\n{}", length(0)), b""),
        Some(Act::WrongRange(body)) if offset > 0 => {
            send("206 Partial Content", &part(body, offset - 1), &body[offset - 1..])
        }
        Some(Act::WrongRange(body)) => send("200 OK", &length(body.len()), &body[..body.len() / 2]),
        Some(Act::Claims(bytes)) => send("200 OK", &format!("Content-Length: {bytes}\r\n"), b"little"),
    }
}

/// Options with a short timeout.
pub fn quick() -> FetchOptions {
    FetchOptions {
        tries: 3,
        timeout: Duration::from_millis(400),
        pause: Duration::from_millis(5),
        ..FetchOptions::default()
    }
}

/// A zip of files.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        out.start_file(*name, options).expect("in memory");
        out.write_all(content).expect("in memory");
    }
    out.finish().expect("in memory").into_inner()
}

pub fn md5_of(bytes: &[u8]) -> String {
    use md5::{Digest, Md5};
    Md5::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

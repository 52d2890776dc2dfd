//! Requests to the service.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hearth_serve::{Answer, Card, Kind, Model, Options, Refusal, Request, Server};

/// The limit in bytes for a request, and for all temporary files.
const LARGEST: u64 = 1 << 20;

/// A model that accepts no image, so that every request is refused.
struct Refuses(Card);

impl Model for Refuses {
    fn card(&self) -> &Card {
        &self.0
    }

    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        match request.input.exists() {
            true => Err(Refusal::Input("it is not an image".to_owned())),
            false => Err(Refusal::Failed("the upload is missing".to_owned())),
        }
    }
}

/// The server of this process, which ends with it.
fn server() -> SocketAddr {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    *SERVER.get_or_init(|| {
        let card = Card {
            name: "refuses".to_owned(),
            description: "nothing".to_owned(),
            kind: Kind::Segmentation,
            dimension: 3,
            labels: vec![("spleen".to_owned(), 1)],
            channels: vec!["CT".to_owned()],
            checksum: None,
        };
        let second = Duration::from_secs(1);
        let options = Options {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            max_request: LARGEST,
            max_spool: 8 * LARGEST,
            session_expiry: second,
            ..Options::default()
        };
        let server = Server::bind(options, vec![Arc::new(Refuses(card))]).expect("a port of loopback");
        let address = server.address();
        std::thread::spawn(move || server.run());
        address
    })
}

/// A request: method and address in the first line, the type of its content in the second, then the
/// content. It must be answered: a panic would close the connection without an answer.
pub fn request(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let (line, kind, body) = (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    // Bytes that end the head early would make another request.
    let plain = |text: &[u8]| -> String {
        text.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ').map(|byte| char::from(*byte)).collect()
    };
    let line = plain(line.unwrap_or_default());
    let Some((method, path)) = line.split_once(' ').filter(|(_, path)| path.starts_with('/') && !path.contains(' '))
    else {
        return;
    };
    if !["GET", "POST", "PUT", "DELETE"].contains(&method) {
        return;
    }
    let address = server();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
        plain(kind).trim(),
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| {
        // A signal to the test only ends the server; a refused connection is not a finding.
        eprintln!("the server has ended: {error}");
        std::process::exit(1);
    });
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    // A request that is refused by its head need not be read to its end.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 "), "no answer to {line}");
    // A panic in the request's thread yields an answer that reports it.
    let said = String::from_utf8_lossy(&answer);
    assert!(!said.contains("panicked"), "{line}: {said}");
}

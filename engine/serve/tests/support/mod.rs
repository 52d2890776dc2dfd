//! A model, a server and a client for tests. The client implements HTTP itself, so that it can also
//! send what a library would not.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_serve::{Answer, Card, Format, Kind, Model, Options, Refusal, Request, Server, Stopper};
use serde_json::{Map, Value, json};

/// A model whose label map is the image's bytes in reverse. The content of an image selects the
/// behaviour.
pub struct Reverse(Card);

impl Reverse {
    pub fn named(name: &str) -> Arc<dyn Model> {
        Arc::new(Reverse(Card {
            name: name.to_owned(),
            description: "bytes in reverse".to_owned(),
            kind: Kind::Segmentation,
            dimension: 3,
            labels: vec![("spleen".to_owned(), 1), ("tumour".to_owned(), 2)],
            channels: vec!["CT".to_owned()],
            checksum: Some("abc".to_owned()),
        }))
    }
}

impl Model for Reverse {
    fn card(&self) -> &Card {
        &self.0
    }

    fn infer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let mut files = Vec::new();
        below(request.input, &mut files);
        files.sort();
        let mut bytes = Vec::new();
        for file in &files {
            bytes.extend(std::fs::read(file).map_err(|error| Refusal::Failed(error.to_string()))?);
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some(wait) = text.strip_prefix("slow ") {
            std::thread::sleep(Duration::from_millis(wait.trim().parse().unwrap()));
        }
        if text.starts_with("panic") {
            panic!("a fault of the model");
        }
        if text.starts_with("bad") {
            return Err(Refusal::Input("it is no image: the header is damaged".to_owned()));
        }
        if text.starts_with("fail") {
            return Err(Refusal::Failed("the device was lost".to_owned()));
        }
        let names: Vec<String> = files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into()).collect();
        let mut facts = Map::new();
        facts.insert("files".to_owned(), json!(names));
        facts.insert("series".to_owned(), json!(request.series));
        if request.format == Format::Json {
            return Ok(Answer { file: None, facts });
        }
        bytes.reverse();
        let path = request.out.join(format!("label{}", request.format.end()));
        std::fs::write(&path, bytes).map_err(|error| Refusal::Failed(error.to_string()))?;
        Ok(Answer { file: Some(path), facts })
    }
}

fn below(path: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    match path.is_dir() {
        true => std::fs::read_dir(path).unwrap().for_each(|entry| below(&entry.unwrap().path(), files)),
        false => files.push(path.to_owned()),
    }
}

/// A server that runs until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(options: Options) -> Self {
        Self::of(Server::bind(local(options), vec![Reverse::named("reverse")]).unwrap())
    }

    pub fn of(server: Server) -> Self {
        let (address, stopper) = (server.address(), server.stopper());
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { address, stopper, thread }
    }

    /// Stops the server, and waits for its end.
    pub fn stop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Asks the server to stop, without waiting.
    pub fn begin_to_stop(&self) {
        self.stopper.stop();
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Reply {
        self.send("POST", path, &[], body)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let host = self.address.to_string();
        let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {host}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses a request may not read all of it.
        let _ = stream.write_all(body);
        Reply::read(stream)
    }

    /// Sends a form of fields (name, text) and files (field, name, content), encoded as by 3D Slicer's
    /// client.
    pub fn form(&self, method: &str, path: &str, fields: &[(&str, &str)], files: &[(&str, &str, &[u8])]) -> Reply {
        let limit = "----------lImIt_of_THE_fIle_eW_$";
        let mut body = Vec::new();
        for (name, value) in fields {
            body.extend(
                format!("--{limit}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes(),
            );
        }
        for (field, name, content) in files {
            let head = format!("Content-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"");
            body.extend(format!("--{limit}\r\n{head}\r\nContent-Type: application/octet-stream\r\n\r\n").bytes());
            body.extend(*content);
            body.extend(b"\r\n");
        }
        body.extend(format!("--{limit}--\r\n\r\n").bytes());
        self.send(method, path, &[("Content-Type", &format!("multipart/form-data; boundary={limit}"))], &body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The options with a port that the system chooses.
pub fn local(options: Options) -> Options {
    Options { address: "127.0.0.1:0".parse().unwrap(), ..options }
}

/// The answer of a server.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn read(mut stream: impl Read) -> Self {
        let mut all = Vec::new();
        // A server that closes early may reset the connection after its answer.
        let _ = stream.read_to_end(&mut all);
        let end = all.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer") + 4;
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let reply = Self { status, head, body: all[end..].to_vec() };
        let length = reply.header("content-length").expect("a length").parse::<usize>().unwrap();
        assert_eq!(reply.body.len(), length, "{reply:?}");
        reply
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.lines().filter_map(|line| line.split_once(": "));
        found.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The message of an error.
    pub fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

//! Tests of the HTTP interface, with its own client.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hearth_serve::{Options, Server, Token};
use support::{Reply, Reverse, Running, local};

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn an_image_in_its_label_map_out() {
    let server = Running::start(Options::default());
    let reply = server.post("/predict/reverse?name=ct.nii.gz", b"abc");
    assert_eq!((reply.status, reply.text().as_str()), (200, "cba"));
    assert_eq!(reply.header("content-type"), Some("application/gzip"));
    assert_eq!(reply.header("content-disposition"), Some("attachment; filename=\"prediction.nii.gz\""));
    let reply = server.post("/predict?format=nrrd", b"abc");
    assert_eq!((reply.status, reply.text().as_str()), (200, "cba"));
    assert_eq!(reply.header("content-disposition"), Some("attachment; filename=\"prediction.nrrd\""));
    let reply = server.post("/predict?format=json&series=2", b"NRRD0005\n");
    assert_eq!(reply.json()["files"], serde_json::json!(["image.nrrd"]), "its content says what it is");
    assert_eq!(reply.json()["series"], "2");
    assert_eq!(reply.json()["label_names"]["tumour"], 2);
    // Several files, and a study as a zip.
    let files: [(&str, &str, &[u8]); 2] = [("file", "/tmp/x/t1.nii", b"1"), ("file", "t2.nii", b"2")];
    assert_eq!(server.form("POST", "/predict/reverse", &[], &files).text(), "21");
    // Files with the same name, which is also that of a folder for such files.
    let files: [(&str, &str, &[u8]); 2] = [("file", "part1", b"1"), ("file", "part1", b"2")];
    assert_eq!(server.form("POST", "/predict/reverse", &[], &files).text(), "21");
    let study = zip(&[("study/a/1.dcm", b"1"), ("study/a/2.dcm", b"2")]);
    assert_eq!(server.post("/predict/reverse", &study).text(), "21");
    // No temporary file stays.
    assert_eq!(gauge(&server, "hearth_spool_bytes"), 0);
}

fn gauge(server: &Running, name: &str) -> u64 {
    let text = server.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
}

#[test]
fn bad_requests_are_4xx_with_what_is_wrong() {
    let server = Running::start(Options { max_request: 1000, max_spool: 1500, ..Options::default() });
    let x: [(&str, &str, &[u8]); 1] = [("file", "a", b"x")];
    let cases: Vec<(Reply, u16, &str)> = vec![
        (server.post("/predict/other", b"abc"), 404, "expected reverse"),
        (server.post("/predict/reverse", b""), 400, "no file"),
        (server.post("/predict/reverse", b"bad"), 422, "header is damaged"),
        (server.post("/predict/reverse?format=png", b"abc"), 400, "expected nifti"),
        (server.post("/predict/reverse?formt=nrrd", b"abc"), 400, "\"formt\" is not a parameter"),
        (server.post("/predict/reverse", b"PK\x03\x04 damaged"), 422, "archive cannot be read"),
        (server.post("/predict/reverse", &zip(&[("../../x", b"1")])), 422, "outside"),
        (server.post("/predict/reverse", &zip(&[("x", &[0; 4001])])), 413, "limit"),
        (server.post("/predict/reverse", &[0; 1001]), 413, "limit"),
        (server.form("POST", "/infer/reverse", &[], &[]), 400, "neither a file"),
        (server.form("POST", "/infer/reverse", &[("params", "{")], &[("file", "a", b"x")]), 400, "not JSON"),
        (server.form("POST", "/infer/reverse", &[("params", "[]")], &[("file", "a", b"x")]), 400, "JSON object"),
        (server.form("POST", "/infer/reverse", &[("params", "{\"largest_cc\": true}")], &x), 400, "\"largest_cc\""),
        (server.form("POST", "/infer/reverse", &[("params", "{\"foreground\": []}")], &x), 400, "interactive"),
        (server.form("POST", "/infer/reverse", &[("params", "{\"save_label\": true}")], &x), 400, "?image=NAME"),
        (server.form("POST", "/infer/reverse", &[("format", "nrrd")], &x), 400, "\"format\" is not a field"),
        (server.form("POST", "/infer/reverse?imge=x", &[], &[]), 400, "\"imge\" is not a parameter"),
        (server.form("POST", "/infer/reverse", &[], &[("label", "a", b"x"), ("file", "a", b"x")]), 400, "scribbles"),
        (server.form("POST", "/predict", &[("params", "{\"tta\": true}")], &x), 400, "\"tta\""),
        (server.form("POST", "/predict", &[("format", "nrrd")], &x), 400, "\"format\" is not a field"),
        (server.form("POST", "/infer/reverse?image=x", &[], &[]), 404, "--datastore"),
        (server.form("POST", "/infer/reverse?session_id=x", &[], &[]), 404, "no session"),
        (server.form("POST", "/infer/reverse?output=x", &[], &[]), 422, "expected image"),
        (server.send("POST", "/infer/reverse", &[("Content-Type", "text/plain")], b"x"), 415, "multipart"),
        (
            server.send("POST", "/infer/reverse", &[("Content-Type", "multipart/form-data; boundary=x")], b"--y"),
            400,
            "form cannot be read",
        ),
        (server.send("POST", "/predict", &[("Content-Type", "multipart/form-data")], b"x"), 400, "boundary"),
        (server.get("/nothing"), 404, "nothing at this address"),
        (server.get("/predict/reverse"), 405, "does not support the method"),
        (server.get("/datastore/"), 404, "--datastore"),
        (server.get("/model/reverse"), 403, "weights"),
        (server.get("/train/?check_if_running=true"), 404, "does not train"),
    ];
    for (reply, status, said) in cases {
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(reply.detail().contains(said), "{said:?}: {reply:?}");
    }
    // None of their files stays.
    assert_eq!(gauge(&server, "hearth_spool_bytes"), 0);
}

#[test]
fn faults_here_end_their_request_alone() {
    let server = Running::start(Options::default());
    let reply = server.post("/predict", b"panic");
    assert_eq!((reply.status, reply.detail().contains("a fault of the model")), (500, true), "{reply:?}");
    let reply = server.post("/predict", b"fail");
    assert_eq!((reply.status, reply.detail().as_str()), (500, "the device was lost"));
    assert_eq!(server.post("/predict", b"abc").status, 200);
    let text = server.get("/metrics").text();
    for line in [
        "hearth_predictions_total{model=\"reverse\",outcome=\"panic\"} 1",
        "hearth_predictions_total{model=\"reverse\",outcome=\"failed\"} 1",
        "hearth_predictions_total{model=\"reverse\",outcome=\"done\"} 1",
        "hearth_http_requests_total{route=\"/predict\",method=\"POST\",status=\"500\"} 2",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let log = server.get("/logs/?lines=10").text();
    assert!(log.contains("POST /predict 500"), "{log}");
}

#[test]
fn a_full_queue_says_when_to_come_again() {
    let server = Running::start(Options { queue: 1, ..Options::default() });
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..2).map(|_| scope.spawn(|| server.post("/predict", b"slow 600"))).collect();
        let until = Instant::now() + Duration::from_secs(5);
        while gauge(&server, "hearth_queue_running") + gauge(&server, "hearth_queue_waiting") < 2 {
            assert!(Instant::now() < until, "both are in the queue");
            std::thread::sleep(Duration::from_millis(5));
        }
        let reply = server.post("/predict", b"abc");
        assert_eq!(reply.status, 429, "{reply:?}");
        assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        for reply in slow.into_iter().map(|thread| thread.join().unwrap()) {
            assert_eq!(reply.status, 200, "none that was accepted is lost");
        }
    });
    assert_eq!(server.post("/predict", b"abc").status, 200);
    assert!(server.get("/metrics").text().contains("hearth_refused_total{why=\"queue\"} 1"));
}

#[test]
fn who_waits_too_long_is_told_so() {
    let server = Running::start(Options { timeout: Duration::from_millis(200), ..Options::default() });
    let reply = server.post("/predict", b"slow 1000");
    assert_eq!(reply.status, 504, "{reply:?}");
    // An upload that stops is aborted after a time.
    let server = Running::start(Options { idle: Duration::from_millis(200), ..Options::default() });
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nConnection: close\r\n\r\nabc")
        .unwrap();
    assert_eq!(Reply::read(&stream).status, 408);
    // A client that disconnects frees its place in the queue.
    let server = Running::start(Options { queue: 1, ..Options::default() });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| server.post("/predict", b"slow 500"));
        std::thread::sleep(Duration::from_millis(100));
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nslow 100").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        drop(stream);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(server.post("/predict", b"abc").status, 200);
        assert_eq!(first.join().unwrap().status, 200);
    });
    assert_eq!(gauge(&server, "hearth_spool_bytes"), 0);
}

#[test]
fn a_stop_finishes_what_was_accepted() {
    let mut server = Running::start(Options::default());
    std::thread::scope(|scope| {
        let replies: Vec<_> = (0..3).map(|_| scope.spawn(|| server.post("/predict", b"slow 200"))).collect();
        std::thread::sleep(Duration::from_millis(100));
        server.begin_to_stop();
        for reply in replies.into_iter().map(|thread| thread.join().unwrap()) {
            assert_eq!((reply.status, reply.text().as_str()), (200, "002 wols"));
        }
    });
    server.stop();
    assert!(TcpStream::connect(server.address).is_err(), "the port is closed");
}

#[test]
fn a_token_is_asked_for() {
    let secret = "0123456789abcdef0123";
    let server = Running::start(Options { token: Some(Token::new(secret).unwrap()), ..Options::default() });
    let reply = server.get("/info/");
    assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{reply:?}");
    for wrong in ["Bearer x", "Basic 0123456789abcdef0123", "Bearer 0123456789abcdef012"] {
        assert_eq!(server.send("GET", "/info/", &[("Authorization", wrong)], b"").status, 401, "{wrong}");
    }
    let right = format!("bearer {secret}");
    assert_eq!(server.send("GET", "/info/", &[("Authorization", &right)], b"").status, 200);
    assert_eq!(server.send("POST", "/predict", &[("Authorization", &right)], b"abc").text(), "cba");
    assert_eq!((server.get("/health").status, server.get("/metrics").status), (200, 401));
    // As 3D Slicer asks the user for it.
    assert_eq!(server.get("/auth/").json()["enabled"], true);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let asked = format!("username=me&password={secret}&grant_type=password");
    let reply = server.send("POST", "/auth/token", &form, asked.as_bytes());
    assert_eq!(
        (reply.json()["access_token"].as_str(), reply.json()["token_type"].as_str()),
        (Some(secret), Some("bearer"))
    );
    assert_eq!(server.send("POST", "/auth/token", &form, b"username=me&password=x").status, 401);
    assert_eq!(server.get("/auth/token/valid").status, 401);
    assert_eq!(server.send("GET", "/auth/token/valid", &[("Authorization", &right)], b"").status, 200);
}

/// The start of a request whose body follows.
fn begin(server: &Running, path: &str, kind: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n");
    write!(stream, "{head}Content-Length: {length}\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// Sends a body in pieces with pauses, until the server answers.
fn trickle(mut stream: TcpStream, piece: &[u8], pause: Duration) -> (Reply, Duration) {
    let start = Instant::now();
    let mut sending = stream.try_clone().unwrap();
    let piece = piece.to_vec();
    let sender = std::thread::spawn(move || {
        while sending.write_all(&piece).is_ok() && {
            std::thread::sleep(pause);
            true
        } {}
    });
    let mut all = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut all);
    let _ = stream.shutdown(std::net::Shutdown::Both);
    drop(sender);
    (Reply::read(&all[..]), start.elapsed())
}

const FORM: &str = "application/x-www-form-urlencoded";
const PARTS: &str = "multipart/form-data; boundary=x";

#[test]
fn forms_are_bounded_before_and_after_the_token() {
    let secret = "0123456789abcdef0123";
    let server = Running::start(Options { token: Some(Token::new(secret).unwrap()), ..Options::default() });
    // Before the token is known: 16 KiB, whatever else a request may have.
    let (reply, _) = trickle(begin(&server, "/auth/token", FORM, 1 << 30), &[b'a'; 8192], Duration::ZERO);
    assert_eq!((reply.status, reply.detail().contains("the form has more than")), (413, true), "{reply:?}");
    let many = vec!["a=b"; 200].join("&");
    let reply = server.send("POST", "/auth/token", &[("Content-Type", FORM)], many.as_bytes());
    assert_eq!((reply.status, reply.detail().contains("100 fields")), (413, true), "{reply:?}");
    let server = Running::start(Options::default());
    let (reply, _) = trickle(begin(&server, "/infer/reverse", FORM, 1 << 30), &[b'a'; 65536], Duration::ZERO);
    assert_eq!(reply.status, 413, "{reply:?}");
    // Text fields: each and all of them; their number; their names.
    let texts: Vec<(String, String)> = (0..101).map(|number| (format!("f{number}"), "x".to_owned())).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let reply = server.form("POST", "/infer/reverse", &texts, &[]);
    assert_eq!((reply.status, reply.detail().contains("100 fields")), (413, true), "{reply:?}");
    let long = "x".repeat(600 << 10);
    let reply = server.form("POST", "/infer/reverse", &[("a", &long), ("b", &long)], &[("file", "a", b"abc")]);
    assert_eq!((reply.status, reply.detail().contains("text fields")), (413, true), "{reply:?}");
    let reply = server.form("POST", "/infer/reverse", &[(&"n".repeat(2000), "x")], &[]);
    assert_eq!((reply.status, reply.detail().contains("2000 bytes")), (400, true), "{reply:?}");
    // A head of a part that does not end, and no part at all.
    for start in ["--x\r\nContent-Disposition: form-data; name=\"", "no boundary "] {
        let mut stream = begin(&server, "/infer/reverse", PARTS, 1 << 30);
        stream.write_all(start.as_bytes()).unwrap();
        let (reply, _) = trickle(stream, &[b'n'; 65536], Duration::ZERO);
        assert_eq!((reply.status, reply.detail().contains("too long")), (413, true), "{reply:?}");
    }
    assert_eq!(gauge(&server, "hearth_spool_bytes"), 0);
}

#[test]
fn slow_bodies_end_after_their_time() {
    let idle = Duration::from_millis(600);
    let server = Running::start(Options { idle, ..Options::default() });
    let pause = Duration::from_millis(50);
    let part = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    for (path, kind, start) in [
        ("/auth/token", FORM, ""),
        ("/infer/reverse", FORM, ""),
        ("/infer/reverse", PARTS, ""),
        ("/infer/reverse", PARTS, part),
        ("/predict", "application/octet-stream", ""),
    ] {
        let mut stream = begin(&server, path, kind, 1 << 20);
        stream.write_all(start.as_bytes()).unwrap();
        let (reply, took) = trickle(stream, b"a", pause);
        assert_eq!(reply.status, 408, "{path} {kind}: {reply:?}");
        assert!(took < idle * 5, "{path} {kind}: {took:?}");
    }
    // An upload may take longer than that, as long as it moves.
    let mut stream = begin(&server, "/predict", "application/octet-stream", 20 * 32768);
    for _ in 0..20 {
        stream.write_all(&[1; 32768]).unwrap();
        std::thread::sleep(pause);
    }
    assert_eq!(Reply::read(stream).status, 200);
}

#[test]
fn health_is_heard_whatever_is_open() {
    let server = Running::start(Options { connections: 4, ..Options::default() });
    let held: Vec<TcpStream> = (0..4).map(|_| begin(&server, "/predict", "application/octet-stream", 100)).collect();
    let until = Instant::now() + Duration::from_secs(5);
    while gauge_of_connections(&server) < 4 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.get("/health").status, 200);
    let reply = server.get("/info/");
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("10")), "{reply:?}");
    assert!(reply.detail().contains("4 connections"), "{reply:?}");
    // Connections that ask for nothing do not keep the spare places.
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert_eq!(server.get("/health").status, 200);
    drop((held, silent));
    let until = Instant::now() + Duration::from_secs(5);
    while server.get("/info/").status != 200 {
        assert!(Instant::now() < until, "places are free again");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The number of connections that are answered in full, seen by whether one more is.
fn gauge_of_connections(server: &Running) -> usize {
    if server.get("/info/").status == 503 { 4 } else { 0 }
}

#[test]
fn what_is_compressed_has_one_limit() {
    let server = Running::start(Options { max_request: 100_000, max_spool: 1 << 20, ..Options::default() });
    let gzip = |size: usize| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&vec![1; size]).unwrap();
        gzip.finish().unwrap()
    };
    for name in ["ct.nii.gz", "ct.hdr.gz", "ct", "ct.nrrd"] {
        assert_eq!(server.post(&format!("/predict?name={name}"), &gzip(400_000)).status, 200, "{name}");
        let reply = server.post(&format!("/predict?name={name}"), &gzip(400_001));
        assert_eq!((reply.status, reply.detail().contains("the limit")), (413, true), "{name}: {reply:?}");
    }
    // In an archive, and in several files, all count.
    let reply = server.post("/predict", &zip(&[("a.nii.gz", &gzip(200_000)), ("b.nii.gz", &gzip(200_001))]));
    assert_eq!(reply.status, 413, "{reply:?}");
    let file = gzip(250_000);
    let reply = server.form("PUT", "/session/", &[], &[("file", "a.nii.gz", &file), ("file", "b.nii.gz", &file)]);
    assert_eq!(reply.status, 413, "{reply:?}");
    assert_eq!(gauge(&server, "hearth_spool_bytes"), 0);
}

#[test]
fn pages_of_the_web_cannot_ask() {
    let server = Running::start(Options::default());
    for (name, value) in [("Host", "evil.example"), ("Origin", "https://evil.example"), ("Origin", "null")] {
        let reply = server.send("GET", "/info/", &[(name, value)], b"");
        assert_eq!(reply.status, 403, "{name}: {value}");
    }
    assert_eq!(server.send("GET", "/info/", &[("Origin", "http://localhost:3000")], b"").status, 200);
}

#[test]
fn servers_that_cannot_be_started_say_why() {
    let of = |options| Server::bind(options, vec![Reverse::named("a")]).err().unwrap().to_string();
    let open = Options { address: "0.0.0.0:0".parse().unwrap(), ..Options::default() };
    assert!(of(open).contains("--tls-cert"));
    let first = Server::bind(local(Options::default()), vec![Reverse::named("a")]).unwrap();
    assert!(of(Options { address: first.address(), ..Options::default() }).contains("cannot listen"));
    let none = Server::bind(local(Options::default()), Vec::new()).err().unwrap();
    assert_eq!(none.to_string(), "there is no model to serve");
    let two = Server::bind(local(Options::default()), vec![Reverse::named("a"), Reverse::named("a")]).err().unwrap();
    assert!(two.to_string().contains("called a"));
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("cert.pem");
    std::fs::write(&pem, "no certificate").unwrap();
    let said = of(local(Options { tls: Some((pem.clone(), pem)), ..Options::default() }));
    assert!(said.contains("BEGIN CERTIFICATE"), "{said}");
}

#[test]
fn the_certificate_and_the_token_protect_a_server() {
    use ureq::tls::{Certificate, RootCerts, TlsConfig};
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    let secret = "0123456789abcdef0123";
    let server = Running::start(Options {
        tls: Some((folder.join("cert.pem"), folder.join("key.pem"))),
        token: Some(Token::new(secret).unwrap()),
        ..Options::default()
    });
    let certificate = Certificate::from_pem(&std::fs::read(folder.join("cert.pem")).unwrap()).unwrap();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[certificate])).build();
    let agent = ureq::Agent::config_builder().tls_config(tls).build().new_agent();
    let address = format!("https://localhost:{}/predict", server.address.port());
    let send =
        |agent: &ureq::Agent| agent.post(&address).header("Authorization", format!("Bearer {secret}")).send("abc");
    assert_eq!(send(&agent).unwrap().body_mut().read_to_string().unwrap(), "cba");
    let strict = ureq::Agent::config_builder().build().new_agent();
    assert!(send(&strict).is_err(), "a client that does not know the certificate leaves");
    // Plain HTTP gets no answer, and the server continues.
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(send(&agent).unwrap().status(), 200);
}

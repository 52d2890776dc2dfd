//! Tests with MONAI Label's own client (`pip install monailabel`), which 3D Slicer's module uses, too.

#[path = "../../../tests/clients.rs"]
mod clients;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hearth_serve::Options;
use serde_json::{Value, json};
use support::{Reply, Running};

/// The actions of a user in 3D Slicer, as the calls that its module makes (MONAILabel.py).
const SCRIPT: &str = r#"
import json, os, sys, tempfile
from monailabel.client import MONAILabelClient
folder = tempfile.mkdtemp()
client = MONAILabelClient(sys.argv[1], folder, client_id="user-xyz")
ct = os.path.join(folder, "upload.nii.gz")
open(ct, "wb").write(b"abc")
label = os.path.join(folder, "label.nrrd")
open(label, "wb").write(b"label")
said = {}
said["auth"] = client.auth_enabled()
info = client.info()
said["models"] = info["models"]
said["labels"] = info["labels"]
said["strategies"] = sorted(info["strategies"])
said["upload"] = client.upload_image(ct, "spleen 1")
said["total"] = client.info()["datastore"]
said["next"] = client.next_sample("first", {})
params = {"result_extension": ".nrrd", "result_dtype": "uint8"}
file, result = client.infer("reverse", "spleen 1", dict(params))
said["infer"] = [os.path.basename(file), open(file, "rb").read().decode(), result["label_names"]]
said["save"] = client.save_label("spleen 1", label, params={"label_info": [{"name": "spleen", "idx": 1}]})
file = client.download_label("spleen 1", "final")
said["saved"] = [os.path.splitext(file)[1], open(file, "rb").read().decode()]
said["objects"] = client.datastore()["objects"]
said["left"] = client.next_sample("first", {})
session = client.create_session(ct)
said["session"] = client.get_session(session["session_id"])["name"] == session["session_id"]
file, result = client.infer("reverse", "Volume", dict(params), session_id=session["session_id"])
said["of_session"] = open(file, "rb").read().decode()
client.remove_session(session["session_id"])
said["training"] = client.train_status(check_if_running=True)
try:
    client.infer("reverse", "other", {})
except Exception as error:
    said["wrong"] = error.msg
print(json.dumps(said))
"#;

/// Checks what the client received.
fn check(said: &Value) {
    assert_eq!((&said["auth"], &said["training"]), (&json!(false), &json!(false)));
    let model = &said["models"]["reverse"];
    assert_eq!((&model["type"], &model["dimension"]), (&json!("segmentation"), &json!(3)));
    assert_eq!((&model["labels"]["tumour"], &said["labels"]), (&json!(2), &json!(["spleen", "tumour"])));
    assert_eq!(said["strategies"], json!(["first", "random"]));
    assert_eq!(said["upload"], json!({"image": "spleen 1"}));
    assert_eq!(said["total"], json!({"total": 1, "completed": 0, "label_tags": {}}));
    assert_eq!((&said["next"]["id"], &said["next"]["name"]), (&json!("spleen 1"), &json!("spleen 1.nii.gz")));
    assert_eq!(said["infer"], json!(["reverse.nrrd", "cba", {"spleen": 1, "tumour": 2}]));
    assert_eq!(said["save"], json!({"image": "spleen 1", "label": "spleen 1"}));
    assert_eq!(said["saved"], json!([".nrrd", "label"]));
    let object = &said["objects"]["spleen 1"];
    assert_eq!((&object["image"]["ext"], &object["labels"]["final"]["ext"]), (&json!(".nii.gz"), &json!(".nrrd")));
    assert_eq!(object["labels"]["final"]["info"]["label_info"][0]["idx"], 1);
    assert_eq!((&said["left"], &said["session"], &said["of_session"]), (&json!({}), &json!(true), &json!("cba")));
    let wrong = said["wrong"].as_str().unwrap_or_default();
    assert!(wrong.contains("Status: 404") && wrong.contains("no image"), "{wrong}");
}

fn server(folder: &tempfile::TempDir) -> Running {
    Running::start(Options { datastore: Some(folder.path().join("store")), ..Options::default() })
}

fn recorded() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/monai_label.json")
}

#[test]
fn live_the_client_of_monai_label_is_served() {
    let twin = "what_the_client_of_monai_label_sent_is_answered";
    let Some(client) = clients::find(&["monailabel", "requests"], "what_the_client_of_monai_label_sent_is_answered")
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder);
    let proxy = Proxy::start(server.address);
    let said = client.run(SCRIPT, [format!("http://{}", proxy.address)]);
    check(
        &serde_json::from_str(said.lines().last().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{error}: {said}")),
    );
    let requests = proxy.requests.lock().unwrap().clone();
    if clients::recording() {
        let record = json!({"versions": client.versions(), "twin": twin, "requests": requests});
        std::fs::create_dir_all(recorded().parent().unwrap()).unwrap();
        std::fs::write(recorded(), serde_json::to_string_pretty(&record).unwrap() + "\n").unwrap();
    }
}

#[test]
fn what_the_client_of_monai_label_sent_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder);
    let record: Value = serde_json::from_slice(&std::fs::read(recorded()).unwrap()).unwrap();
    let mut session: Option<String> = None;
    let mut answers = Vec::new();
    for request in record["requests"].as_array().unwrap() {
        let bytes = BASE64_STANDARD.decode(request["bytes"].as_str().unwrap()).unwrap();
        // The session now has another name.
        let bytes = match (session.as_deref(), request["session"].as_str()) {
            (Some(now), Some(then)) => replaced(&bytes, then, now),
            _ => bytes,
        };
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&bytes).unwrap();
        let reply = Reply::read(one_answer(&mut stream).as_slice());
        assert_eq!(u64::from(reply.status), request["status"].as_u64().unwrap(), "{}: {reply:?}", request["line"]);
        if request["line"].as_str().unwrap().starts_with("PUT /session/") {
            session = Some(reply.json()["session_id"].as_str().unwrap().to_owned());
        }
        answers.push((request["line"].as_str().unwrap().to_owned(), reply));
    }
    let find =
        |start: &str| answers.iter().rev().find(|(line, _)| line.starts_with(start)).map(|(_, reply)| reply).unwrap();
    let info = find("GET /info/").json();
    assert_eq!(info["models"]["reverse"]["labels"], json!({"spleen": 1, "tumour": 2}));
    let infer = find("POST /infer/reverse?image=Volume&session_id=");
    assert!(infer.header("content-type").unwrap().starts_with("multipart/form-data; boundary="), "{infer:?}");
    let text = infer.text();
    assert!(text.contains("name=\"image\"; filename=\"reverse.nrrd\"") && text.contains("\r\n\r\ncba\r\n--"), "{text}");
    assert!(text.contains("name=\"params\"") && text.contains("\"label_names\":{"), "{text}");
    assert_eq!(find("GET /datastore/label?").text(), "label");
    assert!(find("POST /infer/reverse?image=other").detail().contains("no image"));
    assert_eq!(std::fs::read(folder.path().join("store/labels/final/spleen 1.nrrd")).unwrap(), b"label");
}

fn replaced(bytes: &[u8], then: &str, now: &str) -> Vec<u8> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(then.len()).position(|window| window == then.as_bytes()) {
        found.extend(&rest[..at]);
        found.extend(now.bytes());
        rest = &rest[at + then.len()..];
    }
    found.extend(rest);
    found
}

/// The bytes of one message: its head, and the body of the length that the head gives.
fn one_answer(stream: &mut impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return all;
        }
        all.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&all).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    all.extend(body);
    all
}

/// A proxy between client and server, which records what the client sends.
struct Proxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Proxy {
    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let kept = requests.clone();
        std::thread::spawn(move || {
            let mut session = Value::Null;
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let request = one_answer(&mut client);
                if request.is_empty() {
                    continue;
                }
                let mut stream = TcpStream::connect(server).unwrap();
                stream.write_all(&request).unwrap();
                let answer = one_answer(&mut stream);
                client.write_all(&answer).unwrap();
                let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
                let reply = Reply::read(answer.as_slice());
                if line.starts_with("PUT /session/") {
                    session = reply.json()["session_id"].clone();
                }
                let bytes = BASE64_STANDARD.encode(&request);
                kept.lock()
                    .unwrap()
                    .push(json!({"line": line, "status": reply.status, "session": session, "bytes": bytes}));
            }
        });
        Self { address, requests }
    }
}

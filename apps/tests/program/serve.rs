//! `hearth serve`: an nnU-Net model, a run, DICOM.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common::{fail, hearth, phantom, succeed, text, tiny_recipe};
use hearth_data::nifti::read_nifti_values;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet").join(path)
}

/// A server that is killed when it is dropped.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    /// Starts the program, and reads its address.
    fn start(words: &[&str]) -> Self {
        let mut command = hearth();
        command.arg("serve").args(words).args(["--port", "0", "--device", "cpu"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("standard output"));
        lines.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { child, address }
    }

    /// Sends a request; returns status and body of the answer.
    fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("written");
        stream.write_all(body).expect("written");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("an answer");
        let end = all.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), all[end..].to_vec())
    }

    fn json(&self, method: &str, path: &str, body: &[u8]) -> (u16, serde_json::Value) {
        let (status, body) = self.send(method, path, body);
        (
            status,
            serde_json::from_slice(&body)
                .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&body))),
        )
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn values(folder: &Path, name: &str, bytes: &[u8]) -> Vec<f32> {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("written");
    read_nifti_values(&path).expect("labels").1
}

#[test]
fn a_model_of_nnunet_is_asked_again_and_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = format!("organs={}", text(&golden("organs_legacy_nomirror/model")));
    let mut server = Serving::start(&[&model]);
    let image = fs::read(golden("organs_legacy_nomirror/input/s01_0000.nii.gz")).expect("an image");
    let expected = read_nifti_values(golden("organs_legacy_nomirror/expected/s01.nii.gz")).expect("labels").1;
    for round in 0..2 {
        let (status, body) = server.send("POST", "/predict/organs", &image);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let found = values(dir.path(), &format!("{round}.nii.gz"), &body);
        let differing = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
        assert!(found.len() == expected.len() && differing <= 5, "{differing} labels differ from nnU-Net's");
    }
    let (status, said) = server.json("POST", "/predict?format=json", &image);
    assert_eq!(status, 200, "{said}");
    let voxels: u64 = said["volumes"].as_object().expect("volumes").values().filter_map(|v| v["voxels"].as_u64()).sum();
    let labelled = expected.iter().filter(|label| **label > 0.0).count() as u64;
    assert!(voxels.abs_diff(labelled) <= 5, "{voxels} voxels, nnU-Net has {labelled}");
    let (status, said) = server.json("GET", "/info/", b"");
    assert_eq!((status, said["models"]["organs"]["labels"]["organ_11"].is_u64()), (200, true), "{said}");

    // The reader's errors for invalid images.
    let (status, said) = server.json("POST", "/predict?name=ct.nii.gz", b"not a volume");
    assert_eq!((status, said["detail"].as_str().is_some_and(|why| why.contains("ct.nii.gz"))), (422, true), "{said}");
    let (status, said) = server.json("POST", "/predict", b"PK\x03\x04");
    assert_eq!(status, 422, "{said}");
    let (status, said) = server.json("POST", "/predict?format=seg", &image);
    assert_eq!((status, said["detail"].as_str().is_some_and(|why| why.contains("as a zip"))), (422, true), "{said}");
    assert_eq!(server.send("POST", "/predict/organs", &image).0, 200);

    #[cfg(unix)]
    {
        let asked = std::process::Command::new("kill").arg(server.child.id().to_string()).status().expect("kill");
        assert!(asked.success() && server.child.wait().expect("an end").success(), "TERM ends it in order");
    }
}

#[test]
fn a_run_predicts_what_predict_does_and_speaks_dicom() {
    let dir = tempfile::tempdir().expect("a folder");
    let (recipe, data, run) = (tiny_recipe(dir.path()), phantom(dir.path(), 4), text(&dir.path().join("first")));
    succeed(&["train", &text(&recipe), "--data", &text(&data), "--out", &run, "--epochs", "1", "--device", "cpu"]);
    let images = fs::read_dir(data.join("imagesTr")).expect("images").map(|entry| entry.expect("one").path());
    let mut images: Vec<PathBuf> = images.filter(|path| text(path).ends_with(".nii.gz")).collect();
    images.sort();
    let out = dir.path().join("labels");
    succeed(&["predict", &run, "-i", &text(&images[0]), "-o", &text(&out), "--device", "cpu"]);
    let name = images[0].file_name().expect("a name").to_string_lossy().replace(".nii.gz", "_seg.nii.gz");
    let expected = read_nifti_values(out.join(name)).expect("labels").1;
    let server = Serving::start(&[&run]);
    let (status, body) = server.send("POST", "/predict/first", &fs::read(&images[0]).expect("an image"));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert_eq!(values(dir.path(), "served.nii.gz", &body), expected);
    let (status, body) =
        server.send("POST", "/predict/first?format=seg.nrrd", &fs::read(&images[0]).expect("an image"));
    assert!(status == 200 && body.starts_with(b"NRRD"), "{status}");
    let head = String::from_utf8_lossy(&body[..body.len().min(4000)]).into_owned();
    assert!(head.contains("Segment0_Name:=spleen"), "{head}");
}

#[test]
fn servers_that_cannot_be_started_say_why() {
    let model = text(&golden("organs_legacy_nomirror/model"));
    fail(&["serve", "nothing"], 1, &["cannot open nothing"]);
    fail(&["serve", &model, "--host", "0.0.0.0", "--device", "cpu"], 1, &["--tls-cert", "--token"]);
    fail(&["serve", &model, "--statistics", "--device", "cpu"], 2, &["--statistics"]);
    fail(&["serve", &format!("a b={model}"), "--device", "cpu"], 1, &["NAME=MODEL"]);
    let dir = tempfile::tempdir().expect("a folder");
    let token = dir.path().join("token");
    fs::write(&token, "short\n").expect("written");
    fail(&["serve", &model, "--token", &text(&token)], 1, &["5 characters", "16 or more"]);
}

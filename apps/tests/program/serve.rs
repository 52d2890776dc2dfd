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
    /// Starts the program, which asks for no token, and reads its address.
    fn start(words: &[&str]) -> Self {
        Self::with_lines(&[words, &["--no-token"]].concat()).0
    }

    /// Starts the program; also returns the rest of what it prints.
    fn with_lines(words: &[&str]) -> (Self, BufReader<std::process::ChildStdout>) {
        let mut command = hearth();
        command.arg("serve").args(words).args(["--port", "0", "--device", "cpu"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("standard output"));
        lines.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        (Self { child, address }, lines)
    }

    /// Sends a request; returns status and body of the answer.
    fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.send_as("application/octet-stream", method, path, body)
    }

    /// Sends one file in a form.
    fn form(&self, method: &str, path: &str, name: &str, content: &[u8]) -> (u16, String) {
        let limit = "limit_of_a_part";
        let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
        let mut body = format!("--{limit}\r\n{head}\r\n\r\n").into_bytes();
        body.extend(content);
        body.extend(format!("\r\n--{limit}--\r\n").bytes());
        let (status, body) = self.send_as(&format!("multipart/form-data; boundary={limit}"), method, path, &body);
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    fn send_as(&self, kind: &str, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
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

/// A zip of some files; a name that ends with `->` is a link to its content.
fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (name, content) in files {
        match name.strip_suffix("->") {
            Some(name) => zip.add_symlink(name, String::from_utf8_lossy(content), options).expect("a link"),
            None => {
                zip.start_file(*name, options).expect("a file");
                zip.write_all(content).expect("written");
            }
        }
    }
    zip.finish().expect("written").into_inner()
}

/// Whatever an upload names, only its own files are read: the answers do not even show whether another
/// file exists.
#[test]
fn uploads_do_not_reach_the_files_of_the_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = format!("organs={}", text(&golden("organs_legacy_nomirror/model")));
    let server = Serving::start(&[&model, "--datastore", &text(&dir.path().join("store"))]);
    let secret = fs::canonicalize(golden("organs_legacy_nomirror/input/s01_0000.nii.gz")).expect("an image");
    let image = fs::read(&secret).expect("an image");
    fs::copy(&secret, dir.path().join("secret.nii.gz")).expect("copied");
    let raw = dir.path().join("secret.raw");
    fs::write(&raw, [0; 64]).expect("written");
    let up = format!("{}{}", "../".repeat(12), text(&secret).trim_start_matches('/'));
    let there = [text(&secret), up];
    let missing = there.clone().map(|path| path.replace("s01_0000", "none"));
    // The same requests for files that exist and that do not.
    let asked = |name: &str, other: &str| -> Vec<(u16, String)> {
        let mhd = format!(
            "ObjectType = Image\nNDims = 3\nDimSize = 4 4 4\nElementType = MET_UCHAR\nElementDataFile = {name}\n"
        );
        let nrrd = format!(
            "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 4 4 4\nencoding: raw\nspacings: 1 1 1\ndata file: {name}\n\n"
        );
        let list = format!("[{{\"image\": \"{name}\"}}]");
        let raw_data = format!(
            "{{\"channel_names\": {{\"0\": \"CT\"}}, \"labels\": {{\"background\": 0}}, \"file_ending\": \".nii.gz\", \
             \"numTraining\": 1, \"dataset\": {{\"a\": {{\"images\": [\"{name}\"]}}}}}}"
        );
        let decathlon = format!(
            "{{\"name\": \"a\", \"modality\": {{\"0\": \"CT\"}}, \"labels\": {{\"0\": \"background\"}}, \
             \"training\": [], \"test\": [\"{name}\"]}}"
        );
        let csv = format!("image\n{name}\n");
        let uploads: Vec<(&str, Vec<u8>)> = vec![
            ("cases.json", list.clone().into_bytes()),
            ("cases.csv", csv.clone().into_bytes()),
            ("cases.tsv", csv.into_bytes()),
            ("cases.txt", format!("{name}\n").into_bytes()),
            ("image.mhd", mhd.clone().into_bytes()),
            ("image.nhdr", nrrd.clone().into_bytes()),
            // The content decides, too.
            ("image", nrrd.into_bytes()),
            ("a.zip", zip(&[("dataset.json", raw_data.as_bytes())])),
            ("b.zip", zip(&[("dataset.json", decathlon.as_bytes())])),
            ("c.zip", zip(&[("image.nii.gz->", name.as_bytes())])),
            ("d.zip", zip(&[("cases.json", list.as_bytes()), ("cases.csv", list.as_bytes())])),
            ("e.zip", zip(&[("image.mhd", mhd.as_bytes())])),
        ];
        let mut answers = Vec::new();
        for (file, content) in &uploads {
            for format in ["json", "nifti"] {
                let (status, body) = server.send("POST", &format!("/predict?name={file}&format={format}"), content);
                answers.push((status, String::from_utf8_lossy(&body).into_owned()));
            }
            answers.push(server.form("POST", "/infer/organs?output=json", file, content));
            let (status, said) = server.form("PUT", "/session/", file, content);
            if status == 200 {
                let said: serde_json::Value = serde_json::from_str(&said).expect("a session");
                let id = said["session_id"].as_str().expect("a name").to_owned();
                let (status, body) = server.send("POST", &format!("/infer/organs?output=json&session_id={id}"), b"");
                answers.push((status, String::from_utf8_lossy(&body).into_owned()));
            } else {
                answers.push((status, said));
            }
            if server.form("PUT", "/datastore/?image=case1", file, content).0 == 200 {
                let (status, body) = server.send("POST", "/infer/organs?output=json&image=case1", b"");
                answers.push((status, String::from_utf8_lossy(&body).into_owned()));
            }
        }
        for (status, body) in &mut answers {
            assert!((400..500).contains(status), "{name}: {status} {body}");
            *body = body.replace(name, "FILE").replace(other, "FILE");
        }
        answers
    };
    for (there, missing) in there.iter().zip(&missing) {
        assert_eq!(asked(there, missing), asked(missing, there));
    }
    let (raw, none) = (text(&raw), text(&dir.path().join("none.raw")));
    assert_eq!(asked(&raw, &none), asked(&none, &raw));
    // An image with its voxels in another file of the upload, and an image of the datastore.
    let (status, body) = server.send("POST", "/predict", &zip(&[("a/ct_0000.nii.gz", &image)]));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert_eq!(server.form("PUT", "/datastore/?image=case2", "ct.nii.gz", &image).0, 200);
    assert_eq!(server.send("POST", "/infer/organs?output=json&image=case2", b"").0, 200);
    // Names of the datastore lead nowhere else.
    for name in ["..%2Fsecret", "%2E%2E%2Fsecret", "%2Fetc%2Fpasswd"] {
        for path in ["/datastore/image?image=", "/infer/organs?output=json&image=", "/datastore/label?label="] {
            let method = if path.starts_with("/infer") { "POST" } else { "GET" };
            assert_eq!(server.send(method, &format!("{path}{name}"), b"").0, 400, "{path}{name}");
        }
    }
}

/// Each format that compresses its voxels has a limit, whatever it is called.
#[test]
fn small_files_do_not_become_large_images() {
    let model = format!("organs={}", text(&golden("organs_legacy_nomirror/model")));
    let server = Serving::start(&[&model, "--max-request", "1"]);
    let mut zeros = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    zeros.write_all(&vec![0; 80 << 20]).expect("packed");
    let zeros = zeros.finish().expect("packed");
    let head = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 256 256 1280\nencoding: gzip\nspacings: 1 1 1\n\n";
    let (status, said) = server.json("POST", "/predict?name=a.nrrd", &[head.as_bytes(), &zeros].concat());
    assert!(status == 422 && said.to_string().contains("the limit is"), "{status} {said}");
    let (status, said) = server.json("POST", "/predict?name=a.nii.gz", &zeros);
    assert!(status == 413 && said.to_string().contains("the limit"), "{status} {said}");
    let image = fs::read(golden("organs_legacy_nomirror/input/s01_0000.nii.gz")).expect("an image");
    assert_eq!(server.send("POST", "/predict/organs", &image).0, 200);
}

/// Without options, other users of this machine are kept out, too.
#[test]
fn a_token_is_made_by_default() {
    let model = format!("organs={}", text(&golden("organs_legacy_nomirror/model")));
    let (server, mut lines) = Serving::with_lines(&[&model]);
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    let token = line.trim().strip_prefix("token ").unwrap_or_else(|| panic!("{line:?}"));
    let asked = |token: &str| {
        let mut stream = TcpStream::connect(&server.address).expect("a connection");
        let host = &server.address;
        write!(
            stream,
            "GET /info/ HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        )
        .expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).map(str::to_owned)
    };
    assert_eq!((asked(token).as_deref(), asked("another").as_deref()), (Some("200"), Some("401")));
    assert_eq!((server.send("GET", "/info/", b"").0, server.send("GET", "/health", b"").0), (401, 200));
}

/// What the datastore keeps can be used: images are whole, and labels are on the grids of their images.
#[test]
fn damaged_volumes_and_labels_of_other_grids_are_not_stored() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = format!("organs={}", text(&golden("organs_legacy_nomirror/model")));
    let store = dir.path().join("store");
    let server = Serving::start(&[&model, "--datastore", &text(&store)]);
    let content = fs::read(golden("organs_legacy_nomirror/input/s01_0000.nii.gz")).expect("an image");
    let image = content.clone();
    let label = fs::read(golden("organs_legacy_nomirror/expected/s01.nii.gz")).expect("labels");
    assert_eq!(server.form("PUT", "/datastore/?image=ct", "ct.nii.gz", &image).0, 200);
    assert_eq!(server.form("PUT", "/datastore/?image=zipped", "ct.zip", &zip(&[("a/ct.nii.gz", &image)])).0, 200);
    for (name, content) in
        [("cut.nii.gz", &image[..image.len() / 2]), ("no.nrrd", b"NRRD0004\n"), ("a.zip", b"PK\x03\x04")]
    {
        let (status, said) = server.form("PUT", "/datastore/?image=bad", name, content);
        assert!(status == 422 && !said.contains(&text(dir.path())), "{name}: {status} {said}");
    }
    for image in ["ct", "zipped"] {
        let path = format!("/datastore/label?label={image}&tag=final");
        let (status, said) = server.form("PUT", &path, "label.nii.gz", &label);
        assert_eq!(status, 200, "{said}");
        // Bytes of the header: `srow_x[3]`, and `qoffset_x` for readers of the other transform.
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&label[..]).read_to_end(&mut plain).expect("inflated");
        for place in [292, 268] {
            let moved = f32::from_le_bytes(plain[place..place + 4].try_into().expect("a number")) + 30.0;
            plain[place..place + 4].copy_from_slice(&moved.to_le_bytes());
        }
        let (status, said) = server.form("PUT", &path, "label.nii", &plain);
        assert!(status == 422 && said.contains("not on the image's grid"), "{status} {said}");
        let (status, said) = server.form("PUT", &path, "label.nii.gz", &label[..label.len() / 2]);
        assert_eq!(status, 422, "{said}");
        // The image itself: on its own grid, and with values that no label has.
        let (status, said) = server.form("PUT", &path, "label.nii.gz", &content);
        assert!(status == 422 && said.contains("not a label map"), "{status} {said}");
        // Another image in its place would leave the label on a grid of no image.
        let (status, said) = server.form("PUT", &format!("/datastore/?image={image}"), "ct.nii", &plain);
        assert!(status == 422 && said.contains("has labels"), "{status} {said}");
    }
    // On its grid, too, the label would be of another image. The same image may be sent again.
    let (status, said) = server.form("PUT", "/datastore/?image=ct", "ct.nii.gz", &label);
    assert!(status == 422 && said.contains("has labels"), "{status} {said}");
    assert_eq!(server.form("PUT", "/datastore/?image=ct", "ct.nii.gz", &image).0, 200);
    assert!(!store.join("bad.nii.gz").exists() && !store.join("labels/final/ct.nii").exists());
    assert_eq!(fs::read(store.join("labels/final/ct.nii.gz")).expect("a label"), label);
}

#[test]
fn servers_that_cannot_be_started_say_why() {
    let model = text(&golden("organs_legacy_nomirror/model"));
    fail(&["serve", "nothing"], 1, &["cannot open nothing"]);
    fail(&["serve", &model, "--host", "0.0.0.0", "--device", "cpu"], 1, &["--tls-cert", "--token"]);
    fail(&["serve", &model, "--statistics", "--device", "cpu"], 2, &["--statistics"]);
    fail(&["serve", &model, "--no-token", "--token", "file"], 2, &["--no-token"]);
    fail(&["serve", &format!("a b={model}"), "--device", "cpu"], 1, &["NAME=MODEL"]);
    let dir = tempfile::tempdir().expect("a folder");
    let token = dir.path().join("token");
    fs::write(&token, "short\n").expect("written");
    fail(&["serve", &model, "--token", &text(&token)], 1, &["5 characters", "16 or more"]);
}

/// An MR study is not predicted by a model of CT, unless the operator forces it; an image unlike those of
/// the training is answered with a remark.
#[test]
fn images_that_a_model_is_not_for_are_refused_or_remarked_upon() {
    use dicom_core::{DataElement, PrimitiveValue, VR};
    use dicom_dictionary_std::tags;

    let dir = tempfile::tempdir().expect("a folder");
    let (recipe, data, run) = (tiny_recipe(dir.path()), phantom(dir.path(), 3), text(&dir.path().join("first")));
    let ct = ["--set", "data.modalities=[\"CT\"]"];
    let train = ["train", &text(&recipe), "--data", &text(&data), "--out", &run, "--epochs", "1", "--device", "cpu"];
    succeed(&[&train[..], &ct].concat());
    let chests = dir.path().join("chests");
    succeed(&["data", "phantom", "lung", "--cases", "1", "--size", "32", "--out", &text(&chests)]);
    let found = hearth_data::dicom::scan(&chests).expect("DICOM");
    let series = found.series.iter().find(|series| series.modality() == "CT").expect("a CT");
    let study = |modality: &str| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (number, path) in series.files().iter().enumerate() {
            let mut object = dicom_object::open_file(path).expect("a slice");
            object.put(DataElement::new(tags::MODALITY, VR::CS, PrimitiveValue::from(modality)));
            let mut bytes = Vec::new();
            object.write_all(&mut bytes).expect("written");
            zip.start_file(format!("{number}.dcm"), zip::write::SimpleFileOptions::default()).expect("a file");
            zip.write_all(&bytes).expect("written");
        }
        zip.finish().expect("written").into_inner()
    };
    let server = Serving::start(&[&run]);
    let (status, said) = server.json("POST", "/predict?format=json&name=study.zip", &study("CT"));
    assert_eq!(status, 200, "{said}");
    // Smaller than the training's images, with other spacing.
    assert!(said["unlike_training"].to_string().contains("trained on"), "{said}");
    for format in ["json", "seg"] {
        let (status, said) = server.json("POST", &format!("/predict?format={format}&name=study.zip"), &study("MR"));
        let why = said["detail"].as_str().unwrap_or_default();
        assert!(status == 422 && why.contains("the series is MR") && why.contains("for CT"), "{status} {said}");
    }
    drop(server);
    let server = Serving::start(&[&run, "--any-modality"]);
    let (status, said) = server.json("POST", "/predict?format=json&name=study.zip", &study("MR"));
    assert_eq!(status, 200, "{said}");
}

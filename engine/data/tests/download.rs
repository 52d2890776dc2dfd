//! Downloads from a server in this process that misbehaves in every way it can.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hearth_data::download::{
    ArchiveLimits, Checksum, DECATHLON_TASKS, DecathlonTask, DownloadError, FetchOptions, ReadSegmentation,
    Segmentation, Tcia, TciaOptions, decathlon, fetch, unpack,
};
use hearth_data::{DataError, DrawKey, Progress, split_fraction};

/// What the server does with a path.
#[derive(Clone)]
enum Act {
    /// Sends it, ranges too.
    Serve(Vec<u8>),
    /// Sends it, and knows no ranges.
    Whole(Vec<u8>),
    /// Ends each connection after so many bytes of the body.
    Cut(Vec<u8>, usize),
    /// The same without ranges, so many times.
    CutWhole(Vec<u8>, usize, Arc<AtomicUsize>),
    /// Sends one byte, then nothing for a while.
    Stall(Vec<u8>),
    /// A status so many times, then the file.
    Trouble(u16, Arc<AtomicUsize>, Vec<u8>),
    /// Sends the reader elsewhere.
    Redirect(String),
    /// Answers a range with another one.
    WrongRange(Vec<u8>),
    /// Promises more than there is.
    Claims(u64),
}

struct Server {
    base: String,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn new(acts: impl IntoIterator<Item = (&'static str, Act)>) -> Server {
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

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn requests(&self) -> Vec<String> {
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

/// One request per connection. The client may be gone at any time.
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

fn quick() -> FetchOptions {
    FetchOptions {
        tries: 3,
        timeout: Duration::from_millis(400),
        pause: Duration::from_millis(5),
        ..FetchOptions::default()
    }
}

fn content(length: usize) -> Vec<u8> {
    let draw = DrawKey::new(4, 0, 0).draw("content", 0, 0);
    (0..length).map(|_| draw.below(256) as u8).collect()
}

fn sum(body: &[u8]) -> Checksum {
    Checksum::Blake3(blake3::hash(body).to_hex().to_string())
}

fn times(n: usize) -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(n))
}

#[test]
fn a_file_comes_whole_however_often_the_connection_is_cut() {
    let body = content(300_000);
    let server = Server::new([
        ("/plain", Act::Serve(body.clone())),
        ("/cut", Act::Cut(body.clone(), 40_000)),
        ("/no-ranges", Act::CutWhole(body.clone(), 200_000, times(2))),
        ("/busy", Act::Trouble(503, times(2), body.clone())),
        ("/many", Act::Trouble(429, times(1), body.clone())),
        ("/moved", Act::Redirect("/plain".to_owned())),
    ]);
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["/plain", "/cut", "/no-ranges", "/busy", "/many", "/moved"] {
        let path = dir.path().join("below").join(&name[1..]);
        fetch(&server.url(name), &path, Some(&sum(&body)), &quick()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(fs::read(&path).expect("a file"), body, "{name}");
        assert!(!dir.path().join("below").join(format!("{}.part", &name[1..])).exists());
    }
    let cuts: Vec<String> = server.requests().into_iter().filter(|r| r.starts_with("/cut")).collect();
    // Nothing is sent twice: each request goes on where the one before ended.
    let expected: Vec<String> = (0..8).map(|i| format!("/cut {}", i * 40_000)).collect();
    assert_eq!(cuts, expected);
    // What is there is checked, not fetched.
    let before = server.requests().len();
    let path = dir.path().join("below/plain");
    fetch(&server.url("/plain"), &path, Some(&sum(&body)), &quick()).expect("there");
    fs::write(&path, "other").expect("written");
    let error = fetch(&server.url("/plain"), &path, Some(&sum(&body)), &quick()).expect_err("another content");
    assert!(matches!(error, DownloadError::Checksum { .. }), "{error}");
    assert_eq!(server.requests().len(), before);
}

#[test]
fn an_earlier_run_s_part_is_gone_on_with_or_dropped() {
    let body = content(100_000);
    let server = Server::new([("/a", Act::Serve(body.clone())), ("/whole", Act::Whole(body.clone()))]);
    let dir = tempfile::tempdir().expect("a folder");
    let get = |name: &str, part: &[u8]| {
        let path = dir.path().join(format!("file {}", server.requests().len()));
        fs::write(path.with_file_name(format!("{}.part", path.file_name().expect("a name").to_string_lossy())), part)
            .expect("written");
        let before = server.requests().len();
        fetch(&server.url(name), &path, Some(&sum(&body)), &quick()).expect("fetched");
        assert_eq!(fs::read(&path).expect("a file"), body);
        server.requests()[before..].to_vec()
    };
    assert_eq!(get("/a", &body[..60_000]), ["/a 60000"]);
    assert_eq!(get("/a", &body), ["/a 100000"], "complete but for its name");
    assert_eq!(get("/a", &[7; 500]), ["/a 500", "/a 0"], "of something else");
    assert_eq!(get("/a", &content(100_001)), ["/a 100001", "/a 0"], "longer than the file");
    assert_eq!(get("/whole", &body[..60_000]), ["/whole 60000"], "a server without ranges");
}

#[test]
fn what_can_t_be_had_is_told_and_nothing_is_left_under_its_name() {
    let body = content(5_000);
    let server = Server::new([
        ("/file", Act::Serve(body.clone())),
        ("/circle", Act::Redirect("/circle".to_owned())),
        ("/stall", Act::Stall(body.clone())),
        ("/broken", Act::Trouble(500, times(1000), Vec::new())),
        ("/wrong-range", Act::WrongRange(body.clone())),
        ("/huge", Act::Claims(1 << 50)),
        ("/forbidden", Act::Trouble(403, times(1000), Vec::new())),
    ]);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("file");
    let fail = |name: &str, checksum: &Checksum| {
        let start = Instant::now();
        let error = fetch(&server.url(name), &path, Some(checksum), &quick()).expect_err(name);
        assert!(start.elapsed() < Duration::from_secs(8), "{name} took {:?}", start.elapsed());
        assert!(!path.exists());
        let part = dir.path().join("file.part");
        let _ = fs::remove_file(part);
        error.to_string()
    };
    let good = sum(&body);
    assert!(fail("/nowhere", &good).contains("404 (not found)"));
    assert!(fail("/forbidden", &good).contains("403 (not allowed)"));
    assert!(fail("/circle", &good).contains("circles"));
    assert!(fail("/stall", &good).contains("3 tries"));
    assert!(fail("/broken", &good).contains("500"));
    assert!(fail("/wrong-range", &good).contains("asked for bytes from 2500"));
    assert!(fail("/huge", &good).contains("larger than the limit"));
    assert!(fail("/file", &Checksum::Md5("00".repeat(16))).contains("checksum"));
    assert_eq!(server.requests().iter().filter(|r| r.starts_with("/nowhere")).count(), 1, "a 404 is not tried again");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let error = fetch(&format!("http://{nobody}/a"), &path, None, &quick()).expect_err("nobody listens").to_string();
    assert!(error.contains("3 tries"), "{error}");
    assert!(fetch("not an address", &path, None, &quick()).is_err());
}

/// A tar of entries: name, content, type. Names are put in as they are, whatever they say.
fn tar(entries: &[(&str, &[u8], tar::EntryType)]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    for (name, content, kind) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if kind.is_symlink() || kind.is_hard_link() {
            header.set_link_name("/etc/passwd").expect("a name");
        }
        header.set_cksum();
        out.append(&header, *content).expect("in memory");
    }
    out.into_inner().expect("in memory")
}

fn zip(entries: &[(&str, &[u8])], mode: u32) -> Vec<u8> {
    let mut out = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        out.start_file(*name, options.unix_permissions(mode)).expect("in memory");
        out.write_all(content).expect("in memory");
    }
    out.finish().expect("in memory").into_inner()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("in memory");
    out.finish().expect("in memory")
}

fn unpacked(archive: &[u8], limits: ArchiveLimits) -> (tempfile::TempDir, Result<(), DownloadError>) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("archive");
    fs::write(&path, archive).expect("written");
    let result = unpack(&path, &dir.path().join("Task"), limits, Progress::None);
    (dir, result)
}

const FILE: tar::EntryType = tar::EntryType::Regular;

#[test]
fn archives_of_each_kind_are_unpacked() {
    let entries: [(&str, &[u8], tar::EntryType); 4] = [
        ("Task/", b"", tar::EntryType::Directory),
        ("Task/._a.nii", b"Apple's", FILE),
        ("Task/a.nii", b"first", FILE),
        ("./Task/labels/b.nii", b"second", FILE),
    ];
    let plain = tar(&entries);
    let zipped = zip(&[("Task/a.nii", b"first"), ("__MACOSX/x", b"-"), ("Task\\labels\\b.nii", b"second")], 0o644);
    for (what, archive) in [("tar", plain.clone()), ("tar.gz", gzip(&plain)), ("zip", zipped)] {
        let (dir, result) = unpacked(&archive, ArchiveLimits::default());
        result.unwrap_or_else(|e| panic!("{what}: {e}"));
        let read = |name: &str| fs::read_to_string(dir.path().join("Task").join(name)).expect("a file");
        assert_eq!((read("a.nii"), read("labels/b.nii")), ("first".to_owned(), "second".to_owned()), "{what}");
        let names: Vec<_> = fs::read_dir(dir.path().join("Task")).expect("a folder").collect();
        assert_eq!(names.len(), 2, "{what}");
    }
    let (dir, result) = unpacked(&tar(&[("a", b"1", FILE), ("b/c", b"2", FILE)]), ArchiveLimits::default());
    result.expect("no folder at the top");
    assert!(dir.path().join("Task/a").exists() && dir.path().join("Task/b/c").exists());
}

#[test]
fn an_archive_stays_in_its_folder() {
    let one = |name: &str, kind| tar(&[("Task/ok", b"1", FILE), (name, b"", kind)]);
    let long = zip(&[("../evil", b"x")], 0o644);
    let link = zip(&[("link", b"/etc/passwd")], 0o120_777);
    use tar::EntryType as E;
    for (what, archive, told) in [
        ("parent", one("../evil", FILE), "leads out"),
        ("deep parent", one("Task/a/../../../evil", FILE), "leads out"),
        ("absolute", one("/tmp/evil", FILE), "leads out"),
        ("folder", one("../evil/", E::Directory), "leads out"),
        ("symbolic link", one("Task/l", E::Symlink), "a link"),
        ("hard link", one("Task/l", E::Link), "a link"),
        ("device", one("Task/d", E::Char), "a device"),
        ("disk", one("Task/d", E::Block), "a device"),
        ("pipe", one("Task/p", E::Fifo), "a pipe"),
        ("zip parent", long, "leads out"),
        ("zip link", link, "a link"),
        ("twice", one("Task/ok", FILE), "twice"),
        ("not an archive", b"hello".to_vec(), "neither"),
        ("empty", Vec::new(), "neither"),
        ("cut gzip", gzip(&one("Task/x", FILE))[..60].to_vec(), "damaged"),
        ("cut tar", tar(&[("Task/a", &[1; 4000], FILE)])[..2000].to_vec(), "damaged"),
        ("cut zip", zip(&[("a", &[1; 400])], 0o644)[..50].to_vec(), "damaged"),
    ] {
        let (dir, result) = unpacked(&archive, ArchiveLimits::default());
        let error = result.expect_err(what).to_string();
        assert!(error.contains(told), "{what}: {error}");
        let left: Vec<_> =
            fs::read_dir(dir.path()).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
        assert_eq!(left, ["archive"], "{what} leaves nothing");
        assert!(!dir.path().parent().expect("a folder").join("evil").exists());
    }
    // A file where a folder must be.
    let (_dir, result) = unpacked(&tar(&[("a", b"1", FILE), ("a/b", b"2", FILE)]), ArchiveLimits::default());
    assert!(result.is_err());
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let zeros = vec![0; 5 << 20];
    let limits = ArchiveLimits { bytes: 1 << 20, entries: 10 };
    for archive in [gzip(&tar(&[("a", &zeros, FILE)])), zip(&[("a", &zeros)], 0o644)] {
        assert!(archive.len() < 1 << 20);
        let (_dir, result) = unpacked(&archive, limits);
        assert!(matches!(result, Err(DownloadError::TooLarge { .. })));
    }
    let names: Vec<String> = (0..20).map(|i| format!("f{i}")).collect();
    let entries: Vec<_> = names.iter().map(|n| (n.as_str(), &b"x"[..], FILE)).collect();
    let (_dir, result) = unpacked(&tar(&entries), limits);
    assert!(result.expect_err("too many").to_string().contains("more than 10 entries"));
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(dir.path().join("Task/inside")).expect("made");
    fs::write(dir.path().join("a.tar"), tar(&[("a", b"1", FILE)])).expect("written");
    let full = unpack(&dir.path().join("a.tar"), &dir.path().join("Task"), limits, Progress::None);
    assert!(full.expect_err("something is there").to_string().contains("not empty"));
}

#[test]
fn a_task_is_fetched_checked_unpacked_and_opened() {
    let list = br#"{"name": "Tiny", "labels": {"0": "background"}, "training": [{"image": "./imagesTr/a.nii", "label": "./labelsTr/a.nii"}], "test": []}"#;
    let archive = tar(&[
        ("Task99_Tiny/dataset.json", list, FILE),
        ("Task99_Tiny/imagesTr/a.nii", b"image", FILE),
        ("Task99_Tiny/imagesTr/._a.nii", b"Apple's", FILE),
        ("Task99_Tiny/labelsTr/a.nii", b"label", FILE),
    ]);
    let task = DecathlonTask { name: "Task99_Tiny", md5: md5_of(&archive).leak() };
    let server = Server::new([("/Task99_Tiny.tar", Act::Cut(archive, 3_000))]);
    let dir = tempfile::tempdir().expect("a folder");
    let get = |task, keep| decathlon(task, dir.path(), Some(&server.base), keep, &quick());
    let other = DecathlonTask { md5: DECATHLON_TASKS[0].md5, ..task };
    assert!(matches!(get(other, false), Err(DownloadError::Checksum { .. })));
    assert!(!dir.path().join("Task99_Tiny").exists(), "nothing is unpacked before it is checked");
    let set = get(task, true).expect("a data set");
    assert_eq!((set.name.as_str(), set.training.len()), ("Tiny", 1));
    assert!(dir.path().join("Task99_Tiny.tar").exists());
    let before = server.requests().len();
    get(task, false).expect("there");
    assert_eq!(server.requests().len(), before);
}

fn md5_of(bytes: &[u8]) -> String {
    use md5::{Digest, Md5};
    Md5::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Stands for a DICOM reader: the "files" are lists of what to say.
struct Texts;

impl ReadSegmentation for Texts {
    fn read(&self, folder: &Path) -> Result<Segmentation, DataError> {
        let text = fs::read_to_string(folder.join("1.dcm")).expect("a file");
        let fields: Vec<&str> = text.split(' ').collect();
        let list = |text: &str| text.split('|').filter(|s| !s.is_empty()).map(str::to_owned).collect();
        Ok(Segmentation {
            patient: fields[0].to_owned(),
            number: fields[1].parse().expect("a number"),
            study: "1.5".to_owned(),
            series: list(fields[2]),
            instances: list(fields[3]),
        })
    }
}

fn series(content: &[u8], sums_of: &[u8]) -> Act {
    let sums = format!("FileName,MD5Hash\n1.dcm,{}\n", md5_of(sums_of));
    Act::Serve(zip(&[("1.dcm", content), ("md5hashes.csv", sums.as_bytes())], 0o644))
}

#[test]
fn a_collection_is_laid_out_by_patient() {
    let (direct, by_instance, image): (&[u8], &[u8], &[u8]) = (b"LUNG/2 300 1.3|1.9 ", b"LUNG-1 7  5.5.5", b"an image");
    let list = |uids: &[&str], key: &str| {
        let entries: Vec<_> = uids.iter().map(|uid| serde_json::json!({ key: uid })).collect();
        Act::Serve(serde_json::to_vec(&entries).expect("JSON"))
    };
    let get = "/getImageWithMD5Hash?SeriesInstanceUID=";
    let leak = |uid: &str| -> &'static str { format!("{get}{uid}").leak() };
    let server = Server::new([
        ("/getSeries?Collection=NSCLC%20%26%20Co&Modality=SEG", list(&["1.2", "1.1"], "SeriesInstanceUID")),
        (leak("1.1"), series(direct, direct)),
        (leak("1.2"), series(by_instance, by_instance)),
        (leak("1.3"), series(image, image)),
        (leak("1.4"), series(image, image)),
        ("/getSeries?StudyInstanceUID=1.5", list(&["1.8", "1.4"], "SeriesInstanceUID")),
        ("/getSOPInstanceUIDs?SeriesInstanceUID=1.8", list(&["5.5.4"], "SOPInstanceUID")),
        ("/getSOPInstanceUIDs?SeriesInstanceUID=1.4", list(&["5.5.4", "5.5.5"], "SOPInstanceUID")),
        ("/getSeries?Collection=Bad&Modality=SEG", list(&["2.1"], "SeriesInstanceUID")),
        (leak("2.1"), series(direct, b"another content")),
        ("/getSeries?Collection=Evil&Modality=SEG", list(&["../../x"], "SeriesInstanceUID")),
        ("/getSeries?Collection=None&Modality=SEG", Act::Serve(Vec::new())),
        ("/getSeries?Collection=Text&Modality=SEG", Act::Serve(b"<html>".to_vec())),
    ]);
    let dir = tempfile::tempdir().expect("a folder");
    let options = TciaOptions { base: Some(server.base.clone()), fetch: quick(), ..TciaOptions::default() };
    let get = |collection: &str, into: &str| Tcia::download(collection, dir.path().join(into), &Texts, &options);
    let tcia = get("NSCLC & Co", "all").expect("downloaded");
    let cases = tcia.cases().expect("cases");
    let names: Vec<&str> = cases.iter().map(|c| c.case.as_str()).collect();
    assert_eq!(names, ["LUNG-1/7", "LUNG_2/300"]);
    assert_eq!(fs::read(cases[0].files["image"].join("1.dcm")).expect("a file"), image);
    assert_eq!(fs::read(cases[0].files["seg"].join("1.dcm")).expect("a file"), by_instance);
    assert!(!dir.path().join("all/raw").exists());
    let (training, validation) = split_fraction(&cases, 0.5, 0).expect("a fraction");
    assert_eq!((training.len(), validation.len()), (1, 1));
    let before = server.requests().len();
    get("NSCLC & Co", "all").expect("there");
    let images = server.requests()[before..].iter().filter(|r| r.contains("=1.3") || r.contains("=1.4 ")).count();
    assert_eq!(images, 0, "images that are there are not fetched again");
    for (collection, told) in
        [("Bad", "checksum"), ("Evil", "no usable UID"), ("None", "no series"), ("Text", "not JSON"), ("Gone", "404")]
    {
        let error = get(collection, "other").expect_err(collection).to_string();
        assert!(error.contains(told), "{collection}: {error}");
    }
    assert!(Tcia::open(dir.path().join("other")).cases().is_err());
}

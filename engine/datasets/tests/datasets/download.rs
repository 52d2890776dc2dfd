//! Tests of downloads from a server in this process that misbehaves in many ways.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use hearth_datasets::Progress;
use hearth_datasets::download::{
    ArchiveLimits, Checksum, DECATHLON_TASKS, DecathlonTask, DownloadError, decathlon, fetch, unpack,
};
use hearth_transforms::DrawKey;

use crate::server::{Act, Server, md5_of, quick, zip};

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
    // Nothing is sent twice: each request continues where the previous one ended.
    let expected: Vec<String> = (0..8).map(|i| format!("/cut {}", i * 40_000)).collect();
    assert_eq!(cuts, expected);
    // Existing files are checked, not downloaded.
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
        ("/elsewhere", Act::Redirect("http://localhost.evil/file".to_owned())),
        ("/here", Act::Redirect("file:///etc/passwd".to_owned())),
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
    assert!(fail("/circle", &good).contains("in a loop"));
    assert!(fail("/elsewhere", &good).contains("redirected to http://localhost.evil/file: another host"));
    assert!(fail("/here", &good).contains("redirected to file:///etc/passwd"));
    assert!(fail("/stall", &good).contains("3 tries"));
    assert!(fail("/broken", &good).contains("500"));
    assert!(fail("/wrong-range", &good).contains("requested bytes from 2500"));
    assert!(fail("/huge", &good).contains("larger than the limit"));
    assert!(fail("/file", &Checksum::Md5("00".repeat(16))).contains("checksum"));
    assert_eq!(server.requests().iter().filter(|r| r.starts_with("/nowhere")).count(), 1, "a 404 is not tried again");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let error = fetch(&format!("http://{nobody}/a"), &path, None, &quick()).expect_err("no server listens").to_string();
    assert!(error.contains("3 tries"), "{error}");
    assert!(fetch("not an address", &path, None, &quick()).is_err());
}

/// A tar of entries: name, content, type. Names are written unchanged, even unsafe ones.
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

fn zipped_link() -> Vec<u8> {
    let mut out = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    out.add_symlink("link", "/etc/passwd", zip::write::SimpleFileOptions::default()).expect("in memory");
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
    let zipped = zip(&[("Task/a.nii", b"first"), ("__MACOSX/x", b"-"), ("Task\\labels\\b.nii", b"second")]);
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
    let long = zip(&[("../evil", b"x")]);
    let link = zipped_link();
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
        ("cut zip", zip(&[("a", &[1; 400])])[..50].to_vec(), "damaged"),
    ] {
        let (dir, result) = unpacked(&archive, ArchiveLimits::default());
        let error = result.expect_err(what).to_string();
        assert!(error.contains(told), "{what}: {error}");
        let left: Vec<_> =
            fs::read_dir(dir.path()).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
        assert_eq!(left, ["archive"], "{what} leaves nothing");
        assert!(!dir.path().parent().expect("a folder").join("evil").exists());
    }
    // A file in the place of a folder.
    let (_dir, result) = unpacked(&tar(&[("a", b"1", FILE), ("a/b", b"2", FILE)]), ArchiveLimits::default());
    assert!(result.is_err());
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let zeros = vec![0; 5 << 20];
    let limits = ArchiveLimits { bytes: 1 << 20, entries: 10 };
    for archive in [gzip(&tar(&[("a", &zeros, FILE)])), zip(&[("a", &zeros)])] {
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

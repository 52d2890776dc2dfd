//! Packages written, read back, signed, damaged.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use hearth_package::{Builder, Code, Facts, Kind, Label, Package, PackageError, PublicKey, SigningKey, Term};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The key pair of RFC 8032, section 7.1, test 1, as OpenSSL writes it.
const SECRET: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";
/// Another public key (test 2).
const OTHER: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n-----END PUBLIC KEY-----\n";

fn builder() -> Builder {
    let code = |value: &str, meaning: &str| Code { scheme: "SCT".into(), value: value.into(), meaning: meaning.into() };
    let (category, kind) = (code("91723000", "Anatomical Structure"), code("78961009", "Spleen"));
    let term = Term { category, kind, site: None, side: None };
    let spleen = Label { term: Some(term), ..Label::new(1, "spleen", [9, 8, 7]) };
    let labels = vec![Label::new(0, "background", [9, 8, 7]), spleen];
    let mut facts = Facts::new("organ");
    facts.licence = Some("CC-BY-4.0".to_owned());
    Builder::new(Kind::Run, facts, "hearth 0.1.0")
        .labels(labels)
        .bytes("recipe.toml", "task = \"organ\"\n")
        .bytes("weights.safetensors", (0..4000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>())
        .bytes("LICENCE", "Use it well.\n")
}

fn written(folder: &Path) -> PathBuf {
    let path = folder.join("organ.hearth");
    builder().write(&path, None).expect("written");
    path
}

fn refused(path: &Path) -> String {
    let checked = Package::open(path).and_then(|package| package.check());
    checked.expect_err("refused").to_string()
}

/// The members of a package, in its order.
fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(fs::File::open(path).expect("opened")).expect("a zip");
    let read = |index| {
        let mut entry = zip.by_index(index).expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("read");
        (entry.name().to_owned(), bytes)
    };
    (0..zip_len(path)).map(read).collect()
}

fn zip_len(path: &Path) -> usize {
    ZipArchive::new(fs::File::open(path).expect("opened")).expect("a zip").len()
}

/// Writes a zip of these members.
fn zipped(path: &Path, members: &[(String, Vec<u8>)]) {
    let mut zip = ZipWriter::new(fs::File::create(path).expect("made"));
    for (name, bytes) in members {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).expect("begun");
        zip.write_all(bytes).expect("written");
    }
    zip.finish().expect("finished");
}

#[test]
fn a_package_holds_what_was_put_in() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = written(dir.path());
    assert!(Package::is_one(&path));
    let package = Package::open(&path).expect("opened");
    package.check().expect("intact");
    assert_eq!(package.read("recipe.toml").expect("read"), b"task = \"organ\"\n");
    assert_eq!(package.read("weights.safetensors").expect("read").len(), 16_000);
    assert_eq!(package.licences().collect::<Vec<_>>(), ["LICENCE"]);
    assert_eq!(package.facts().licence.as_deref(), Some("CC-BY-4.0"));
    let labels = package.labels();
    assert_eq!(labels.iter().map(|label| label.name.as_str()).collect::<Vec<_>>(), ["background", "spleen"]);
    assert!(labels[0].term.is_none());
    assert_eq!(labels[1].term.as_ref().map(|term| term.kind.value.as_str()), Some("78961009"));
    assert!(package.read("other").expect_err("unknown").to_string().contains("has no member other"));

    let again = dir.path().join("again.hearth");
    builder().write(&again, None).expect("written");
    assert_eq!(fs::read(&path).expect("read"), fs::read(&again).expect("read"), "the same bytes each time");
}

#[test]
fn a_model_folder_is_unpacked_as_it_was() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("plans.json");
    fs::write(&file, "{}").expect("written");
    let path = dir.path().join("model.hearth");
    Builder::new(Kind::Nnunet, Facts::new("n"), "hearth")
        .file("model/plans.json", &file)
        .bytes("model/fold_0/checkpoint_final.pth", [1, 2, 3])
        .write(&path, None)
        .expect("written");
    let package = Package::open(&path).expect("opened");
    let into = dir.path().join("unpacked");
    package.unpack_model(&into).expect("unpacked");
    assert_eq!(fs::read(into.join("fold_0/checkpoint_final.pth")).expect("read"), [1, 2, 3]);
    assert_eq!(fs::read(into.join("plans.json")).expect("read"), b"{}");
    assert!(!into.join("labels.json").exists());
    let missing = Builder::new(Kind::Nnunet, Facts::new("n"), "hearth").file("model/x", dir.path().join("none"));
    let said = missing.write(&dir.path().join("x.hearth"), None).expect_err("no such file").to_string();
    assert!(said.contains("none") && !dir.path().join("x.hearth").exists(), "{said}");
}

#[test]
fn a_signature_is_that_of_the_standard_and_of_one_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path
    };
    let key = SigningKey::open(&file("key.pem", SECRET)).expect("a key");
    let public = PublicKey::open(&file("public.pem", PUBLIC)).expect("a key");
    let other = PublicKey::open(&file("other.pem", OTHER)).expect("a key");
    assert_eq!(key.public(), public);
    assert_eq!(public.to_string(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    assert!(!format!("{key:?}").contains("9d61"), "the secret is not shown");

    let path = dir.path().join("signed.hearth");
    builder().write(&path, Some(&key)).expect("written");
    let package = Package::open(&path).expect("opened");
    package.check_signature(&public).expect("signed");
    let said = package.check_signature(&other).expect_err("another key").to_string();
    assert!(said.contains("signed by the key d75a98"), "{said}");
    let unsigned = Package::open(&written(dir.path())).expect("opened");
    assert!(unsigned.check_signature(&public).expect_err("unsigned").to_string().contains("is not signed"));

    // An attacker who changes the weights and their hash in the manifest cannot sign it.
    let mut changed = members(&path);
    for (name, bytes) in &mut changed {
        if name == "manifest.json" {
            *bytes = String::from_utf8(bytes.clone()).expect("text").replace("hearth 0.1.0", "hearth 0.1.1").into();
        }
    }
    let bad = dir.path().join("changed.hearth");
    zipped(&bad, &changed);
    assert!(refused(&bad).contains("was changed after it was signed"), "{}", refused(&bad));
    changed.retain(|(name, _)| name != "manifest.sig");
    zipped(&bad, &changed);
    assert!(refused(&bad).contains("lacks manifest.sig"));

    for (text, said) in [(PUBLIC, "is not a secret key"), ("no key", "is not a secret key"), ("", "PEM")] {
        let error = SigningKey::open(&file("bad.pem", text)).expect_err("refused").to_string();
        assert!(error.contains(said), "{error}");
    }
    let short = SECRET.replace("MC4CAQAwBQYDK2VwBCIEIJ1h", "MC4CAQAwBQYDK2VwBCIEIJ");
    assert!(SigningKey::open(&file("bad.pem", &short)).is_err());
    assert!(matches!(SigningKey::open(&dir.path().join("none")), Err(PackageError::Io { .. })));
}

#[test]
fn whatever_is_damaged_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = written(dir.path());
    let whole = fs::read(&path).expect("read");
    let bad = dir.path().join("bad.hearth");
    // Truncated anywhere, also within the last bytes.
    for length in (0..whole.len()).step_by(37).chain(whole.len() - 30..whole.len()) {
        fs::write(&bad, &whole[..length]).expect("written");
        let said = refused(&bad);
        assert!(said.contains("damaged") || said.contains("no model package"), "{length}: {said}");
    }
    // One flipped bit of an uncompressed member.
    let at = whole.windows(8).position(|bytes| bytes == [100, 0, 0, 0, 101, 0, 0, 0]).expect("the weights");
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    fs::write(&bad, &flipped).expect("written");
    assert!(refused(&bad).contains("damaged weights.safetensors"), "{}", refused(&bad));
    // Any changed byte: the package is refused, or the change has no effect on what is read.
    let good: Vec<(String, Vec<u8>)> = members(&path);
    for at in (0..whole.len()).step_by(61) {
        let mut changed = whole.clone();
        changed[at] = changed[at].wrapping_add(1 + (at % 250) as u8);
        fs::write(&bad, &changed).expect("written");
        if let Ok(package) = Package::open(&bad)
            && package.check().is_ok()
        {
            for (name, bytes) in good.iter().filter(|(name, _)| name != "manifest.json") {
                assert_eq!(&package.read(name).expect("read"), bytes, "byte {at}, {name}");
            }
        }
    }
}

#[test]
fn strange_archives_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = written(dir.path());
    let good = members(&path);
    let bad = dir.path().join("bad.hearth");
    let with = |name: &str, bytes: &[u8]| {
        let mut all = good.clone();
        all.push((name.to_owned(), bytes.to_vec()));
        all
    };
    for (all, said) in [
        (with("../outside", b"x"), "leads out of it"),
        (with("/etc/passwd", b"x"), "leads out of it"),
        (with("a\\b", b"x"), "leads out of it"),
        (with("more.txt", b"x"), "holds more.txt, which its manifest does not have"),
        (good.iter().filter(|(name, _)| name != "recipe.toml").cloned().collect(), "lacks recipe.toml"),
        (good.iter().filter(|(name, _)| name != "manifest.json").cloned().collect(), "no model package"),
        (with("zeros", &vec![0; 8 << 20]), "would unpack to"),
    ] {
        zipped(&bad, &all);
        assert!(refused(&bad).contains(said), "{said}: {}", refused(&bad));
    }
    for (from, to, said) in [
        ("\"format\": 1", "\"format\": 7", "has format 7"),
        ("\"format\": 1", "\"format\": \"x\"", "names no format"),
        ("\"kind\": \"run\"", "\"kind\": \"program\"", "manifest.json that cannot be read"),
        ("\"recipe.toml\"", "\"../recipe.toml\"", "names \"../recipe.toml\""),
        ("\"bytes\": 16000", "\"bytes\": 17000", "its manifest says 17000"),
        ("{", "[", "cannot be read"),
    ] {
        let mut all = good.clone();
        for (name, bytes) in &mut all {
            if name == "manifest.json" {
                *bytes = String::from_utf8(bytes.clone()).expect("text").replacen(from, to, 1).into();
            }
        }
        zipped(&bad, &all);
        assert!(refused(&bad).contains(said), "{said}: {}", refused(&bad));
    }

    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    zip.add_symlink("weights.safetensors", "/etc/passwd", options).expect("a link");
    fs::write(&bad, zip.finish().expect("finished").into_inner()).expect("written");
    assert!(refused(&bad).contains("a link"), "{}", refused(&bad));

    // Two members of one name: the second is written under another name of the same length, which
    // is then replaced.
    let mut all = good.clone();
    all.insert(0, ("recipe.tomX".to_owned(), b"task = \"other\"\n".to_vec()));
    zipped(&bad, &all);
    let mut bytes = fs::read(&bad).expect("read");
    let places: Vec<usize> = (0..bytes.len() - 11).filter(|at| &bytes[*at..at + 11] == b"recipe.tomX").collect();
    places.into_iter().for_each(|at| bytes[at + 10] = b'l');
    fs::write(&bad, &bytes).expect("written");
    assert!(refused(&bad).contains("two members of one name"), "{}", refused(&bad));
    // Bytes after the end.
    let mut bytes = fs::read(&path).expect("read");
    bytes.extend([0; 40]);
    fs::write(&bad, &bytes).expect("written");
    assert!(refused(&bad).contains("behind its end"), "{}", refused(&bad));
}

#[test]
fn members_have_plain_names() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["../x", "/x", "", "a//b", "./a", "a\\b", "manifest.json", "c:x", "a/../b"] {
        let path = dir.path().join("x.hearth");
        assert!(builder().bytes(name, "x").write(&path, None).is_err(), "{name}");
        assert!(!path.exists(), "{name}");
    }
}

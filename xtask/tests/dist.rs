//! Tests of `cargo xtask dist` with the program that this workspace has built, and of what users do
//! with the results.

#[path = "../../tests/clients.rs"]
mod clients;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The packages, which are made only once; returns their folder.
fn made() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let folder = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        dist(folder.path());
        folder
    });
    folder.path()
}

fn dist(out: &Path) -> String {
    let task = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let target = task.ancestors().nth(2).unwrap();
    assert!(task.with_file_name("hearth").is_file(), "build the program first: cargo build --release -p hearth-apps");
    let arguments = ["dist", "--no-build", "--without-sources", "--out"];
    let mut command = Command::new(task);
    command.args(arguments).arg(out).env("CARGO_TARGET_DIR", target).env("SOURCE_DATE_EPOCH", "1700000000");
    succeed(&mut command)
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn file(end: &str) -> PathBuf {
    let mut found = fs::read_dir(made()).unwrap().flatten().map(|entry| entry.path());
    found.find(|path| path.to_string_lossy().ends_with(end)).unwrap_or_else(|| panic!("nothing ends with {end}"))
}

/// The program of an installation, without the user's environment.
fn hearth(prefix: &Path) -> Command {
    let mut command = Command::new(prefix.join("bin/hearth"));
    command.env("HOME", prefix).env_remove("HEARTH_PLUGIN_PATH").env_remove("XDG_DATA_HOME");
    command
}

/// Checks that the program uses the plugins of its own installation.
fn works(prefix: &Path) {
    let list = succeed(hearth(prefix).args(["plugin", "list", "--json"]));
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let used = list["entries"].as_array().unwrap().iter().filter(|entry| entry["hidden_by"].is_null());
    let used: Vec<&str> = used.map(|entry| entry["path"].as_str().expect("a file")).collect();
    let folder = prefix.canonicalize().unwrap().join("lib/hearth/plugins");
    assert!(used.len() == 5 && used.iter().all(|path| Path::new(path).starts_with(&folder)), "{list:#}");
    for name in ["checkpoint", "ensemble", "nvtx", "stats", "validation"] {
        succeed(hearth(prefix).args(["plugin", "check", name]));
    }
}

#[test]
fn the_archive_is_an_installation() {
    let folder = tempfile::tempdir().unwrap();
    let archive = file(".tar.gz");
    succeed(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder.path()));
    let prefix = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let name = prefix.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("hearth-") && archive.ends_with(format!("{name}.tar.gz")), "{name}");
    works(&prefix);
    let share = prefix.join("share/hearth");
    let page = fs::read_to_string(share.join("man/man1/hearth-train.1")).unwrap();
    assert!(page.contains(".TH"), "{page}");
    assert!(share.join("doc/install.md").is_file() && share.join("completions/_hearth").is_file());
    assert!(share.join("doc/apps/spleen/README.md").is_file());

    // Every crate has an entry, and nearly every one has its texts.
    let index = fs::read_to_string(share.join("licences/INDEX.md")).unwrap();
    let sbom: serde_json::Value = serde_json::from_slice(&fs::read(share.join("sbom.cdx.json")).unwrap()).unwrap();
    let parts = sbom["components"].as_array().unwrap();
    assert_eq!((&sbom["bomFormat"], &sbom["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(sbom["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    assert!(parts.len() > 200, "{}", parts.len());
    for part in parts {
        let (name, version) = (part["name"].as_str().unwrap(), part["version"].as_str().unwrap());
        assert!(index.contains(&format!("| {name} {version} | ")), "{name} {version}");
        let is_patched = part["pedigree"]["ancestors"][0]["name"] == name;
        let is_native = part["purl"].as_str().unwrap().starts_with("pkg:generic/");
        assert!(part["hashes"].is_array() || name.starts_with("hearth") || is_patched || is_native, "{part:#}");
    }
    let without = index.lines().filter(|line| line.contains("none in the crate; by")).count();
    assert!(without * 20 < parts.len(), "{without} of {} have no text", parts.len());
    assert!(index.contains("| rust-std 1.") && !index.contains("| llvm "), "{index}");
    assert!(!index.contains("burn-cuda") && !index.contains("proptest"), "of this program alone");

    // Stripped: without the names of functions.
    assert_eq!(succeed(Command::new("nm").arg(prefix.join("bin/hearth"))), "");
}

#[test]
fn the_same_program_makes_the_same_packages() {
    let again = tempfile::tempdir().unwrap();
    dist(again.path());
    let sums = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        fs::read_to_string(names.into_iter().find(|path| path.to_string_lossy().ends_with("SHA256SUMS")).unwrap())
            .unwrap()
    };
    assert_eq!(sums(made()), sums(again.path()));
    assert_eq!(sums(made()).lines().count(), 3);
    succeed(Command::new("sha256sum").arg("--check").arg(file("SHA256SUMS")).current_dir(made()));
}

/// The files of a wheel.
fn wheel() -> BTreeMap<String, Vec<u8>> {
    let mut zip = zip::ZipArchive::new(fs::File::open(file(".whl")).unwrap()).unwrap();
    let names: Vec<String> = zip.file_names().map(str::to_owned).collect();
    let mut read = |name: &String| {
        let mut bytes = Vec::new();
        zip.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    names.iter().map(|name| (name.clone(), read(name))).collect()
}

#[test]
fn the_wheel_records_its_files() {
    let files = wheel();
    let record = files.iter().find(|(name, _)| name.ends_with("/RECORD")).unwrap();
    let mut lines = 0;
    for line in String::from_utf8_lossy(record.1).lines().filter(|line| !line.contains("RECORD,,")) {
        let fields: Vec<&str> = line.split(',').collect();
        let bytes = &files[fields[0]];
        assert_eq!(fields[1], format!("sha256={}", URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))), "{line}");
        assert_eq!(fields[2], bytes.len().to_string(), "{line}");
        lines += 1;
    }
    assert_eq!(lines + 1, files.len());
    assert!(files.keys().any(|name| name.ends_with(".data/scripts/hearth")));
    assert!(files.keys().any(|name| name.ends_with(".data/data/lib/hearth/plugins/libhearth_stats.so")));
}

#[test]
fn live_pip_installs_the_wheel() {
    let Some(python) = clients::find(&["venv", "ensurepip"], "the_wheel_records_its_files") else { return };
    let folder = tempfile::tempdir().unwrap();
    let env = folder.path().join("env");
    succeed(python.command().args(["-m", "venv"]).arg(&env));
    succeed(Command::new(env.join("bin/pip")).args(["install", "--no-index", "--no-deps"]).arg(file(".whl")));
    works(&env);
    assert!(env.join("share/man/man1/hearth.1").is_file());
    succeed(Command::new(env.join("bin/pip")).args(["uninstall", "--yes", "hearth-imaging"]));
    assert!(!env.join("bin/hearth").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn the_debian_package_has_its_parts() {
    let said = succeed(Command::new("ar").arg("t").arg(file(".deb")));
    assert_eq!(said.lines().collect::<Vec<_>>(), ["debian-binary", "control.tar.gz", "data.tar.gz"]);
}

#[cfg(target_os = "linux")]
#[test]
fn live_dpkg_unpacks_the_package() {
    let Some(dpkg) = clients::find_program("dpkg-deb", "the_debian_package_has_its_parts") else { return };
    let folder = tempfile::tempdir().unwrap();
    let field = |name: &str| succeed(Command::new(&dpkg).arg("--field").arg(file(".deb")).arg(name)).trim().to_owned();
    assert_eq!(field("Package"), "hearth");
    assert!(field("Depends").starts_with("libc6 (>= 2."), "{}", field("Depends"));
    succeed(Command::new(&dpkg).arg("--extract").arg(file(".deb")).arg(folder.path()));
    works(&folder.path().join("usr"));
    let list = succeed(Command::new(&dpkg).arg("--contents").arg(file(".deb")));
    for path in ["usr/share/man/man1/hearth.1.gz", "usr/share/doc/hearth/copyright", "completions/hearth"] {
        assert!(list.contains(path), "{path}");
    }
}

#[cfg(unix)]
#[test]
fn what_cannot_be_built_is_told_before_it_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    // Only Rust's own tools.
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for tool in ["rustc", "git"] {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|path| path.is_file()).unwrap();
        std::os::unix::fs::symlink(found, tools.join(tool)).unwrap();
    }
    for (features, glibc, expected) in [
        ("cpu", "old", "--glibc old is not a version; write --glibc 2.28"),
        ("cpu", "2.28", "cargo-zigbuild is not found; `pip install cargo-zigbuild` installs it and Zig"),
        ("cuda", "2.28", "LLVM is linked with GCC's C++ library. Debian: apt install g++ zlib1g-dev libzstd-dev"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["dist", "--features", features, "--glibc", glibc, "--out"]).arg(folder.path().join("out"));
        let output = command.env("CARGO_TARGET_DIR", folder.path()).env("PATH", &tools).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{said}");
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn what_was_not_built_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["dist", "--no-build", "--out"]).arg(folder.path().join("out")).env("CARGO_TARGET_DIR", folder.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("has no program: leave out --no-build"), "{said}");
    assert!(!folder.path().join("out").exists());
}

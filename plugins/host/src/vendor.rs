//! `hearth plugin new --vendored`: writes the sources of all crates that a plugin is built from to
//! its folder, so that it builds without a network.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_plugin::identity::TARGET;
use toml::{Table, Value};

/// The reason why the sources are missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VendorError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Cargo failed, usually because there is no network.
    #[error("`cargo {what}` fails: {said}")]
    Cargo {
        /// The command's arguments.
        what: String,
        /// The end of its output.
        said: String,
    },
}

/// The configuration that makes Cargo use the folder `vendor`.
const CONFIG: &str = "[source.crates-io]\nreplace-with = \"vendored-sources\"\n\n\
                      [source.vendored-sources]\ndirectory = \"vendor\"\n";

/// Writes the sources to the folder `vendor` of a crate that [`scaffold`](crate::scaffold()) wrote:
/// copies of those in `from`, or, without it, the sources that Cargo has or downloads. For crates
/// that only other systems need, only the manifest is kept. The results of an earlier call are
/// replaced.
///
/// # Errors
/// If a file cannot be written, or Cargo cannot find a crate.
pub fn vendor(dir: &Path, from: Option<&Path>) -> Result<(), VendorError> {
    let (folder, config) = (dir.join("vendor"), dir.join(".cargo/config.toml"));
    // The results of an earlier call would hide Cargo's own sources.
    if fs::read_to_string(&config).is_ok_and(|text| text == CONFIG) {
        fs::remove_file(&config).map_err(at(&config))?;
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
    }
    match from {
        Some(from) => copy(from, &folder)?,
        None => {
            cargo(dir, &["vendor", "--quiet", "vendor"])?;
            let needed = needed(dir)?;
            let entries = fs::read_dir(&folder).map_err(at(&folder))?;
            for entry in entries {
                let path = entry.map_err(at(&folder))?.path();
                keep_if_needed(&path, &needed)?;
            }
        }
    }
    fs::create_dir_all(dir.join(".cargo")).and_then(|()| fs::write(&config, CONFIG)).map_err(at(&config))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> VendorError {
    let path = path.to_owned();
    move |source| VendorError::File { path, source }
}

fn copy(from: &Path, to: &Path) -> Result<(), VendorError> {
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let path = entry.map_err(at(from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// Runs the Cargo that runs this program, or the one on the search path; returns its output.
fn cargo(dir: &Path, arguments: &[&str]) -> Result<String, VendorError> {
    let error = |said: String| VendorError::Cargo { what: arguments.join(" "), said };
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program).args(arguments).current_dir(dir).output();
    let output = output.map_err(|e| error(format!("cargo cannot be started: {e}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = said.lines().filter(|line| !line.trim().is_empty()).take(4).collect::<Vec<_>>();
    Err(error(lines.join("\n  ")))
}

/// The crates that this system needs, as `name version`.
fn needed(dir: &Path) -> Result<BTreeSet<String>, VendorError> {
    let arguments = ["tree", "--target", TARGET, "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let tree = cargo(dir, &arguments)?;
    // `name v1.2.3 (folder, or what kind of crate it is)`
    let words = tree.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
    });
    Ok(words.collect())
}

/// Empties the folder of a crate that is not needed. Cargo still reads its manifest.
fn keep_if_needed(folder: &Path, needed: &BTreeSet<String>) -> Result<(), VendorError> {
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(at(&manifest))?;
    let invalid = |why: String| at(&manifest)(io::Error::new(io::ErrorKind::InvalidData, why));
    let table: Table = text.parse().map_err(|error: toml::de::Error| invalid(error.to_string()))?;
    let said = |key: &str| table.get("package").and_then(|package| package.get(key)).and_then(Value::as_str);
    let (Some(name), Some(version)) = (said("name"), said("version")) else {
        return Err(invalid("it has no name and version".to_owned()));
    };
    if needed.contains(&format!("{name} {version}")) {
        return Ok(());
    }
    let mut stub = Table::new();
    let package = [("name", name), ("version", version), ("edition", said("edition").unwrap_or("2015"))];
    let package = package.map(|(key, value)| (key.to_owned(), Value::from(value)));
    stub.insert("package".into(), Value::Table(Table::from_iter(package)));
    for key in ["features", "dependencies", "dev-dependencies", "build-dependencies", "target"] {
        if let Some(value) = table.get(key) {
            stub.insert(key.into(), value.clone());
        }
    }
    let text = toml::to_string(&stub).map_err(|error| invalid(error.to_string()))?;
    let checksums = folder.join(".cargo-checksum.json");
    let checksum = fs::read_to_string(&checksums).map_err(at(&checksums))?;
    let checksum: serde_json::Value = serde_json::from_str(&checksum).map_err(|error| invalid(error.to_string()))?;
    let checksum = serde_json::json!({ "files": {}, "package": checksum["package"] }).to_string();
    fs::remove_dir_all(folder).map_err(at(folder))?;
    fs::create_dir_all(folder.join("src")).map_err(at(folder))?;
    for (file, text) in [("Cargo.toml", text), (".cargo-checksum.json", checksum), ("src/lib.rs", String::new())] {
        let path = folder.join(file);
        fs::write(&path, text).map_err(at(&path))?;
    }
    Ok(())
}

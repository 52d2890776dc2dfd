//! `manifest.json`: a checkpoint's contents, and the hashes that verify it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::Damage;
use super::name::check_relative;
use super::{Files, MANIFEST};

/// The maximum length of a manifest, in bytes.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// The version of the manifest's layout; raised when older readers cannot understand it.
const FORMAT: u32 = 1;

/// The seal of a manifest that is not sealed yet.
const EMPTY_SEAL: &str = "\"seal\": \"\"";

/// The time and the reason of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The run that wrote it; `None` for a trainer that has no folder of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// `state.epoch` at the time of writing.
    pub epoch: u64,
    /// `state.iteration` at the time of writing.
    pub iteration: u64,
    /// The kind: `epoch`, `best`, `interrupted`, `final`, or a handler's own tag.
    pub tag: String,
    /// Whether the epoch reached the best key metric so far.
    #[serde(default)]
    pub best: bool,
    /// The key metric's name.
    #[serde(default)]
    pub key_metric: Option<String>,
    /// The key metric's value for these weights; `None` where they were not measured.
    #[serde(default)]
    pub value: Option<f64>,
}

/// One file's length and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// The length in bytes.
    pub bytes: u64,
    /// The file's BLAKE3 hash, in hex.
    pub blake3: String,
}

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The layout's version.
    pub format: u32,
    /// The version of Hearth that wrote it.
    pub hearth: String,
    /// The running number of the checkpoint in this folder; the highest is the newest.
    pub sequence: u64,
    /// The time and the reason.
    #[serde(flatten)]
    pub header: Header,
    /// Every other file, by relative path.
    pub files: BTreeMap<String, FileSum>,
    /// The BLAKE3 hash of the manifest's text with this field empty.
    #[serde(default)]
    pub seal: String,
}

impl Manifest {
    pub(super) fn new(sequence: u64, header: &Header, files: &Files) -> Self {
        let sum =
            |bytes: &Vec<u8>| FileSum { bytes: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() };
        let mut manifest = Self {
            format: FORMAT,
            hearth: env!("CARGO_PKG_VERSION").to_owned(),
            sequence,
            header: header.clone(),
            files: files.iter().map(|(name, bytes)| (name.clone(), sum(bytes))).collect(),
            seal: String::new(),
        };
        // JSON has no NaN: a NaN becomes no value.
        manifest.header.value = manifest.header.value.filter(|value| value.is_finite());
        manifest
    }

    /// The manifest's text, with its seal.
    pub(super) fn to_json(&self) -> Result<String, serde_json::Error> {
        let unsealed = serde_json::to_string_pretty(&Self { seal: String::new(), ..self.clone() })? + "\n";
        let seal = blake3::hash(unsealed.as_bytes()).to_hex();
        // The seal is the last field, so its (empty) value is the last match.
        Ok(match unsealed.rfind(EMPTY_SEAL) {
            Some(at) => format!("{}\"seal\": \"{seal}\"{}", &unsealed[..at], &unsealed[at + EMPTY_SEAL.len()..]),
            None => unsealed,
        })
    }

    /// Reads and checks the manifest of a checkpoint folder, without reading the other files.
    pub(super) fn read(folder: &Path) -> Result<Self, Damage> {
        let path = folder.join(MANIFEST);
        let unreadable = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => Damage::NoManifest,
            _ => Damage::BadManifest(format!("cannot be read: {e}")),
        };
        let length = std::fs::metadata(&path).map_err(unreadable)?.len();
        if length > MAX_MANIFEST_BYTES {
            return Err(Damage::BadManifest(format!("has {length} bytes, more than any manifest")));
        }
        let text = hearth_files::read_to_string(&path).map_err(unreadable)?;
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|e| Damage::BadManifest(format!("does not parse: {e}")))?;
        if manifest.format > FORMAT {
            let newer = format!("has format {}, this build reads up to {FORMAT}: update Hearth", manifest.format);
            return Err(Damage::BadManifest(newer));
        }
        // Compared as text, because a number may change in its last digit when it is parsed and
        // printed again.
        let unsealed = text.replacen(&format!("\"seal\": \"{}\"", manifest.seal), EMPTY_SEAL, 1);
        if *blake3::hash(unsealed.as_bytes()).to_hex() != *manifest.seal {
            return Err(Damage::BadManifest("has changed since it was written (its seal differs)".into()));
        }
        match manifest.files.keys().find(|name| check_relative(name).is_err()) {
            Some(name) => Err(Damage::BadManifest(format!("lists `{name}`, which is outside of the checkpoint"))),
            None => Ok(manifest),
        }
    }
}

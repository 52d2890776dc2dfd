//! Inspects a plugin's file before any of its code runs: whether it is an intact library, and what
//! its identity is.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use hearth_plugin::identity::{
    self, ABI_VERSION, COMPONENTS, IDENTITY_SYMBOL, LOADER_SYMBOL, LOADER_VERSION, MAGIC, OLDEST_ABI, ROOT_SYMBOL,
    SDK_VERSION, TARGET, UNWINDS, abi_hash,
};
use object::read::NameOrOrdinal;
use object::{BinaryFormat, Object};
use serde::{Deserialize, Serialize};

use crate::c::{self, table};
use crate::error::{Mismatch, PluginError};
use crate::needs::Need;
use crate::safety::check_owned;
use crate::shown::shown;

/// The largest library that is inspected, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The size of the identity record in bytes.
const RECORD: usize = size_of::<identity::Identity>();

/// The identity of a plugin, and the tools it was built with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// The purpose, in one line.
    pub description: String,
    /// The crate's name, with which its symbols end.
    pub module: String,
    /// Version of the SDK it was built with.
    pub sdk: String,
    /// The SDK's loader version.
    pub loader: u32,
    /// The hash of the layout of types that cross the boundary.
    pub abi_hash: u64,
    /// The compiler it was built with.
    pub rustc: String,
    /// The target it was built for.
    pub target: String,
    /// Whether panics in it can be caught.
    pub unwinds: bool,
    /// The capabilities that its author declares; `None` if none are declared.
    #[serde(default)]
    pub needs: Option<Vec<Need>>,
    /// Whether it has components that recipes name.
    #[serde(default)]
    pub adds_components: bool,
    /// The version of `hearth_plugin.h` of a plugin that is not in Rust.
    pub header: Option<u32>,
}

/// `checkpoint 0.1.0 (SDK 0.1.0, ABI 0123456789abcdef, rustc 1.95.0 (...),
/// x86_64-unknown-linux-gnu)`
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.name, self.version, self.built_with())
    }
}

impl Identity {
    /// The identity of a record in memory. Texts are [`shown`], as in [`parse`](Self::parse).
    pub(crate) fn of(record: &identity::Identity) -> Self {
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            shown(&String::from_utf8_lossy(&bytes[..end]))
        };
        Self {
            name: text(&record.name),
            version: text(&record.version),
            description: text(&record.description),
            module: text(&record.module),
            sdk: text(&record.sdk),
            loader: record.loader,
            abi_hash: record.abi_hash,
            rustc: text(&record.rustc),
            target: text(&record.target),
            unwinds: record.flags & UNWINDS != 0,
            needs: Need::of(record.flags),
            adds_components: record.flags & COMPONENTS != 0,
            header: (record.magic == table::MAGIC).then_some(record.loader),
        }
    }

    /// Reads a record, already known to begin with the magic bytes.
    fn parse(record: &[u8; RECORD]) -> Option<Self> {
        // The record's layout is frozen: these offsets hold in every version.
        let number = |at: usize| u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let text = |at: usize, length: usize| {
            let bytes = &record[at..at + length];
            let end = bytes.iter().position(|byte| *byte == 0)?;
            Some(shown(&String::from_utf8_lossy(&bytes[..end])))
        };
        if (number(16) as usize) < RECORD {
            return None;
        }
        let mut hash = [0; 8];
        hash.copy_from_slice(&record[24..32]);
        let loader = number(20);
        Some(Self {
            loader,
            header: record.starts_with(&table::MAGIC).then_some(loader),
            abi_hash: u64::from_ne_bytes(hash),
            unwinds: number(32) & UNWINDS != 0,
            needs: Need::of(number(32)),
            adds_components: number(32) & COMPONENTS != 0,
            name: text(40, 64)?,
            version: text(104, 32)?,
            description: text(136, 192)?,
            // The magic bytes also occur in code that compares with them, where no record follows.
            module: text(328, 96).filter(|module| !module.contains(['\\', char::REPLACEMENT_CHARACTER]))?,
            sdk: text(424, 32)?,
            rustc: text(456, 64)?,
            target: text(520, 64)?,
        })
    }

    /// Describes the tools it was built with.
    pub fn built_with(&self) -> String {
        let Self { sdk, abi_hash, rustc, target, header, .. } = self;
        match header {
            Some(version) => format!("version {version} of hearth_plugin.h, {rustc}"),
            None => format!("SDK {sdk}, ABI {abi_hash:016x}, {rustc}, {target}"),
        }
    }

    /// The reason why this host cannot load a plugin of this version of `hearth_plugin.h`.
    fn header_obstacle(version: u32) -> Option<String> {
        if version > table::ABI {
            Some(format!("it is newer than this program, which has version {} of hearth_plugin.h", table::ABI))
        } else if version < table::OLDEST {
            Some(format!("it is too old: versions before {} of hearth_plugin.h are not loaded", table::OLDEST))
        } else {
            None
        }
    }

    /// The reason why this host cannot load it, if there is one.
    pub fn obstacle(&self) -> Option<String> {
        if let Some(version) = self.header {
            return Self::header_obstacle(version);
        }
        if self.target != TARGET {
            return Some(format!("it was built for {}", self.target));
        }
        if self.loader != LOADER_VERSION {
            return Some("its SDK has another loader version".to_owned());
        }
        if line(&self.sdk) != line(SDK_VERSION) {
            return Some(format!("its SDK is of the {} line", line(&self.sdk)));
        }
        if !accepted_abis().any(|hash| hash == self.abi_hash) {
            return Some("its SDK has another binary interface".to_owned());
        }
        if !self.unwinds {
            return Some("it was built with `panic = \"abort\"`, so an error in it would end the program".to_owned());
        }
        None
    }

    /// The error of a plugin that does not export a symbol.
    pub(crate) fn lacks(&self, path: &Path, symbol: &str) -> PluginError {
        let mend = match self.header {
            Some(_) => "build the library with -shared, with the functions of hearth_plugin.h visible",
            None => {
                "build it with crate-type = [\"cdylib\"], and keep the symbols of `export_plugin!` when it is stripped"
            }
        };
        PluginError::Export { name: self.name.clone(), path: path.to_owned(), symbol: symbol.to_owned(), mend }
    }

    /// The error of a plugin that this host cannot load.
    pub(crate) fn mismatch(&self, path: &Path, why: String) -> PluginError {
        let command = if self.header.is_some_and(|version| version > table::ABI) {
            "hearth plugin update && make    (in the plugin's folder), or install a newer Hearth"
        } else if self.header.is_some() {
            "hearth plugin update && make    (in the plugin's folder)"
        } else if self.unwinds {
            "hearth plugin update && cargo build --release    (in the plugin's folder)"
        } else {
            "cargo build --release    (without `panic = \"abort\"` in its profile)"
        };
        let accepted = match self.header {
            Some(_) => format!("versions {} to {} of hearth_plugin.h, any compiler", table::OLDEST, table::ABI),
            None => {
                let hashes = accepted_abis().map(|hash| format!("{hash:016x}")).collect::<Vec<_>>().join(" or ");
                format!("SDK {}.x, ABI {hashes}, any rustc, {TARGET}", line(SDK_VERSION))
            }
        };
        PluginError::Mismatch(Box::new(Mismatch {
            path: path.to_owned(),
            identity: self.clone(),
            why,
            built: self.built_with(),
            accepted,
            command: command.to_owned(),
        }))
    }
}

/// The binary interfaces that this host loads: its own, and older ones that are a subset.
fn accepted_abis() -> impl Iterator<Item = u64> {
    (OLDEST_ABI..=ABI_VERSION).rev().map(abi_hash)
}

/// The part of a version within which abi_stable treats types as equal: `0.1` of `0.1.7`, `2` of
/// `2.3.4`.
fn line(version: &str) -> &str {
    let parts = if version.starts_with("0.") { 2 } else { 1 };
    version.match_indices('.').nth(parts - 1).map_or(version, |(end, _)| &version[..end])
}

/// Reads the identity from a plugin's file, without running its code.
///
/// # Errors
/// If there is no such file, it is not an intact library for this system, or it is not a plugin. A
/// plugin built for another Hearth still has an identity: see [`Identity::obstacle`].
pub fn inspect(path: &Path) -> Result<Identity, PluginError> {
    identity_in(path, &read(path)?)
}

/// [`inspect`], and every other check that needs none of the plugin's code: who can change the file,
/// whether it was built for this Hearth, and whether it exports the symbols of a plugin.
///
/// # Errors
/// The reason why [`load`](crate::load) would refuse the file before it opens it.
pub fn examine(path: &Path) -> Result<Identity, PluginError> {
    let bytes = read(path)?;
    let identity = identity_in(path, &bytes)?;
    check_owned(path)?;
    check_usable(path, &identity, &bytes)?;
    Ok(identity)
}

/// Reads a whole library.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, PluginError> {
    let file_error = |source| PluginError::File { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(file_error)?;
    if !metadata.is_file() {
        return Err(Flaw::new("it is not a file", "give the library itself").error(path));
    }
    if metadata.len() > MAX_BYTES {
        let why = format!("it has {} bytes, more than {MAX_BYTES}", metadata.len());
        return Err(Flaw::new(why, STRIP).error(path));
    }
    // The whole size at once: a vector that grows takes three times the file.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes)).map_err(file_error)?;
    Ok(bytes)
}

/// The identity in the bytes of a library.
pub(crate) fn identity_in(path: &Path, bytes: &[u8]) -> Result<Identity, PluginError> {
    check_library(bytes).map_err(|flaw| flaw.error(path))?;
    // The record is aligned in memory, and segments keep their offset within a page, so it is
    // aligned in the file too.
    let mut found = bytes
        .chunks_exact(MAGIC.len())
        .enumerate()
        .filter(|(_, chunk)| **chunk == MAGIC || **chunk == table::MAGIC)
        .filter_map(|(index, _)| bytes.get(index * MAGIC.len()..)?.first_chunk::<RECORD>())
        .filter_map(Identity::parse)
        .collect::<Vec<_>>();
    // A plugin that links another plugin's crate also contains that one's record; its own record
    // has the file's name.
    if found.len() > 1 {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let own = stem.strip_prefix(std::env::consts::DLL_PREFIX).unwrap_or(stem);
        if let Some(index) = found.iter().position(|identity| identity.module == own) {
            return Ok(found.swap_remove(index));
        }
        let names = found.iter().map(|identity| identity.module.as_str()).collect::<Vec<_>>().join("`, `");
        let why = format!("it holds several plugins, `{names}`");
        return Err(Flaw::new(why, "name the file after one of them").error(path));
    }
    found.pop().ok_or_else(|| PluginError::NotAPlugin { path: path.to_owned() })
}

/// Checks that the plugin was built for this Hearth, and exports what the loader looks up.
pub(crate) fn check_usable(path: &Path, identity: &Identity, bytes: &[u8]) -> Result<(), PluginError> {
    if let Some(why) = identity.obstacle() {
        return Err(identity.mismatch(path, why));
    }
    // A library whose table of symbols cannot be read is left to the system's loader.
    let Some(exports) = exports(bytes) else { return Ok(()) };
    let needed = match identity.header {
        Some(_) => [c::IDENTITY_SYMBOL, c::MAIN_SYMBOL].map(|name| name.to_string_lossy().into_owned()).to_vec(),
        None => [LOADER_SYMBOL, IDENTITY_SYMBOL, ROOT_SYMBOL].map(|name| format!("{name}{}", identity.module)).to_vec(),
    };
    match needed.into_iter().find(|symbol| !exports.contains(symbol.as_bytes())) {
        None => Ok(()),
        Some(symbol) => Err(identity.lacks(path, &symbol)),
    }
}

/// The names of the symbols that a library exports; `None` for a file that holds several libraries,
/// or without a readable table.
fn exports(bytes: &[u8]) -> Option<HashSet<Vec<u8>>> {
    let library = object::File::parse(bytes).ok()?;
    let mut names = HashSet::new();
    for export in library.exports().ok()? {
        let export = export.ok()?;
        let NameOrOrdinal::Name(name) = export.name() else { continue };
        let plain = if library.format() == BinaryFormat::MachO { name.strip_prefix(b"_") } else { None };
        names.insert(plain.unwrap_or(name).to_vec());
    }
    // A library without its tables of sections seems to export nothing.
    Some(names).filter(|names| !names.is_empty())
}

/// What is wrong with a file that is not an intact library, and what to do.
#[derive(Debug, PartialEq, Eq)]
struct Flaw {
    why: String,
    mend: &'static str,
}

/// What to do with a damaged file.
const REPLACE: &str = "copy or build it again";
/// What to do with a file that is too large.
const STRIP: &str = "build it without debug information";
/// What to do with a library of another system.
const BUILD_HERE: &str = "build it for this machine";

impl Flaw {
    fn new(why: impl Into<String>, mend: &'static str) -> Self {
        Self { why: why.into(), mend }
    }

    fn error(self, path: &Path) -> PluginError {
        PluginError::NotALibrary { path: path.to_owned(), why: self.why, mend: self.mend }
    }
}

/// Checks that the bytes are an intact library. The operating system's loader maps a file without
/// checking its length, and a missing part would end the process.
fn check_library(bytes: &[u8]) -> Result<(), Flaw> {
    const FORMATS: [(&[u8], &str); 4] = [
        (b"\x7fELF", "Linux"),
        (&[0xcf, 0xfa, 0xed, 0xfe], "macOS"),
        (&[0xca, 0xfe, 0xba, 0xbe], "macOS"),
        (b"MZ", "Windows"),
    ];
    let here = match () {
        () if cfg!(windows) => "Windows",
        () if cfg!(target_vendor = "apple") => "macOS",
        () => "Linux",
    };
    match FORMATS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, system)) if *system != here => {
            Err(Flaw::new(format!("it is a library for {system}, and this is {here}"), BUILD_HERE))
        }
        Some((_, "Linux")) => check_elf(bytes),
        Some(_) => Ok(()),
        None if bytes.is_empty() => Err(Flaw::new("it is empty", REPLACE)),
        None => {
            const OTHER: &str = "give the library of a plugin";
            let head = &bytes[..bytes.len().min(24)];
            Err(match std::str::from_utf8(head) {
                Ok(text) if text.chars().all(|c| !c.is_control() || c.is_whitespace()) => {
                    Flaw::new(format!("it is a text, which starts with {text:?}"), OTHER)
                }
                _ => {
                    let head = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
                    Flaw::new(format!("it starts with the bytes {head}"), OTHER)
                }
            })
        }
    }
}

/// CPU architectures, and their numbers in ELF files.
const MACHINES: [(&str, u16); 4] = [("x86_64", 62), ("aarch64", 183), ("riscv64", 243), ("powerpc64", 21)];

/// The number of this CPU architecture.
fn machine_here() -> Option<u16> {
    MACHINES.iter().find(|(name, _)| *name == std::env::consts::ARCH).map(|(_, number)| *number)
}

/// Checks that every loaded segment and the section table of a 64-bit ELF file lie within the file.
fn check_elf(bytes: &[u8]) -> Result<(), Flaw> {
    let cut = || Flaw::new(format!("it is truncated at {} bytes", bytes.len()), REPLACE);
    if bytes.get(4) != Some(&2) || bytes.get(5) != Some(&1) {
        let other = || Flaw::new("it is not a 64-bit little-endian library", BUILD_HERE);
        return Err(if bytes.len() < 6 { cut() } else { other() });
    }
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?));
    let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk::<2>()?));
    let (table, entry, count) = (|| Some((word(0x20)?, half(0x36)?, half(0x38)?)))().ok_or_else(cut)?;
    if half(0x10) != Some(3) {
        let mend = "build it as one (Rust: crate-type = [\"cdylib\"], C: -shared)";
        return Err(Flaw::new("it is an ELF file, but not a shared library", mend));
    }
    let (machine, here) = (half(0x12).unwrap_or(0), machine_here());
    if here.is_some_and(|here| here != machine) {
        let built = MACHINES.iter().find(|(_, known)| *known == machine).map_or("another processor", |(name, _)| *name);
        let why = format!("it was built for {built}, and this is {}", std::env::consts::ARCH);
        return Err(Flaw::new(why, BUILD_HERE));
    }
    // The section table comes last: if it is intact, the file is not truncated.
    let sections = (|| word(0x28)?.checked_add(u64::from(half(0x3a)?) * u64::from(half(0x3c)?)))().ok_or_else(cut)?;
    if sections > bytes.len() as u64 {
        return Err(cut());
    }
    for index in 0..u64::from(count) {
        let (kind, offset, size) = index
            .checked_mul(u64::from(entry))
            .and_then(|skip| usize::try_from(table.checked_add(skip)?).ok())
            .and_then(|at| Some((bytes.get(at)?, word(at.checked_add(8)?)?, word(at.checked_add(0x20)?)?)))
            .ok_or_else(cut)?;
        const PT_LOAD: u8 = 1;
        if *kind == PT_LOAD && offset.checked_add(size).is_none_or(|end| end > bytes.len() as u64) {
            return Err(cut());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hearth_plugin::identity::ABI_HASH;

    use super::*;

    #[test]
    fn the_record_is_read_where_it_was_written() {
        let record = identity::Identity::new("early-stop", "1.2.3", "Stops.", "early_stop", true, 0);
        // SAFETY: the record has no padding and no pointers: 592 bytes of numbers and text, as its
        // size asserts.
        let bytes: [u8; RECORD] = unsafe { std::mem::transmute(record) };
        let read = Identity::parse(&bytes).expect("a record");
        assert_eq!(Identity::of(&record), read, "it says the same in memory");
        assert_eq!(
            (read.name.as_str(), read.version.as_str(), read.description.as_str()),
            ("early-stop", "1.2.3", "Stops.")
        );
        assert_eq!((read.module.as_str(), read.sdk.as_str(), read.loader), ("early_stop", SDK_VERSION, LOADER_VERSION));
        assert_eq!((read.rustc.as_str(), read.target.as_str()), (identity::RUSTC, TARGET));
        assert_eq!((read.abi_hash, read.unwinds, read.obstacle()), (ABI_HASH, true, None));
        let mut shorter = bytes;
        shorter[16..20].copy_from_slice(&100_u32.to_ne_bytes());
        assert_eq!(Identity::parse(&shorter), None);
        let mut endless = bytes;
        endless[40..104].fill(b'x');
        assert_eq!(Identity::parse(&endless), None, "text without an end");
    }

    #[test]
    fn a_version_is_of_a_line() {
        let lines = ["0.1.7", "0.1.7-rc.1", "2.3.4", "2", "0", ""].map(line);
        assert_eq!(lines, ["0.1", "0.1", "2", "2", "0", ""]);
    }

    #[test]
    fn damaged_libraries_are_told_before_they_are_mapped() {
        let refused = |bytes: &[u8]| check_library(bytes).expect_err("no library");
        assert_eq!(refused(b""), Flaw::new("it is empty", REPLACE));
        assert!(refused(b"#!/bin/sh\n").why.contains("a text, which starts with \"#!/bin/sh\\n\""));
        assert!(refused(b"\x01\x02\x03\x04\x05").why.contains("the bytes 01 02 03 04"));
        if cfg!(target_os = "linux") {
            assert_eq!(refused(b"\x7fELF"), Flaw::new("it is truncated at 4 bytes", REPLACE));
            assert!(refused(b"\x7fELF\x01\x01").why.contains("64-bit"));
            assert!(refused(b"MZ\x90").why.contains("for Windows, and this is Linux"));
            assert!(refused(&[0xcf, 0xfa, 0xed, 0xfe]).why.contains("for macOS"));
        }
        let whole = std::fs::read(std::env::current_exe().expect("this program")).expect("this program is a file");
        if whole.starts_with(b"\x7fELF") {
            assert_eq!(check_library(&whole), Ok(()), "a position-independent program looks like a library");
            for part in [5, 40, 200, 4096, whole.len() / 4, whole.len() - 1] {
                assert!(check_library(&whole[..part]).is_err(), "{part} bytes");
            }
        }
        // A table of segments that would lie beyond the end of memory.
        let mut wild = vec![0; 64];
        wild[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (wild[0x10], wild[0x38], wild[0x36]) = (3, 9, 56);
        wild[0x12..0x14].copy_from_slice(&machine_here().unwrap_or(0).to_le_bytes());
        wild[0x20..0x28].fill(0xff);
        assert!(check_elf(&wild).is_err_and(|flaw| flaw.why.contains("truncated")));
        if machine_here().is_some() {
            wild[0x12..0x14].copy_from_slice(&9_u16.to_le_bytes());
            let flaw = check_elf(&wild).expect_err("another processor");
            assert!(flaw.why.contains("built for another processor") && flaw.mend == BUILD_HERE);
        }
    }
}

//! Opens packages: [`Package`].

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;
use zip::ZipArchive;

use crate::error::PackageError;
use crate::manifest::{FORMAT, Facts, Kind, Label, Manifest, Member};
use crate::signature::PublicKey;
use crate::{END, FACTS, LABELS, MODEL, RECIPE, WEIGHTS};

/// The file name of the manifest.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The file name of the manifest's signature, which has 64 bytes.
pub(crate) const SIGNATURE: &str = "manifest.sig";

/// The largest size in bytes of a manifest, of the labels and of the facts.
const MAX_JSON: u64 = 16 << 20;
/// The largest number of members.
const MAX_MEMBERS: usize = 100_000;
/// The largest ratio of unpacked bytes to the bytes of the package: weights hardly compress.
const MOST_PER_BYTE: u64 = 100;

/// An opened package. Opening checks the list of members; reading a member checks its hash.
#[derive(Debug)]
pub struct Package {
    path: PathBuf,
    manifest: Manifest,
    facts: Facts,
    labels: Vec<Label>,
}

/// Fails with the reason if a member cannot have this name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let path = Path::new(name);
    let same = path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/") == name;
    let usable = !name.is_empty() && name.len() <= 1000 && !name.contains(['\\', ':', '\0']) && same;
    if !usable || !path.components().all(plain) {
        return Err(format!("{name:?}, which leads out of it, or is no plain name"));
    }
    if [MANIFEST, SIGNATURE].contains(&name) {
        return Err(format!("{name:?} of its own"));
    }
    Ok(())
}

impl Package {
    /// Whether a path looks like a package: a file `NAME.hearth`, or a zip archive with a package's
    /// manifest.
    pub fn is_one(path: &Path) -> bool {
        if !path.is_file() {
            return false;
        }
        let named = path.extension().is_some_and(|end| end.eq_ignore_ascii_case(END));
        named
            || hearth_files::open(path)
                .ok()
                .and_then(|file| ZipArchive::new(BufReader::new(file)).ok())
                .is_some_and(|zip| zip.index_for_name(MANIFEST).is_some() && zip.index_for_name(FACTS).is_some())
    }

    /// Opens a package. It checks the list of members, the labels and facts, and that a signature
    /// was made with the key that the manifest names ([`Package::check_signature`] checks whether
    /// this is the key that you trust).
    ///
    /// # Errors
    /// A file that is not a package, or a damaged one: truncated, with members that the manifest
    /// does not list, with names that lead out of the package, or with more than a hundred times
    /// its own size when unpacked.
    pub fn open(path: &Path) -> Result<Self, PackageError> {
        let mut zip = archive(path)?;
        check_entries(path, &mut zip)?;
        let text = small(path, &mut zip, MANIFEST)?;
        let head: serde_json::Value = parsed(path, MANIFEST, &text)?;
        match head["format"].as_u64() {
            Some(1..) if head["format"].as_u64() <= Some(u64::from(FORMAT)) => {}
            Some(format) => {
                let what = format!("has format {format}; this program reads formats up to {FORMAT}: take a newer one");
                return Err(PackageError::package(path, what));
            }
            None => return Err(PackageError::package(path, "is no model package: its manifest names no format")),
        }
        let manifest: Manifest = parsed(path, MANIFEST, &text)?;
        check_members(path, &mut zip, &manifest)?;
        if let Some(key) = &manifest.signed_by {
            let key = PublicKey::parse(key);
            let signature = small(path, &mut zip, SIGNATURE)?;
            if !key.is_some_and(|key| key.verifies(&text, &signature)) {
                let what = "was changed after it was signed: its manifest is not what its signature signs";
                return Err(PackageError::package(path, what));
            }
        }
        let mut package = Self { path: path.to_owned(), manifest, facts: Facts::default(), labels: Vec::new() };
        package.facts = parsed(path, FACTS, &package.read(FACTS)?)?;
        package.labels = parsed(path, LABELS, &package.read(LABELS)?)?;
        Ok(package)
    }

    /// The file of the package.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The facts about the model.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The labels of the model's results.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The names of members that hold a licence.
    pub fn licences(&self) -> impl Iterator<Item = &str> {
        let states = |name: &&String| {
            let file = name.rsplit('/').next().unwrap_or_default().to_lowercase();
            ["license", "licence", "copying"].iter().any(|start| file.starts_with(start))
        };
        self.manifest.members.keys().filter(states).map(String::as_str)
    }

    /// Fails unless the package was signed with this key.
    ///
    /// # Errors
    /// A package that is not signed, or that was signed with another key.
    pub fn check_signature(&self, key: &PublicKey) -> Result<(), PackageError> {
        match &self.manifest.signed_by {
            // Opening the package has checked the signature itself.
            Some(by) if PublicKey::parse(by) == Some(*key) => Ok(()),
            Some(by) => Err(PackageError::package(&self.path, format!("was signed by the key {by}, not by {key}"))),
            None => Err(PackageError::package(&self.path, "is not signed")),
        }
    }

    /// Reads the bytes of a member and checks them against the manifest.
    ///
    /// # Errors
    /// An unknown or damaged member.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, PackageError> {
        let member = self.manifest.members.get(name);
        let member = member.ok_or_else(|| PackageError::package(&self.path, format!("has no member {name}")))?;
        let mut bytes = Vec::new();
        let room = usize::try_from(member.bytes).ok().filter(|room| bytes.try_reserve_exact(*room).is_ok());
        if room.is_none() {
            let what = format!("has a member {name} of {} bytes: there is not that much memory", member.bytes);
            return Err(PackageError::package(&self.path, what));
        }
        copy(&self.path, &mut archive(&self.path)?, name, member, (&self.path, &mut bytes)).map(|()| bytes)
    }

    /// Reads all members and checks their hashes.
    ///
    /// # Errors
    /// The first damaged member.
    pub fn check(&self) -> Result<(), PackageError> {
        let mut zip = archive(&self.path)?;
        let mut members = self.manifest.members.iter();
        members.try_for_each(|(name, member)| copy(&self.path, &mut zip, name, member, (&self.path, &mut io::sink())))
    }

    /// Writes the members below `model/` into a folder that does not exist yet, without the prefix
    /// `model/` of their names.
    ///
    /// # Errors
    /// A damaged member, or a file that cannot be written. The folder then holds only part of the
    /// members.
    pub fn unpack_model(&self, into: &Path) -> Result<(), PackageError> {
        fs::create_dir(into).map_err(PackageError::writing(into))?;
        let mut zip = archive(&self.path)?;
        for (name, member) in &self.manifest.members {
            let Some(inner) = name.strip_prefix(MODEL).and_then(|rest| rest.strip_prefix('/')) else { continue };
            let place = into.join(inner);
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder).map_err(PackageError::writing(folder))?;
            }
            let mut file = File::create_new(&place).map_err(PackageError::writing(&place))?;
            copy(&self.path, &mut zip, name, member, (&place, &mut file))?;
        }
        Ok(())
    }
}

type Zip = ZipArchive<BufReader<File>>;

fn archive(path: &Path) -> Result<Zip, PackageError> {
    let mut file = hearth_files::open(path).map_err(PackageError::reading(path))?;
    let mut start = [0; 2];
    let begins = file.read_exact(&mut start).is_ok() && start == *b"PK";
    if !begins {
        return Err(PackageError::package(path, "is no model package: it is not a zip archive"));
    }
    file.rewind().map_err(PackageError::reading(path))?;
    ZipArchive::new(BufReader::with_capacity(1 << 17, file))
        .map_err(|error| PackageError::package(path, format!("is damaged or cut off: {error}")))
}

/// Checks the entries of the archive from its directory, before anything is unpacked.
fn check_entries(path: &Path, zip: &mut Zip) -> Result<(), PackageError> {
    let wrong = |what: String| Err(PackageError::package(path, what));
    let length = fs::metadata(path).map_err(PackageError::reading(path))?.len();
    if zip.len() > MAX_MEMBERS {
        return wrong(format!("has {} members; the limit is {MAX_MEMBERS}", zip.len()));
    }
    // The zip library keeps the last of several entries with the same name.
    if entries_at_end(path, length)?.is_some_and(|count| count != zip.len()) {
        return wrong("holds two members of one name".to_owned());
    }
    let mut total = 0_u64;
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index);
        let entry = entry.map_err(|error| PackageError::package(path, format!("is damaged: {error}")))?;
        let name = entry.name().to_owned();
        if ![MANIFEST, SIGNATURE].contains(&name.as_str())
            && let Err(what) = check_name(&name)
        {
            return wrong(format!("holds {what}"));
        }
        let unix = entry.unix_mode().map_or(0, |mode| mode & 0o170_000);
        if entry.encrypted() || !matches!(unix, 0 | 0o100_000) {
            return wrong(format!("holds {name:?}, a link, a device or an encrypted file"));
        }
        total = total.saturating_add(entry.size());
    }
    if total > length.saturating_mul(MOST_PER_BYTE) {
        return wrong(format!("would unpack to {total} bytes, more than {MOST_PER_BYTE} times its own {length}"));
    }
    match zip.index_for_name(MANIFEST) {
        Some(_) => Ok(()),
        None => wrong(format!("is no model package: it is a zip without a {MANIFEST}")),
    }
}

/// The number of entries that the end record of a zip states, if it has no comment and fewer than
/// 65535 entries.
fn entries_at_end(path: &Path, length: u64) -> Result<Option<usize>, PackageError> {
    let mut end = [0; 22];
    let mut file = hearth_files::open(path).map_err(PackageError::reading(path))?;
    let read = length.checked_sub(22).map(|at| file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut end)));
    if read.is_none_or(|read| read.is_err()) || end[..4] != *b"PK\x05\x06" {
        let what = "is damaged: it is cut off, or something lies behind its end";
        return Err(PackageError::package(path, what));
    }
    let count = u16::from_le_bytes([end[10], end[11]]);
    Ok((count != u16::MAX).then_some(usize::from(count)))
}

fn check_members(path: &Path, zip: &mut Zip, manifest: &Manifest) -> Result<(), PackageError> {
    let wrong = |what: String| Err(PackageError::package(path, what));
    let names: BTreeSet<String> = zip.file_names().map(str::to_owned).collect();
    let mut expected: BTreeSet<&str> = manifest.members.keys().map(String::as_str).collect();
    if let Some(strange) = manifest.members.keys().find_map(|name| check_name(name).err()) {
        return wrong(format!("has a manifest that names {strange}"));
    }
    expected.insert(MANIFEST);
    if manifest.signed_by.is_some() {
        expected.insert(SIGNATURE);
    }
    if let Some(lost) = expected.iter().find(|name| !names.contains(**name)) {
        return wrong(format!("lacks {lost}, which its manifest has: it is damaged"));
    }
    if let Some(more) = names.iter().find(|name| !expected.contains(name.as_str())) {
        return wrong(format!("holds {more}, which its manifest does not have: it was changed"));
    }
    let needed: &[&str] = match manifest.kind {
        Kind::Run => &[FACTS, LABELS, RECIPE, WEIGHTS],
        Kind::Nnunet | Kind::Bundle | Kind::Ensemble => &[FACTS, LABELS],
    };
    if let Some(lost) = needed.iter().find(|name| !manifest.members.contains_key(**name)) {
        return wrong(format!("has no {lost}"));
    }
    for (name, member) in &manifest.members {
        let index = zip.index_for_name(name);
        let size = index.and_then(|index| zip.by_index_raw(index).ok()).map(|entry| entry.size());
        if size != Some(member.bytes) {
            let size = size.unwrap_or_default();
            return wrong(format!("has {size} bytes of {name}, its manifest says {}: it is damaged", member.bytes));
        }
    }
    Ok(())
}

/// Reads a small member without checking its hash.
fn small(path: &Path, zip: &mut Zip, name: &str) -> Result<Vec<u8>, PackageError> {
    let damaged = |why: &dyn std::fmt::Display| PackageError::package(path, format!("has a damaged {name}: {why}"));
    let mut bytes = Vec::new();
    let entry = zip.by_name(name).map_err(|error| damaged(&error))?;
    entry.take(MAX_JSON + 1).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
    if bytes.len() as u64 > MAX_JSON {
        return Err(damaged(&format!("it has more than {MAX_JSON} bytes")));
    }
    Ok(bytes)
}

fn parsed<T: DeserializeOwned>(path: &Path, name: &str, bytes: &[u8]) -> Result<T, PackageError> {
    serde_json::from_slice(bytes)
        .map_err(|error| PackageError::package(path, format!("has a {name} that cannot be read: {error}")))
}

/// Copies a member to a place, and checks its size and hash against the manifest.
fn copy(
    path: &Path,
    zip: &mut Zip,
    name: &str,
    member: &Member,
    (place, out): (&Path, &mut impl Write),
) -> Result<(), PackageError> {
    let damaged = |why: String| PackageError::package(path, format!("has a damaged {name}: {why}"));
    let mut entry = zip.by_name(name).map_err(|error| damaged(error.to_string()))?.take(member.bytes + 1);
    let (mut hasher, mut buffer, mut bytes) = (blake3::Hasher::new(), vec![0; 1 << 17], 0);
    loop {
        let count = entry.read(&mut buffer).map_err(|error| damaged(error.to_string()))?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        hasher.update(&buffer[..count]);
        out.write_all(&buffer[..count]).map_err(PackageError::writing(place))?;
    }
    if bytes != member.bytes {
        return Err(damaged(format!("it does not have the {} bytes that the manifest says", member.bytes)));
    }
    let sum = hasher.finalize().to_hex();
    if sum.as_str() != member.blake3 {
        return Err(damaged(format!("its BLAKE3 sum is {sum}, the manifest says {}", member.blake3)));
    }
    Ok(())
}

//! The dependencies of a cached case: [`Identity`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use hearth_io::readers::companions;

use super::{Field, Item};

/// A version that changes with the output of a transform or reader, so that caches on disk are
/// rebuilt.
const REVISION: u32 = 2;

/// A method by which a cache recognizes a source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// By its content: a copy elsewhere is the same file. Each file is read once more, before its
    /// first use.
    #[default]
    Content,
    /// By path, size and modification time: faster, and sufficient unless modification times are
    /// set back.
    Stat,
}

/// Sizes and times of the files of a case: while they are unchanged, the content is assumed
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<(PathBuf, u64, Option<SystemTime>)>);

impl Stamp {
    /// Reads the metadata of the files, including all those in folders.
    pub fn of(item: &Item) -> io::Result<Stamp> {
        let mut out = Vec::new();
        for path in item.all_files() {
            list(path, &mut out)?;
            for other in companions(path) {
                list(&other, &mut out)?;
            }
        }
        Ok(Stamp(out))
    }
}

/// Hashes everything that the deterministic part of a case depends on.
#[derive(Clone, Debug)]
pub(crate) struct KeyMaker(blake3::Hasher, Identity);

impl KeyMaker {
    /// Creates a hasher; `what` is everything that is the same for all cases.
    pub fn new(what: &str, identity: Identity) -> Self {
        let mut hash = blake3::Hasher::new();
        put(&mut hash, env!("CARGO_PKG_VERSION").as_bytes());
        hash.update(&REVISION.to_le_bytes());
        put(&mut hash, what.as_bytes());
        hash.update(&[identity as u8]);
        KeyMaker(hash, identity)
    }

    /// The key of a case whose files have this stamp.
    pub fn key(&self, item: &Item, stamp: &Stamp) -> io::Result<[u8; 32]> {
        let mut hash = self.0.clone();
        if item.files.is_empty() && item.parts.is_empty() {
            // Only its name distinguishes such a case from others.
            put(&mut hash, item.case.as_bytes());
        }
        for (key, path) in &item.files {
            put(&mut hash, key.as_bytes());
            self.put_path(&mut hash, path, stamp)?;
        }
        for (key, parts) in &item.parts {
            put(&mut hash, key.as_bytes());
            put(&mut hash, format!("{:?}", parts.channels).as_bytes());
            for path in &parts.files {
                self.put_path(&mut hash, path, stamp)?;
            }
        }
        for (key, field) in &item.fields {
            put(&mut hash, key.as_bytes());
            match field {
                Field::Number(number) => put(&mut hash, &number.to_le_bytes()),
                Field::Numbers(numbers) => {
                    put(&mut hash, &numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>());
                }
                Field::Text(text) => put(&mut hash, text.as_bytes()),
            }
        }
        Ok(*hash.finalize().as_bytes())
    }

    /// A file, or all files of a folder, with their companions.
    fn put_path(&self, hash: &mut blake3::Hasher, path: &Path, stamp: &Stamp) -> io::Result<()> {
        for path in [path.to_owned()].into_iter().chain(companions(path)) {
            let mut files = Vec::new();
            list(&path, &mut files)?;
            hash.update(&(files.len() as u64).to_le_bytes());
            for (file, ..) in files {
                self.put_file(hash, &path, &file, stamp)?;
            }
        }
        Ok(())
    }

    fn put_file(&self, hash: &mut blake3::Hasher, root: &Path, file: &Path, stamp: &Stamp) -> io::Result<()> {
        match self.1 {
            Identity::Content => {
                // The names in a folder may determine the order of slices.
                let name = file.strip_prefix(root).unwrap_or(Path::new(""));
                put(hash, name.as_os_str().as_encoded_bytes());
                let mut content = blake3::Hasher::new();
                content.update_reader(hearth_files::open(file)?)?;
                hash.update(content.finalize().as_bytes());
            }
            Identity::Stat => {
                put(hash, fs::canonicalize(file)?.as_os_str().as_encoded_bytes());
                let known = stamp.0.iter().find(|(path, ..)| path == file);
                let (size, time) = known.map_or((0, None), |(_, size, time)| (*size, *time));
                let time = time.and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
                hash.update(&size.to_le_bytes());
                hash.update(&time.as_nanos().to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Hashes a text, prefixed by its length, so that the following data is not read as a part of it.
fn put(hash: &mut blake3::Hasher, bytes: &[u8]) {
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// Lists the files of a path: itself, or all in that folder, by name. Links to folders are not
/// followed.
fn list(path: &Path, out: &mut Vec<(PathBuf, u64, Option<SystemTime>)>) -> io::Result<()> {
    let meta = fs::metadata(path)?;
    if !meta.is_dir() {
        out.push((path.to_owned(), meta.len(), meta.modified().ok()));
        return Ok(());
    }
    let mut inside = fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    inside.sort_unstable();
    for path in inside {
        let linked_folder = path.is_dir() && fs::symlink_metadata(&path)?.is_symlink();
        if !linked_folder {
            list(&path, out)?;
        }
    }
    Ok(())
}

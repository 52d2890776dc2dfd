//! Writes packages: [`Builder`].

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hearth_files::Latched;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::error::PackageError;
use crate::manifest::{FORMAT, Facts, Kind, Label, Manifest, Member};
use crate::reader::{MANIFEST, SIGNATURE, check_name};
use crate::signature::SigningKey;
use crate::{FACTS, LABELS};

/// The source of a member's content.
enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// A builder of a package. The same content makes the same bytes.
pub struct Builder {
    kind: Kind,
    facts: Facts,
    program: String,
    labels: Vec<Label>,
    members: BTreeMap<String, Content>,
}

impl Builder {
    /// Starts an empty package. `program` is the name and version of the program that writes it.
    pub fn new(kind: Kind, facts: Facts, program: impl Into<String>) -> Self {
        Self { kind, facts, program: program.into(), labels: Vec::new(), members: BTreeMap::new() }
    }

    /// Sets the labels of the model's results.
    #[must_use]
    pub fn labels(mut self, labels: Vec<Label>) -> Self {
        self.labels = labels;
        self
    }

    /// Adds or replaces a member; folders in its name are separated by `/`.
    #[must_use]
    pub fn bytes(mut self, name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.members.insert(name.into(), Content::Bytes(content.into()));
        self
    }

    /// Adds a file as a member. It is read when the package is written.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.members.insert(name.into(), Content::File(path.into()));
        self
    }

    /// Writes the package atomically, and signs it if a key is given.
    ///
    /// # Errors
    /// Invalid member names, or files that cannot be read or written.
    pub fn write(self, path: &Path, key: Option<&SigningKey>) -> Result<Manifest, PackageError> {
        let Self { kind, facts, program, labels, mut members } = self;
        let json = |text: Result<String, serde_json::Error>| {
            text.map(|text| Content::Bytes((text + "\n").into_bytes()))
                .map_err(|error| PackageError::package(path, format!("cannot be written: {error}")))
        };
        members.insert(FACTS.to_owned(), json(serde_json::to_string_pretty(&facts))?);
        members.insert(LABELS.to_owned(), json(serde_json::to_string_pretty(&labels))?);
        for name in members.keys() {
            check_name(name).map_err(|what| PackageError::package(path, format!("cannot have a member {what}")))?;
        }
        let signed_by = key.map(|key| key.public().to_string());
        let mut manifest = Manifest { format: FORMAT, kind, program, signed_by, members: BTreeMap::new() };
        let mut unread: Option<&Path> = None;
        let written = hearth_files::replace_with(path, |file| {
            let mut zip = ZipWriter::new(Latched::new(file));
            for (name, content) in &members {
                let added = add(&mut zip, name, content, &mut unread)?;
                manifest.members.insert(name.clone(), added);
            }
            let text = serde_json::to_string_pretty(&manifest).map_err(io::Error::other)? + "\n";
            zip.start_file(MANIFEST, options(true, 0)).map_err(io::Error::other)?;
            zip.write_all(text.as_bytes())?;
            if let Some(key) = key {
                zip.start_file(SIGNATURE, options(false, 0)).map_err(io::Error::other)?;
                zip.write_all(&key.sign(text.as_bytes()))?;
            }
            zip.finish().map_err(io::Error::other)?.flush()
        });
        match (written, unread) {
            (Ok(()), _) => Ok(manifest),
            (Err(error), Some(source)) => Err(PackageError::reading(source)(error)),
            (Err(error), None) => Err(PackageError::writing(path)(error)),
        }
    }
}

/// Zip options without time and owner, so that the same content makes the same package.
fn options(packed: bool, bytes: u64) -> SimpleFileOptions {
    let method = if packed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    SimpleFileOptions::default()
        .compression_method(method)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(bytes >= u64::from(u32::MAX))
}

/// Whether a member is compressed: weights do not shrink.
fn packs(name: &str) -> bool {
    [".toml", ".json", ".txt", ".md"].iter().any(|end| name.ends_with(end)) || !name.contains('.')
}

/// Adds a member. `unread` is its file if that cannot be read, and not what is written.
fn add<'a, W: Write + io::Seek>(
    zip: &mut ZipWriter<W>,
    name: &str,
    content: &'a Content,
    unread: &mut Option<&'a Path>,
) -> io::Result<Member> {
    let source = match content {
        Content::Bytes(_) => None,
        Content::File(path) => Some(path.as_path()),
    };
    let mut reads = |error: io::Error| {
        *unread = source;
        error
    };
    let mut file;
    let mut slice;
    let (read, expected): (&mut dyn Read, u64) = match content {
        Content::Bytes(bytes) => {
            slice = bytes.as_slice();
            (&mut slice, bytes.len() as u64)
        }
        Content::File(path) => {
            file = hearth_files::open(path).map_err(&mut reads)?;
            let length = file.metadata().map_err(&mut reads)?.len();
            (&mut file, length)
        }
    };
    zip.start_file(name, options(packs(name), expected)).map_err(io::Error::other)?;
    let (mut hasher, mut buffer, mut bytes) = (blake3::Hasher::new(), vec![0; 1 << 17], 0);
    loop {
        let count = read.read(&mut buffer).map_err(&mut reads)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        zip.write_all(&buffer[..count])?;
        bytes += count as u64;
    }
    if bytes != expected {
        return Err(reads(io::Error::other("it changed while it was read")));
    }
    Ok(Member { bytes, blake3: hasher.finalize().to_hex().to_string() })
}

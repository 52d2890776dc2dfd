//! The libraries that a library brings with it: those that it links and whose place its own file decides, by
//! a search path, a path, or the file's folder. They run with it, so that a consent covers them. They are
//! read, and nothing is loaded.
//!
//! Libraries of the system are not among them, nor those that the user's environment chooses
//! (`LD_LIBRARY_PATH`, `DYLD_LIBRARY_PATH`, `PATH`), nor those that code opens by itself.

mod elf;
mod macho;
mod pe;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest library that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The largest number of libraries that a plugin may bring.
const MAX_FILES: usize = 256;

/// Folders of the system, which only root changes.
const SYSTEM: [&str; 4] = ["/usr", "/lib", "/lib64", "/System"];

/// A library that another one brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Its file.
    pub path: PathBuf,
    /// Whether it is in the folder of the library, or in one below.
    pub beside: bool,
}

/// The libraries that a library brings, with those that they bring in turn. All places of a name count, also
/// those that the loader would look at later.
///
/// # Errors
/// A file that cannot be read, or whose table of libraries cannot be understood.
pub fn linked(library: &Path) -> io::Result<Vec<Linked>> {
    let full = library.canonicalize()?;
    let folder = full.parent().unwrap_or(Path::new("/")).to_owned();
    // A link is loaded under its own name, whose folder is the origin then.
    let mut queue = VecDeque::from([(library.to_owned(), Vec::new()), (full.clone(), Vec::new())]);
    let (mut seen, mut found) = (BTreeSet::from([full]), Vec::new());
    while let Some((file, above)) = queue.pop_front() {
        let doing = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        let links = Links::of(&file).map_err(doing)?;
        let origin = file.parent().unwrap_or(Path::new("."));
        let folders = links.folders(origin, above);
        for path in links.names.iter().flat_map(|name| links.places(name, &folders.searched, origin)) {
            let Ok(real) = path.canonicalize() else { continue };
            if !real.is_file() || is_of_system(&real) || !seen.insert(real.clone()) {
                continue;
            }
            if found.len() == MAX_FILES {
                return Err(doing(invalid(format!("it brings more than {MAX_FILES} libraries"))));
            }
            found.push(Linked { beside: real.starts_with(&folder), path: path.clone() });
            queue.push_back((path, folders.inherited.clone()));
        }
    }
    Ok(found)
}

fn is_of_system(path: &Path) -> bool {
    if cfg!(windows) {
        let root = std::env::var_os("SystemRoot").and_then(|root| Path::new(&root).canonicalize().ok());
        return root.is_some_and(|root| path.starts_with(root));
    }
    // Homebrew's libraries belong to the user.
    let of_user = cfg!(target_vendor = "apple") && path.starts_with("/usr/local");
    !of_user && SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// The rules by which a system finds libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    #[default]
    Elf,
    MachO,
    Pe,
}

/// What a library says about others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Links {
    format: Format,
    /// The names of other libraries.
    names: Vec<String>,
    rpath: Vec<String>,
    runpath: Vec<String>,
}

/// The folders in which the libraries of a library are searched.
struct Folders {
    /// For its own.
    searched: Vec<PathBuf>,
    /// Those that also count for the libraries of its libraries.
    inherited: Vec<PathBuf>,
}

impl Links {
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        if length > MAX_BYTES {
            return Err(invalid(format!("it has more than {MAX_BYTES} bytes")));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let understood = match bytes.first_chunk() {
            Some(b"\x7fELF") => elf::read(&bytes),
            Some(magic) if macho::MAGICS.contains(magic) => macho::read(&bytes),
            Some([b'M', b'Z', ..]) => pe::read(&bytes),
            _ => return Ok(Self::default()),
        };
        understood.map_err(|why| invalid(format!("the libraries that it links cannot be read: {why}")))
    }

    /// The folders for a file in the folder `origin`, loaded by one that passes on the folders `above`.
    fn folders(&self, origin: &Path, above: Vec<PathBuf>) -> Folders {
        match self.format {
            Format::Elf => elf::folders(self, origin, above),
            Format::MachO => macho::folders(self, origin, above),
            Format::Pe => Folders { searched: pe::folders(origin), inherited: Vec::new() },
        }
    }

    /// The places of a library's name.
    fn places(&self, name: &str, searched: &[PathBuf], origin: &Path) -> Vec<PathBuf> {
        match self.format {
            Format::Elf => elf::places(name, searched, origin),
            Format::MachO => macho::places(name, searched, origin),
            Format::Pe => pe::places(name, searched),
        }
    }
}

/// The text of a name in a table.
fn text(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| "a name is not UTF-8".to_owned())
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
fn names(found: &[Linked]) -> Vec<String> {
    found.iter().map(|one| one.path.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect()
}

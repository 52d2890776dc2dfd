//! A DICOMDIR: the index of a medium, by which people name the folder that it is in.

use std::io::Read;
use std::path::Path;

/// MediaStorageSOPClassUID of Media Storage Directory Storage, as an element of the file's meta group.
const CLASS: &[u8] = b"\x02\x00\x02\x00UI\x14\x001.2.840.10008.1.3.10";

/// The number of bytes that hold the preamble and the first elements of the meta group.
const HEAD: u64 = 512;

/// The folder of a DICOMDIR; `None` for any other file. Its records are not read: they may name files that
/// are missing, and leave out others.
pub(crate) fn folder(path: &Path) -> Option<&Path> {
    let mut head = Vec::new();
    if path.is_dir() || hearth_files::open(path).ok()?.take(HEAD).read_to_end(&mut head).is_err() {
        return None;
    }
    let is_directory = head.get(128..132) == Some(b"DICM") && head.windows(CLASS.len()).any(|part| part == CLASS);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    is_directory.then_some(folder)
}

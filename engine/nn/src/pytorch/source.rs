//! The location of the pickle: a file, a folder, or a file within a bundle's archive.

use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};
use zip::ZipArchive;

use super::PytorchError;

/// Paths of the weights in a bundle, the usual one first.
const IN_A_FOLDER: [&str; 2] = ["models/model.pt", "model.pt"];

/// Limit on the size of a bundle's weights (16 GiB): an archive can claim any size.
const MAX_UNPACKED: u64 = 16 << 30;

/// The file, and a temporary copy if it had to be unpacked.
pub(super) fn find(path: &Path) -> Result<(PathBuf, Option<TempPath>), PytorchError> {
    let io = |source| PytorchError::Io { path: path.to_owned(), source };
    if path.is_dir() {
        let inside = IN_A_FOLDER.iter().map(|name| path.join(name)).find(|file| file.is_file());
        let reason = || "the folder holds neither models/model.pt nor model.pt; name the file itself".to_owned();
        let file = inside.ok_or_else(|| PytorchError::Nesting { path: path.to_owned(), reason: reason() })?;
        return Ok((file, None));
    }
    let mut magic = [0; 4];
    let mut file = hearth_files::open(path).map_err(io)?;
    let length = file.read(&mut magic).map_err(io)?;
    if length == 0 {
        return Err(PytorchError::Format { path: path.to_owned(), reason: "the file is empty".to_owned() });
    }
    if magic != *b"PK\x03\x04" {
        return Ok((path.to_owned(), None));
    }
    let file = hearth_files::open(path).map_err(io)?;
    let format = |reason: String| PytorchError::Format { path: path.to_owned(), reason };
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| format(error.to_string()))?;
    // A file written by torch.save is an archive itself.
    if archive.file_names().any(|name| name == "data.pkl" || name.ends_with("/data.pkl")) {
        return Ok((path.to_owned(), None));
    }
    let ends = |name: &str, end: &str| name == end || name.ends_with(&format!("/{end}"));
    let model = IN_A_FOLDER.iter().find_map(|end| {
        let mut names: Vec<&str> = archive.file_names().filter(|name| ends(name, end)).collect();
        names.sort_by_key(|name| name.len());
        names.first().map(|name| (*name).to_owned())
    });
    let Some(model) = model else {
        return Err(format("the archive holds neither a data.pkl nor a bundle's models/model.pt".to_owned()));
    };
    let mut entry = archive.by_name(&model).map_err(|error| format(error.to_string()))?;
    let mut unpacked = NamedTempFile::new().map_err(io)?;
    let copied = std::io::copy(&mut (&mut entry).take(MAX_UNPACKED + 1), &mut unpacked);
    let copied = copied.map_err(|error| format(format!("{model}: {error}")))?;
    if copied > MAX_UNPACKED {
        return Err(format(format!("{model} has more than {MAX_UNPACKED} bytes")));
    }
    unpacked.flush().map_err(io)?;
    Ok((path.to_owned(), Some(unpacked.into_temp_path())))
}

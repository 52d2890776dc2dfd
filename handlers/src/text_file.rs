//! Text files that grow by whole lines, and from which a resumed run drops the lines that it will
//! write again.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use hearth_engine::HandlerError;

/// Cells as a line of CSV.
pub(crate) fn csv_line(cells: &[String]) -> String {
    hearth_files::csv_line(cells) + "\n"
}

/// The lines that end in a line feed; an unterminated last line is dropped.
pub(crate) fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.rfind('\n').map_or("", |end| &text[..end]).lines().filter(|line| !line.is_empty())
}

fn fault(path: &Path, error: &io::Error) -> HandlerError {
    let advice = if error.kind() == io::ErrorKind::StorageFull { "; free some space and resume the run" } else { "" };
    HandlerError::new(format!("{} cannot be written: {error}{advice}", path.display()))
}

pub(crate) fn read(path: &Path) -> Result<String, HandlerError> {
    match hearth_files::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(HandlerError::new(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Writes a new file next to the old one and replaces it.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), HandlerError> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        hearth_files::replace(path, text)
    };
    write().map_err(|error| fault(path, &error))
}

/// Writes a whole line at once. When the disk is full, a part of the line is removed again, so that lines
/// that follow are not joined with it.
pub(crate) fn append(path: &Path, line: &str) -> Result<(), HandlerError> {
    let write = || {
        let mut file = hearth_files::append(path)?;
        let before = file.metadata()?.len();
        file.write_all(line.as_bytes()).inspect_err(|_| drop(file.set_len(before)))
    };
    write().map_err(|error| fault(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_a_clear_error() {
        let error = append("/dev/full".as_ref(), "1,2\n").unwrap_err().to_string();
        assert!(
            error.starts_with("/dev/full cannot be written: ")
                && error.ends_with("; free some space and resume the run"),
            "{error}"
        );
    }

    #[test]
    fn a_cut_off_line_is_passed_over() {
        assert_eq!(whole_lines("a\nb\n\nc").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(whole_lines("cut").count(), 0);
    }
}

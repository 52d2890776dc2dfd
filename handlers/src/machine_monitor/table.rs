//! The file `machine.csv`: [`Table`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::columns::{LEAD, Row};
use crate::text_file::{csv_line, whole_lines};

/// A table that grows by whole rows. Rows of earlier processes are kept.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    file: File,
    /// The measured columns, those of the file first.
    pub names: Vec<String>,
    /// The column of each of this process's values.
    places: Vec<usize>,
}

impl Table {
    /// Opens or creates the table, for values of these columns; returns the existing rows.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is another table.
    pub(super) fn open(path: &Path, ours: &[String]) -> Result<(Self, Vec<Row>), String> {
        // A device (`/dev/full`) has no rows to read.
        let text = if path.metadata().is_ok_and(|found| !found.is_file()) {
            String::new()
        } else {
            crate::text_file::read(path).map_err(|error| error.message().to_owned())?
        };
        let header = whole_lines(&text).next().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
        let foreign = match &header {
            Some(cells) => !cells.starts_with(&LEAD.map(String::from)),
            // The header may be truncated.
            None => !csv_line(&LEAD.map(String::from)).starts_with(&text) && !text.starts_with(&LEAD.join(",")),
        };
        if foreign {
            return Err(format!("{} is another table: move it, or give another `file`", path.display()));
        }
        let mut names = header.map_or_else(Vec::new, |cells| cells[LEAD.len()..].to_vec());
        let known = names.len();
        names.extend(ours.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        let places = ours.iter().filter_map(|name| names.iter().position(|other| other == name)).collect();
        let rows = whole_lines(&text).skip(1).filter_map(|line| {
            let mut row = Row::parse(line, known)?;
            row.values.resize(names.len(), None);
            Some(row)
        });
        let rows: Vec<Row> = rows.collect();
        let file = prepare(path, &text, &names, known).map_err(|error| fault(path, &error))?;
        Ok((Self { path: path.to_owned(), file, names, places }, rows))
    }

    /// The values of this process, arranged in the table's columns.
    pub(super) fn arrange(&self, ours: &[Option<f64>]) -> Vec<Option<f64>> {
        let mut values = vec![None; self.names.len()];
        for (place, value) in self.places.iter().zip(ours) {
            values[*place] = *value;
        }
        values
    }

    /// Adds a row with a single write, so that a reader never sees half a row, and a killed process
    /// leaves whole rows.
    pub(super) fn write(&mut self, row: &Row) -> Result<(), String> {
        self.file.write_all(row.line().as_bytes()).map_err(|error| fault(&self.path, &error))
    }
}

/// Opens the file at its end, with a header that has all columns.
fn prepare(path: &Path, text: &str, names: &[String], known: usize) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let header = csv_line(&[&LEAD.map(String::from)[..], names].concat());
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole > 0 && names.len() > known {
        // Another machine has other GPUs: earlier rows get empty cells.
        let commas = ",".repeat(names.len() - known);
        let rows = whole_lines(text).skip(1).map(|row| format!("{row}{commas}\n"));
        hearth_files::replace(path, header + &rows.collect::<String>())?;
        return hearth_files::append(path);
    }
    let mut file = hearth_files::append(path)?;
    if whole < text.len() {
        // A row that was truncated when the disk was full.
        file.set_len(whole as u64)?;
    }
    if whole == 0 {
        file.write_all(header.as_bytes())?;
    }
    Ok(file)
}

fn fault(path: &Path, error: &io::Error) -> String {
    let advice = if error.kind() == io::ErrorKind::StorageFull { "; free some space" } else { "" };
    format!("{} cannot be written: {error}{advice}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_monitor::phases::Phase;

    fn row(at: f64, values: Vec<Option<f64>>) -> Row {
        Row { part: 1, at, unix: 0.0, epoch: 0, phase: Phase::Start, values }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn another_machine_adds_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in/machine.csv");
        let (mut first, rows) = Table::open(&path, &names(&["a", "gpu0"])).unwrap();
        assert!(rows.is_empty());
        first.write(&row(0.0, first.arrange(&[Some(1.0), Some(2.0)]))).unwrap();
        // The next machine has no GPU 0, and a new column. A row of the first was truncated.
        hearth_files::append(&path).unwrap().write_all(b"1,5.0,cut").unwrap();
        let (mut next, rows) = Table::open(&path, &names(&["b", "a"])).unwrap();
        assert_eq!(rows, [row(0.0, vec![Some(1.0), Some(2.0), None])]);
        next.write(&row(1.0, next.arrange(&[Some(8.0), Some(9.0)]))).unwrap();
        let (_, rows) = Table::open(&path, &names(&["gpu0"])).unwrap();
        assert_eq!(rows[1], row(1.0, vec![Some(9.0), None, Some(8.0)]));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "part,time_s,unix_time_s,epoch,phase,a,gpu0,b\n1,0.000,0.000,0,start,1,2,\n1,1.000,0.000,0,start,9,,8\n"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_a_clear_error() {
        let error = Table::open(Path::new("/dev/full"), &names(&["a"])).expect_err("it takes no byte");
        assert!(error.starts_with("/dev/full cannot be written: ") && error.ends_with("; free some space"), "{error}");
    }

    #[test]
    fn a_row_that_was_cut_off_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.csv");
        for (text, left) in [("part,time_s", 0), ("part,time_s,unix_time_s,epoch,phase,a\n1,0,0,0,start,4\n1,1", 1)] {
            fs::write(&path, text).unwrap();
            let (mut table, rows) = Table::open(&path, &names(&["a"])).unwrap();
            assert_eq!(rows.len(), left);
            table.write(&row(2.0, vec![Some(5.0)])).unwrap();
            let (_, rows) = Table::open(&path, &names(&["a"])).unwrap();
            assert_eq!(rows.len(), left + 1);
        }
    }

    #[test]
    fn what_is_another_table_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.csv");
        for text in ["epoch,loss\n1,0.5\n", "a line"] {
            fs::write(&path, text).unwrap();
            let error = Table::open(&path, &names(&["a"])).unwrap_err();
            assert!(error.ends_with("is another table: move it, or give another `file`"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}

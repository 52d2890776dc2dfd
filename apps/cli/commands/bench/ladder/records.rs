//! The finished trainings of a ladder, kept in `ladder.jsonl`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::record::{Record, Settings};
use crate::error::{Context, Failure, Outcome};
use crate::folders;

/// The name of the file.
pub const FILE: &str = "ladder.jsonl";

/// The records, and the file that they are written to.
pub struct Records {
    path: Option<PathBuf>,
    lines: Vec<String>,
    all: Vec<Record>,
}

impl Records {
    /// An empty list, kept in a folder if there is one.
    pub fn new(folder: Option<&Path>) -> Self {
        Records { path: folder.map(|folder| folder.join(FILE)), lines: Vec::new(), all: Vec::new() }
    }

    /// The finished trainings of a folder. They must have these settings.
    ///
    /// # Errors
    /// A file that cannot be read, a line that is no record, other settings.
    pub fn open(folder: &Path, settings: &Settings) -> Outcome<Self> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path)
            .while_doing(|| format!("--resume: cannot read {}, which holds finished trainings", path.display()))?;
        let mut records = Records::new(Some(folder));
        for (number, line) in text.lines().enumerate() {
            let record: Record = serde_json::from_str(line).while_doing(|| {
                format!("{} line {}: expected a training of `hearth bench ladder`", path.display(), number + 1)
            })?;
            if let Some((key, was, is)) = settings.difference(&record.settings) {
                return Err(Failure::new(format!(
                    "--resume: {} was measured with {key} {was}, and now it is {is}: give the same options, data and \
                     recipe, or another --out",
                    path.display()
                )));
            }
            records.lines.push(line.to_owned());
            records.all.push(record);
        }
        Ok(records)
    }

    /// The finished training of a row with a seed.
    pub fn find(&self, row: &str, seed: u64) -> Option<&Record> {
        self.all.iter().find(|record| record.row == row && record.seed == seed)
    }

    /// All finished trainings of a row with these seeds.
    pub fn of_row(&self, row: &str, seeds: &[u64]) -> Vec<Record> {
        seeds.iter().filter_map(|seed| self.find(row, *seed)).cloned().collect()
    }

    /// Adds a training with its printed line, and writes the file again as a whole.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, record: Record, line: &Value) -> Outcome {
        self.lines.push(line.to_string());
        self.all.push(record);
        match &self.path {
            Some(path) => Ok(folders::replace(path, self.lines.join("\n") + "\n")?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{record, settings};
    use super::*;

    fn line(outcome: Outcome<Records>) -> String {
        outcome.map_or_else(|failure| failure.line(), |_| "no error".to_owned())
    }

    fn add(records: &mut Records, record: &Record) {
        let mut value = serde_json::to_value(record).expect("JSON");
        // Every printed line has the program's version too.
        value["hearth"] = "0.1.0".into();
        records.add(record.clone(), &value).unwrap_or_else(|failure| panic!("{}", failure.line()));
    }

    #[test]
    fn a_finished_training_is_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut records = Records::new(Some(folder.path()));
        let made = [record("plain", 0, 8.0, None), record("plain", 1, 7.0, Some((20, 140.0)))];
        made.iter().for_each(|record| add(&mut records, record));
        let open = || Records::open(folder.path(), &settings()).unwrap_or_else(|failure| panic!("{}", failure.line()));
        let mut again = open();
        assert_eq!(again.of_row("plain", &[0, 1, 2]), made);
        assert!(again.find("plain", 2).is_none() && again.find("cache", 0).is_none());
        add(&mut again, &record("cache", 0, 2.0, Some((20, 40.0))));
        assert_eq!(open().all.len(), 3);
        assert_eq!(open().lines, again.lines);
        let text = std::fs::read_to_string(folder.path().join(FILE)).expect("the file");
        assert!(text.lines().all(|line| line.contains("\"hearth\":\"0.1.0\"")));
    }

    #[test]
    fn other_settings_and_damaged_lines_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(line(Records::open(folder.path(), &settings())).contains(FILE));
        add(&mut Records::new(Some(folder.path())), &record("plain", 0, 8.0, None));
        let other = Settings { target: 0.9, ..settings() };
        let said = line(Records::open(folder.path(), &other));
        assert!(said.contains("measured with target 0.8, and now it is 0.9"), "{said}");
        std::fs::write(folder.path().join(FILE), "{\"bench\":\"ladd").expect("written");
        assert!(line(Records::open(folder.path(), &settings())).contains("line 1"));
    }
}

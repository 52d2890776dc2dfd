//! `machine.json` and `machine.csv`: the machine that a run was on, and how busy it was.

use std::path::Path;

use serde_json::Value;

use super::files::{object, text};
use crate::error::ReportError;

/// The most facts that are shown of a machine.
const MAX_FACTS: usize = 200;

/// A machine, as far as its files say.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Names and values of `machine.json`, nested names joined by ` / `.
    pub facts: Vec<(String, String)>,
    /// The column that the samples of `machine.csv` are placed by.
    pub axis: String,
    /// The other columns that hold numbers.
    pub columns: Vec<Column>,
}

/// A column of `machine.csv`.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Place and value of each sample that has one.
    pub points: Vec<(f64, f64)>,
}

impl Machine {
    /// Reads both files of a folder; `None` where there is neither.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, ReportError> {
        let advice = "what is known of the machine is missing from the page";
        let facts = object(&folder.join("machine.json"), advice)?;
        let path = folder.join("machine.csv");
        let samples = text(&path)?;
        if facts.is_none() && samples.is_none() {
            return Ok(None);
        }
        let mut machine = Self::default();
        if let Some(facts) = facts {
            flatten("", &facts, &mut machine.facts);
        }
        if let Some(samples) = samples {
            machine.sample(&path, &samples, advice)?;
        }
        Ok(Some(machine))
    }

    fn sample(&mut self, path: &Path, text: &str, advice: &str) -> Result<(), ReportError> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let unread = |error: csv::Error| ReportError::damaged(path, format!("is no table ({error})"), advice);
        let head = reader.headers().map_err(unread)?.clone();
        let places = ["seconds", "time", "elapsed", "epoch", "iteration"];
        let axis = places.iter().find_map(|known| head.iter().position(|name| name.starts_with(known))).unwrap_or(0);
        self.axis = head.get(axis).unwrap_or_default().to_owned();
        let mut columns: Vec<Column> =
            head.iter().map(|name| Column { name: name.to_owned(), points: Vec::new() }).collect();
        // A last row that was cut off has fewer cells.
        for (row, cells) in reader.records().map_while(Result::ok).filter(|cells| cells.len() == head.len()).enumerate()
        {
            let at = cells.get(axis).and_then(|cell| cell.parse().ok()).unwrap_or(row as f64);
            for (column, cell) in columns.iter_mut().zip(&cells) {
                column.points.extend(cell.parse::<f64>().ok().filter(|v| v.is_finite()).map(|value| (at, value)));
            }
        }
        // Absolute times begin at the first sample.
        let start = columns.get(axis).and_then(|column| column.points.first()).map_or(0.0, |(at, _)| *at);
        if start > 1e6 {
            columns.iter_mut().flat_map(|column| &mut column.points).for_each(|(at, _)| *at -= start);
        }
        let used = |(place, column): (usize, Column)| (place != axis && !column.points.is_empty()).then_some(column);
        self.columns = columns.into_iter().enumerate().filter_map(used).collect();
        Ok(())
    }
}

fn flatten(name: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    if facts.len() >= MAX_FACTS {
        return;
    }
    let join = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name} / {part}") };
    match value {
        Value::Object(entries) => entries.iter().for_each(|(part, value)| flatten(&join(part), value, facts)),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            facts.push((name.to_owned(), items.iter().map(plain).collect::<Vec<_>>().join(", ")));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| flatten(&join(&place.to_string()), item, facts));
        }
        Value::Null => {}
        value => facts.push((name.to_owned(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_read_and_a_cut_row_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Machine::read(folder.path()).expect("nothing").is_none());
        std::fs::write(folder.path().join("machine.json"), r#"{"cpu":{"name":"EPYC","cores":2},"cards":[{"mb":1}]}"#)
            .expect("facts");
        std::fs::write(folder.path().join("machine.csv"), "seconds,cpu,host\n1,50,a\n2,60,a\n3,7").expect("samples");
        let machine = Machine::read(folder.path()).expect("sound").expect("there");
        let facts: Vec<(&str, &str)> = machine.facts.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(facts, [("cpu / name", "EPYC"), ("cpu / cores", "2"), ("cards / 0 / mb", "1")]);
        assert_eq!(machine.axis, "seconds");
        assert_eq!(machine.columns.len(), 1);
        assert_eq!(machine.columns[0].points, [(1.0, 50.0), (2.0, 60.0)]);
    }
}

//! `machine.json` and `machine.csv`: the machine of a run, and how the run used it.

use std::path::Path;

use serde_json::Value;

use super::files::{number, object, text};
use crate::error::ReportError;
use crate::text::{bytes, figure, words};

/// The maximum number of facts that are shown.
const MAX_FACTS: usize = 100;

/// Parts of `machine.json` that are shown in other ways, or that `machine.csv` has in full.
const TABLES: [&str; 3] = ["columns", "phases", "epochs"];

/// Columns of `machine.csv` with the time of a sample.
const WHEN: [&str; 5] = ["part", "time_s", "unix_time_s", "epoch", "phase"];

/// The description of a machine, from its files.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Names and values of `machine.json`, nested names joined by ` / `.
    pub facts: Vec<(String, String)>,
    /// The phases of the run.
    pub phases: Vec<Phase>,
    /// The measured columns of `machine.csv`.
    pub columns: Vec<Column>,
    /// The epochs in which another process continued the run.
    pub resumed: Vec<u64>,
}

/// The time and energy of a phase of a run.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its total time in seconds.
    pub seconds: f64,
    /// The measured energy of GPUs and CPUs, in joules.
    pub joules: Option<f64>,
}

/// A column of `machine.csv`.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name and unit.
    pub name: String,
    /// Seconds since the start, and the value of each sample that has one.
    pub points: Vec<(f64, f64)>,
}

impl Machine {
    /// Reads both files of a folder; `None` if neither exists.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, ReportError> {
        let advice = "what is known of the machine is missing from the page";
        let json = object(&folder.join("machine.json"), advice)?;
        let path = folder.join("machine.csv");
        let samples = text(&path)?;
        if json.is_none() && samples.is_none() {
            return Ok(None);
        }
        let mut machine = Self::default();
        if let Some(json) = json {
            machine.phases = json["phases"].as_object().into_iter().flatten().filter_map(phase).collect();
            for (name, value) in json.as_object().into_iter().flatten() {
                if !TABLES.contains(&name.as_str()) {
                    flatten(name, value, &mut machine.facts);
                }
            }
        }
        if let Some(samples) = samples {
            machine.sample(&path, &samples, advice)?;
        }
        Ok(Some(machine))
    }

    fn sample(&mut self, path: &Path, text: &str, advice: &str) -> Result<(), ReportError> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let unread = |error: csv::Error| ReportError::damaged(path, format!("is not a table ({error})"), advice);
        let head = reader.headers().map_err(unread)?.clone();
        let place = |known: &str| head.iter().position(|name| name == known);
        let Some(time) = place("time_s") else {
            return Err(ReportError::damaged(path, "has no column `time_s`", advice));
        };
        let (part, epoch) = (place("part"), place("epoch"));
        let mut columns: Vec<(usize, Column, f64)> = Vec::new();
        for (place, name) in head.iter().enumerate().filter(|(_, name)| !WHEN.contains(name)) {
            let (name, scale) = with_unit(name);
            columns.push((place, Column { name, points: Vec::new() }, scale));
        }
        let mut parts = 0;
        // An incomplete last row has fewer cells.
        for row in reader.records().map_while(Result::ok).filter(|row| row.len() == head.len()) {
            let cell = |place: Option<usize>| row.get(place?)?.parse::<u64>().ok();
            let Some(at) = row.get(time).and_then(|cell| cell.parse().ok()) else { continue };
            if let Some(part) = cell(part).filter(|part| *part > parts) {
                if parts > 0 {
                    self.resumed.extend(cell(epoch));
                }
                parts = part;
            }
            for (place, column, scale) in &mut columns {
                let value = row.get(*place).and_then(|cell| cell.parse::<f64>().ok()).filter(|value| value.is_finite());
                column.points.extend(value.map(|value| (at, value * *scale)));
            }
        }
        self.columns = columns.into_iter().map(|(_, column, _)| column).filter(|c| !c.points.is_empty()).collect();
        Ok(())
    }
}

fn phase((name, value): (&String, &Value)) -> Option<Phase> {
    let energy = value["energy_joules"].as_object();
    let known: Vec<f64> = energy.into_iter().flatten().filter_map(|(_, joules)| number(joules)).collect();
    let joules = (!known.is_empty()).then(|| known.iter().sum());
    Some(Phase { name: name.clone(), seconds: number(&value["seconds"])?, joules })
}

/// A column's name with its unit, and the factor for its values.
fn with_unit(name: &str) -> (String, f64) {
    let units = [
        ("_bytes_per_s", "MB/s", 1e-6),
        ("_bytes", "GB", 1e-9),
        ("_percent", "%", 1.0),
        ("_mhz", "MHz", 1.0),
        ("_w", "W", 1.0),
        ("_c", "°C", 1.0),
    ];
    let found = units.iter().find_map(|(end, unit, scale)| Some((name.strip_suffix(end)?, *unit, *scale)));
    match found {
        Some((bare, unit, scale)) => (format!("{}, {unit}", words(bare)), scale),
        None => (words(name).replace(" percent of ", ", % of a "), 1.0),
    }
}

fn flatten(name: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    if facts.len() >= MAX_FACTS {
        return;
    }
    let join = |part: &str| format!("{name} / {part}");
    match value {
        Value::Object(entries) => entries.iter().for_each(|(part, value)| flatten(&join(part), value, facts)),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let items: Vec<String> = items.iter().map(|item| plain("", item)).collect();
            if !items.is_empty() {
                facts.push((words(name), items.join(", ")));
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| flatten(&join(&place.to_string()), item, facts));
        }
        Value::Null => {}
        value => {
            let bare = name.strip_suffix("_bytes").unwrap_or(name).replace("energy_joules", "energy");
            facts.push((words(&bare), plain(name, value)));
        }
    }
}

fn plain(name: &str, value: &Value) -> String {
    match (value, number(value)) {
        (Value::Number(count), Some(_)) if name.ends_with("_bytes") => {
            count.as_u64().map_or_else(|| count.to_string(), bytes)
        }
        (Value::Number(_), Some(joules)) if name.contains("joules") => energy(joules),
        (Value::String(text), _) => text.clone(),
        (value, _) => value.to_string(),
    }
}

/// An energy in J or Wh.
pub fn energy(joules: f64) -> String {
    if joules < 3600.0 { format!("{} J", figure(joules)) } else { format!("{} Wh", figure(joules / 3600.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"parts":2,"machine":{"cores":2,"memory_bytes":4000000000},
        "gpus":[{"name":"H100"}],"energy_joules":{"gpus":7200,"cpu_packages":null},"columns":{"a":null},
        "phases":{"training":{"seconds":4.5,"energy_joules":{"gpus":7000,"cpu_packages":200}},"start":{"seconds":1}}}"#;
    const CSV: &str = "part,time_s,unix_time_s,epoch,phase,process_memory_bytes,gpu0_power_w,lost\n\
        1,0.5,1.7e9,0,start,1e9,,\n1,1.5,1.7e9,1,training,2e9,70,\n2,2.5,1.8e9,3,training,3e9,71,\n2,3.5,1.8e9,3";

    #[test]
    fn both_files_are_read_and_a_cut_row_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Machine::read(folder.path()).expect("nothing").is_none());
        std::fs::write(folder.path().join("machine.json"), JSON).expect("facts");
        std::fs::write(folder.path().join("machine.csv"), CSV).expect("samples");
        let machine = Machine::read(folder.path()).expect("sound").expect("there");
        let facts: Vec<(&str, &str)> = machine.facts.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let cores = ("machine / cores", "2");
        let memory = ("machine / memory", "4.0 GB");
        assert_eq!(facts, [("parts", "2"), cores, memory, ("gpus / 0 / name", "H100"), ("energy / gpus", "2.000 Wh")]);
        let phases: Vec<_> = machine.phases.iter().map(|p| (p.name.as_str(), p.seconds, p.joules)).collect();
        assert_eq!(phases, [("training", 4.5, Some(7200.0)), ("start", 1.0, None)]);
        assert_eq!(machine.resumed, [3]);
        let columns: Vec<_> = machine.columns.iter().map(|c| (c.name.as_str(), c.points.len())).collect();
        assert_eq!(columns, [("process memory, GB", 3), ("gpu0 power, W", 2)]);
        assert_eq!(machine.columns[1].points, [(1.5, 70.0), (2.5, 71.0)]);
    }

    #[test]
    fn another_table_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("machine.csv"), "a,b\n1,2\n").expect("samples");
        let error = Machine::read(folder.path()).expect_err("no times").to_string();
        assert!(error.contains("machine.csv has no column `time_s`"), "{error}");
    }
}

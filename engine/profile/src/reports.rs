//! The kinds of reports that DLProf has, as tables in files: [`Report`].

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value as Json, json};

use crate::profile::Profile;
use crate::statistics::Statistics;
use crate::timeline::{Range, Timeline, Value};

/// A kind of report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// The parts of a step.
    Summary,
    /// The kernels, by name and shape.
    Kernel,
    /// Each iteration with its parts.
    Iteration,
    /// Every kind of range.
    Op,
    /// The layers of the network.
    Layer,
    /// What the thread of the steps does outside of kernels, and the kinds of kernels.
    Idle,
}

/// All kinds, by name.
const KINDS: [(&str, Report); 6] = [
    ("summary", Report::Summary),
    ("kernel", Report::Kernel),
    ("iteration", Report::Iteration),
    ("op", Report::Op),
    ("layer", Report::Layer),
    ("idle", Report::Idle),
];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = KINDS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        found.ok_or_else(|| format!("{text:?} is no report; there are {}", names.join(", ")))
    }
}

/// A format of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// A list of objects.
    Json,
    /// A table with a head, separated by commas.
    Csv,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Format::Json { "json" } else { "csv" })
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Format::Json),
            "csv" => Ok(Format::Csv),
            _ => Err(format!("{text:?} is no format of reports; there are json, csv")),
        }
    }
}

/// The columns of [`Statistics`], all in seconds but the first.
const TIMES: [&str; 7] = ["count", "total", "min", "mean", "median", "p95", "max"];

fn times(of: &Statistics) -> Vec<Json> {
    let Statistics { count, total, min, mean, median, p95, max } = *of;
    std::iter::once(json!(count)).chain([total, min, mean, median, p95, max].map(Json::from)).collect()
}

/// A table: the names of its columns, and its rows.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Json>>,
}

impl Report {
    /// The report on a profile, as the text of a file.
    ///
    /// # Errors
    /// If a value cannot be written as JSON.
    pub fn text(self, profile: &Profile, format: Format) -> Result<String, serde_json::Error> {
        let Table { columns, rows } = self.table(profile);
        match format {
            Format::Json => {
                let object = |row: Vec<Json>| -> Map<String, Json> {
                    columns.iter().map(|&name| name.to_owned()).zip(row).collect()
                };
                let all: Vec<Map<String, Json>> = rows.into_iter().map(object).collect();
                Ok(serde_json::to_string_pretty(&all)? + "\n")
            }
            Format::Csv => {
                let line = |cells: Vec<String>| cells.join(",") + "\n";
                let head = line(columns.iter().map(|&name| name.to_owned()).collect());
                let rows = rows.into_iter().map(|row| line(row.iter().map(cell).collect()));
                Ok(std::iter::once(head).chain(rows).collect())
            }
        }
    }

    fn table(self, profile: &Profile) -> Table {
        match self {
            Report::Summary => of_ranges("part", &profile.summary.step),
            Report::Op => of_ranges("range", &profile.summary.ranges),
            Report::Kernel => kernels(profile),
            Report::Iteration => iterations(&profile.timeline),
            Report::Layer => layers(profile),
            Report::Idle => idle(profile),
        }
    }
}

/// A cell of a table with commas: quoted where it must be.
fn cell(value: &Json) -> String {
    let text = match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

fn of_ranges(name: &'static str, rows: &[crate::summary::Row]) -> Table {
    let columns = [&[name][..], &TIMES, &["own"]].concat();
    let row = |row: &crate::summary::Row| [vec![json!(row.name)], times(&row.time), vec![json!(row.own)]].concat();
    Table { columns, rows: rows.iter().map(row).collect() }
}

fn kernels(profile: &Profile) -> Table {
    let columns = [&["kernel", "shape"][..], &TIMES, &["flop", "bytes", "of_roof"]].concat();
    let rows = profile.kernels.iter().map(|row| {
        let rest = vec![json!(row.flop), json!(row.bytes), json!(row.of_roof)];
        [vec![json!(row.name), json!(row.shape)], times(&row.time), rest].concat()
    });
    Table { columns, rows: rows.collect() }
}

fn layers(profile: &Profile) -> Table {
    let columns = [&["layer"][..], &TIMES, &["own", "share", "flop", "bytes", "kept", "backward"]].concat();
    let rows = profile.layers.iter().map(|row| {
        let rest = [row.own, row.share, row.flop, row.bytes, row.kept, row.backward].map(Json::from).to_vec();
        [vec![json!(row.path)], times(&row.time), rest].concat()
    });
    Table { columns, rows: rows.collect() }
}

fn idle(profile: &Profile) -> Table {
    let columns = vec!["kind", "name", "count", "seconds", "share"];
    let Some(found) = &profile.occupancy else { return Table { columns, rows: Vec::new() } };
    let causes = found.causes.iter().map(|cause| {
        vec![json!("outside of kernels"), json!(cause.name), Json::Null, json!(cause.seconds), json!(cause.share)]
    });
    let groups = found.groups.iter().map(|group| {
        vec![json!("kernels"), json!(group.name), json!(group.count), json!(group.seconds), json!(group.share)]
    });
    Table { columns, rows: causes.chain(groups).collect() }
}

/// The parts of an iteration: a column, and the ranges that it sums up.
const PARTS: [(&str, &str); 7] = [
    ("load", "fetch"),
    ("forward", "forward"),
    ("loss", "loss"),
    ("backward", "backward"),
    ("reduce", "reduce"),
    ("optimizer", "optimizer"),
    ("kernels", "kernel"),
];

/// A row for each iteration of the training and of its validations. Times are in seconds, the start from
/// that of the recording. An epoch that was not recorded as a whole has no number.
fn iterations(timeline: &Timeline) -> Table {
    let parts = PARTS.map(|(column, _)| column);
    let columns = [&["engine", "epoch", "iteration", "start", "seconds"][..], &parts, &["kernel_count"]].concat();
    let Some(thread) = timeline.named("iteration").map(|range| range.thread).next() else {
        return Table { columns, rows: Vec::new() };
    };
    let own: Vec<&Range> = timeline.ranges.iter().filter(|range| range.thread == thread).collect();
    let seconds = |nanos: u64| nanos as f64 * 1e-9;
    let row = |iteration: &Range| {
        let around = |name: &'static str| {
            own.iter().copied().rfind(move |range| range.name == name && lies_in(iteration, range))
        };
        let within = |name: &'static str| {
            own.iter().copied().filter(move |range| range.name == name && lies_in(range, iteration))
        };
        let engine = if around("validation").is_some() { "validation" } else { "training" };
        let epoch = around("epoch").map_or(Json::Null, |epoch| field(epoch, "epoch"));
        let mut row = vec![json!(engine), epoch, field(iteration, "iteration")];
        row.extend([json!(seconds(iteration.start)), json!(seconds(iteration.nanos))]);
        row.extend(PARTS.map(|(_, name)| json!(seconds(within(name).map(|range| range.nanos).sum()))));
        row.push(json!(within("kernel").count()));
        row
    };
    let rows = own.iter().filter(|range| range.name == "iteration").map(|iteration| row(iteration)).collect();
    Table { columns, rows }
}

fn lies_in(inner: &Range, outer: &Range) -> bool {
    outer.start <= inner.start && inner.end() <= outer.end()
}

fn field(range: &Range, wanted: &str) -> Json {
    let value = range.fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    match value {
        Some(Value::Number(value)) => json!(value),
        Some(value) => json!(value.text()),
        None => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, start: u64, nanos: u64) -> Range {
        let fields = match name {
            "epoch" => vec![("epoch", Value::Number(2))],
            "iteration" => vec![("iteration", Value::Number(start as i64 / 100))],
            "kernel" => vec![("shape", Value::Text("1, \"8\"".into()))],
            _ => Vec::new(),
        };
        let detail = (name == "kernel").then(|| "conv".into());
        let second = 1_000_000_000;
        Range { name, detail, fields, thread: 0, start: start * second, nanos: nanos * second, memory: [0; 2] }
    }

    fn profile() -> Profile {
        let ranges = vec![
            range("epoch", 50, 160),
            range("iteration", 100, 50),
            range("fetch", 100, 4),
            range("forward", 105, 20),
            range("kernel", 106, 8),
            range("kernel", 115, 4),
            range("backward", 125, 25),
            range("validation", 160, 40),
            range("iteration", 160, 40),
            range("forward", 161, 25),
            range("iteration", 220, 10),
            range("fetch", 220, 6),
        ];
        let timeline = Timeline { ranges, threads: vec!["main".into()], nanos: 240_000_000_000, lost: 0 };
        Profile::of(timeline, None, None)
    }

    #[test]
    fn an_iteration_has_its_parts() {
        let text = Report::Iteration.text(&profile(), Format::Csv).expect("a table");
        assert_eq!(
            text,
            "engine,epoch,iteration,start,seconds,load,forward,loss,backward,reduce,optimizer,kernels,kernel_count\n\
             training,2,1,100.0,50.0,4.0,20.0,0.0,25.0,0.0,0.0,12.0,2\n\
             validation,2,1,160.0,40.0,0.0,25.0,0.0,0.0,0.0,0.0,0.0,0\n\
             training,,2,220.0,10.0,6.0,0.0,0.0,0.0,0.0,0.0,0.0,0\n"
        );
    }

    #[test]
    fn every_report_has_the_same_content_in_both_formats() {
        let profile = profile();
        for (name, report) in KINDS {
            assert_eq!((name.parse(), report.to_string().as_str()), (Ok(report), name));
            let json = report.text(&profile, Format::Json).expect("JSON");
            let rows: Vec<Map<String, Json>> = serde_json::from_str(&json).expect("a list of objects");
            let csv = report.text(&profile, Format::Csv).expect("a table");
            assert_eq!(csv.lines().count(), rows.len() + 1, "{name}: {csv}");
            assert_eq!(rows.is_empty(), report == Report::Layer, "{name}: no layers were recorded");
            if let Some(first) = rows.first() {
                let head = first.keys().map(String::as_str).collect::<Vec<_>>().join(",");
                assert_eq!(csv.lines().next(), Some(head.as_str()));
            }
        }
        let kernel = Report::Kernel.text(&profile, Format::Csv).expect("a table");
        assert!(kernel.contains("\nconv,\"1, \"\"8\"\"\",2,12.0,4.0,6.0,6.0,"), "{kernel}");
        let idle = Report::Idle.text(&profile, Format::Csv).expect("a table");
        assert!(idle.contains("\nkernels,convolution,2,12.0,1.0\n"), "{idle}");
        assert!("kernels".parse::<Report>().is_err() && "xml".parse::<Format>().is_err());
    }
}

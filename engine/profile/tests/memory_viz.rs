//! Memory over time in the format of PyTorch: `live_*` asks PyTorch's own `torch.cuda._memory_viz`, and
//! its twin replays the answers.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_profile::{History, Range, Timeline, Value};
use serde_json::{Value as Json, json};

#[path = "../../../tests/clients.rs"]
mod clients;

/// Three iterations that grow by a forward pass of several kernels, and shrink in their backward pass.
fn timeline() -> Timeline {
    let mut ranges = Vec::new();
    let mut add = |name, detail: Option<&str>, fields: Vec<_>, [start, end]: [u64; 2], memory: [u64; 2]| {
        let (detail, nanos) = (detail.map(Into::into), (end - start) * 1000);
        ranges.push(Range { name, detail, fields, thread: 0, start: start * 1000, nanos, memory });
    };
    let mib = |count: u64| count << 20;
    for step in 0..3 {
        let (from, base) = (step * 1000, mib(40 + step));
        let number = vec![("iteration", Value::Number(step as i64 + 1))];
        add("iteration", None, number, [from, from + 900], [base, base + mib(1)]);
        add("forward", None, vec![], [from + 10, from + 400], [base, base + mib(60)]);
        for kernel in 0..4 {
            let (at, memory) = (from + 20 + 90 * kernel, base + mib(15 * kernel));
            let shape = vec![("shape", Value::Text("1x8x16".into()))];
            add("kernel", Some("conv"), shape, [at, at + 80], [memory, memory + mib(15)]);
        }
        add("loss", None, vec![], [from + 410, from + 420], [base + mib(60), base + mib(62)]);
        add("backward", None, vec![], [from + 430, from + 800], [base + mib(62), base + mib(10)]);
        add("optimizer", None, vec![], [from + 810, from + 890], [base + mib(10), base + mib(1)]);
    }
    Timeline { ranges, threads: vec!["main".into()], nanos: 3_000_000, lost: 0 }
}

fn pickle() -> Vec<u8> {
    let history = History::of(&timeline(), &[("weights", 12 << 20), ("optimizer", 24 << 20)]);
    history.expect("memory was measured").pickle()
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/memory_viz.json")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// PyTorch's functions that read a snapshot; the plot for a browser holds the pickle itself.
const ASK: &str = "
import json, pickle, sys
from torch.cuda import _memory_viz as viz
data = pickle.load(open(sys.argv[1], 'rb'))
flames = viz.memory(data, format_flamegraph=lambda lines: lines)
plot = viz.trace_plot(data)
answers = {'segsum': viz.segsum(data), 'trace': viz.trace(data), 'memory': flames, 'plots': 'base64' in plot}
print(json.dumps({'data': data, **answers}))
";

#[test]
fn live_torch_reads_the_memory_over_time() {
    let Some(torch) = clients::find(&["torch"], "the_memory_over_time_is_what_torch_has_read") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("memory_snapshot.pickle");
    fs::write(&file, pickle()).expect("written");
    let said: Json = serde_json::from_str(&torch.run(ASK, [&file])).expect("JSON");
    let found = json!({ "versions": torch.versions(), "pickle": hexadecimal(&pickle()), "torch": said });
    if clients::recording() {
        fs::write(recorded(), serde_json::to_string_pretty(&found).expect("JSON") + "\n").expect("written");
    }
    let kept: Json = serde_json::from_str(&fs::read_to_string(recorded()).expect("a record")).expect("JSON");
    assert_eq!(found["torch"], kept["torch"], "{}", clients::how_to_record("hearth-profile"));
}

#[test]
fn the_memory_over_time_is_what_torch_has_read() {
    let kept: Json = serde_json::from_str(&fs::read_to_string(recorded()).expect("a record")).expect("JSON");
    assert_eq!(hexadecimal(&pickle()), kept["pickle"], "{}", clients::how_to_record("hearth-profile"));
    let torch = &kept["torch"];
    // What is left after the last iteration, with its owners, and the peak of all three.
    let flames = torch["memory"].as_str().expect("text");
    let sum: u64 = flames.lines().filter(|line| line.contains(";active_allocated;")).map(last_number).sum();
    assert_eq!(sum, 43 << 20, "{flames}");
    assert!(flames.contains("range:0:weights 12582912") && flames.contains("range:0:optimizer 25165824"), "{flames}");
    let segment = &torch["data"]["segments"][0];
    assert_eq!(segment["total_size"], 104_u64 << 20, "42 MiB, a forward pass and a loss");
    assert!(torch["segsum"].as_str().expect("text").contains("segments: 1"), "{torch}");
    assert_eq!(torch["plots"], true);
    // The memory of each time, from the events.
    let mut sums = std::collections::BTreeMap::new();
    let mut sum = 0;
    for event in torch["data"]["device_traces"][0].as_array().expect("events") {
        let size = event["size"].as_i64().expect("bytes");
        match event["action"].as_str() {
            Some("alloc") => sum += size,
            Some("free_completed") => sum -= size,
            _ => {}
        }
        sums.insert(event["time_us"].as_i64().expect("a time"), sum >> 20);
    }
    let of_step = |step: i64| {
        let (from, base) = (step * 1000, 40 + step);
        [(100, 15), (190, 30), (280, 45), (370, 60), (420, 62), (800, 10), (890, 1)]
            .map(|(at, more)| (from + at, base + more))
    };
    let expected = (0..3).flat_map(of_step).chain([(0, 40)]).collect();
    assert_eq!(sums, expected);
}

fn last_number(line: &str) -> u64 {
    line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number at the end")
}

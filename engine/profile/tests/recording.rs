//! Spans of this process on one timeline: pauses, threads, fields, the cost while it is off, and
//! the file that Perfetto opens. A process has one recording, so this is one test.

use std::hint::black_box;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use hearth_profile::chrome::{self, Counter, Curves, Stack};
use hearth_profile::{Busy, Recording, Value, range};
use serde_json::Value as Json;
use tracing_subscriber::prelude::*;

fn nap() {
    std::thread::sleep(Duration::from_millis(3));
}

#[test]
fn spans_are_recorded_and_written() {
    tracing_subscriber::registry().with(hearth_profile::layer()).init();
    assert!(range!("off").is_disabled(), "nothing records");

    let recording = Recording::prepare().expect("the first one");
    assert_eq!(Recording::start().map(drop), Err(Busy));
    range!("before").in_scope(nap);
    let around = range!("around").entered();
    recording.run(true);
    for step in 0..3_u64 {
        let _step = range!("iteration", step, loss = 0.5, last = step == 2).entered();
        range!("transform", name = "Spacing \"1 mm\"").in_scope(nap);
    }
    let worker = std::thread::Builder::new().name("loader".into());
    worker.spawn(|| range!("batch", name = ?"c<1>").in_scope(nap)).expect("a thread").join().expect("it ends");
    tracing::info_span!(target: "other", "foreign").in_scope(nap);
    recording.run(false);
    let paused = Instant::now();
    range!("pause").in_scope(|| std::thread::sleep(Duration::from_millis(60)));
    recording.run(true);
    range!("after").in_scope(nap);
    drop(around);
    let paused = paused.elapsed();
    let timeline = recording.stop();

    let names: Vec<&str> = timeline.ranges.iter().map(|range| range.name).collect();
    // A range that began before the recording or in a pause is missing.
    let step = ["iteration", "transform"];
    assert_eq!(names, [&step[..], &step, &step, &["after"], &["batch"]].concat());
    assert_eq!(timeline.threads.len(), 2);
    assert_eq!(timeline.threads[timeline.ranges[7].thread], "loader");
    let first = &timeline.ranges[..2];
    assert_eq!(
        first[0].fields,
        [("step", Value::Number(0)), ("loss", Value::Float(0.5)), ("last", Value::Flag(false))]
    );
    assert_eq!(first[1].label(), "transform Spacing \"1 mm\"");
    assert!(first[0].start <= first[1].start && first[1].end() <= first[0].end());
    assert!(timeline.ranges.iter().all(|range| range.nanos >= 3_000_000), "{timeline:?}");
    // The pause is cut out of the time.
    let after = timeline.named("after").next().expect("one");
    assert!(timeline.nanos >= after.end() && paused >= Duration::from_millis(60));
    assert!(after.start < timeline.ranges[5].end() + 60_000_000, "{timeline:?}");
    assert!(range!("off again").is_disabled());

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json.gz");
    let memory = Counter { name: "memory (MiB)".into(), samples: vec![(0, 1.5), (2_000_000, 3.0)] };
    let parts = ["weights".to_owned(), "caches".to_owned()].to_vec();
    let owners = Stack { name: "owners".into(), parts, samples: vec![(1_000_000, vec![1.0, 2.5])] };
    let curves = Curves { counters: vec![memory], stacks: vec![owners] };
    chrome::write(&path, &timeline, &curves, (3, "rank 3")).expect("written");
    let trace: Json =
        serde_json::from_reader(GzDecoder::new(std::fs::File::open(&path).expect("a file"))).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    assert_eq!((of("X").len(), of("C").len(), of("M").len()), (8, 3, 3));
    let batch = of("X")[7];
    assert_eq!((batch["name"].as_str(), batch["cat"].as_str()), (Some("batch \"c<1>\""), Some("batch")));
    assert_eq!((batch["pid"].as_u64(), batch["tid"].as_u64()), (Some(3), Some(1)));
    assert!((batch["dur"].as_f64().expect("µs") - timeline.ranges[7].nanos as f64 / 1e3).abs() < 1e-6);
    assert_eq!(of("C")[0]["args"], serde_json::json!({ "weights": 1.0, "caches": 2.5 }));
    assert_eq!(of("C")[2]["args"]["value"], 3.0);

    // A second recording starts empty.
    let recording = Recording::start().expect("the first one is over");
    range!("new").in_scope(|| black_box(1));
    let second = recording.stop();
    assert_eq!(second.ranges.iter().map(|range| range.name).collect::<Vec<_>>(), ["new"]);
    assert_eq!(second.ranges[0].thread, 0);
}

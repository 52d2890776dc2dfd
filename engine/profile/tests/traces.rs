//! `summarize` on traces: of a real run of PyTorch, against the figures of a script of its own; of a GPU, made by
//! hand in the format of PyTorch's profiler; and of Hearth.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use hearth_profile::{TraceError, TraceSummary, summarize};
use serde_json::{Value, json};

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("written");
    path
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).and_then(|()| packed.finish()).expect("packed")
}

fn event(cat: &str, name: &str, tid: u64, [ts, dur]: [f64; 2], correlation: Option<u64>) -> Value {
    json!({ "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
        "args": correlation.map_or(json!({ "External id": 7 }), |number| json!({ "correlation": number })) })
}

/// Two steps of 100 ms: a load, two launches of the forward pass, two of the backward pass in another thread,
/// one of the optimizer; kernels run later than they are launched, and the file has them in disorder.
fn of_a_gpu() -> Value {
    let mut all = vec![
        json!({ "ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": { "name": "python" } }),
        json!({ "ph": "s", "id": 3, "pid": 1, "tid": 1, "ts": 5, "cat": "ac2g", "name": "ac2g" }),
        event(
            "user_annotation",
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            1,
            [0.0, 9000.0],
            None,
        ),
    ];
    for step in 0..2_u64 {
        let at = |ms: f64| 1e4 + step as f64 * 1e5 + ms * 1e3;
        let number = 100 + step * 50;
        let launches = [(20.0, 1, 0), (30.0, 1, 1), (45.0, 9, 2), (55.0, 9, 3), (70.0, 1, 4)];
        // Start and duration on the card, in ms of the step; the second step's kernels take longer.
        let kernels = [(22.0, 3.0), (33.0, 7.0), (48.0, 10.0), (60.0, 5.0 + step as f64), (75.0, 5.0)];
        for ((ts, tid, index), (start, nanos)) in launches.into_iter().zip(kernels).rev() {
            all.push(event("kernel", "sm90_xmma", 7, [at(start), nanos * 1e3], Some(number + index)));
            all.push(event("cuda_runtime", "cudaLaunchKernel", tid, [at(ts), 10.0], Some(number + index)));
        }
        let backward = "autograd::engine::evaluate_function: ConvolutionBackward0";
        all.push(event("cpu_op", backward, 9, [at(40.0), 8e3], None));
        all.push(event("cpu_op", backward, 9, [at(50.0), 8e3], None));
        all.push(event("cpu_op", "aten::conv3d", 1, [at(18.0), 15e3], None));
        let load = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
        all.push(event("user_annotation", load, 1, [at(2.0), 4e3 + step as f64 * 1e3], None));
        all.push(event("user_annotation", &format!("ProfilerStep#{}", step + 5), 1, [at(0.0), 1e5], None));
        all.push(event("gpu_user_annotation", &format!("ProfilerStep#{}", step + 5), 7, [at(22.0), 8e4], None));
    }
    json!({ "schemaVersion": 1, "deviceProperties": [{ "id": 0, "name": "H100" }], "traceEvents": all, "traceName": "a" })
}

fn close(found: Option<f64>, seconds: f64) {
    let found = found.expect("it is in the trace");
    assert!((found - seconds).abs() < 1e-9, "{found} {seconds}");
}

#[test]
fn kernels_of_a_gpu_count_from_first_to_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = of_a_gpu().to_string();
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("trace.json", zip::write::SimpleFileOptions::default()).expect("a file");
    archive.write_all(text.as_bytes()).expect("written");
    let zipped = archive.finish().expect("an archive").into_inner();
    let plain = summarize(&write(folder.path(), "a.json", text.as_bytes())).expect("a trace");
    // By their content, whatever their names.
    for bytes in [gzipped(text.as_bytes()), zipped] {
        assert_eq!(summarize(&write(folder.path(), "b.json", &bytes)).expect("a trace"), plain);
    }
    let list = of_a_gpu()["traceEvents"].to_string();
    assert_eq!(summarize(&write(folder.path(), "c.json", list.as_bytes())).expect("the list alone"), plain);

    let TraceSummary { program, kernels, first_load, steps } = &plain;
    assert_eq!((*program, *kernels, steps.len()), ("PyTorch", true, 2));
    close(*first_load, 0.009);
    for (index, step) in steps.iter().enumerate() {
        assert_eq!(step.number, index as u64 + 5);
        close(step.load, 0.004 + index as f64 * 1e-3);
        close(step.forward, 0.018);
        close(step.backward, 0.017 + index as f64 * 1e-3);
        close(Some(step.step), 0.1);
    }
    let table = plain.table(true);
    assert!(
        table.contains("backward           2      17.500      17.000      17.500      17.950      18.000"),
        "{table}"
    );
    assert!(table.lines().any(|line| line.starts_with("6 ") && line.ends_with("100.000")), "{table}");
}

#[test]
fn steps_of_hearth_are_its_iterations_without_those_of_validations() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    for step in 0..3_u64 {
        let at = |ms: f64| step as f64 * 5e4 + ms * 1e3;
        all.push(event("iteration", "iteration", 0, [at(0.0), 4e4], None));
        all.push(event("fetch", "fetch", 0, [at(1.0), 2e3], None));
        all.push(event("forward", "forward", 0, [at(5.0), 1e4], None));
        all.push(event("loss", "loss", 0, [at(15.0), 1e3], None));
        all.push(event("backward", "backward", 0, [at(16.0), 2e4], None));
        // Another thread prepares batches meanwhile.
        all.push(event("forward", "forward", 4, [at(0.0), 4e4], None));
    }
    all.push(event("validation", "validation", 0, [2e5, 1e5], None));
    all.push(event("iteration", "iteration", 0, [2.1e5, 5e4], None));
    all.push(event("fetch", "fetch", 0, [2.1e5, 1e3], None));
    let text = json!({ "displayTimeUnit": "ms", "traceEvents": all }).to_string();
    let found = summarize(&write(folder.path(), "trace.json.gz", &gzipped(text.as_bytes()))).expect("a trace");
    assert_eq!((found.program, found.kernels, found.steps.len()), ("Hearth", false, 3));
    close(found.first_load, 0.002);
    assert_eq!(found.steps[0].load, None, "the first load is separate");
    for step in &found.steps {
        close(step.forward, 0.011);
        close(step.backward, 0.02);
        close(Some(step.step), 0.04);
    }
    close(found.steps[1].load, 0.002);
}

#[test]
fn what_is_no_trace_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |bytes: &[u8]| summarize(&write(folder.path(), "x.json", bytes)).expect_err("refused");
    let text = of_a_gpu().to_string();
    let cut = &text.as_bytes()[..text.len() / 2];
    for (bytes, says) in [
        (&b"{}"[..], "it has no `traceEvents`"),
        (b"[1, 2]", "is no Chrome trace"),
        (b"", "is no Chrome trace"),
        (b"{\"traceEvents\": []}", "has no training steps"),
        (cut, "EOF"),
    ] {
        let error = refused(bytes).to_string();
        assert!(error.contains(says) && error.contains("x.json"), "{error}");
    }
    let packed = gzipped(text.as_bytes());
    assert!(matches!(refused(&packed[..packed.len() / 2]), TraceError::File { .. }));
    assert!(matches!(summarize(&folder.path().join("none.json")), Err(TraceError::File { .. })));
}

/// The figures of `traces.py` beside the trace, which computes them from the whole file at once.
#[test]
fn a_trace_of_pytorch_has_the_figures_of_another_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let expected: Value =
        serde_json::from_slice(&fs::read(folder.join("torch-cpu.expected.json")).expect("figures")).expect("JSON");
    let found = summarize(&folder.join("torch-cpu.pt.trace.json.gz")).expect("a trace");
    close(found.first_load, expected["first_load"].as_f64().expect("a number"));
    let steps = expected["steps"].as_array().expect("a list");
    assert_eq!(found.steps.len(), steps.len());
    for (found, expected) in found.steps.iter().zip(steps) {
        let number = |key: &str| expected[key].as_f64().expect("a number");
        match expected["load"].as_f64() {
            Some(load) => close(found.load, load),
            None => assert_eq!(found.load, None),
        }
        close(found.forward, number("forward"));
        close(found.backward, number("backward"));
        close(Some(found.step), number("step"));
    }
}

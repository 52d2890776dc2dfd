//! `hearth profile` and `hearth report`: their output, and their errors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{TINY, fail, phantom, plugins_are_built, succeed, text};
use flate2::read::GzDecoder;
use serde_json::Value;

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

/// The number of complete events of a trace, by name.
fn trace(path: &Path) -> BTreeMap<String, usize> {
    let file = fs::File::open(path).expect("a trace");
    let trace: Value = serde_json::from_reader(GzDecoder::new(file)).expect("JSON");
    let mut counts = BTreeMap::new();
    for event in trace["traceEvents"].as_array().expect("events") {
        if event["ph"] == "C" {
            // A curve, by its name without the unit.
            let name = event["name"].as_str().expect("a name").split(" (").next().unwrap_or_default();
            *counts.entry(format!("curve {name}")).or_default() += 1;
        }
        if event["ph"] == "X" {
            assert!(event["dur"].as_f64() >= Some(0.0) && event["ts"].as_f64() >= Some(0.0), "{event}");
            *counts.entry(event["name"].as_str().expect("a name").to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The tiny recipe without a cache, with a slow step.
fn slow(folder: &Path) -> String {
    let path = folder.join("slow.toml");
    let smooth = "    { name = \"GaussianSmooth\", keys = [\"image\"], sigma = 3.0 },\n    { name = \"Orientation\"";
    let text_of =
        TINY.replace("[data]\n", "[data]\ncache = { rate = 0.0 }\n").replace("    { name = \"Orientation\"", smooth);
    fs::write(&path, text_of).expect("written");
    text(&path)
}

#[test]
fn a_profile_finds_what_is_computed_again_and_a_schedule_ends() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 5));
    let recipe = slow(dir.path());
    let out = dir.path().join("profile");
    let own = ["--data", &data, "--device", "cpu"];
    let said = succeed(&[&["profile", &recipe, "--out", &text(&out), "--apply"], &own[..]].concat());
    let findings = json(&out.join("findings.json"));
    let cached = findings["findings"].as_array().expect("a list").iter().find(|one| {
        one["sets"]
            .as_array()
            .expect("changes")
            .iter()
            .any(|set| set.as_str().expect("a change").starts_with("data.cache="))
    });
    let cached = cached.unwrap_or_else(|| panic!("a smoothing of every case in every epoch is not found: {findings}"));
    assert!(cached["evidence"].as_str().expect("words").contains("GaussianSmooth"), "{cached}");
    assert!(said.contains("keep what is deterministic in memory") && said.contains("step load"), "{said}");
    let steps = findings["facts"]["steps"].as_array().expect("steps");
    let smooth = steps.iter().find(|step| step["name"] == "GaussianSmooth").expect("the step");
    assert_eq!((smooth["fixed"].as_bool(), smooth["calls"].as_f64()), (Some(true), Some(4.0)), "4 cases train");

    let counts = trace(&out.join("trace.json.gz"));
    for (name, count) in [("backward", 4), ("optimizer", 4), ("metric mean_dice", 1), ("transform GaussianSmooth", 5)] {
        assert_eq!(counts.get(name), Some(&count), "{name}: {counts:?}");
    }
    // The machine is sampled at least when recording starts and when it ends.
    assert!(counts["curve process in memory"] >= 2 && counts["curve memory in use"] >= 2, "{counts:?}");
    let summary = json(&out.join("summary.json"));
    let rows: Vec<&str> =
        summary["step"].as_array().expect("rows").iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert_eq!(rows, ["first load", "step load", "forward", "loss", "backward", "optimizer", "total"]);
    let conv = summary["kernels"].as_array().expect("kernels").iter().find(|row| row["name"] == "conv").expect("one");
    assert!(conv["flop"].as_f64() > Some(1e4) && conv["of_roof"].as_f64() > Some(0.0), "{conv}");
    // Volumes of 48 voxels a side are large blocks.
    assert!(summary["memory"]["peak"].as_u64() > Some(100_000), "{}", summary["memory"]);

    // `--apply` wrote a recipe with its reasons, and a ladder.
    let faster = fs::read_to_string(out.join("faster.toml")).expect("a recipe");
    assert!(faster.starts_with("# Made by `hearth profile --apply`"), "{faster}");
    let faster = text(&out.join("faster.toml"));
    let nowhere = text(&dir.path().join("nowhere"));
    succeed(&[&["train", &faster, "--out", &nowhere, "--dry-run"], &own[..]].concat());
    assert_eq!(json(&out.join("ladder.json"))[0]["change"], "as it was");
    assert!(out.join("ladder.png").is_file());
    let left: Vec<_> = fs::read_dir(&out).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".tmp")), "trials are removed: {left:?}");

    // The number of iterations in the schedule, and no more.
    let out = dir.path().join("steps");
    succeed(&[&["profile", &recipe, "--out", &text(&out), "--schedule", "1,1,3"], &own[..]].concat());
    let counts = trace(&out.join("trace.json.gz"));
    assert_eq!((counts["backward"], counts["optimizer"]), (3, 3), "{counts:?}");
    assert_eq!(json(&out.join("findings.json"))["findings"].as_array().map(Vec::len), Some(0));

    let refuse = |more: &[&str], words: &[&str]| {
        let out = text(&dir.path().join("refused"));
        fail(&[&["profile", &recipe, "--out", &out], &own[..], more].concat(), 1, words);
        assert!(!dir.path().join("refused").exists(), "{more:?} leaves nothing");
    };
    refuse(&["--schedule", "1,1"], &["--schedule 1,1", "WAIT,WARMUP,ACTIVE"]);
    refuse(&["--schedule", "1,1,0"], &["active = 0"]);
    refuse(&["--schedule", "1,1,1,0"], &["never ends"]);
    refuse(&["--schedule", "a,b,c"], &["not numbers"]);
    refuse(&["--schedule", "1,1,1", "--unit", "days"], &["iterations or epochs"]);
    refuse(&["--set", "optimizer.lr=-1"], &["lr"]);
    fail(&[&["profile", &recipe, "--out", &text(&out)], &own[..]].concat(), 1, &["steps"]);
}

/// Changes that affect the predictions are only tried with --check, and the learning is compared.
#[test]
fn what_changes_the_course_is_compared() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 5));
    let recipe = text(&crate::common::tiny_recipe(dir.path()));
    // Windows with a large overlap: most of an epoch is its validation.
    let own = ["--data", &data, "--device", "cpu", "--apply", "--set", "inferer.overlap=0.8"];
    let profile = |out: &str, more: &[&str]| {
        let out = text(&dir.path().join(out));
        let made = crate::common::run(&[&["profile", &recipe, "--out", &out], &own[..], more].concat());
        assert!(made.status.success(), "{}", crate::common::errors(&made));
        crate::common::errors(&made)
    };
    let said = profile("without", &[]);
    assert!(said.contains("not tried: let windows overlap less; it changes what is learned"), "{said}");
    let said = profile("with", &["--check", "1"]);
    assert!(said.contains("trying: let windows overlap less"), "{said}");
    if said.contains("mean_dice after 1 epoch:") {
        assert!(["seed 0", "seed 1", "seed 2"].iter().all(|seed| said.contains(seed)), "{said}");
    }
    let made = fs::read_to_string(dir.path().join("with/faster.toml")).expect("a recipe");
    assert!(made.contains("# let windows overlap less: "), "{made}");
}

/// The handler in a recipe, and a page of the run.
/// The larger crop's step takes what its own summary says.
#[test]
fn two_profiles_are_compared_by_their_summaries() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 3));
    let recipe = slow(dir.path());
    let folder = |name: &str| text(&dir.path().join(name));
    for (name, batch) in [("small", "training.batch_size=1"), ("large", "training.batch_size=2")] {
        let schedule = ["--schedule", "0,1,2", "--layers", "--set", batch];
        let words = ["profile", &recipe, "--data", &data, "--out", &folder(name), "--device", "cpu"];
        succeed(&[&words[..], &schedule].concat());
    }
    let step = |name: &str| {
        let summary = json(&dir.path().join(name).join("summary.json"));
        let rows = summary["step"].as_array().expect("rows").clone();
        let total = rows.into_iter().find(|row| row["name"] == "total").expect("a step");
        format!("{:.2} ms", total["mean"].as_f64().expect("seconds") * 1e3)
    };
    let said = succeed(&["profile", "--compare", &folder("small"), &folder("large")]);
    let first = format!("a step takes {}, before {}", step("large"), step("small"));
    assert!(said.contains(&first) && said.contains("the peak of memory is"), "{first}: {said}");
    assert!(said.contains("layer, forward and backward, ms") && said.contains("model"), "{said}");
    let same = succeed(&["profile", "--compare", &folder("small"), &folder("small")]);
    assert_eq!(same.matches("the same").count(), 2, "{same}");
    assert_eq!(same.lines().count(), 2, "no table: {same}");
    fail(&["profile", "--compare", &folder("small"), &data], 1, &["no folder of `hearth profile`"]);
    fail(&["profile", "--compare", &folder("small")], 2, &["--compare"]);
    fail(&["profile", &recipe, "--compare", &folder("small"), &folder("large")], 2, &["--compare"]);
    fail(&["profile", &recipe], 2, &["--data", "--out"]);
    // Options of a schedule and of --apply, which exclude each other.
    let given = ["profile", &recipe, "--data", &data, "--out", &folder("none"), "--device", "cpu"];
    fail(&[&given[..], &["--check", "1", "--schedule", "1,1,1"]].concat(), 2, &["--check", "--schedule"]);
    fail(&[&given[..], &["--unit", "epochs", "--apply"]].concat(), 2, &["--unit", "--apply"]);
}

#[test]
fn a_run_with_a_profiler_has_a_report() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 5));
    let path = dir.path().join("profiled.toml");
    let handler = "\n[[handlers]]\nname = \"Profiler\"\nactive = 2\nrepeat = 2\n[[handlers]]\nname = \"MachineMonitor\"\nevery_seconds = 0.05\n";
    fs::write(&path, format!("{TINY}{handler}")).expect("written");
    let run = dir.path().join("run");
    succeed(&["train", &text(&path), "--data", &data, "--out", &text(&run), "--epochs", "5", "--device", "cpu"]);
    for folder in ["profile", "profile/cycle-2"] {
        assert_eq!(trace(&run.join(folder).join("trace.json.gz"))["backward"], 2, "{folder}");
    }
    let machine = fs::read_to_string(run.join("machine.csv")).expect("a table");
    assert!(machine.lines().count() > 2, "{machine}");
    let page = dir.path().join("page.html");
    succeed(&["report", &text(&run), "-o", &text(&page)]);
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("mean dice") && html.contains("<svg") && !html.contains("src=\"http"), "{}", html.len());
    // Volumes for the viewer, from the run's own data.
    let volumes = dir.path().join("volumes.html");
    succeed(&["report", &text(&run), "--viewer", "spleen_02", "-o", &text(&volumes)]);
    let html = fs::read_to_string(&volumes).expect("a page");
    assert!(html.contains("class=\"viewer\"") && html.contains("data-name=\"label\""), "{}", html.len());
    assert!(html.contains("data-window=\"-57,164\""), "the window of the recipe's ScaleIntensityRange");
    fail(
        &["report", &text(&run), "--viewer", "spleen_99", "-o", &text(&dir.path().join("nobody.html"))],
        1,
        &["unknown case \"spleen_99\""],
    );
    fail(&["report", &text(&run), "-o", &text(&page)], 1, &["page.html exists"]);
    fail(&["report", &data, "-o", &text(&dir.path().join("none.html"))], 1, &["data"]);
}

/// The table of a recipe, layer by layer, and errors in it.
#[test]
fn a_recipe_records_its_training_layer_by_layer() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 5));
    let recipe = text(&crate::common::tiny_recipe(dir.path()));
    let run = dir.path().join("run");
    let own = ["train", &recipe, "--data", &data, "--device", "cpu", "--epochs", "2", "--out", &text(&run)];
    let steps = ["--set", "profile.active=2", "--set", "profile.layers=true", "--set", "profile.out=\"looks/first\""];
    succeed(&[&own[..], &steps].concat());
    let folder = run.join("looks/first");
    let counts = trace(&folder.join("trace.json.gz"));
    assert_eq!(counts["backward"], 2, "{counts:?}");
    let summary = json(&folder.join("summary.json"));
    let rows = summary["layers"].as_array().expect("layers");
    let paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().expect("a path")).collect();
    // They are named like the parameters of the state dict.
    let weights = fs::read_dir(run.join("checkpoints")).expect("checkpoints").flatten().next().expect("one").path();
    let weights = fs::read(weights.join("network.safetensors")).expect("weights");
    let length = u64::from_le_bytes(weights[..8].try_into().expect("a length")) as usize;
    let keys: Value = serde_json::from_slice(&weights[8..8 + length]).expect("a header");
    let keys: Vec<&String> = keys.as_object().expect("keys").keys().filter(|key| *key != "__metadata__").collect();
    assert!(keys.len() > 10, "{keys:?}");
    for path in &paths {
        assert!(keys.iter().any(|key| key.starts_with(&format!("{path}."))), "{path} is in no key of {keys:?}");
        assert!(counts.contains_key(&format!("layer {path}")), "{path} is not in the trace");
    }
    for key in keys.iter().filter(|key| key.ends_with("conv.weight")) {
        let path = key.trim_end_matches(".weight");
        let row = rows.iter().find(|row| row["path"] == path).unwrap_or_else(|| panic!("{path} is not in {paths:?}"));
        assert!(row["flop"].as_f64() > Some(0.0) && row["bytes"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["count"].as_u64(), Some(2), "a pass of each step: {row}");
    }
    let share: f64 = rows.iter().filter_map(|row| row["share"].as_f64()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    assert!(fs::read_to_string(folder.join("summary.txt")).expect("tables").contains("MiB kept"));

    let refuse = |sets: &[&str], words: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let own = ["train", &recipe, "--data", &data, "--out", "nowhere", "--dry-run"];
        fail(&[&own[..], &sets].concat(), 1, words);
    };
    refuse(&["profile.active=0"], &["profile.active", "records no step"]);
    refuse(&["profile.out=\"../elsewhere\""], &["profile.out", "within the run's"]);
    refuse(&["profile.ranks=\"some\""], &["profile", "first"]);
    refuse(&["profile.wiat=1"], &["wiat"]);
    refuse(&["profile.ranges=\"nsight\""], &["profile", "nvtx"]);
    refuse(&["profile.active=1", "handlers=[{ name = \"Profiler\" }]"], &["one recording"]);
}

/// The tables of DLProf's kinds, memory for PyTorch's viewer, and ranges for a vendor's profiler.
#[cfg(unix)]
#[test]
fn reports_snapshots_and_ranges_are_written() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let data = text(&phantom(dir.path(), 5));
    let recipe = text(&crate::common::tiny_recipe(dir.path()));
    let out = dir.path().join("profile");
    let own = ["profile", &recipe, "--data", &data, "--device", "cpu", "--schedule", "0,1,3", "--out", &text(&out)];
    succeed(&[&own[..], &["--reports", "iteration,layer,idle", "--formats", "csv,json"]].concat());
    let rows = |kind: &str| {
        let list = json(&out.join(format!("report_{kind}.json")));
        let csv = fs::read_to_string(out.join(format!("report_{kind}.csv"))).expect("a table");
        let list = list.as_array().expect("a list").clone();
        assert_eq!(csv.lines().count(), list.len() + 1, "{csv}");
        list
    };
    // Four cases train, one a batch: the second to the fourth iteration of the first epoch.
    let trained: Vec<_> = rows("iteration").into_iter().filter(|row| row["engine"] == "training").collect();
    assert_eq!(trained.iter().map(|row| row["iteration"].as_i64()).collect::<Vec<_>>(), [2, 3, 4].map(Some));
    for row in trained {
        let of = |part: &str| row[part].as_f64().expect("seconds");
        assert!(of("forward") > 0.0 && of("backward") > 0.0 && of("forward") + of("backward") < of("seconds"), "{row}");
        assert!(row["kernel_count"].as_u64() > Some(4), "{row}");
    }
    assert!(rows("layer").iter().any(|row| row["layer"].as_str().is_some_and(|path| path.contains("conv"))));
    assert!(rows("idle").iter().any(|row| row["kind"] == "kernels" && row["name"] == "convolution"));
    assert!(!out.join("report_kernel.csv").exists());
    let pickle = fs::read(out.join("memory_snapshot.pickle")).expect("a snapshot");
    assert!(pickle.starts_with(b"\x80\x04}") && pickle.ends_with(b"."), "{} bytes", pickle.len());
    let wrong = fail(&[&own[..], &["--reports", "kernels"]].concat(), 2, &["there are summary, kernel, iteration"]);
    assert!(wrong.contains("--reports"), "{wrong}");
    fail(&[&own[..], &["--formats", "csv"]].concat(), 2, &["--reports"]);

    // roctx, imitated by a library that writes its calls.
    let (stub, said) = (dir.path().join("libroctx.so"), dir.path().join("said"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/profile/tests/stub_roctx.c");
    let mut cc = std::process::Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-o", &text(&stub)]).arg(source).status();
    assert!(built.expect("a C compiler").success());
    let train = |roctx: &Path, run: &str| {
        let mut command = crate::common::hearth();
        command.args(["train", &recipe, "--data", &data, "--device", "cpu", "--epochs", "1", "--out"]);
        command.arg(dir.path().join(run)).args(["--set", "profile.ranges=\"roctx\""]);
        command.env("HEARTH_ROCTX", roctx).env("STUB_ROCTX", &said).output().expect("it starts")
    };
    let output = train(&stub, "ranges");
    assert!(output.status.success(), "{}", crate::common::errors(&output));
    let said = fs::read_to_string(&said).expect("the stub wrote");
    for line in ["+ iteration", "+ forward", "+ transform RandFlip", "+ kernel conv"] {
        assert!(said.lines().any(|other| other == line), "no {line:?} among {} lines", said.lines().count());
    }
    let output = train(&dir.path().join("none.so"), "none");
    let errors = crate::common::errors(&output);
    assert!(!output.status.success() && errors.contains("profile.ranges") && errors.contains("none.so"), "{errors}");
}

//! Compares plans with those of nnU-Net's planners: every case of `tests/golden/nnunet/planner`, or
//! `HEARTH_GOLDEN/nnunet/planner`.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_nnunet::planner::{Fingerprint, Planner, PlannerOptions, plan};
use hearth_nnunet::{DatasetJson, parse_json};
use serde_json::Value;

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    std::env::var_os("HEARTH_GOLDEN").map_or(own, PathBuf::from).join("nnunet/planner")
}

fn read(path: &Path) -> Value {
    parse_json(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).expect("JSON")
}

/// The first key in which two plans differ, if any. Integers must be equal, other numbers within 1e-12.
fn difference(ours: &Value, theirs: &Value, key: &str) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            let ordered = key.ends_with("configurations");
            let (mut mine, mut other) = (names(a), names(b));
            if !ordered {
                mine.sort();
                other.sort();
            }
            if mine != other {
                return Some(format!("{key} has {mine:?}, expected {other:?}"));
            }
            a.iter().find_map(|(name, value)| difference(value, &b[name], &format!("{key}.{name}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| difference(a, b, &format!("{key}[{i}]")))
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().expect("a number"), b.as_f64().expect("a number"));
            let same = (a - b).abs() <= 1e-12 * b.abs().max(1.0);
            (!same).then(|| format!("{key} is {a}, expected {b}"))
        }
        (a, b) if a == b => None,
        (a, b) => Some(format!("{key} is {a}, expected {b}")),
    }
}

/// Makes plans with the arguments of a variant.
fn planned(name: &str, arguments: &Value, dataset: &Value, fingerprint: &Value, expected: &Value) -> Option<String> {
    let mut options = PlannerOptions::new(Planner::named(name).expect("a planner"));
    options.memory_gb = arguments["gpu_memory_target_in_gb"].as_f64();
    options.keep_axes = arguments["suppress_transpose"].as_bool().unwrap_or(false);
    options.plans_name = arguments["overwrite_plans_name"].as_str().map(str::to_owned);
    options.target_spacing = serde_json::from_value(arguments["overwrite_target_spacing"].clone()).ok();
    let dataset = DatasetJson::parse(dataset.clone()).expect("a data set");
    let fingerprint = Fingerprint::parse(fingerprint).expect("a fingerprint");
    let text = |key: &str| expected[key].as_str().expect("a text");
    let plans = plan(text("dataset_name"), &dataset, text("image_reader_writer"), &fingerprint, &options);
    let plans = plans.expect("plans");
    difference(&plans, expected, "plans").map(|why| format!("{name} {arguments}: {why}"))
}

#[test]
fn plans_are_those_of_nnunet() {
    let (mut failed, mut passed) = (Vec::new(), 0);
    let mut check = |case: &Path, found: Option<String>| match found {
        None => passed += 1,
        Some(why) => failed.push(format!("{}: {why}", case.display())),
    };
    let mut entries: Vec<PathBuf> =
        fs::read_dir(root().join("synthetic")).expect("cases").flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in &entries {
        let case = read(path);
        let (dataset, fingerprint) = (&case["dataset_json"], &case["fingerprint"]);
        for (planner, expected) in case["plans"].as_object().expect("plans") {
            check(path, planned(planner, &Value::Null, dataset, fingerprint, expected));
        }
        for variant in case["variants"].as_array().expect("variants") {
            let planner = variant["planner"].as_str().expect("a planner");
            check(path, planned(planner, &variant["arguments"], dataset, fingerprint, &variant["plans"]));
        }
    }
    for folder in fs::read_dir(root()).expect("cases").flatten().map(|entry| entry.path()) {
        if !folder.join("dataset_fingerprint.json").is_file() {
            continue;
        }
        let (dataset, fingerprint) =
            (read(&folder.join("dataset.json")), read(&folder.join("dataset_fingerprint.json")));
        for path in fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if name.ends_with("Plans.json") {
                let expected = read(&path);
                let planner = expected["experiment_planner_used"].as_str().expect("a planner");
                check(&path, planned(planner, &Value::Null, &dataset, &fingerprint, &expected));
            } else if name.starts_with("variant_") {
                let variant = read(&path);
                let planner = variant["planner"].as_str().expect("a planner");
                check(&path, planned(planner, &variant["arguments"], &dataset, &fingerprint, &variant["plans"]));
            }
        }
    }
    println!("{passed} plans are equal");
    assert!(failed.is_empty(), "{} of {} differ:\n  {}", failed.len(), failed.len() + passed, failed.join("\n  "));
    assert!(passed > 0, "{} holds no case", root().display());
}

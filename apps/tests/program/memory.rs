//! `hearth memory`: the prediction matches what a run takes, and invalid requests are refused.

use std::fs;
use std::path::Path;

use crate::common::{fail, phantom, plugins_are_built, succeed, text};
use serde_json::Value;

fn predicted(words: &[&str]) -> Value {
    serde_json::from_str(&succeed(&[&["memory"], words, &["--json"]].concat())).expect("JSON")
}

fn peak(found: &Value) -> f64 {
    found["in_use"].as_f64().expect("bytes")
}

/// The maximum memory that a run had in use.
#[cfg(target_os = "linux")]
fn taken(run: &Path) -> f64 {
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).expect("a summary")).expect("JSON");
    summary["peak_memory"]["in_use"].as_f64().expect("bytes")
}

/// A run never takes 10 % more than predicted, for a network of classes and one of regions. For slides,
/// whose tissue is searched first, the tolerance is a fifth, because the number of threads that decode
/// tiles at once varies.
#[cfg(target_os = "linux")]
#[test]
fn a_run_takes_what_is_predicted() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let heads = dir.path().join("heads");
    succeed(&["data", "phantom", "brats", "--cases", "16", "--out", &text(&heads)]);
    let bellies = phantom(dir.path(), 8);
    let slides = dir.path().join("slides");
    succeed(&["data", "phantom", "pathology", "--cases", "6", "--size", "2048", "--out", &text(&slides)]);
    // A short run may not reach the maximum of a run, such as a checkpoint that is written during the
    // largest step.
    for (recipe, epochs, data, least) in
        [("demo-brats", 2, heads, 0.9), ("demo", 20, bellies, 0.9), ("demo-pathology", 2, slides, 0.8)]
    {
        let (data, run, epochs) = (text(&data), dir.path().join(recipe), epochs.to_string());
        let found = predicted(&[recipe, "--data", &data]);
        let train = ["train", recipe, "--data", &data, "--out", &text(&run), "--device", "cpu"];
        succeed(&[&train[..], &["--epochs", &epochs, "--set", "training.val_interval=1"]].concat());
        let (said, was) = (peak(&found), taken(&run));
        // Peaks of threads coincide at random: with few cases a run may take a fifth less.
        assert!((least..1.2).contains(&(said / was)), "{recipe}: {said} predicted, {was} taken\n{found}");
        let summary: Value =
            serde_json::from_str(&fs::read_to_string(run.join("summary.json")).expect("a summary")).expect("JSON");
        let resident = summary["peak_memory"]["resident"].as_f64().expect("bytes");
        assert!(resident < found["held"].as_f64().expect("bytes"), "{recipe}: {resident} bytes in memory\n{found}");
    }
}

/// Without data: uses the recipe's own sizes; more and larger crops take proportionally more.
#[test]
fn sizes_are_followed() {
    let of = |more: &[&str]| predicted(&[&["demo-brats"], more].concat());
    let found = of(&[]);
    assert_eq!(found["memory"]["patch"], serde_json::json!([32, 32, 32]));
    assert_eq!(found["memory"]["crops"], 8);
    assert!(found["memory"]["cache"].is_null() && found["memory"]["validation"].is_null(), "{found}");
    let activations = |found: &Value| found["memory"]["activations"].as_f64().expect("bytes");
    let doubled = of(&["--set", "training.batch_size=4"]);
    let ratio = activations(&doubled) / activations(&found);
    assert!((1.8..2.2).contains(&ratio), "twice the crops take {ratio} times as much");
    let larger = of(&["--patch", "64,32,32"]);
    let ratio = activations(&larger) / activations(&found);
    assert!((1.7..2.3).contains(&ratio), "twice the voxels take {ratio} times as much");
    // What is reported to fit does fit, and one more does not.
    let limit = 600.0 * f64::from(1 << 20);
    let found = of(&["--limit", "600MiB"]);
    let fits = &found["fits"];
    let count = fits["batch_crops"].as_u64().expect("a count");
    let each = found["memory"]["activations_of_a_crop"].as_f64().expect("bytes");
    let program = found["memory"]["program"].as_f64().expect("bytes");
    let with = |count: u64| found["training"].as_f64().expect("bytes") + program + (count as f64 - 8.0) * each;
    assert!(with(count) <= limit * 1.001 && with(count + 1) > limit, "{fits} {found}");
    assert!(fits["patch"][0].as_u64().is_some_and(|side| side % 16 == 0 && side > 32), "{fits}");
    let volume = of(&["--volume", "64,64,64"]);
    assert!(volume["validating"].as_f64().is_some_and(|bytes| bytes > 0.0), "{volume}");
    let said = succeed(&["memory", "demo-brats", "--limit", "1MiB"]);
    assert!(said.contains("not even a small crop fits"), "{said}");
}

/// Without a GPU, nothing is chosen and there is nothing to transfer.
#[cfg(not(any(feature = "vulkan", feature = "cuda", feature = "rocm", feature = "metal")))]
#[test]
fn there_is_nothing_to_tune_without_a_card() {
    fail(&["tune", "demo-brats", "--device", "cpu"], 1, &["the CPU has one kernel for each kind of work"]);
    fail(&["tune", "--import", "nowhere.tuned"], 1, &["without a GPU's backend"]);
    fail(&["tune", "demo-brats", "--tune", "much"], 1, &["--tune much", "quick or full"]);
    fail(&["tune"], 2, &["RECIPE"]);
}

#[test]
fn what_is_wrong_is_refused() {
    fail(&["memory", "demo-brats", "--patch", "64"], 1, &["--patch 64", "voxels along each axis"]);
    fail(&["memory", "demo-brats", "--patch", "64,0,64"], 1, &["--patch 64,0,64"]);
    fail(&["memory", "demo-brats", "--limit", "12"], 1, &["--limit 12", "12GiB"]);
    fail(&["memory", "demo-brats", "--limit=-1GiB"], 1, &["--limit"]);
    fail(&["memory", "demo-brats", "--data", "/nowhere"], 1, &["/nowhere"]);
    fail(&["memory", "no-recipe"], 1, &["no-recipe"]);
    // A size that the network does not support.
    fail(&["memory", "demo-brats", "--patch", "33,32,32"], 1, &["--patch 33,32,32", "divisible by"]);
}
